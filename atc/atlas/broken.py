"""Atlas on a bad day: its ``sun_times`` is down, and another tool knows the length of the day, too.

It shows how a run goes round a tool that is down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.catalogue import Atlas, atlas_toolset
from atc.atlas.fields import CityId, Date
from atc.atlas.sky import sun_over
from atc.errors import ToolError
from atc.tools.functions import tool, tool_from_function
from atc.tools.tool import Toolset

DOWN = "sun_times"
"""The tool of Atlas that is down."""


class Daylight(TypedDict):
    """The light of one day in one city."""

    city_id: CityId
    date: Date
    day_length_minutes: Annotated[int, Field(description="From sunrise to sunset", ge=0, le=1440)]


@tool(effect="read", examples=[{"arguments": {"city_id": 2996944, "date": "2026-06-21"}}])
def daylight(city_id: CityId, date: Date) -> Daylight:
    """Get the length of the day in a city.

    Raises:
        ToolError: not_found: no city has this city_id.
    """
    city = data.city(city_id)
    minutes = sun_over(city["latitude"], city["longitude"], "UTC", date).day_length_minutes
    return {"city_id": city_id, "date": date, "day_length_minutes": minutes}


@dataclass(frozen=True)
class Unavailable:
    """The transport of a service that is down."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        raise ToolError("503 Service Unavailable", status=503, outcome="refused")

    def opened(self) -> None:
        """Return nothing: there is nothing to open."""


def broken_atlas(atlas: Atlas | None = None) -> Toolset:
    """Build Atlas's tools, of which :data:`DOWN` is down, and ``daylight`` beside them.

    Args:
        atlas: as of :func:`atc.atlas.atlas_toolset`.

    Raises:
        EnvironmentProblem: a data package is missing; the message says how to install them.
    """
    tools = atlas_toolset(atlas)
    protocol = tools[DOWN].protocol
    source = protocol.source.model_copy(update={"location": __name__})  # what is learnt of it is not of Atlas's own
    down = replace(tools[DOWN], protocol=protocol.model_copy(update={"source": source}), transport=Unavailable())
    return Toolset([*(down if each.name == DOWN else each for each in tools.values()), tool_from_function(daylight)])
