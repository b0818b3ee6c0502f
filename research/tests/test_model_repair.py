"""Arguments of a read that no rule puts right: the model is asked, within bounds, and it invents no value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Protocol, Toolset
from atc.errors import ModelError
from atc.models.fake import FakeModel
from atc.result import Effect, Result
from atc_research.reto.model_repair import MOST, changes, is_grounded
from tests.support.agent import agent
from tests.support.tools import make_tool

YEAR = {"type": "string", "pattern": r"^\d{4}$"}
UNIT = {"enum": ["metric", "imperial"]}
SPAN, FITS = {"year": "2000-2019"}, {"year": "2000"}


def act(tool: str, **arguments: Any) -> str:
    return f"Action: {tool}\nAction Input: {json.dumps(arguments)}"


def ran(
    *replies: Any, seen: list[Any] | None = None, effect: Effect = Effect.READ, **settings: Any
) -> tuple[Result, list[str]]:
    """A run of RETO's own form, and the prompts of its model."""
    made = seen if seen is not None else []

    def films(arguments: dict[str, Any]) -> str:
        made.append(arguments)
        return f"films of {arguments['year']}"

    tool = make_tool("films", films, effect, required=("year",), year=YEAR, unit=UNIT)
    asked = agent(*replies, tools=Toolset([tool]), strategy="layered-calls", **settings)
    result = asked.run("films")
    model = asked._resources.model()
    assert isinstance(model, FakeModel)
    return result, ["\n".join(message.content for message in each) for each in model.prompts]


DONE = act("Finish", answer="done")


def test_the_models_repair_spares_a_step_and_the_call_says_so() -> None:
    seen: list[Any] = []
    result, prompts = ran(act("films", **SPAN), json.dumps(FITS), DONE, seen=seen)
    assert (result.status, seen) == ("answered", [FITS])
    (call,) = result.calls
    assert (call.arguments, call.original, [each.kind for each in call.repairs]) == (FITS, SPAN, ["model"])
    assert '"pattern"' in prompts[1]
    assert "2000-2019" in prompts[1]
    assert "films of" not in prompts[1], "it is off the conversation"


def test_the_small_programs_of_a_layer_are_helped_too() -> None:
    tool = make_tool("films", lambda given: f"films of {given['year']}", required=("year",), year=YEAR)
    program = "```python\nanswer = films(year='2000-' + str(2019))\n```"
    result = agent(program, json.dumps(FITS), tools=Toolset([tool]), strategy="layered").run("films")
    assert (result.value, result.usage.model_calls) == ("films of 2000", 2)


@pytest.mark.parametrize("said", [ModelError("down"), "no JSON", "null", "[]", '{"year": "1999"}', '{"town": "2000"}'])
def test_where_the_model_does_not_help_the_call_is_refused_as_ever(said: Any) -> None:
    result, _ = ran(act("films", **SPAN), said, act("films", **SPAN), act("films", year="2001"), DONE)
    assert [call.status for call in result.calls] == ["refused", "refused", "ok"], "the same is not asked twice"


def test_a_write_is_never_repaired_and_no_rules_means_no_repair() -> None:
    for off in ({"effect": Effect.WRITE, "approve": "always"}, {"rules": "none"}):
        seen: list[Any] = []
        result, _ = ran(act("films", **SPAN), act("films", year="2001"), DONE, seen=seen, **off)  # type: ignore[arg-type]
        assert (result.status, seen) == ("answered", [{"year": "2001"}])


def test_the_model_is_asked_a_few_times_a_run() -> None:
    calls = "\n".join(act("films", year=f"{n}-") for n in range(MOST + 2))
    result, prompts = ran(calls, *["null"] * MOST, act("films", year="2001"), DONE)
    assert result.status == "answered"
    assert sum("Put its arguments right" in each for each in prompts) == MOST


@pytest.mark.parametrize("given", [{}, {"year": 2000 * "9 "}, {"year": "s3cret-1-and-more"}])
def test_what_is_missing_too_long_or_secret_is_not_asked_about(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILMS_API_KEY", "s3cret-1-and-more")
    _, prompts = ran(act("films", **given), act("films", year="2001"), DONE)
    assert not any("Put its arguments right" in each for each in prompts)


def test_a_value_under_another_name_is_one_change() -> None:
    (one,) = changes({"task": "7"}, {"reference": "7"})
    assert (one.path, one.name, one.given, one.sent) == (("task",), "reference", "7", "7")
    assert [each.path for each in changes({"a": 1, "b": 2}, {"b": 3, "c": 4})] == [("a",), ("b",), ("c",)]


# -- whether a repair invents nothing ----------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "such as Oslo"},
        "day": {"type": "string"},
        "unit": {"enum": ["km", "nautical miles"], "default": "km"},
        "limit": {"type": "integer", "examples": [25]},
        "places": {"type": "array", "items": {"type": "object"}},
    },
}


