"""What the gate repairs is no finding, and what it refuses is one: the check holds arguments to the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Effect, Protocol
from atc._records.rules import DEFAULT
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.schemas.repair import repair_arguments

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "code": {"type": "integer"}, "id": {"type": "integer"}},
    "required": ["name", "code", "id"],
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "city_name": {"type": "string"},
        "distance": {"type": "number", "description": "in km"},
        "weight": {"type": "number"},
        "unit": {"enum": ["km", "mile"]},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "codes": {"type": "string", "description": "A comma-separated list of codes."},
    },
    "required": ["city_name"],
}
CITIES = Protocol(name="cities", effect=Effect.READ, parameters={"properties": {}}, returns=CITY)
READS = Protocol(name="look", effect=Effect.READ, parameters=PARAMETERS)
WRITES = Protocol(name="book", effect=Effect.WRITE, parameters=PARAMETERS)


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker([CITIES, READS, WRITES])


def kinds(checker: Checker, program: str) -> set[str]:
    return {finding.kind for finding in checker.check(Program(program))}


@pytest.mark.parametrize(
    "arguments",
    [
        {"city_name": "Rome"},
        {"cityName": "Rome"},
        {"city_nmae": "Rome"},
        {"name": "Rome"},
        {"city_name": "Rome", "distance": "5 km"},
        {"city_name": "Rome", "distance": "5 miles"},
        {"city_name": "Rome", "weight": "5 kg"},
        {"city_name": "Rome", "height": 5},
        {"city_name": "Rome", "unit": "Mile"},
        {"city_name": "Rome", "unit": "miles"},
        {"city_name": "Rome", "unit": "league"},
        {"city_name": "Rome", "exact": "yes"},
        {"city_name": "Rome", "exact": "perhaps"},
        {"city_name": ["Rome"]},
        {"city_name": ["Rome", "Oslo"]},
        {"city_name": {"city_name": "Rome"}},
        {"city_name": {"name": "Rome"}},
        {"city_name": {"name": "Rome", "x": 1}},
        {"city_name": "Rome", "tags": "a"},
        {"city_name": "Rome", "tags": {"a": 1}},
        {"city_name": "Rome", "codes": ["a", "b"]},
        {"city_name": "Rome", "codes": ["a,b", "c"]},
        {"city_name": "Rome", "codes": {"a": 1}},
        {"city_name": 5},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", [READS, WRITES], ids=["read", "write"])
def test_the_check_finds_what_the_gate_refuses(checker: Checker, protocol: Protocol, arguments: dict[str, Any]) -> None:
    made = repair_arguments(PARAMETERS, arguments, protocol.effect)
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    found = kinds(checker, f"answer = {protocol.name}({written})")
    lost = {each.kind for each in made.repairs} & {"dropped"}  # the check has the time to ask what it was for
    assert bool(found) == bool(made.problems or lost), (found, made)


@pytest.mark.parametrize(
    "program",
    [
        "answer = look(city_name=cities())",
        "answer = book(city_name=[cities()['name']])",
        "unit = 'league'\nanswer = look(city_name='Rome', unit=unit)",
        "name = cities()['name']\nanswer = look(city_name=[name, name])",
    ],
)
def test_what_is_not_written_out_is_left_to_the_gate(checker: Checker, program: str) -> None:
    assert kinds(checker, program) == set()


def test_what_a_rule_repairs_is_a_finding_where_it_is_off() -> None:
    rules = DEFAULT - {"argument-unwrap", "argument-respelling", "argument-format"}
    made = Checker([READS], rules=rules)
    for argument in (
        "city_name=['Rome']", "cityName='Rome'", "city_name='Rome', unit='miles'", "city_name='', codes=['a', 'b']",
    ):  # fmt: skip
        assert kinds(made, f"answer = look({argument})"), argument
