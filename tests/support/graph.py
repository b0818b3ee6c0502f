"""Tools and lessons for tests of what the graph remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atc.catalogue.graph.lessons import Lessons
from atc.schemas.protocol import JsonSchema, Protocol, Source

DAY = 86_400.0
NOW = 20_000 * DAY
CITIES: JsonSchema = {
    "type": "object",
    "properties": {
        "cities": {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}},
        }
    },
}


def tool(
    name: str,
    *parameters: str,
    returns: JsonSchema | None = None,
    description: str = "",
    service: str = "https://x.test",
) -> Protocol:
    """A tool of a service, whose parameters take anything."""
    schema: JsonSchema = {"type": "object", "properties": {p: {} for p in parameters}, "required": list(parameters)}
    source = Source(kind="openapi", location=service, operation=name)
    return Protocol(name=name, parameters=schema, returns=returns, description=description, source=source)


def tools(*protocols: Protocol) -> dict[str, Protocol]:
    """Tools by name."""
    return {protocol.name: protocol for protocol in protocols}


TOOLS = tools(
    tool("find_cities", "name", returns=CITIES),
    tool("weather", "cityId", "days"),
    tool("alerts", "city_ids"),
    tool("log", "text"),
)
EDGE = ("find_cities", ("cities", "[]", "id"), "weather", "cityId")


def lessons(name: str, *, times: int = 1, failed: Mapping[int, str] | None = None, **more: Any) -> Lessons:
    """What a run teaches that found a city and asked for its weather."""
    calls = {"find_cities": times, "weather": times}
    follows = {("find_cities", "weather"): times}
    made: dict[str, Any] = {"calls": calls, "follows": follows, "feeds": {EDGE: times}} | more
    return Lessons(name, True, failed=tuple((failed or {}).items()), **made)
