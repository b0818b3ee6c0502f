"""Which answers say nothing: an answer that rests on them alone is no answer."""

from __future__ import annotations

from typing import Any

import pytest

from atc.agent import Agent
from atc.models.fake import FakeModel
from atc.programs.responses import is_empty_response
from atc.result import Call, Effect
from atc.tools.functions import tool


def answered(value: Any, effect: Effect = Effect.READ, **arguments: Any) -> Call:
    return Call(index=1, attempt=0, tool="t", arguments=arguments, effect=effect, status="ok", value=value)


@pytest.mark.parametrize(
    "call",
    [
        answered(None), answered([]), answered({}), answered(""), answered({"total": 0, "items": []}),
        answered({"query": "x", "page": 1, "results": []}, query="x"), answered({"code": 200, "data": []}),
        answered({"id": 550, "results": []}, movie_id="550"),
    ],
)  # fmt: skip
def test_an_empty_search_says_nothing(call: Call) -> None:
    assert is_empty_response(call)


@pytest.mark.parametrize(
    "call",
    [
        answered({"items": [1]}), answered(0), answered(False), answered({"total": 0}),
        answered({"trip_id": "trip_1", "stops": [], "payments": []}), answered({"name": "Oslo", "districts": []}),
        answered(None, Effect.WRITE), answered({"stops": []}, Effect.WRITE),
    ],
)  # fmt: skip
def test_a_thing_and_an_effect_say_something(call: Call) -> None:
    assert not is_empty_response(call)


def test_a_program_that_makes_something_new_is_taken_at_once() -> None:
    @tool(effect="write")
    def create_trip(name: str) -> dict[str, Any]:
        """Make a trip; its stops come later."""
        return {"trip_id": "trip_1", "name": name, "stops": []}

    model = FakeModel(['```python\nanswer = create_trip(name="Alps")["trip_id"]\n```'])
    agent = Agent([create_trip], model=model, approve="always", sentence=False, keep_runs=False)
    result = agent.run("Make a trip named 'Alps'")
    assert (result.status, result.value, len(result.revisions)) == ("answered", "trip_1", 1)
