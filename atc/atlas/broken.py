"""Atlas on a bad day: its ``sun_times`` is down, and another service knows the length of the day at any place.

It shows how a run goes round a tool that is down: no tool alone gives what ``sun_times`` gave, and ``get_city`` with
``sun_at`` after it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas.catalogue import Atlas, atlas_toolset
from atc.atlas.fields import Date, Latitude, Longitude
from atc.atlas.sky import sun_over
from atc.errors import ToolError
from atc.tools.functions import tool, tool_from_function
from atc.tools.tool import Toolset

DOWN = "sun_times"
"""The tool of Atlas that is down."""


class Sun(TypedDict):
    """The sun on one day at one place."""

    date: Date
    day_length_minutes: Annotated[int, Field(description="From sunrise to sunset", ge=0, le=1440)]


@tool(effect="read", examples=[{"arguments": {"latitude": 45.75, "longitude": 4.85, "date": "2026-06-21"}}])
def sun_at(latitude: Latitude, longitude: Longitude, date: Date) -> Sun:
    """Get the length of the day at a place on the map."""
    return {"date": date, "day_length_minutes": sun_over(latitude, longitude, "UTC", date).day_length_minutes}


@dataclass(frozen=True)
class Unavailable:
    """The transport of a service that is down."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        raise ToolError("503 Service Unavailable", status=503, outcome="refused")

    def opened(self) -> None:
        """Return nothing: there is nothing to open."""


def broken_atlas(atlas: Atlas | None = None) -> Toolset:
    """Build Atlas's tools, of which :data:`DOWN` is down, and ``sun_at`` beside them.

    Args:
        atlas: as of :func:`atc.atlas.atlas_toolset`.

    Raises:
        EnvironmentProblem: a data package is missing; the message says how to install them.
    """
    tools = atlas_toolset(atlas)
    protocol = tools[DOWN].protocol
    source = protocol.source.model_copy(update={"location": __name__})  # what is learnt of it is not of Atlas's own
    down = replace(tools[DOWN], protocol=protocol.model_copy(update={"source": source}), transport=Unavailable())
    return Toolset([*(down if each.name == DOWN else each for each in tools.values()), tool_from_function(sun_at)])
