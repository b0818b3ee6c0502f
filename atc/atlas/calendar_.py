"""Holidays, business days and time zones. Every date is an argument: nothing asks for today."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from atc.atlas import data
from atc.atlas.fields import CountryCode, Date, TimeZone, Weekday, weekday
from atc.tools.functions import tool

if TYPE_CHECKING:
    from holidays import HolidayBase

Year = Annotated[int, Field(ge=1950, le=2100)]
# No "date-time" format: RFC 3339 asks for an offset, which these have not.
LocalTime = Annotated[
    dt.datetime,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$",
            "description": "Local time without an offset: 2026-07-01T09:30:00",
        }
    ),
]
OffsetMinutes = Annotated[int, Field(description="Minutes ahead of UTC; negative is behind")]


class Holiday(TypedDict):
    """A public holiday."""

    date: Date
    weekday: Weekday
    names: Annotated[list[str], Field(description="In English where known, else in the country's language")]


class HolidayYear(TypedDict):
    """A country's public holidays in a year."""

    country_code: CountryCode
    year: int
    holidays: Annotated[list[Holiday], Field(description="Ordered by date")]


class NextHoliday(TypedDict):
    """The next public holiday after a date."""

    country_code: CountryCode
    holiday: Holiday
    days_until: Annotated[int, Field(description="Days from the given date", ge=1)]


class DayCheck(TypedDict):
    """What kind of day a date is."""

    country_code: CountryCode
    date: Date
    weekday: Weekday
    is_weekend: Annotated[bool, Field(description="By the country's own weekend")]
    is_business_day: Annotated[bool, Field(description="Neither weekend nor public holiday")]
    holiday_names: Annotated[list[str], Field(description="Empty if it is no public holiday")]


class BusinessDate(TypedDict):
    """The date some business days away."""

    country_code: CountryCode
    start: Date
    date: Date
    weekday: Weekday
    calendar_days: Annotated[int, Field(description="Days between the two dates; negative if it lies before")]


class DayCount(TypedDict):
    """The days between two dates."""

    country_code: CountryCode
    calendar_days: Annotated[int, Field(description="Nights between the dates", ge=0)]
    business_days: Annotated[int, Field(description="Business days, first and last date included", ge=0)]


class ShiftedDate(TypedDict):
    """A date some days away."""

    date: Date
    weekday: Weekday


class Offset(TypedDict):
    """A time zone's offset at a moment."""

    timezone: TimeZone
    local_time: LocalTime
    utc_offset_minutes: OffsetMinutes
    is_dst: Annotated[bool, Field(description="Whether daylight saving time is in force")]
    abbreviation: str


class ConvertedTime(TypedDict):
    """A moment in two time zones."""

    from_timezone: TimeZone
    to_timezone: TimeZone
    local_time: Annotated[LocalTime, Field(description="The time in to_timezone, without an offset")]
    difference_minutes: Annotated[int, Field(description="How far to_timezone is ahead; negative is behind")]
    day_shift: Annotated[int, Field(description="Days that the date changes by: -1, 0 or 1", ge=-1, le=1)]


def _calendar(country_code: str) -> HolidayBase:
    import holidays

    data.country(country_code)
    try:
        calendar = holidays.country_holidays(country_code)
        if "en_US" in calendar.supported_languages:
            calendar = holidays.country_holidays(country_code, language="en_US")
    except NotImplementedError:
        raise data.not_found(f"calendar of {country_code!r}", "its public holidays are not on record") from None
    return calendar


def _holiday(calendar: HolidayBase, date: dt.date) -> Holiday:
    return {"date": date, "weekday": weekday(date), "names": calendar.get_list(date)}


def _in_year(calendar: HolidayBase, year: int) -> list[dt.date]:
    start = dt.date(year, 1, 1)
    calendar.get(start)  # fills in the year
    return sorted(date for date in calendar if date.year == year)


# Holidays and business days -----------------------------------------------------------------------------------------


@tool(effect="read", examples=[{"arguments": {"country_code": "NL", "year": 2026}}])
def public_holidays(country_code: CountryCode, year: Year) -> HolidayYear:
    """List a country's nation-wide public holidays in a year. Those of single regions are left out.

    Raises:
        ToolError: not_found: no country has this code, or its holidays are not on record.
    """
    calendar = _calendar(country_code)
    listed = [_holiday(calendar, date) for date in _in_year(calendar, year)]
    return {"country_code": country_code, "year": year, "holidays": listed}


@tool(effect="read", examples=[{"arguments": {"country_code": "FR", "date": "2026-07-01"}}])
def next_holiday(country_code: CountryCode, date: Date) -> NextHoliday:
    """Get the first public holiday of a country after a date; that date itself does not count.

    Raises:
        ToolError: not_found: no country has this code, or no holiday in the following year is on record.
    """
    calendar = _calendar(country_code)
    for year in (date.year, date.year + 1):
        for found in _in_year(calendar, year):
            if found > date:
                return {
                    "country_code": country_code,
                    "holiday": _holiday(calendar, found),
                    "days_until": (found - date).days,
                }
    raise data.not_found(f"public holiday of {country_code!r} after {date}", "none is on record in the following year")


