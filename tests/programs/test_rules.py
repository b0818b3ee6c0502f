"""Every rule can be taken away, and does nothing then; the table of the documentation is the registry."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from atc import Effect, Protocol, Settings, Toolset, tool
from atc._records.outcome import Outcome, ProgramError
from atc._records.rules import DEFAULT, RULES, parse_rules, table
from atc.errors import SettingsError
from atc.facts import Fault
from atc.programs.attribution.attribute import Attribution
from atc.programs.check.checker import Checker
from atc.programs.edits import RepairContext
from atc.programs.program import Program
from atc.programs.repair.pipeline import RULES as OF_PROGRAMS
from atc.programs.repair.pipeline import repair_program
from atc.result import Call

ROOT = Path(__file__).parents[2]
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def made(name: str, parameters: dict[str, object], returns: dict[str, object], required: tuple[str, ...]) -> Protocol:
    return Protocol(
        name=name,
        effect=Effect.READ,
        parameters={"type": "object", "properties": parameters, "required": list(required)},
        returns={"type": "object", "properties": returns, "required": list(returns), "additionalProperties": False},
    )


CITY = {"type": "object", "properties": {"city_id": NUMBER, "name": TEXT}, "required": ["city_id", "name"]}
FIND = made(
    "find_cities", {"name": TEXT, "year": NUMBER}, {"cities": {"type": "array", "items": CITY}, "total": NUMBER},
    ("name",),
)  # fmt: skip
PLACE = {"type": "object", "properties": {"latitude": NUMBER}, "required": ["latitude"]}
GET = made("get_city", {"city_id": NUMBER}, {"population": NUMBER, "area": NUMBER, "place": PLACE}, ("city_id",))
TOOLS = {tool.name: tool for tool in (FIND, GET)}
REWRITTEN = {
    "name-spelling": "myCity = get_city(city_id=1)\nanswer = my_city",
    "argument-spelling": "answer = get_city(cityId=1)",
}


def rewritten(source: str, rules: frozenset[str]) -> set[str]:
    return {rewrite.rule for rewrite in repair_program(Program(source), RepairContext(TOOLS, rules))[1]}


@pytest.mark.parametrize("rule", REWRITTEN)
def test_a_rule_rewrites_and_one_that_is_off_does_nothing(rule: str) -> None:
    assert rule in rewritten(REWRITTEN[rule], DEFAULT)
    assert rule not in rewritten(REWRITTEN[rule], DEFAULT - {rule})
    assert rewritten(REWRITTEN[rule], frozenset()) == set()


def test_every_rule_of_the_pipeline_is_registered_and_has_an_example() -> None:
    assert OF_PROGRAMS.keys() == REWRITTEN.keys() == {r.id for r in RULES if r.step == "repair"}


WEATHER = made("weather_today", {"place_id": TEXT, "latitude": NUMBER}, {"t": NUMBER}, ())
LATER = made("weather_on", {"date": TEXT}, {"t": NUMBER}, ("date",))
PLACE_OF = made("find_place", {"name": TEXT}, {"place_id": TEXT, "latitude": NUMBER}, ("name",))


@pytest.mark.parametrize(
    ("rule", "program", "said"),
    [
        ("invented-id", "answer = weather_today(place_id='x17')", "stands in neither"),
        ("invented-address", "x = 'a@b.org'\nanswer = find_place(name=x)", "e-mail"),
        ("name-for-id", "answer = weather_today(place_id='Berlin')", "a name is given"),
        ("similar-tool", "answer = weather_today(date='2024-01-01')", "weather_on"),
        ("key-elsewhere", "answer = find_place(name='Berlin')['t']", "'t' is at weather_today"),
    ],
)
def test_a_finding_of_a_rule_that_is_off_is_not_made(rule: str, program: str, said: str) -> None:
    def texts(rules: frozenset[str]) -> str:
        found = Checker([WEATHER, LATER, PLACE_OF], rules=rules).check(Program(program), "Weather in Berlin")
        return " ".join(finding.message for finding in found)

    assert said in texts(DEFAULT)
    assert said not in texts(DEFAULT - {rule})


def test_every_rule_says_where_it_is_and_is_asked_for_there() -> None:
    code = "".join(path.read_text() for path in (ROOT / "atc").rglob("*.py") if path.name != "rules.py")
    for rule in RULES:
        module, name = rule.apply.split(":")
        found: object = importlib.import_module(f"atc.{module}")
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found), rule.id
        assert f'"{rule.id}"' in code, f"nothing asks whether {rule.id} is on"
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_the_table_of_the_documentation_is_the_registry() -> None:
    assert table() in (ROOT / "research" / "rules.md").read_text()


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("", DEFAULT),
        ("default", DEFAULT),
        ("none", frozenset()),
        ("none, +name-spelling", {"name-spelling"}),
        ("-name-spelling,-idle-call", DEFAULT - {"name-spelling", "idle-call"}),
        ("none,+idle-call,-idle-call", frozenset()),
    ],
)
def test_rules_are_read_from_left_to_right(text: str, on: frozenset[str]) -> None:
    assert parse_rules(text) == on
    assert Settings.load(rules=text).active_rules == on


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("+name-spellin", "there is no rule 'name-spellin': did you mean name-spelling"),
        ("-", "there is no rule ''"),
        ("name-spelling", "write +name-spelling or -name-spelling"),
        ("-zzzz", "`atc help rules` lists them"),
        ("-confirmed-nothing", "there is no rule 'confirmed-nothing'"),
        ("none,+part-of-a-list", "there is no rule 'part-of-a-list': `atc help rules` lists them"),
        ("-predicted-layers", "there is no rule 'predicted-layers': `atc help rules` lists them"),
        ("-coordinate-from-memory", "there is no rule 'coordinate-from-memory'"),
    ],
)
def test_a_rule_that_does_not_exist_is_named(text: str, told: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(told)):
        Settings.load(rules=text)


# Rules that show in a fault -------------------------------------------------------------------------------------------


def test_the_nearest_name_is_a_rule() -> None:
    def texts(rules: frozenset[str]) -> str:
        found = Checker([PLACE_OF], rules=rules).check(Program("answer = find_places(name='Berlin')"))
        return " ".join(finding.message for finding in found)

    assert "did you mean the tool find_place?" in texts(DEFAULT)
    assert "did you mean" not in texts(DEFAULT - {"nearest-name"})


READ = Call(index=1, attempt=0, tool="find", arguments={}, line=1, effect=Effect.READ, status="ok", value=None)


def raised(kind: str, message: str, line: int, tool: str | None = None, items: int | None = None) -> Outcome:
    return Outcome("raised", error=ProgramError(kind, message, line, tool=tool, items=items))


@pytest.mark.parametrize(
    ("rule", "program", "call", "outcome"),
    [
        ("idle-call", "find()", {"status": "refused", "error": "no", "error_status": "invalid"},
         raised("ToolError", "find: no", 1, "find")),
        ("unpacked-keys", "a, b = find()\nanswer = a", {"value": {"a": 1, "b": 2}},
         Outcome("finished", answered=True, value="a")),
    ],
)  # fmt: skip
def test_a_fault_without_a_rule(rule: str, program: str, call: dict[str, Any], outcome: Outcome) -> None:
    tools = Toolset.from_functions(find)
    calls = [READ.model_copy(update=call)]

    def fault(rules: frozenset[str]) -> Fault | None:
        return Attribution(Program(program), outcome, calls, tools, rules).fault()

    assert fault(DEFAULT) != fault(DEFAULT - {rule})
    assert fault(DEFAULT) == fault(DEFAULT - {"id-by-name"})


@tool(effect="read")
def find() -> dict[str, Any]:
    """Find."""
    return {}
