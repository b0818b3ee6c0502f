"""Cities, countries, currencies and languages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.fields import (
    CityId,
    CityName,
    Continent,
    CountryCode,
    CurrencyCode,
    DistanceKm,
    LanguageCode,
    Latitude,
    Limit,
    Longitude,
    Population,
    RegionCode,
    TimeZone,
)
from atc.tools.functions import tool

Total = Annotated[int, Field(description="How many there are in all, with those past the limit", ge=0)]


class CityRef(TypedDict):
    """A city in a list."""

    city_id: CityId
    name: CityName
    country_code: CountryCode
    region_code: RegionCode
    population: Population


class CityList(TypedDict):
    """Some cities of those that fit."""

    total: Total
    cities: list[CityRef]


class City(CityRef):
    """All about a city."""

    latitude: Latitude
    longitude: Longitude
    timezone: TimeZone
    is_capital: bool


class NearCity(TypedDict):
    """A city and how far it is."""

    city: CityRef
    distance_km: DistanceKm


class NearCities(TypedDict):
    """The cities around a city."""

    total: Total
    nearby: list[NearCity]


class CityDistance(TypedDict):
    """How far apart two cities are."""

    from_city_id: CityId
    to_city_id: CityId
    distance_km: DistanceKm


class CountryRef(TypedDict):
    """A country in a list."""

    country_code: CountryCode
    name: str
    continent: Continent


class CountryList(TypedDict):
    """Some countries."""

    countries: list[CountryRef]


class Capital(TypedDict):
    """A country's capital."""

    name: CityName
    city_id: Annotated[CityId | None, Field(description="null where the city is not on record")]


class Country(CountryRef):
    """All about a country."""

    official_name: str | None
    capital: Annotated[Capital | None, Field(description="null where there is none")]
    area_km2: Annotated[int | None, Field(description="Square kilometres")]
    population: Annotated[int | None, Field(description="Inhabitants")]
    currency_code: CurrencyCode | None
    language_codes: Annotated[list[LanguageCode], Field(description="The most spoken first")]
    neighbour_codes: Annotated[list[CountryCode], Field(description="Countries with a land border to it")]
    calling_code: Annotated[str | None, Field(description="Telephone prefix without the plus: '33'")]


class Currency(TypedDict):
    """A currency."""

    currency_code: CurrencyCode
    name: str
    country_codes: Annotated[list[CountryCode], Field(description="Countries that use it, by code")]


class Language(TypedDict):
    """A language."""

    language_code: LanguageCode
    name: str
    country_codes: Annotated[list[CountryCode], Field(description="Countries where it is spoken, by code")]


def city_ref(record: data.Record) -> CityRef:
    """The city as lists show it."""
    return {
        "city_id": record["geonameid"],
        "name": record["name"],
        "country_code": record["countrycode"],
        "region_code": record["admin1code"] or None,
        "population": record["population"],
    }


def _country_ref(record: data.Record) -> CountryRef:
    return {"country_code": record["iso"], "name": record["name"], "continent": record["continentcode"]}


def _cut(found: list[data.Record], limit: int) -> CityList:
    return {"total": len(found), "cities": [city_ref(record) for record in found[:limit]]}


def point(record: data.Record) -> tuple[float, float]:
    """A city's latitude and longitude in degrees."""
    return record["latitude"], record["longitude"]


# Cities -------------------------------------------------------------------------------------------------------------


@tool(effect="read", examples=[{"arguments": {"name": "Valencia", "limit": 2}}])
def find_cities(name: str, country_code: CountryCode | None = None, limit: Limit = 10) -> CityList:
    """Find cities by name, in any spelling or language that is on record, without regard to case and accents.

    Names are ambiguous: the cities of this very name come first, then those that have it as another name, the
    largest first in both. Only capitals and cities of more than 15,000 inhabitants are known.

    Args:
        name: the whole name of the city.
        country_code: only cities of this country.
        limit: how many cities to return at most.

    Returns:
        The cities; an empty list if none has the name.
    """
    found = [record for record in data.cities_named(name) if country_code in (None, record["countrycode"])]
    return _cut(found, limit)


@tool(effect="read", examples=[{"arguments": {"city_id": 2996944}}])
def get_city(city_id: CityId) -> City:
    """Get a city's coordinates, population and time zone.

    Raises:
        ToolError: not_found: no city has this city_id.
    """
    record = data.city(city_id)
    return {
        **city_ref(record),
        "latitude": record["latitude"],
        "longitude": record["longitude"],
        "timezone": record["timezone"],
        "is_capital": _capital_id(record["countrycode"]) == city_id,
    }


@tool(effect="read", examples=[{"arguments": {"country_code": "PT", "limit": 2}}])
def list_cities(country_code: CountryCode, min_population: Population = 0, limit: Limit = 20) -> CityList:
    """List the cities of a country, the largest first.

    Args:
        min_population: only cities of at least so many inhabitants.
        limit: how many cities to return at most.

    Raises:
        ToolError: not_found: no country has this code.
    """
    data.country(country_code)
    fitting = (
        record
        for record in data.cities().values()
        if record["countrycode"] == country_code and record["population"] >= min_population
    )
    return _cut(data.by_population(fitting), limit)


