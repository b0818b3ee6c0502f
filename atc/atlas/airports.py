"""Airports, and the way between two of them."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.fields import CityId, CountryCode, DistanceKm, Iata, Latitude, Limit, Longitude, TimeZone
from atc.atlas.places import point
from atc.tools.functions import tool

TAXI_MINUTES = 30
"""Minutes that an estimate adds for taxi, climb and approach."""


class AirportRef(TypedDict):
    """An airport in a list."""

    iata: Iata
    name: str
    country_code: CountryCode


class AirportList(TypedDict):
    """Some airports."""

    airports: list[AirportRef]


class NearAirport(AirportRef):
    """An airport and how far from the city's centre it is."""

    distance_km: DistanceKm


class NearAirports(TypedDict):
    """The airports around a city."""

    city_id: CityId
    airports: list[NearAirport]


class Airport(AirportRef):
    """All about an airport."""

    icao: Annotated[str | None, Field(description="ICAO code: 'LFLL'")]
    city_name: Annotated[str | None, Field(description="The city it serves; a name, not a city_id")]
    region_name: str | None
    latitude: Latitude
    longitude: Longitude
    elevation_ft: Annotated[float, Field(description="Feet above sea level")]
    timezone: TimeZone


class AirportDistance(TypedDict):
    """The way from one airport to another."""

    from_iata: Iata
    to_iata: Iata
    distance_km: DistanceKm
    bearing_deg: Annotated[
        int, Field(description="Direction at the start, in degrees from north, clockwise", ge=0, lt=360)
    ]


class FlightTime(TypedDict):
    """How long a flight takes."""

    from_iata: Iata
    to_iata: Iata
    distance_km: DistanceKm
    duration_minutes: Annotated[int, Field(description="Estimated, gate to gate, without stops", ge=0)]


def _airport_ref(record: data.Record) -> AirportRef:
    return {"iata": record["iata"], "name": record["name"], "country_code": record["country"]}


def _point(record: data.Record) -> tuple[float, float]:
    return record["lat"], record["lon"]


@tool(effect="read", examples=[{"arguments": {"city_id": 2996944, "limit": 2}}])
def airports_near(
    city_id: CityId, radius_km: Annotated[float, Field(gt=0, le=500)] = 60, limit: Limit = 5
) -> NearAirports:
    """List the airports with an IATA code around a city, the nearest first. Small airfields are among them.

    Args:
        radius_km: the furthest distance from the city's centre, in kilometres.
        limit: how many airports to return at most.

    Returns:
        The airports; an empty list if none is so near.

    Raises:
        ToolError: not_found: no city has this city_id.
    """
    centre = point(data.city(city_id))
    found = [(data.distance_km(centre, _point(record)), record) for record in data.airports().values()]
    near = sorted((pair for pair in found if pair[0] <= radius_km), key=lambda pair: (pair[0], pair[1]["iata"]))
    listed: list[NearAirport] = [
        {**_airport_ref(record), "distance_km": round(distance, 1)} for distance, record in near[:limit]
    ]
    return {"city_id": city_id, "airports": listed}


@tool(effect="read", examples=[{"arguments": {"name": "Heathrow"}}])
def find_airports(name: str, country_code: CountryCode | None = None, limit: Limit = 10) -> AirportList:
    """Find airports by a part of their name or by the name of the city they serve, ordered by IATA code.

    Args:
        name: a part of the airport's name, or the whole name of its city.
        country_code: only airports of this country.
        limit: how many airports to return at most.
    """
    wanted = data.fold(name)
    found = [
        record
        for _, record in sorted(data.airports().items())
        if country_code in (None, record["country"])
        and (wanted in data.fold(record["name"]) or wanted == data.fold(record["city"]))
    ]
    return {"airports": [_airport_ref(record) for record in found[:limit]]}


@tool(effect="read", examples=[{"arguments": {"iata": "LYS"}}])
def get_airport(iata: Iata) -> Airport:
    """Get an airport's place, elevation and time zone.

    Raises:
        ToolError: not_found: no airport has this code.
    """
    record = data.airport(iata)
    return {
        **_airport_ref(record),
        "icao": record["icao"] or None,
        "city_name": record["city"] or None,
        "region_name": record["subd"] or None,
        "latitude": record["lat"],
        "longitude": record["lon"],
        "elevation_ft": record["elevation"],
        "timezone": record["tz"],
    }


@tool(effect="read", examples=[{"arguments": {"from_iata": "LYS", "to_iata": "JFK"}}])
def airport_distance(from_iata: Iata, to_iata: Iata) -> AirportDistance:
    """Measure the great-circle distance between two airports, and the direction at the start.

    Raises:
        ToolError: not_found: no airport has one of the codes.
    """
    start, end = _point(data.airport(from_iata)), _point(data.airport(to_iata))
    return {
        "from_iata": from_iata,
        "to_iata": to_iata,
        "distance_km": round(data.distance_km(start, end), 1),
        "bearing_deg": round(_bearing(start, end)) % 360,
    }


@tool(effect="read", examples=[{"arguments": {"from_iata": "LYS", "to_iata": "JFK"}}])
def flight_time(
    from_iata: Iata, to_iata: Iata, cruise_speed_kmh: Annotated[float, Field(ge=100, le=3000)] = 850
) -> FlightTime:
    """Estimate how long a direct flight takes: the great-circle distance at cruise speed, and 30 minutes.

    Args:
        cruise_speed_kmh: speed of the aircraft in kilometres an hour.

    Raises:
        ToolError: not_found: no airport has one of the codes.
        ToolError: invalid_arguments: both codes are the same airport.
    """
    if from_iata == to_iata:
        raise data.invalid(f"from_iata and to_iata are both {from_iata!r}: a flight needs two airports")
    distance = data.distance_km(_point(data.airport(from_iata)), _point(data.airport(to_iata)))
    minutes = round(distance / cruise_speed_kmh * 60) + TAXI_MINUTES
    return {
        "from_iata": from_iata,
        "to_iata": to_iata,
        "distance_km": round(distance, 1),
        "duration_minutes": minutes,
    }


def _bearing(start: tuple[float, float], end: tuple[float, float]) -> float:
    latitude1, longitude1, latitude2, longitude2 = map(math.radians, (*start, *end))
    east = math.sin(longitude2 - longitude1) * math.cos(latitude2)
    north = math.cos(latitude1) * math.sin(latitude2) - math.sin(latitude1) * math.cos(latitude2) * math.cos(
        longitude2 - longitude1
    )
    return math.degrees(math.atan2(east, north))