@tool(effect="read", examples=[{"arguments": {"country_code": "FR", "date": "2026-07-14"}}])
def check_date(country_code: CountryCode, date: Date) -> DayCheck:
    """Tell whether a date is a weekend, a public holiday or a business day in a country.

    Raises:
        ToolError: not_found: no country has this code, or its holidays are not on record.
    """
    calendar = _calendar(country_code)
    return {
        "country_code": country_code,
        "date": date,
        "weekday": weekday(date),
        "is_weekend": calendar.is_weekend(date),
        "is_business_day": calendar.is_working_day(date),
        "holiday_names": calendar.get_list(date),
    }


@tool(effect="read", examples=[{"arguments": {"country_code": "FR", "start": "2026-07-10", "days": 3}}])
def add_business_days(
    country_code: CountryCode, start: Date, days: Annotated[int, Field(ge=-1000, le=1000)]
) -> BusinessDate:
    """Count business days of a country from a date, which itself does not count.

    Args:
        days: how many business days; negative goes back. 0 gives the date itself, whatever day it is.

    Raises:
        ToolError: not_found: no country has this code, or its holidays are not on record.
    """
    calendar = _calendar(country_code)
    date = start if days == 0 else calendar.get_nth_working_day(start, days)
    return {
        "country_code": country_code,
        "start": start,
        "date": date,
        "weekday": weekday(date),
        "calendar_days": (date - start).days,
    }


@tool(effect="read", examples=[{"arguments": {"country_code": "FR", "start": "2026-05-01", "end": "2026-05-31"}}])
def count_days(country_code: CountryCode, start: Date, end: Date) -> DayCount:
    """Count the days and the business days of a country between two dates.

    Raises:
        ToolError: not_found: no country has this code, or its holidays are not on record.
        ToolError: invalid_arguments: the end lies before the start.
    """
    if end < start:
        raise data.invalid(f"end ({end}) lies before start ({start})")
    calendar = _calendar(country_code)
    return {
        "country_code": country_code,
        "calendar_days": (end - start).days,
        "business_days": calendar.get_working_days_count(start, end),
    }


@tool(effect="read", examples=[{"arguments": {"date": "2026-02-27", "days": 3}}])
def add_days(date: Date, days: Annotated[int, Field(ge=-40000, le=40000)]) -> ShiftedDate:
    """Get the date some days after a date, or before it where the number is negative.

    Raises:
        ToolError: invalid_arguments: the result lies outside the years 1 to 9999.
    """
    try:
        shifted = date + dt.timedelta(days=days)
    except OverflowError:
        raise data.invalid(f"{days} days from {date} lie outside the years 1 to 9999") from None
    return {"date": shifted, "weekday": weekday(shifted)}


# Time zones ---------------------------------------------------------------------------------------------------------


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise data.not_found(f"time zone {name!r}", "get_city and get_airport give IANA names") from None


def _naive(moment: dt.datetime) -> dt.datetime:
    if moment.tzinfo is not None:
        raise data.invalid(f"{moment.isoformat()} has an offset: give the local time without one")
    return moment


def _minutes(offset: dt.timedelta | None) -> int:
    return round((offset or dt.timedelta()).total_seconds() / 60)


@tool(effect="read", examples=[{"arguments": {"timezone": "Asia/Kathmandu", "local_time": "2026-07-01T12:00:00"}}])
def utc_offset(timezone: TimeZone, local_time: LocalTime) -> Offset:
    """Get how far a time zone is ahead of UTC at a local time, and whether daylight saving time is in force.

    Raises:
        ToolError: not_found: there is no such time zone.
        ToolError: invalid_arguments: the local time has an offset.
    """
    moment = _naive(local_time).replace(tzinfo=_zone(timezone))
    return {
        "timezone": timezone,
        "local_time": local_time,
        "utc_offset_minutes": _minutes(moment.utcoffset()),
        "is_dst": bool(moment.dst()),
        "abbreviation": moment.tzname() or "",
    }


@tool(
    effect="read",
    examples=[
        {
            "arguments": {
                "local_time": "2026-07-01T20:00:00",
                "from_timezone": "Europe/Paris",
                "to_timezone": "Asia/Tokyo",
            }
        }
    ],
)
def convert_time(local_time: LocalTime, from_timezone: TimeZone, to_timezone: TimeZone) -> ConvertedTime:
    """Convert a local time from one time zone to another.

    Args:
        local_time: the time in from_timezone, without an offset.

    Raises:
        ToolError: not_found: there is no such time zone.
        ToolError: invalid_arguments: the local time has an offset, or the result is no date.
    """
    start = _naive(local_time).replace(tzinfo=_zone(from_timezone))
    try:
        there = start.astimezone(_zone(to_timezone))
    except OverflowError:
        raise data.invalid(f"{local_time.isoformat()} lies at the end of the calendar") from None
    return {
        "from_timezone": from_timezone,
        "to_timezone": to_timezone,
        "local_time": there.replace(tzinfo=None),
        "difference_minutes": _minutes(there.utcoffset()) - _minutes(start.utcoffset()),
        "day_shift": (there.date() - start.date()).days,
    }