@tool(effect="read", examples=[{"arguments": {"city_id": 2996944, "radius_km": 60, "min_population": 100000}}])
def cities_near(
    city_id: CityId,
    radius_km: Annotated[float, Field(gt=0, le=1000)] = 50,
    min_population: Population = 0,
    limit: Limit = 20,
) -> NearCities:
    """List the cities around a city, the nearest first, in any country; the city itself is left out.

    Args:
        radius_km: the furthest distance, in kilometres.
        min_population: only cities of at least so many inhabitants.
        limit: how many cities to return at most.

    Raises:
        ToolError: not_found: no city has this city_id.
    """
    centre = point(data.city(city_id))
    degrees = radius_km / 111  # a degree of latitude is a little longer
    found = [
        (distance, record)
        for record in data.cities().values()
        if record["population"] >= min_population
        and abs(record["latitude"] - centre[0]) <= degrees
        and record["geonameid"] != city_id
        and (distance := data.distance_km(centre, point(record))) <= radius_km
    ]
    found.sort(key=lambda pair: (pair[0], pair[1]["geonameid"]))
    nearby: list[NearCity] = [
        {"city": city_ref(record), "distance_km": round(distance, 1)} for distance, record in found[:limit]
    ]
    return {"total": len(found), "nearby": nearby}


@tool(effect="read", examples=[{"arguments": {"from_city_id": 2996944, "to_city_id": 2988507}}])
def city_distance(from_city_id: CityId, to_city_id: CityId) -> CityDistance:
    """Measure the great-circle distance between two cities.

    Raises:
        ToolError: not_found: no city has one of the identifiers.
    """
    distance = data.distance_km(point(data.city(from_city_id)), point(data.city(to_city_id)))
    return {"from_city_id": from_city_id, "to_city_id": to_city_id, "distance_km": round(distance, 1)}


# Countries ----------------------------------------------------------------------------------------------------------


@tool(effect="read", examples=[{"arguments": {"name": "korea"}}])
def find_countries(name: str) -> CountryList:
    """Find countries by a name or a part of one, in English, without regard to case and accents.

    Args:
        name: the name, or a part of it.

    Returns:
        The countries; one of exactly this name comes first, the others follow by name.
    """
    wanted = data.fold(name)
    found = [
        record
        for code, record in data.countries().items()
        if any(wanted in data.fold(known) for known in (record["name"], *_other_names(code)))
    ]
    found.sort(key=lambda record: (data.fold(record["name"]) != wanted, record["name"]))
    return {"countries": [_country_ref(record) for record in found]}


@tool(effect="read", examples=[{"arguments": {"country_code": "CH"}}])
def get_country(country_code: CountryCode) -> Country:
    """Get a country's capital, currency, languages, neighbours, area and population.

    Raises:
        ToolError: not_found: no country has this code.
    """
    record = data.country(country_code)
    capital: Capital = {"name": record["capital"].strip(), "city_id": _capital_id(country_code)}
    return {
        **_country_ref(record),
        "official_name": next(iter(_other_names(country_code)), None),
        "capital": capital if capital["name"] else None,
        "area_km2": record["areakm2"] or None,
        "population": record["population"] or None,
        "currency_code": record["currencycode"] or None,
        "language_codes": _language_codes(record),
        "neighbour_codes": sorted(filter(None, record["neighbours"].split(","))),
        "calling_code": record["phone"].lstrip("+") or None,
    }


@tool(effect="read", examples=[{"arguments": {"continent": "AN"}}])
def list_countries(continent: Continent) -> CountryList:
    """List the countries and dependent territories of a continent, by name."""
    found = [record for record in data.countries().values() if record["continentcode"] == continent]
    return {"countries": [_country_ref(record) for record in sorted(found, key=lambda record: str(record["name"]))]}


@tool(effect="read", examples=[{"arguments": {"currency_code": "CHF"}}])
def get_currency(currency_code: CurrencyCode) -> Currency:
    """Get a currency's name and the countries that use it.

    Raises:
        ToolError: not_found: no currency in use has this code.
    """
    import pycountry

    known = pycountry.currencies.get(alpha_3=currency_code)
    if known is None:
        raise data.not_found(f"currency with the code {currency_code!r}", "get_country gives a country's currency_code")
    users = [code for code, record in data.countries().items() if record["currencycode"] == currency_code]
    return {"currency_code": currency_code, "name": known.name, "country_codes": users}


@tool(effect="read", examples=[{"arguments": {"language_code": "rm"}}])
def get_language(language_code: LanguageCode) -> Language:
    """Get a language's name and the countries where it is spoken.

    Raises:
        ToolError: not_found: no single language has this code; a few that get_country gives are of families.
    """
    import pycountry

    key = "alpha_2" if len(language_code) == 2 else "alpha_3"
    known = pycountry.languages.get(**{key: language_code})
    if known is None:
        raise data.not_found(
            f"language with the code {language_code!r}", "get_country gives a country's language_codes"
        )
    code = getattr(known, "alpha_2", known.alpha_3)
    speakers = [country for country, record in data.countries().items() if code in _language_codes(record)]
    return {"language_code": code, "name": known.name, "country_codes": speakers}


def _language_codes(record: data.Record) -> list[str]:
    """GeoNames writes locales ('fr-CH'); a language that stands there twice is kept once."""
    return _unique(locale.partition("-")[0] for locale in record["languages"].split(",") if locale)


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _other_names(country_code: str) -> list[str]:
    import pycountry

    known: Any = pycountry.countries.get(alpha_2=country_code)
    return [name for key in ("official_name", "common_name") if (name := getattr(known, key, None))]


@cache
def _capital_id(country_code: str) -> int | None:
    name = data.country(country_code)["capital"].strip()
    if not name:
        return None
    found = [record for record in data.cities_named(name) if record["countrycode"] == country_code]
    return found[0]["geonameid"] if found else None
