"""The sun and the moon."""

from __future__ import annotations

import datetime as dt
import math
from typing import Annotated, Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.fields import CityId, Date, TimeZone
from atc.tools.functions import tool

LUNAR_STEPS = 28
"""Astral counts a lunation in 28 equal steps from one new moon to the next."""

_HORIZON_DEG = -0.833  # the sun's centre at sunrise: its radius and the refraction

MoonPhase = Literal[
    "new_moon",
    "waxing_crescent",
    "first_quarter",
    "waxing_gibbous",
    "full_moon",
    "waning_gibbous",
    "last_quarter",
    "waning_crescent",
]
PHASES: tuple[MoonPhase, ...] = get_args(MoonPhase)


class SunTimes(TypedDict):
    """The sun on one day in one city."""

    city_id: CityId
    date: Date
    timezone: TimeZone
    status: Annotated[
        Literal["normal", "polar_day", "polar_night"],
        Field(description="polar_day: the sun does not set; polar_night: it does not rise"),
    ]
    sunrise: Annotated[dt.datetime | None, Field(description="Local time; null unless status is normal")]
    sunset: Annotated[
        dt.datetime | None, Field(description="Local time, may be past midnight; null unless status is normal")
    ]
    solar_noon: Annotated[dt.datetime, Field(description="Local time at which the sun is highest")]
    day_length_minutes: Annotated[int, Field(description="From sunrise to sunset", ge=0, le=1440)]


class Moon(TypedDict):
    """The moon on one day."""

    date: Date
    age_steps: Annotated[
        float, Field(description="From 0 (new moon) through 14 (full moon) to 28 (the next new moon)", ge=0, le=28)
    ]
    phase: Annotated[MoonPhase, Field(description="The nearest of eight phases")]
    illuminated_percent: Annotated[int, Field(description="Share of the disc that is lit", ge=0, le=100)]


@tool(effect="read", examples=[{"arguments": {"city_id": 2996944, "date": "2026-06-21"}}])
def sun_times(city_id: CityId, date: Date) -> SunTimes:
    """Get sunrise, sunset and the length of the day in a city, in its local time, to the second.

    Raises:
        ToolError: not_found: no city has this city_id.
    """
    record = data.city(city_id)
    sun = sun_over(record["latitude"], record["longitude"], record["timezone"], date)
    return {
        "city_id": city_id,
        "date": date,
        "timezone": record["timezone"],
        "status": sun.status,
        "sunrise": sun.sunrise,
        "sunset": sun.sunset,
        "solar_noon": sun.solar_noon,
        "day_length_minutes": sun.day_length_minutes,
    }


class SunOverPlace(NamedTuple):
    """The sun on one day at one place, in its local time; the fields are those of :class:`SunTimes`."""

    status: Literal["normal", "polar_day", "polar_night"]
    solar_noon: dt.datetime
    day_length_minutes: int
    sunrise: dt.datetime | None = None
    sunset: dt.datetime | None = None


def sun_over(latitude: float, longitude: float, timezone: str, date: dt.date) -> SunOverPlace:
    """Return the sun on one day at one place."""
    from astral import Observer
    from astral.sun import elevation, noon, sunrise, sunset

    observer, zone = Observer(latitude, longitude), ZoneInfo(timezone)
    highest = noon(observer, date, zone)
    at_noon = highest.replace(microsecond=0)
    try:
        rise = sunrise(observer, date, zone)
        down = sunset(observer, date, zone)
        if down < rise:  # past midnight: astral gives the one early on this date, which ended the day before
            down = sunset(observer, date + dt.timedelta(days=1), zone)
    except ValueError:  # the sun does not cross the horizon on this day
        if elevation(observer, highest) > _HORIZON_DEG:
            return SunOverPlace("polar_day", at_noon, 24 * 60)
        return SunOverPlace("polar_night", at_noon, 0)
    minutes = round((down - rise).total_seconds() / 60)
    return SunOverPlace("normal", at_noon, minutes, rise.replace(microsecond=0), down.replace(microsecond=0))


@tool(effect="read", examples=[{"arguments": {"date": "2026-03-03"}}])
def moon_phase(date: Date) -> Moon:
    """Get the phase of the moon on a date, the same for the whole Earth, to about a day."""
    from astral.moon import phase

    age = phase(date)
    return {
        "date": date,
        "age_steps": round(age, 2),
        "phase": PHASES[round(age / LUNAR_STEPS * len(PHASES)) % len(PHASES)],
        "illuminated_percent": round(50 * (1 - math.cos(2 * math.pi * age / LUNAR_STEPS))),
    }
