"""Answers that stand in the task, and literals of documents' examples: warned about where that is sure."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Effect, Protocol
from atc.facts import Finding
from atc.programs.check.checker import Checker
from atc.programs.check.examples import example_literals
from atc.programs.check.task_data import is_constant, named_things, repeats_task
from atc.programs.program import Program
from atc.programs.rules import DEFAULT
from atc.tools.protocol import Example

DERIVED = "answer = nearest(name='Rome')['name']"
CONSTANT = "x = nearest(name='Rome')\nname = 'Rome'\nanswer = name"


@pytest.mark.parametrize(
    ("source", "constant"),
    [
        ("answer = 'Rome'", True),
        (CONSTANT, True),
        ("answer = 42", True),
        (DERIVED, False),
        ("x = f()\nanswer = 'a' if x else 'b'", False),
        ("answer = 'a'\nif f():\n    answer = 'b'", False),
        ("answer = 'a'\nanswer += f()", False),
        ("for answer in f():\n    pass", False),
        ("answer = ['a']", False),
        ("answer = b\nb = answer", False),
        ("answer = (", False),
        ("def f():\n    global answer\n    answer = 1\nanswer = 2", False),
    ],
)
def test_which_answers_are_constants(source: str, constant: bool) -> None:
    assert is_constant(Program(source)) is constant


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ("Find Rome and its nearest neighbour.", ["Rome"]),
        ("Which city is nearest to New York City?", ["New York City"]),
        ("What does 'blue pen' cost in Lund?", ["blue pen", "Lund"]),
        ('Who wrote it? The author of "Mio" is meant.', ["Mio"]),
        ("Show Rome's area.", ["Rome"]),
        ("nothing here", []),
    ],
)
def test_what_a_task_names(task: str, named: list[str]) -> None:
    assert named_things(task) == named


@pytest.mark.parametrize(
    ("task", "source", "value", "warned"),
    [
        ("Which city is the nearest to Rome?", DERIVED, "Rome", True),
        ("Which city is the nearest to Rome?", DERIVED, "Ostia", False),
        ("Which city is larger, Rome or Ostia?", DERIVED, "Rome", False),
        ("Which city is the nearest to Rome?", CONSTANT, "Rome", True),
        ("Which of Rome, Ostia and Bari is the largest?", DERIVED, "Rome", False),
        ("Which of Rome, Ostia and Bari is the largest?", CONSTANT, "Rome", True),
        ("Is Rome a city?", CONSTANT, "Rome", False),
        ("Compare Rome with the rest. Which is largest?", DERIVED, "Rome", False),
        ("How many of the 12 pens are blue?", "x = f()\nanswer = 12", 12, True),
        ("How many of the 12 pens are blue?", "answer = f()", 12, False),
        ("How many of the 12 pens are blue?", "x = f()\nanswer = 11", 11, False),
        ("Which city is the nearest to Rome?", DERIVED, ["Rome"], False),
        ("Which city is the nearest to Rome?", DERIVED, True, False),
        ("Which city is the nearest to Rome?", DERIVED, "", False),
    ],
)
def test_when_an_answer_only_repeats_the_task(task: str, source: str, value: object, warned: bool) -> None:
    assert repeats_task(task, Program(source), value) is warned


def test_a_number_of_thousands_of_digits_is_no_datum() -> None:
    assert not repeats_task("How many of the 12 pens are blue?", Program("answer = 12"), 10**9000)


def test_an_answer_longer_than_the_task_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pattern of a tool's megabytes is made."""
    monkeypatch.setattr("atc.programs.check.task_data.re.escape", lambda _: pytest.fail("a pattern was made"))
    assert not repeats_task("How many pens?", Program("answer = f()"), "x" * 100)


@given(st.text(max_size=300), st.text(max_size=40) | st.integers() | st.floats() | st.none() | st.booleans())
def test_any_task_and_value_can_be_looked_at(task: str, value: object) -> None:
    repeats_task(task, Program("answer = f()"), value)


