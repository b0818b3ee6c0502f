"""Dates and times of day in a text, as people and services write them: what they can mean, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MONTHS = (
    "january jan januar janvier enero gennaio",
    "february feb februar fevrier février febrero febbraio",
    "march mar märz maerz mars marzo",
    "april apr avril abril aprile",
    "may mai mayo maggio",
    "june jun juni juin junio giugno",
    "july jul juli juillet julio luglio",
    "august aug aout août agosto",
    "september sept sep septembre septiembre settembre",
    "october oct okt oktober octobre octubre ottobre",
    "november nov novembre noviembre",
    "december dec dez dezember decembre décembre diciembre dicembre",
)
MONTHS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
"""Months by their names, in the languages that are written here."""
_WEEKDAYS = "monday mon,tuesday tue tues,wednesday wed,thursday thu thurs,friday fri,saturday sat,sunday sun"
WEEKDAYS = {name: number for number, names in enumerate(_WEEKDAYS.split(",")) for name in names.split()}
"""Days of the week as :meth:`datetime.date.weekday` counts them, by their English names."""
_VERBS = frozenset({"may", "march", "mar", "mars"})
"""Months that are other words where they begin with a small letter."""

_DAY = r"(?P<{0}>\d{{1,2}})(?:st|nd|rd|th|er|º|\.)?"
_NAME = rf"(?P<{{0}}>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_SPACE, _OF = r"[ \u00a0]{1,2}", r"(?:[ \u00a0]{1,2}|[ -])(?:of |de |del |di |d['’])?"
_DATE = re.compile(
    "|".join(
        (
            r"(?<!\d)(?P<y0>\d{4})-(?P<m0>\d{1,2})-(?P<d0>\d{1,2})(?!\d)",
            r"(?<!\d)(?P<y1>\d{4})[/.](?P<m1>\d{1,2})[/.](?P<d1>\d{1,2})(?!\d)",
            r"(?<![\d./-])(?P<a2>\d{1,2})(?P<sep>[/.-])(?P<b2>\d{1,2})(?P=sep)(?P<y2>\d{4}|\d{2})(?![\d/]|[.-]\d)",
            rf"(?<![\w.,]){_DAY.format('d3')}{_OF}{_NAME.format('m3')}(?:,?(?: de| del)?[ -](?P<y3>\d{{4}})(?!\d))?",
            rf"\b{_NAME.format('m4')}{_SPACE}{_DAY.format('d4')}(?![\d:]|[.,]\d)(?:,?{_SPACE}(?P<y4>\d{{4}})(?!\d))?",
            rf"\b{_NAME.format('m5')},?(?: de| of)?{_SPACE}(?P<y5>\d{{4}})(?!\d)",
            r"(?<!\d)(?:(?P<y6>\d{4})年)?(?P<m6>\d{1,2})月(?P<d6>\d{1,2})日",
        )
    ),
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<![\d:.+])(?:(?P<h0>\d{1,2})[:h](?P<m0>\d{2})(?!\d)(?::\d{2}(?!\d)(?:\.\d{1,9}(?!\d))?)?"
    r"(?:\+\d{2}:\d{2}|(?<=:\d{2}:\d{2})-\d{2}:\d{2})?(?:[ \u00a0]?(?P<p0>[ap])\.?m\b\.?)?"
    r"|(?P<h1>\d{1,2})[ \u00a0]?(?P<p1>[ap])\.?m\b\.?)",
    re.IGNORECASE,
)
OFFSET = re.compile(r"(?<![\d:])[+−-]\d{2}:\d{2}(?![\d:])")
"""How far a time zone is from UTC."""


class Day(NamedTuple):
    """A date, or a month of a year; ``None`` where the text does not say it. A year may have its last two digits."""

    year: int | None
    month: int
    day: int | None


class Found(NamedTuple):
    """A place of a text, and all that it can mean."""

    start: int
    end: int
    meanings: tuple[Day, ...]


def dates_in(text: str) -> Iterator[Found]:
    """The dates of a text, in order."""
    for match in _DATE.finditer(text):
        given = {name: value for name, value in match.groupdict().items() if value is not None}
        if "a2" in given:
            first, second, year = int(given["a2"]), int(given["b2"]), int(given["y2"])
            meanings = [Day(year, second, first), Day(year, first, second)]
        else:
            parts = {name[0]: value for name, value in given.items()}
            name = parts["m"].casefold()
            if parts["m"] == name and name in _VERBS:
                continue
            month = MONTHS.get(name, int(name) if name.isdecimal() else 0)
            day = int(parts["d"]) if "d" in parts else None
            meanings = [Day(int(parts["y"]) if "y" in parts else None, month, day)]
        real = tuple(each for each in meanings if 1 <= each.month <= 12 and (each.day is None or 1 <= each.day <= 31))
        if real:
            yield Found(match.start(), match.end(), real)


def times_in(text: str) -> Iterator[tuple[int, int, frozenset[tuple[int, int]]]]:
    """The times of day of a text: where each stands, and the hours of 24 and minutes that it can mean."""
    for match in _TIME.finditer(text):
        written = match["h0"] or match["h1"]
        hour, minute = int(written), int(match["m0"] or 0)
        half = (match["p0"] or match["p1"] or "").lower()
        hours = {hour}
        if half:
            hours = {hour % 12 + 12 * (half == "p")}
        elif hour <= 12 and not written.startswith("0"):
            hours = {hour, (hour + 12) % 24}
        if hour <= 24 and minute < 60:
            yield match.start(), match.end(), frozenset((each, minute) for each in hours)
