"""Beside a tool that lists things stands the one that finds them by name, where one tool alone does."""

from __future__ import annotations

from atc.programs.repair.lookups import search_tool_beside
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


def test_beside_a_tool_that_lists_stands_the_one_that_finds_by_name() -> None:
    tools = {p.name: p for p in (FIND, NEAR, GET)}
    assert search_tool_beside("cities_in", tools) == "find_cities(name=...)"
    assert search_tool_beside("find_cities", tools) == ""
    assert search_tool_beside("get_city", tools) == ""
    twin = protocol("search_cities", {"name": "string"}, {"cities": ITEMS})
    assert search_tool_beside("cities_in", {**tools, "search_cities": twin}) == ""
