"""Atlas as a toolset."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from atc.atlas import airports, calendar_, data, places, sky, units
from atc.atlas.trips import TripStore
from atc.schemas.protocol import Example
from atc.tools.functions import tool_from_function
from atc.tools.tool import Tool, Toolset

EXAMPLES = Path(__file__).with_name("examples.json")
"""The responses to the examples that the tools name. Written by :func:`record_examples`, checked by a test."""

_READS: tuple[Callable[..., Any], ...] = (
    places.find_cities,
    places.get_city,
    places.list_cities,
    places.cities_near,
    places.city_distance,
    places.find_countries,
    places.get_country,
    places.list_countries,
    places.get_currency,
    places.get_language,
    airports.airports_near,
    airports.find_airports,
    airports.get_airport,
    airports.airport_distance,
    airports.flight_time,
    sky.sun_times,
    sky.moon_phase,
    calendar_.public_holidays,
    calendar_.next_holiday,
    calendar_.check_date,
    calendar_.add_business_days,
    calendar_.count_days,
    calendar_.add_days,
    calendar_.utc_offset,
    calendar_.convert_time,
    units.convert_units,
    units.list_units,
)


@dataclass
class Atlas:
    """One world: the places, which never change, and a trip store of its own.

    Args:
        trips: the trip store; an empty one in memory if none is given.
    """

    trips: TripStore = field(default_factory=TripStore)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions behind the tools. The trips' come in the order in which their examples can be called."""
        trips = self.trips
        return (
            *_READS,
            trips.create_trip,
            trips.add_stop,
            trips.pay_deposit,
            trips.get_trip,
            trips.list_trips,
            trips.cancel_stop,
            trips.cancel_trip,
        )


def atlas_toolset(atlas: Atlas | None = None) -> Toolset:
    """Build Atlas's tools. The data is loaded when a tool first needs it.

    Args:
        atlas: whose trips the tools change; a new one if none is given.

    Raises:
        EnvironmentProblem: a data package is missing; the message says how to install them.
    """
    data.require_packages()
    trips = (atlas or Atlas()).functions[len(_READS) :]
    return Toolset([*_read_tools(), *map(_tool, trips)])


@cache
def _read_tools() -> tuple[Tool, ...]:
    """The tools that have no state: every toolset shares them."""
    return tuple(map(_tool, _READS))


def _tool(function: Callable[..., Any]) -> Tool:
    return _with_response(tool_from_function(function))


def _with_response(tool: Tool) -> Tool:
    responses = _responses()
    if tool.name not in responses:
        return tool
    examples = tuple(
        Example(arguments=example.arguments, response=responses[tool.name]) for example in tool.protocol.examples
    )
    return Tool(tool.protocol.model_copy(update={"examples": examples}), tool.transport)


@cache
def _responses() -> dict[str, Any]:
    if not EXAMPLES.exists():
        return {}
    loaded: dict[str, Any] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return loaded


async def call_examples(toolset: Toolset) -> dict[str, Any]:
    """Make every tool's example call, in order, and return the responses by the tools' names."""
    return {
        tool.name: await tool.transport(dict(tool.protocol.examples[0].arguments))
        for tool in toolset.values()
        if tool.transport and tool.protocol.examples
    }


def record_examples() -> None:
    """Write the examples' responses anew, after a change of the tools or an update of the data packages."""
    import anyio

    responses = anyio.run(call_examples, atlas_toolset())
    EXAMPLES.write_text(json.dumps(responses, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
