"""What the schemas leave only one way to mean is repaired without asking the model; nothing else is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from atc import Effect, Protocol
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.pipeline import PASSES, SCHEMA, repair_program
from atc.result import Call
from atc.strategies.observed_schemas import with_observed_responses

REF = {
    "type": "object",
    "properties": {"city_id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["city_id"],
}
FIND = Protocol(
    name="find",
    effect=Effect.READ,
    parameters={"properties": {"name": {"type": "string"}, "year": {"type": "integer"}}, "required": ["name"]},
    returns={"type": "object", "properties": {"cities": {"type": "array", "items": REF}, "total": {"type": "integer"}}},
)
DETAILS = Protocol(
    name="details",
    effect=Effect.READ,
    parameters={"properties": {"city_id": {"type": "integer"}}, "required": ["city_id"]},
    returns={
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
            },
            "population": {"type": "integer"},
        },
    },
)
TWO = Protocol(
    name="two",
    effect=Effect.READ,
    returns={
        "type": "object",
        "properties": {
            "hotels": {"type": "array", "items": REF},
            "filters": {"type": "array", "items": {"type": "object", "properties": {"title": {"type": "string"}}}},
        },
    },
)
DELETE = DETAILS.model_copy(update={"name": "delete", "effect": Effect.WRITE})
TOOLS = {protocol.name: protocol for protocol in (FIND, DETAILS, TWO)}


def repair(source: str, protocols: Mapping[str, Protocol]) -> tuple[str, tuple[str, ...]]:
    """What the schemas alone repair."""
    program, rewrites = repair_program(Program(source), RepairContext(protocols, protocols), (SCHEMA,))
    return program.source, tuple(rewrite.note for rewrite in rewrites)


def after(
    source: str, calls: Sequence[Call], protocols: Mapping[str, Protocol], task: str = ""
) -> tuple[str, tuple[str, ...]]:
    """What the calls of the run so far repair."""
    context = RepairContext(protocols, protocols, calls=calls, task=task)
    program, rewrites = repair_program(Program(source), context, PASSES[-2:])
    return program.source, tuple(rewrite.note for rewrite in rewrites)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("r = find(name='a')\nx = [c['name'] for c in r]", "r = find(name='a')\nx = [c['name'] for c in r['cities']]"),
        ("x = find(name='a')[0]", "x = find(name='a')['cities'][0]"),
        (
            "r = find(name='a')\nx = max(r, key=lambda c: c['name'])",
            "r = find(name='a')\nx = max(r['cities'], key=lambda c: c['name'])",
        ),
        ("d = details(city_id=1)\nx = d['latitude']", "d = details(city_id=1)\nx = d['place']['latitude']"),
        ("x = details(city_id=1)['Population']", "x = details(city_id=1)['population']"),
        (
            "total, cities = find(name='a')\nx = total",
            "total, cities = map(find(name='a').get, ['total', 'cities'])\nx = total",
        ),
        ("x = details(cityId=1)", "x = details(city_id=1)"),
        ("x = details(id=1)", "x = details(city_id=1)"),
        (
            "c = find(name='ä')['cities'][0]\nx = details(city_id=c)",
            "c = find(name='ä')['cities'][0]\nx = details(city_id=c['city_id'])",
        ),
        (
            "c = find(name='a')['cities'][0]\nx = c['population']",
            "c = find(name='a')['cities'][0]\nx = details(city_id=c['city_id'])['population']",
        ),
        ("x = details(city_id=1)['population']['place']", "x = details(city_id=1)['place']"),
        (
            "n = details(city_id=1)['population']\nx = n['place']['latitude'] / n if n else n['altitude']",
            "n = details(city_id=1)\n"
            "x = n['place']['latitude'] / n['population'] if n['population'] else n['population']['altitude']",
        ),
        ("x = find(name='a')['cities']['city_id']", "x = find(name='a')['cities'][0]['city_id']"),
        ("cityName = 'ä'\nx = find(name=city_name)", "cityName = 'ä'\nx = find(name=cityName)"),
        ("x = Find(name='a')", "x = find(name='a')"),
        ("x = two()[0]['city_id']", "x = two()['hotels'][0]['city_id']"),
        ("for t in two():\n    x = t['title']", "for t in two()['filters']:\n    x = t['title']"),
    ],
)
def test_what_can_only_be_meant_one_way_is_repaired(written: str, meant: str) -> None:
    repaired, notes = repair(written, TOOLS)
    assert repaired == meant
    assert notes


@pytest.mark.parametrize(
    "program",
    [
        "r = find(name='a')\nfor key in r:\n    print(key)",  # a loop over keys is no mistake
        "r = find(name='a')\nx = len(r['cities'])",
        "first, second = find(name='a')\nx = first",  # its keys, perhaps
        "x = details(city_id=1)['altitude']",  # no tool has it
        "x = details(city_id=1)['population']['altitude']",
        "n = details(city_id=1)['population']\nx = n['place']\nn = 2",  # it may be another value by then
        "for n in (details(city_id=1)['population'],):\n    x = n['place']",
        "x = unknown()['cities'][0]['zip']",
        "d = details(city_id=1)\nx = d.get('latitude', 0)",
        "aB = find(name='a')\na_b = aB\nx = AB",  # two names are alike
        "x = sum(find(name='a'))",
        "x = lost(name='a')",
        "from collections import *\ncounter = Counter(find(name='a'))",
        "counter = Counter(find(name='a'))",
        "x = find(name='a')['cities']['name']",  # no id: all of them, perhaps
        "x = two()[0]",
        "for t in two():\n    x = t['title'] + t['name']",  # neither list has both
        "this is no program",
    ],
)
def test_everything_else_is_left_alone(program: str) -> None:
    assert repair(program, TOOLS) == (program, ())


def test_a_repair_never_adds_a_call_with_an_effect() -> None:
    program = "c = find(name='a')['cities'][0]\nx = c['population']"
    assert repair(program, {"find": FIND, "delete": DELETE}) == (program, ())


def test_the_first_of_several_is_not_taken_where_something_is_changed() -> None:
    tools = TOOLS | {"delete": DELETE}
    program = "x = delete(city_id=find(name='a')['cities']['city_id'])"
    assert repair(program, tools) == (program, ())


def test_two_ways_are_no_way() -> None:
    other = DETAILS.model_copy(update={"name": "details_too"})
    program = "c = find(name='a')['cities'][0]\nx = c['population']"
    assert repair(program, {**TOOLS, "details_too": other}) == (program, ())


def call(arguments: dict[str, object], value: object) -> Call:
    return Call(index=1, attempt=0, tool="find", arguments=arguments, effect=Effect.READ, status="ok", value=value)


def test_a_made_up_argument_that_found_nothing_is_left_out_the_next_time() -> None:
    empty = [call({"name": "Rome", "year": 2020}, {"cities": [], "total": 0})]
    program = "x = find(name='Rome', year=2020)['cities']"
    assert after(program, empty, TOOLS, "find Rome")[0] == "x = find(name='Rome')['cities']"


def test_an_argument_that_the_task_gave_stays() -> None:
    empty = [call({"name": "Rome", "year": 2020}, {"cities": [], "total": 0})]
    program = "x = find(name='Rome', year=2020)['cities']"
    assert after(program, empty, TOOLS, "find Rome as of 2020") == (program, ())


def test_an_argument_of_a_call_that_found_something_stays() -> None:
    found = [call({"name": "Rome", "year": 2020}, {"cities": [{"city_id": 1}], "total": 1})]
    program = "x = find(name='Rome', year=2020)['cities']"
    assert after(program, found, TOOLS, "find Rome") == (program, ())


def test_a_read_that_was_refused_and_that_nothing_uses_is_left_out_the_next_time() -> None:
    refused = [call({"name": "Rome"}, None).model_copy(update={"status": "refused"})]
    program = "find(name='Rome')  # hm\nfor n in range(2):\n    x = find(name='Rome')\nanswer = details(city_id=1)"
    left, notes = after(program, refused, TOOLS)
    assert left == "pass  # hm\nfor n in range(2):\n    x = None\nanswer = details(city_id=1)"
    assert len(notes) == 2


@pytest.mark.parametrize(
    "program",
    [
        "answer = find(name='Rome')",
        "x = find(name='Rome')\nanswer = x",
        "find(name='Oslo')",
        "find(name=x)",
        "find('Rome')",
    ],
)
def test_other_calls_stay(program: str) -> None:
    refused = [call({"name": "Rome"}, None).model_copy(update={"status": "refused"})]
    assert after(program, refused, TOOLS) == (program, ())
    changed = {name: tool.model_copy(update={"effect": Effect.WRITE}) for name, tool in TOOLS.items()}
    assert after("find(name='Rome')", refused, changed)[1] == ()


SILENT = {"find": FIND.model_copy(update={"returns": None}), "details": DETAILS}


@pytest.mark.parametrize(
    ("program", "repaired"),
    [
        ("price, stock = find(name='a')", "price, stock = map(find(name='a').get, ['price', 'stock'])"),
        ("x = find(name='a')['barCode']", "x = find(name='a')['bar_code']"),
        ("for s in find(name='a'):\n    s['city']", "for s in find(name='a')['shops']:\n    s['city']"),
        ("x = find(name='a')['colour']", "x = find(name='a')['colour']"),  # another answer may have it
    ],
)
def test_what_an_undocumented_tool_answered_repairs_the_next_program(program: str, repaired: str) -> None:
    answered = {"price": 1.5, "stock": 3, "bar_code": "4006381333931", "shops": [{"city": "Lyon"}]}
    calls = [call({"name": "a"}, answered), call({"name": "b"}, None).model_copy(update={"status": "failed"})]
    assert repair(program, SILENT) == (program, ())
    assert repair(program, with_observed_responses(SILENT, calls))[0] == repaired


@pytest.mark.parametrize("returns", [None, {}, {"type": "object", "additionalProperties": True}])
def test_documents_that_say_nothing_of_a_response_are_filled_in(returns: dict[str, object] | None) -> None:
    silent = {"find": FIND.model_copy(update={"returns": returns})}
    assert with_observed_responses(silent, [call({}, {"a": 1})])["find"].returns != returns


@pytest.mark.parametrize("returns", [FIND.returns, {"type": "object", "additionalProperties": {"type": "number"}}])
def test_documents_that_say_something_stay(returns: dict[str, object]) -> None:
    documented = {"find": FIND.model_copy(update={"returns": returns})}
    assert with_observed_responses(documented, [call({}, {"a": 1})]) == documented