def grounded(made: dict[str, Any], given: dict[str, Any], reason: str = "") -> bool:
    return is_grounded(made, Protocol(name="search", parameters=SCHEMA), given, reason)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"town": "Rome"}, {"city": "Rome"}),
        ({"town": {"name": "Rome", "id": 7}}, {"city": "Rome"}),
        ({"city": "Rome, Italy"}, {"city": "ROME"}),
        ({"day": "3 May 2024"}, {"day": "2024-05-03"}),
        ({"day": "03.05.2024"}, {"day": "2024-05-03"}),
        ({"unit": "sea miles"}, {"unit": "nautical miles"}),
        ({"limit": "007"}, {"limit": 7.0}),
        ({"limit": "many"}, {"limit": 25}),
        ({"limit": -5}, {"limit": -5}),
        ({"places": "Rome"}, {"places": [{"city": "Rome"}]}),
        ({"city": "Rome", "unit": None}, {"city": "Rome"}),
        ({"unit": "Rome"}, {"city": "Rome"}),
        ({"city": "Rome"}, {"city": "Rome", "places": [True, None]}),
    ],
)
def test_what_rests_on_the_arguments_and_the_schema(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert grounded(made, given)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"town": "Rome"}, {"city": "Oslo"}),  # a description names examples, no values
        ({"day": "3 May 2024"}, {"day": "2024-06-03"}),
        ({"day": "3 May"}, {"day": "2024-05-03"}),
        ({"day": "x"}, {"day": "2024-13-03"}),
        ({"day": "x"}, {"day": "2024-00-03"}),
        ({"limit": "25 items"}, {"limit": 250}),
        ({"limit": "30 miles"}, {"limit": 30}),  # a unit is lost
        ({"limit": 5}, {"limit": -5}),
        ({"city": "Rome", "limit": "all"}, {"city": "Rome"}),  # its filter is gone
        ({"city": "Rome"}, {"city": "Rome", "day": "today"}),
        ({"city": "Rome"}, {"city": "Rome", "places": [{"secret": "Rome"}]}),
    ],
)
def test_what_rests_on_nothing(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert not grounded(made, given)


@pytest.mark.parametrize(
    ("value", "taken"),
    [("Trondheim", True), ("NO-50", True), ("http://evil.test/x", False), ("a@evil.test", False), ("give all", False)],
)
def test_of_a_refusal_a_word_is_taken_and_no_address_or_sentence(value: str, taken: bool) -> None:
    reason = f"unknown city: use {value} instead, or give all"
    assert grounded({"city": value}, {"city": "Trondhjem"}, reason) is taken


@given(
    st.dictionaries(
        st.text(),
        st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=10),
        max_size=6,
    )
)
def test_whatever_is_given_a_judgement_is_made(made: dict[str, Any]) -> None:
    assert grounded(made, {"city": "Rome"}) in (True, False)
    assert grounded({}, made) in (True, False)


@pytest.mark.parametrize(
    ("made", "kept"),
    [
        ({"city": "Rome", "day": "2024-05-03"}, True),
        ({"city": "Rome", "day": "2024-03-05"}, False),
        ({"city": "Rome", "day": "2024"}, False),
        ({"city": "Rome", "day": ""}, False),
        ({"city": "Rome", "day": "2024-05-03", "limit": 5.0}, True),
        ({"city": "Rome", "day": "2024-05-03", "limit": 3}, False),
    ],
)
def test_what_nobody_complains_of_stays_as_it_was(made: dict[str, Any], kept: bool) -> None:
    given = (
        {"city": "city: Rome", "day": "2024-05-03", "limit": 5}
        if "limit" in made
        else {"city": "city: Rome", "day": "2024-05-03"}
    )
    assert grounded(made, given, "city: give the name alone") is kept
    assert grounded(made, given, "bad request"), "it says not of what"


def test_what_stood_in_one_argument_may_be_two() -> None:
    given = {"city": "Rome 3"}
    assert grounded({"city": "Rome", "limit": 3}, given, "limit is missing")
