"""A name where an id is wanted is looked up, where one tool alone can do that; all else is left as it is."""

from __future__ import annotations

import pytest

from atc.graph.structure import suppliers_of
from atc.programs.program import Program
from atc.programs.repair.context import RepairContext
from atc.programs.repair.lookups import look_up_ids, search_tool_beside
from atc.programs.repair.pipeline import Pass, repair_program
from atc.result import Effect
from atc.tools.protocol import Protocol


def protocol(name: str, needs: dict[str, str], gives: dict[str, object], effect: Effect = Effect.READ) -> Protocol:
    return Protocol(
        name=name,
        effect=effect,
        parameters={"type": "object", "properties": {k: {"type": v} for k, v in needs.items()}, "required": [*needs]},
        returns={"type": "object", "properties": gives},
    )


ITEMS = {"type": "array", "items": {"type": "object", "properties": {"city_id": {"type": "integer"}}}}
FIND = protocol("find_cities", {"name": "string"}, {"cities": ITEMS})
NEAR = protocol("cities_in", {"country_code": "string"}, {"cities": ITEMS})
GET = protocol("get_city", {"city_id": "integer"}, {"population": {"type": "integer"}})
FOUND = "find_cities(name={})['cities'][0]['city_id']"


def repaired(source: str, *protocols: Protocol) -> tuple[str, tuple[str, ...]]:
    tools = {p.name: p for p in protocols or (FIND, NEAR, GET)}
    context = RepairContext(tools, tools, suppliers_of(list(tools.values())))
    program, rewrites = repair_program(Program(source), context, (Pass({"id-by-name": look_up_ids}),))
    return program.source, tuple(rewrite.note for rewrite in rewrites)


@pytest.mark.parametrize("given", ["city_name='Lyon'", "city='Lyon'", "name='Lyon'", "city_id='Lyon'"])
def test_a_name_for_an_id_is_looked_up(given: str) -> None:
    program, notes = repaired(f"é = get_city({given})['population']")
    assert program == f"é = get_city(city_id={FOUND.format(repr('Lyon'))})['population']"
    assert notes == ("line 1: looked city_id up with find_cities",)


def test_a_variable_is_looked_up_where_its_argument_does_not_exist() -> None:
    program, _ = repaired("for n in names:\n    get_city(city_name=n)\n    get_city(name=n.strip())")
    assert program.splitlines()[1:] == [
        f"    get_city(city_id={FOUND.format('n')})",
        f"    get_city(city_id={FOUND.format('n.strip()')})",
    ]


@pytest.mark.parametrize(
    "program",
    [
        "get_city(city_id=3)", "get_city(city_id='3')", "get_city(city_id=x)", "get_city('Lyon')", "get_city(**x)",
        "get_city(colour='red')", "get_city(city_id=1, name='Lyon')", "get_city(", "other(city_name='Lyon')",
    ],
)  # fmt: skip
def test_what_may_be_right_or_means_nothing_is_left(program: str) -> None:
    assert repaired(program) == (program, ())


def test_only_one_tool_that_reads_and_needs_a_name_alone_is_called() -> None:
    program = "get_city(city_name='Lyon')"
    twin = protocol("search_cities", {"query": "string"}, {"cities": ITEMS})
    maker = protocol("make_city", {"name": "string"}, {"cities": ITEMS}, Effect.WRITE)
    assert repaired(program, FIND, twin, GET) == (program, ())
    assert repaired(program, maker, GET) == (program, ())
    assert repaired(program, NEAR, GET) == (program, ())
    assert repaired(program, FIND, maker, GET)[0] != program


def test_beside_a_tool_that_lists_stands_the_one_that_finds_by_name() -> None:
    tools = {p.name: p for p in (FIND, NEAR, GET)}
    assert search_tool_beside("cities_in", tools) == "find_cities(name=...)"
    assert search_tool_beside("find_cities", tools) == ""
    assert search_tool_beside("get_city", tools) == ""
    twin = protocol("search_cities", {"name": "string"}, {"cities": ITEMS})
    assert search_tool_beside("cities_in", {**tools, "search_cities": twin}) == ""
