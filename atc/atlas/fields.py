"""The values that Atlas's tools hand to one another, each described once."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

CityId = Annotated[int, Field(description="Identifier of a city (GeoNames), as find_cities gives it", ge=1)]
CityName = Annotated[str, Field(description="Name of the city")]
CountryCode = Annotated[str, Field(description="ISO 3166-1 alpha-2 code, in capitals: 'FR'", pattern=r"^[A-Z]{2}$")]
RegionCode = Annotated[
    str | None, Field(description="First-level region, in the country's own codes: 'TX' for Texas, '84' in France")
]
CurrencyCode = Annotated[str, Field(description="ISO 4217 code, in capitals: 'EUR'", pattern=r"^[A-Z]{3}$")]
LanguageCode = Annotated[
    str, Field(description="ISO 639-1 code, or ISO 639-3 where there is none: 'fr', 'frp'", pattern=r"^[a-z]{2,3}$")
]
Iata = Annotated[str, Field(description="IATA code of an airport: 'LYS'", pattern=r"^[A-Z0-9]{3}$")]
TimeZone = Annotated[str, Field(description="IANA time zone: 'Europe/Paris'")]
Population = Annotated[int, Field(description="Inhabitants", ge=0)]
Latitude = Annotated[float, Field(description="Degrees, north is positive", ge=-90, le=90)]
Longitude = Annotated[float, Field(description="Degrees, east is positive", ge=-180, le=180)]
DistanceKm = Annotated[float, Field(description="Great-circle distance in kilometres, to 0.1 km", ge=0)]
Limit = Annotated[int, Field(ge=1, le=100)]
Date = Annotated[dt.date, Field(description="Calendar date, YYYY-MM-DD")]
Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
Continent = Annotated[
    Literal["AF", "AN", "AS", "EU", "NA", "OC", "SA"],
    Field(description="AF Africa, AN Antarctica, AS Asia, EU Europe, NA North America, OC Oceania, SA South America"),
]

WEEKDAYS: tuple[Weekday, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekday(date: dt.date) -> Weekday:
    """The day of the week in English."""
    return WEEKDAYS[date.weekday()]
