"""What schemas leave only one way to mean is repaired without asking the model; nothing else is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from atc import Effect, Protocol
from atc.programs.edits import RepairContext
from atc.programs.program import Program
from atc.programs.repair.pipeline import repair_program


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
REF = record(city_id=NUMBER, name=TEXT)
FIND = Protocol(
    name="find",
    effect=Effect.READ,
    parameters={"properties": {"name": TEXT, "year": NUMBER}, "required": ["name"]},
    returns=record(cities=list_of(REF), total=NUMBER),
)
DETAILS = Protocol(
    name="details",
    effect=Effect.READ,
    parameters={"properties": {"city_id": NUMBER}, "required": ["city_id"]},
    returns=record(place=record(latitude={"type": "number"}), population=NUMBER),
)
TWO = Protocol(name="two", effect=Effect.READ, returns=record(hotels=list_of(REF), filters=list_of(record(title=TEXT))))
ANY = Protocol(
    name="anything", effect=Effect.READ, parameters={"properties": {"city_id": NUMBER}, "additionalProperties": True}
)
TOOLS = {protocol.name: protocol for protocol in (FIND, DETAILS, TWO, ANY)}


def repair(source: str, protocols: Mapping[str, Protocol] = TOOLS) -> tuple[str, tuple[str, ...]]:
    """What the schemas alone repair."""
    program, rewrites = repair_program(Program(source), RepairContext(protocols))
    return program.source, tuple(rewrite.note for rewrite in rewrites)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("x = details(cityId=1)", "x = details(city_id=1)"),
        ("x = details(id=1)", "x = details(city_id=1)"),
        ("cityName = 'ä'\nx = find(name=city_name)", "cityName = 'ä'\nx = find(name=cityName)"),
        ("x = Find(name='a')", "x = find(name='a')"),
    ],
)
def test_a_spelling_of_a_name_or_an_argument_is_corrected(written: str, meant: str) -> None:
    assert repair(written)[0] == meant


@pytest.mark.parametrize(
    "program",
    [
        "r = find(name='a')\nfor key in r:\n    print(key)",  # a loop over keys is no mistake
        "r = find(name='a')\nx = len(r['cities'])",
        "r = find(name='a')\nx = r[0] if isinstance(r, list) else r['cities'][0]",  # it is ready for both
        "r = find(name='a')\ntry:\n    x = r[0]\nexcept KeyError:\n    x = None",
        "r = find(name='a')\nr[0] = {'name': 'b'}\nx = r[0]['name']",
        "r = details(city_id=1)\nr['Population'] = 2\nx = r['Population']",
        "r = details(city_id=1)\nx = r['Population'] if 'Population' in r else 0",
        "total, cities = find(name='a')\nx = total",  # its keys, perhaps
        "x = details(city_id=1)['altitude']",
        "d = details(city_id=1)\nx = d['latitude']",
        "x = details(city_id=1)['population']['place']",
        "c = find(name='a')['cities'][0]\nx = c['population']",
        "c = find(name='a')['cities'][0]\nx = details(city_id=c)",
        "x = find(name='a')['cities']['city_id']",
        "x = details(city_name='Lyon')",
        "x = anything(cityId=1)",  # its document takes other arguments, too
        "d = details(city_id=1)\nx = d.get('Population', 0)",
        "aB = find(name='a')\na_b = aB\nx = AB",  # two names are alike
        "x = sum(find(name='a'))",
        "x = lost(name='a')",
        "from collections import *\ncounter = Counter(find(name='a'))",
        "counter = Counter(find(name='a'))",
        "x = two()[0]",
        "for t in two():\n    x = t['title'] + t['name']",  # neither list has both
        "this is no program",
    ],
)
def test_everything_else_is_left_alone(program: str) -> None:
    assert repair(program) == (program, ())
