"""An error in the body of a response is a fault where an answer rests on it, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, Effect, Result, Toolset
from atc.models.fake import FakeModel
from tests.support.tools import make_tool

TEXT = {"type": "string"}


def agent(*programs: str, effect: Effect = Effect.READ, seen: list[Any] | None = None, **settings: Any) -> Agent:
    def films(arguments: dict[str, Any]) -> Any:
        if seen is not None:
            seen.append(arguments["year"])
        if len(arguments["year"]) != 4:
            return {"error": "Invalid format"}
        return {"titles": ["Tide", "Glass"]}

    tools = Toolset([make_tool("films", films, effect, required=("year",), year=TEXT)])
    replies = [f"```python\n{program}\n```" for program in programs]
    made = {"max_revisions": 1, "sentence": False, "approve": "always", **settings}
    return Agent(tools, model=FakeModel(replies), keep_runs=False, **made)


def solved(*programs: str, **more: Any) -> Result:
    with agent(*programs, **more) as made:
        return made.run("Which films are from 24?")


WRONG = "answer = films(year='24')"
RIGHT = "answer = films(year='2024')['titles']"


@pytest.mark.parametrize(
    "program",
    [
        WRONG,
        "found = films(year='24')\nanswer = {'films': found}",
        "found = [films(year=year) for year in ('2024', '24')]\nanswer = found",
        "answer = films(year='24')['titles']",
        "answer = films(year='24').get('titles', [])",
        "answer = len(films(year='24').get('titles') or [])",
    ],
)
def test_no_answer_rests_on_an_error_that_a_response_states(program: str) -> None:
    result = solved(program, RIGHT)
    first, second = result.revisions
    assert first.fault is not None
    assert (first.fault.kind, first.fault.case, first.fault.tool) == ("response", "stated", "films")
    assert "answered with an error: Invalid format" in first.fault.message
    assert (second.fault, result.status, result.value) == (None, "answered", ["Tide", "Glass"])
    assert result.calls[-1].body_error is None


@pytest.mark.parametrize(
    "program",
    [
        "found = films(year='24')\nanswer = found.get('error') or found",
        "found = films(year='24')\nanswer = 'none' if 'error' in found else found['titles']",
        "films(year='24')\nanswer = films(year='2024')['titles']",
    ],
)
def test_a_program_that_looks_at_the_error_or_does_not_need_the_response_is_right(program: str) -> None:
    result = solved(program)
    assert (result.status, len(result.revisions)) == ("answered", 1)
    stated = result.calls[0].body_error
    assert stated is not None
    assert (result.calls[0].status, stated.message) == ("ok", "Invalid format"), "it is shown all the same"


def test_a_write_that_states_an_error_is_not_sent_again() -> None:
    seen: list[Any] = []
    again = "found = films(year='24')\nanswer = [found.get('error'), films(year='2024')['titles']]"
    result = solved(WRONG, again, effect=Effect.WRITE, seen=seen)
    assert (result.status, result.value) == ("answered", ["Invalid format", ["Tide", "Glass"]])
    assert seen == ["24", "2024"]
    assert [call.status for call in result.calls] == ["ok", "replayed", "ok"]


def test_without_another_program_the_run_has_no_answer() -> None:
    result = solved(WRONG, max_revisions=0)
    assert (result.status, result.value) == ("unsolved", None)
    with agent() as made:
        given = made.run_program(WRONG)
    assert given.fault is not None
    assert (given.status, given.fault.case) == ("unsolved", "stated")
