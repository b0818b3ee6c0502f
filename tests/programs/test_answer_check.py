"""A program whose answer surely has another type than was asked for never runs; others are not refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel

from atc.answers.opening import open_answer
from atc.facts import Finding, Misfit
from atc.programs.check.answers import probed
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.programs.rules import parse_rules
from atc.result import Effect
from atc.tools.protocol import Protocol
from tests.answers.test_inferred import TYPES, VALUES


class City(BaseModel):
    name: str
    population: int


CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
}


def reading(name: str, returns: dict[str, Any] | None) -> Protocol:
    return Protocol(name=name, effect=Effect.READ, parameters={"type": "object", "properties": {}}, returns=returns)


TOOLS = (reading("cities", {"type": "array", "items": CITY}), reading("anything", None))


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    made = Checker(TOOLS)
    yield made
    made.close()


def findings(checker: Checker, source: str, wanted: Any) -> list[Finding]:
    found = asyncio.run(checker.check(Program(source), wanted=open_answer(wanted)))
    return [finding for finding in found if finding.kind == "answer_type"]


@pytest.mark.parametrize(
    ("source", "wanted", "lines"),
    [
        ("answer = len(cities())", list[City], [1]),
        ("answer = cities()", int, [1]),
        ("answer = cities()[0]['population']", str, [1]),
        (
            "rows = cities()\nanswer = [\n    [row['name']]\n    for row in rows\n]  # names\nprint(answer)",
            list[int],
            [2],
        ),
        ("rows = cities()\nanswer = [row['population'] for row in rows]; print('é', answer)", list[str], [2]),
        ("x = cities()\nif x:\n    answer = x\nelse:\n    answer = 'none'", int, [3, 5]),
        ("answer = cities()\nanswer = answer[0]", list[City], [2]),
        ("answer = []\nfor city in cities():\n    answer.append(city['population'])", list[list[int]], [1]),
        ("answer = {}\nfor city in cities():\n    answer[city['name']] = city['population']", int, [1]),
        ("for answer in cities():\n    pass", "number", [1]),
        ("total = 0\nfor city in cities():\n    total += city['population']\nanswer = total", "text", [4]),
        ("answer = max(cities(), key=lambda city: city['population'])", "number", [1]),
    ],
)
def test_an_answer_of_another_type_is_found_at_its_lines(
    checker: Checker, source: str, wanted: Any, lines: list[int]
) -> None:
    found = findings(checker, source, wanted)
    assert [finding.line for finding in found] == lines
    assert all(f"must be of type `{open_answer(wanted).text}`" in finding.message for finding in found)
    assert {finding.severity for finding in found} == {"warning"}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("answer = cities()", list[City]),
        ("answer = anything()", int),
        ("answer = anything()['x']", list[City]),
        ("answer = 'none'\nfor city in cities():\n    answer = city['population']", int),  # it may get there
        ("x = cities()\nif x:\n    answer = x[0]['population']\nelse:\n    answer = None", int),
        ("answer = cities()\nanswer = len(answer)", int),
        ("answer = str(len(cities()))", int),  # it is coerced
        ("answer = len(cities()) / 2", int),
        ("answer = len(cities())", float),
        ("answer = len(cities()) > 3", int),
        ("answer = {'name': 'x', 'population': 3, 'of': cities()}", City),
        ("answer = tuple(city['name'] for city in cities())", list[str]),
        ("answer = {city['name'] for city in cities()}", list[str]),
        ("answer = (city for city in cities())", int),
        ("answer = None\ndef main():\n    global answer\n    answer = len(cities())\nmain()", int),
        ("def total() -> str:\n    return anything()\nanswer = total()", int),  # nobody checked that annotation
        ("rows: list = anything()\nanswer = rows", int),
        ("rows = [0] * 2\nrows[0] = 'x'\ncities()\nanswer = rows", list[str]),  # it contradicts its own types
        ("answer = cities()\nraise SystemExit", int),
        ("cities()\nglobals()['answer'] = 3\nanswer = []", int),
        ("class answer:\n    pass\ncities()", int),
        ("answer = cities()\ndel answer\nanswer = 3", int),
    ],
)
def test_what_may_be_right_is_not_refused(checker: Checker, source: str, wanted: Any) -> None:
    assert findings(checker, source, wanted) == []


def test_the_rule_can_be_taken_away() -> None:
    made = Checker(TOOLS, rules=parse_rules("-answer-type"))
    try:
        assert findings(made, "answer = cities()", int) == []
    finally:
        made.close()


def test_other_findings_are_the_same_with_a_type_and_without(checker: Checker) -> None:
    source = "answer = cities()[0]['nmae']\nanswer = undefined + 1\nanswer = [] + {}"
    plain = asyncio.run(checker.check(Program(source)))
    typed = asyncio.run(checker.check(Program(source), wanted=open_answer(Any)))
    assert plain == typed
    assert len(plain) >= 2


@pytest.mark.parametrize("source", ["answer = 1", "if x: answer = '''a\nb'''; y = 2\n", "answer = é = [1,\n 2] # c"])
def test_lines_stay_where_they_are(source: str) -> None:
    text = probed(Program(source))
    assert text is not None
    for before, after in zip(source.split("\n"), text.split("\n"), strict=False):
        assert after.replace("; reveal_type(answer)", "") == before


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TYPES, VALUES)
def test_whatever_the_check_refuses_validation_refuses(checker: Checker, wanted: Any, value: Any) -> None:
    opened = open_answer(wanted if wanted is not None else int)
    found = asyncio.run(checker.check(Program(f"cities()\nanswer = {value!r}"), wanted=opened))
    if any(finding.kind == "answer_type" for finding in found):
        assert isinstance(opened.fit(value), Misfit)