@pytest.mark.parametrize("task", ["A" * 20_000, "A " * 10_000, "'" * 20_000, "A-" * 10_000, "a of " * 5_000])
def test_a_task_of_any_form_is_read_in_bounded_time(task: str) -> None:
    assert isinstance(named_things(task), list)


TEXT = {"type": "string"}
PLACES = Protocol(
    name="find_places",
    effect=Effect.READ,
    parameters={
        "type": "object",
        "properties": {"place": TEXT, "mode": {"type": "string", "enum": ["mode_1", "mode_2"]}, "near_id": TEXT},
    },
    returns={"type": "object", "properties": {"places": {"type": "array", "items": {"type": "object"}}}},
    examples=(
        Example(
            arguments={"place": "Lund", "mode": "mode_1"},
            response={
                "places": [
                    {"place_id": "loc_8", "name": "Lund", "opened": "2024-05-06", "owner_id": 4711, "since": 1999,
                     "unit": "km2", "rank_id": 3, "ref": "ORD-1234", "slug": "lund", "since_id": 1999}
                ]
            },
        ),
    ),
)  # fmt: skip


def test_which_values_of_examples_can_be_told_from_others() -> None:
    assert example_literals([PLACES]) == {"str loc_8", "int 4711", "str ORD-1234", "str lund"}


def test_examples_of_schemas_count_too() -> None:
    schema = {"type": "object", "properties": {"user_id": {"type": "string", "example": "u-77a"}}}
    listed = {"type": "object", "properties": {"user_id": {"type": "string", "examples": ["u-78b"]}}}
    tools = [PLACES.model_copy(update={"examples": (), "parameters": schema, "returns": listed})]
    assert example_literals(tools) == {"str u-77a", "str u-78b"}


@pytest.mark.parametrize("deep", [{}, []])
def test_a_deep_or_odd_schema_is_walked_in_bounded_time(deep: object) -> None:
    for _ in range(3_000):
        deep = {"properties": {"a_id": deep}} if isinstance(deep, dict) else {"items": [deep]}
    protocol = PLACES.model_copy(update={"returns": deep})
    assert "str loc_8" in example_literals([protocol])


def warnings(program: str, known: str = "Which place in Lund?", on: bool = True) -> list[Finding]:
    checker = Checker([PLACES], types=False, rules=DEFAULT | {"example-literal"} if on else DEFAULT)
    found = asyncio.run(checker.check(Program(program), known))
    return [finding for finding in found if finding.kind == "example_literal"]


FILTER = "found = find_places(place='Lund')['places']\nanswer = [p for p in found if p['place_id'] == 'loc_8']"


def test_an_id_of_an_example_that_is_compared_with_a_response_is_warned_about() -> None:
    (finding,) = warnings(FILTER)
    assert (finding.severity, finding.line, finding.tool, finding.name) == ("warning", 2, "find_places", "loc_8")
    assert "example" in finding.message
    assert "loc_8" not in finding.message


def test_an_id_of_an_example_that_is_given_to_a_tool_is_warned_about() -> None:
    (finding,) = warnings("answer = find_places(near_id='loc_8')")
    assert finding.arguments == ("near_id",)


@pytest.mark.parametrize(
    ("program", "known"),
    [
        (FILTER, "Which is loc_8?"),
        (FILTER, "Which is LOC 8?"),
        (FILTER.replace("loc_8", "loc_9"), "Which?"),
        (FILTER.replace("'loc_8'", "'Lund'"), "Which?"),
        ("answer = find_places(mode='mode_1')", "Which?"),
        ("x = 'loc_8'\nanswer = find_places(place='a') if x == 'loc_8' else 1", "Which?"),
    ],
)
def test_what_is_told_or_means_something_is_no_copy(program: str, known: str) -> None:
    assert warnings(program, known) == []


def test_without_the_rule_there_is_no_warning() -> None:
    assert warnings(FILTER, on=False) == []
    assert "example-literal" not in DEFAULT
