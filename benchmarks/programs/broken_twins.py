"""Twins of twelve tools of Atlas: what another service would offer instead, with other names, units and nesting.

The twelve are the ten reads and the two writes that come first when the tools which reference programs call are ordered
by the SHA-256 of their names. A twin works on the same places and trips. Beside each stands the text of a function that
makes the tool's own response of the twin's: what a scripted writer puts before a reference program.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import Atlas, airports, calendar_, places
from atc.tools.functions import tool_from_function
from atc.tools.tool import Tool

MILE = 1.609344
READS = (
    "airports_near", "get_airport", "list_cities", "add_business_days", "cities_near", "city_distance", "count_days",
    "get_language", "get_currency", "get_city",
)  # fmt: skip
WRITES = ("cancel_trip", "add_stop")

GeonameId = Annotated[int, Field(description="GeoNames identifier of the city")]
Alpha2 = Annotated[str, Field(description="Two-letter country code, ISO 3166-1")]
Miles = Annotated[float, Field(description="Great-circle distance in statute miles")]
Day = Annotated[str, Field(description="Day, YYYY-MM-DD", json_schema_extra={"format": "date"})]
Booking = Annotated[str, Field(description="Identifier of the trip, as it was booked")]


class Country(TypedDict):
    """A country, in brief."""

    iso2: Alpha2


class Airfield(TypedDict):
    """An airport nearby."""

    iata_code: Annotated[str, Field(description="Three-letter IATA code")]
    title: Annotated[str, Field(description="Name of the airport")]
    country: Country


class AirfieldHit(TypedDict):
    """An airport, and how far it is."""

    airfield: Airfield
    distance: Annotated[float, Field(description="Distance in statute miles")]


class Airfields(TypedDict):
    """Airports around a place."""

    results: list[AirfieldHit]


class Position(TypedDict):
    """A point on the map."""

    lat: Annotated[float, Field(description="Latitude in degrees")]
    lng: Annotated[float, Field(description="Longitude in degrees")]


class AirfieldCard(TypedDict):
    """All about an airport."""

    codes: dict[str, str | None]
    iata_code: Annotated[str, Field(description="Three-letter IATA code")]
    icao_code: Annotated[str | None, Field(description="Four-letter ICAO code")]
    title: Annotated[str, Field(description="Name of the airport")]
    serves: Annotated[str | None, Field(description="Name of the city that it serves")]
    region: Annotated[str | None, Field(description="Name of the region")]
    country: Country
    position: Position
    elevation: Annotated[float, Field(description="Height above sea level, in metres")]
    tz: Annotated[str, Field(description="IANA time zone")]


class AirfieldFound(TypedDict):
    """An airport."""

    airfield: AirfieldCard


class Town(TypedDict):
    """A town in a list."""

    geoname_id: GeonameId
    label: Annotated[str, Field(description="Name of the city")]
    country: Country
    admin1: Annotated[str | None, Field(description="Code of the region in its country")]
    inhabitants: Annotated[int, Field(description="Number of people who live there: its population")]


class TownFacts(Town):
    """All about a town."""

    position: Position
    tz: Annotated[str, Field(description="IANA time zone")]
    capital: Annotated[bool, Field(description="Whether it is the capital of its country")]


class TownFound(TypedDict):
    """A town."""

    town: TownFacts


class Towns(TypedDict):
    """Some towns."""

    towns: list[Town]
    found: Annotated[int, Field(description="How many there are in all")]


class TownHit(TypedDict):
    """A town nearby."""

    town: Town
    miles: Miles


class TownHits(TypedDict):
    """Towns around a town."""

    hits: list[TownHit]
    found: Annotated[int, Field(description="How many there are in all")]


class Span(TypedDict):
    """How far apart two places are."""

    distance: Miles


class Measured(TypedDict):
    """A distance."""

    span: Span


class WorkdayResult(TypedDict):
    """The day that is reached."""

    day: Annotated[str, Field(description="Date that is reached, YYYY-MM-DD", json_schema_extra={"format": "date"})]
    day_of_week: Annotated[
        str,
        Field(
            description="Weekday in capitals",
            json_schema_extra={
                "enum": ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"],
            },
        ),
    ]
    days_passed: Annotated[int, Field(description="Calendar days between the two")]


class Workday(TypedDict):
    """A day of work."""

    workday: WorkdayResult


class Tally(TypedDict):
    """Days between two dates."""

    all_days: Annotated[int, Field(description="Calendar days between the dates")]
    working_days: Annotated[int, Field(description="Business days among them")]


class Period(TypedDict):
    """A period."""

    tally: Tally


class Tongue(TypedDict):
    """A language."""

    code: Annotated[str, Field(description="Code of the language")]
    title: Annotated[str, Field(description="Name of the language")]
    spoken_in: Annotated[list[Country], Field(description="Countries where it is spoken")]


class Tongues(TypedDict):
    """A language that was found."""

    language: Tongue


class Money(TypedDict):
    """A currency."""

    iso_code: Annotated[str, Field(description="ISO 4217 code of the currency")]
    title: Annotated[str, Field(description="Name of the currency")]
    used_in: Annotated[list[Country], Field(description="Countries that use it")]


class Monies(TypedDict):
    """A currency that was found."""

    currency: Money


def airfields_around(
    geoname_id: GeonameId,
    within_miles: Annotated[float, Field(description="how far from the city's centre, in miles")] = 60 / MILE,
    count: Annotated[int, Field(description="how many airports at most")] = 5,
) -> Airfields:
    """Airports with an IATA code near a city, by distance."""
    found = airports.airports_near(geoname_id, within_miles * MILE, count)["airports"]
    return {
        "results": [
            {
                "airfield": {"iata_code": a["iata"], "title": a["name"], "country": {"iso2": a["country_code"]}},
                "distance": a["distance_km"] / MILE,
            }
            for a in found
        ]
    }


def airfield_card(
    iata_code: Annotated[str, Field(description="Three-letter IATA code of the airport")],
) -> AirfieldFound:
    """What is known about one airport."""
    a = airports.get_airport(iata_code)
    return {
        "airfield": {
            "codes": {"iata": a["iata"], "icao": a["icao"]},
            "iata_code": a["iata"],
            "icao_code": a["icao"],
            "title": a["name"],
            "serves": a["city_name"],
            "region": a["region_name"],
            "country": {"iso2": a["country_code"]},
            "position": {"lat": a["latitude"], "lng": a["longitude"]},
            "elevation": a["elevation_ft"] * 0.3048,
            "tz": a["timezone"],
        }
    }


def _town(city: Any) -> Town:
    return {
        "geoname_id": city["city_id"],
        "label": city["name"],
        "country": {"iso2": city["country_code"]},
        "admin1": city["region_code"],
        "inhabitants": city["population"],
    }


def towns_of_country(
    iso2: Alpha2,
    at_least: Annotated[int, Field(description="least number of inhabitants")] = 0,
    count: Annotated[int, Field(description="how many towns at most")] = 20,
) -> Towns:
    """The towns of a country by the number of their inhabitants."""
    found = places.list_cities(iso2, at_least, count)
    return {"towns": [_town(city) for city in found["cities"]], "found": found["total"]}


def shift_workdays(
    iso2: Alpha2,
    begin: Annotated[str, Field(description="Day to begin with, YYYY-MM-DD", json_schema_extra={"format": "date"})],
    workdays: Annotated[int, Field(description="how many business days later; negative for earlier days")],
) -> Workday:
    """The day that lies some business days of a country after another."""
    found = calendar_.add_business_days(iso2, dt.date.fromisoformat(begin), workdays)
    return {
        "workday": {
            "day": str(found["date"]),
            "day_of_week": found["weekday"].upper(),
            "days_passed": found["calendar_days"],
        }
    }


def towns_around(
    geoname_id: GeonameId,
    within_miles: Annotated[float, Field(description="how far, in miles")] = 50 / MILE,
    at_least: Annotated[int, Field(description="least number of inhabitants")] = 0,
    count: Annotated[int, Field(description="how many towns at most")] = 20,
) -> TownHits:
    """Towns near a town, by distance."""
    found = places.cities_near(geoname_id, within_miles * MILE, at_least, count)
    hits: list[TownHit] = [{"town": _town(i["city"]), "miles": i["distance_km"] / MILE} for i in found["nearby"]]
    return {"hits": hits, "found": found["total"]}


def miles_between(
    origin_geoname_id: Annotated[int, Field(description="GeoNames identifier of the city to start from")],
    destination_geoname_id: Annotated[int, Field(description="GeoNames identifier of the city to go to")],
) -> Measured:
    """How far it is from one city to another as the crow flies."""
    return {"span": {"distance": places.city_distance(origin_geoname_id, destination_geoname_id)["distance_km"] / MILE}}


def tally_days(iso2: Alpha2, first_day: Day, last_day: Day) -> Period:
    """How many days, and how many business days of a country, lie between two days."""
    found = calendar_.count_days(iso2, dt.date.fromisoformat(first_day), dt.date.fromisoformat(last_day))
    return {"tally": {"all_days": found["calendar_days"], "working_days": found["business_days"]}}


def tongue(language: Annotated[str, Field(description="Code of the language, ISO 639")]) -> Tongues:
    """A language, and where it is spoken."""
    found = places.get_language(language)
    spoken: list[Country] = [{"iso2": code} for code in found["country_codes"]]
    return {"language": {"code": found["language_code"], "title": found["name"], "spoken_in": spoken}}


def money(iso_code: Annotated[str, Field(description="ISO 4217 code of the currency")]) -> Monies:
    """A currency, and where it is used."""
    found = places.get_currency(iso_code)
    used: list[Country] = [{"iso2": code} for code in found["country_codes"]]
    return {"currency": {"iso_code": found["currency_code"], "title": found["name"], "used_in": used}}


def town_facts(geoname_id: GeonameId) -> TownFound:
    """What is known about one town."""
    city = places.get_city(geoname_id)
    position: Position = {"lat": city["latitude"], "lng": city["longitude"]}
    return {"town": {**_town(city), "position": position, "tz": city["timezone"], "capital": city["is_capital"]}}


class Stay(TypedDict):
    """Some nights in one town."""

    stay_id: Annotated[str, Field(description="Identifier of the stop")]
    geoname_id: GeonameId
    town: Annotated[str, Field(description="Name of the city")]
    country: Country
    check_in: Annotated[str, Field(description="Date of arrival", json_schema_extra={"format": "date"})]
    check_out: Annotated[str, Field(description="Date of departure", json_schema_extra={"format": "date"})]
    nights: int
    state: Annotated[str, Field(description="status", json_schema_extra={"enum": ["active", "cancelled"]})]


class Booked(TypedDict):
    """A stay that was booked."""

    booking: Booking
    booking_state: Annotated[
        str,
        Field(
            description="status of the trip",
            json_schema_extra={"enum": ["draft", "planned", "deposit_paid", "cancelled"]},
        ),
    ]
    stay: Stay


class Refund(TypedDict):
    """A payment of a booking."""

    payment_id: str
    sum: Annotated[float, Field(description="Amount of money")]
    currency: Annotated[str, Field(description="ISO 4217 code of the currency")]


class CalledOff(TypedDict):
    """A booking that was called off."""

    booking: Booking
    title: Annotated[str, Field(description="Name of the trip")]
    state: Annotated[
        str,
        Field(description="status", json_schema_extra={"enum": ["draft", "planned", "deposit_paid", "cancelled"]}),
    ]
    currency: Annotated[str, Field(description="ISO 4217 code of the currency")]
    stays: Annotated[list[Stay], Field(description="Its stops")]
    payments: list[Refund]
    nights_left: Annotated[int, Field(description="total nights of the active stops")]
    paid: Annotated[float, Field(description="total that was paid")]
    check_in: Annotated[str | None, Field(description="start: first arrival", json_schema_extra={"format": "date"})]
    check_out: Annotated[str | None, Field(description="end: last departure", json_schema_extra={"format": "date"})]


def _stay(stop: Any) -> Stay:
    return {
        "stay_id": stop["stop_id"],
        "geoname_id": stop["city_id"],
        "town": stop["city_name"],
        "country": {"iso2": stop["country_code"]},
        "check_in": str(stop["arrival"]),
        "check_out": str(stop["departure"]),
        "nights": stop["nights"],
        "state": stop["status"],
    }


def _writes(atlas: Atlas) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def call_off(booking: Booking) -> CalledOff:
        """Call a trip off, with all its stops."""
        trip = atlas.trips.cancel_trip(booking)
        return {
            "booking": trip["trip_id"],
            "title": trip["name"],
            "state": trip["status"],
            "currency": trip["currency_code"],
            "stays": [_stay(stop) for stop in trip["stops"]],
            "payments": [
                {"payment_id": p["payment_id"], "sum": p["amount"], "currency": p["currency_code"]}
                for p in trip["payments"]
            ],
            "nights_left": trip["total_nights"],
            "paid": trip["total_paid"],
            "check_in": str(trip["start"]) if trip["start"] else None,
            "check_out": str(trip["end"]) if trip["end"] else None,
        }

    def book_stay(
        booking: Booking,
        geoname_id: GeonameId,
        check_in: Annotated[str, Field(description="Date of arrival", json_schema_extra={"format": "date"})],
        nights: Annotated[int, Field(description="how many nights the stay lasts")],
    ) -> Booked:
        """Book some nights in a town for a trip."""
        made = atlas.trips.add_stop(booking, geoname_id, dt.date.fromisoformat(check_in), nights)
        return {"booking": made["trip_id"], "booking_state": made["trip_status"], "stay": _stay(made["stop"])}

    return call_off, book_stay


class Twin(NamedTuple):
    """A twin: its name, and the text of a function that answers as the tool does, by the twin."""

    name: str
    adapter: str


TWINS: dict[str, Twin] = {
    "airports_near": Twin("airfields_around", '''
def _airports_near(city_id, radius_km=60, limit=5):
    hits = airfields_around(geoname_id=city_id, within_miles=radius_km / 1.609344, count=limit)["results"]
    return {"airports": [{"iata": hit["airfield"]["iata_code"]} for hit in hits]}
'''),
    "get_airport": Twin("airfield_card", '''
def _get_airport(iata):
    card = airfield_card(iata_code=iata)["airfield"]
    return {"elevation_ft": card["elevation"] / 0.3048}
'''),
    "list_cities": Twin("towns_of_country", '''
def _list_cities(country_code, limit=20):
    return {"cities": [{"name": town["label"]} for town in towns_of_country(iso2=country_code, count=limit)["towns"]]}
'''),
    "add_business_days": Twin("shift_workdays", '''
def _add_business_days(country_code, start, days):
    return {"date": shift_workdays(iso2=country_code, begin=start, workdays=days)["workday"]["day"]}
'''),
    "cities_near": Twin("towns_around", '''
def _cities_near(city_id, radius_km=50, min_population=0):
    hits = towns_around(geoname_id=city_id, within_miles=radius_km / 1.609344, at_least=min_population)["hits"]
    towns = [hit["town"] for hit in hits]
    return {"nearby": [{"city": {"city_id": town["geoname_id"], "name": town["label"],
                                 "country_code": town["country"]["iso2"]}} for town in towns]}
'''),
    "city_distance": Twin("miles_between", '''
def _city_distance(from_city_id, to_city_id):
    span = miles_between(origin_geoname_id=from_city_id, destination_geoname_id=to_city_id)["span"]
    return {"distance_km": span["distance"] * 1.609344}
'''),
    "count_days": Twin("tally_days", '''
def _count_days(country_code, start, end):
    return {"business_days": tally_days(iso2=country_code, first_day=start, last_day=end)["tally"]["working_days"]}
'''),
    "get_language": Twin("tongue", '''
def _get_language(language_code):
    found = tongue(language=language_code)["language"]
    return {"country_codes": [country["iso2"] for country in found["spoken_in"]]}
'''),
    "get_currency": Twin("money", '''
def _get_currency(currency_code):
    return {"country_codes": [country["iso2"] for country in money(iso_code=currency_code)["currency"]["used_in"]]}
'''),
    "get_city": Twin("town_facts", '''
def _get_city(city_id):
    town = town_facts(geoname_id=city_id)["town"]
    return {"region_code": town["admin1"], "population": town["inhabitants"], "timezone": town["tz"],
            "latitude": town["position"]["lat"], "longitude": town["position"]["lng"]}
'''),
    "cancel_trip": Twin("call_off", '''
def _cancel_trip(trip_id):
    return {"status": call_off(booking=trip_id)["state"]}
'''),
    "add_stop": Twin("book_stay", '''
def _add_stop(trip_id, city_id, arrival, nights):
    stay = book_stay(booking=trip_id, geoname_id=city_id, check_in=arrival, nights=nights)["stay"]
    return {"stop": {"stop_id": stay["stay_id"], "arrival": stay["check_in"], "departure": stay["check_out"],
                     "nights": stay["nights"], "city_name": stay["town"]}}
'''),
}  # fmt: skip
"""By the tool whose place they take."""

_READS = (airfields_around, airfield_card, towns_of_country, shift_workdays, towns_around, miles_between, tally_days,
          tongue, money, town_facts)  # fmt: skip


def twins_of(atlas: Atlas) -> list[Tool]:
    """The twins, on a world's own trips."""
    made = [tool_from_function(each, effect="read") for each in _READS]
    return made + [tool_from_function(each, effect="write") for each in _writes(atlas)]
