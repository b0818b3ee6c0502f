"""The same value in the format that a schema names: numbers, truth values, dates, JSON texts.

Each function returns :data:`MISSING` where a value has not one meaning. What is not a read gets :func:`number_of` and
:func:`duration_in_unit` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NoReturn

from atc._records.packing import is_small, json_text, may_hold_whole_float
from atc.schemas.protocol import takes_bytes
from atc.schemas.repair.places import Place

MISSING: Final = object()
"""There is no such value."""
MAX_TEXT = 100_000
"""Characters of a text that is read as JSON; other formats are at most :data:`MAX_SHORT` long."""
MAX_SHORT = 64

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,19})(\.\d{1,18})?([eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3}){1,5}(\.\d{1,6})?")
_MEASURED = re.compile(
    r"([^\W\d]{1,3}|[$€£¥])? ?([+-]?\d{1,15}(?:\.\d{1,15})?) ?([^\W\d][^\W\d_/²³]{0,19}|[%°$€£¥]C?F?)?"
)
_DURATION = re.compile(
    r"(-)?P(?=.)(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,6})?)S)?)?"
)
"""An ISO 8601 duration without months and years, which have no length: what a program's ``timedelta`` becomes."""
_SECONDS = {
    unit: Decimal(size)
    for unit, size in (("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400), ("week", 604_800), ("ms", "0.001"))
}
_WORDS = {
    word: number
    for number, word in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
            " seventeen eighteen nineteen twenty"
        ).split()
    )
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100}
_TRUTH = {"yes": True, "no": False, "on": True, "off": False, "y": True, "n": False, "1": True, "0": False}
_UNITS = (
    "km kilometer kilometers kilometre kilometres", "m meter meters metre metres", "cm centimeter centimeters",
    "mm millimeter millimeters", "mi mile miles", "ft foot feet", "in inch inches", "kg kilogram kilograms",
    "g gram grams", "lb lbs pound pounds", "s sec secs second seconds", "min mins minute minutes",
    "h hr hrs hour hours", "d day days", "week weeks", "month months", "year years", "ms millisecond milliseconds",
    "kmh kph", "mph", "celsius °c", "fahrenheit °f", "% percent percentage", "° degree degrees",
    "px pixel pixels", "usd $ dollar dollars", "eur € euro euros", "gbp £", "jpy ¥ yen", "kb", "mb", "gb",
 "cent cents", "pence penny", "aud", "cad", "chf", "cny", "dkk", "hkd", "inr", "mxn", "nok", "nzd", "pln", "sek",
    "sgd",
    "liter liters litre litres", "gallon gallons",
)  # fmt: skip
_UNIT_OF = {spelling: group.split()[0] for group in _UNITS for spelling in group.split()}
_UNIT_WORD = re.compile(r"[^\W\d_]+|[%°$€£¥]")

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
            "sep sept september", "oct october", "nov november", "dec december",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_YMD = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?"
)
_DIGITS = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)")
_XXY = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})")
_DMY_WORDS = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})")
_MDY_WORDS = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})")
_SHAPES = {
    "YYYY-MM-DD": "%Y-%m-%d", "YYYY/MM/DD": "%Y/%m/%d", "DD/MM/YYYY": "%d/%m/%Y", "MM/DD/YYYY": "%m/%d/%Y",
    "DD-MM-YYYY": "%d-%m-%Y", "MM-DD-YYYY": "%m-%d-%Y", "DD.MM.YYYY": "%d.%m.%Y", "YYYYMMDD": "%Y%m%d",
}  # fmt: skip
_SHAPE = re.compile(r"(?<![A-Z])(?:YYYY[-/]?MM[-/]?DD|DD[-/.]MM[-/.]YYYY|MM[-/]DD[-/]YYYY)(?![A-Z-/])")


def number_of(place: Place, value: Any) -> Any:
    """The number that a text is, as Python writes it: not ``"1.000"``; the whole number of a float."""
    types = place.types
    if isinstance(value, str) and len(value) <= MAX_SHORT and "string" not in types and _NUMBER.fullmatch(value):
        number = int(value) if value.lstrip("-").isdigit() else float(value)
        fits = types & ({"integer", "number"} if isinstance(number, int) else {"number"})
        return number if fits and str(number) == value else MISSING
    if isinstance(value, float) and types == {"integer"} and value.is_integer():
        return int(value)
    return MISSING


def duration_in_unit(place: Place, name: str, value: Any) -> Any:
    """A duration, which a program's ``timedelta`` became, as a number in the unit that the argument's text names."""
    if not isinstance(value, str) or len(value) > MAX_SHORT or not place.types & {"integer", "number"}:
        return MISSING
    if "string" in place.types or (length := _DURATION.fullmatch(value)) is None:
        return MISSING
    return _in_unit(length, place, name, named=True)


def as_type(place: Place, value: Any) -> Any:
    """The number or truth value that a text writes, the whole number of a float, the text of a number."""
    types = place.types
    if isinstance(value, str) and "string" not in types:
        text = value.strip()
        if types & {"integer", "number"} and _NUMBER.fullmatch(text):
            if text.lstrip("-").isdigit():
                return int(text)  # of any size: a float would change the last digits of a long identifier
            return _as_number(text, place)
        if "boolean" in types and text.lower() in ("true", "false"):
            return text.lower() == "true"
    if isinstance(value, float) and types == {"integer"} and value.is_integer():
        return int(value)
    if types - {"null"} == {"string"} and isinstance(value, int | float) and not isinstance(value, bool):
        return MISSING if takes_bytes(place.schema) else str(value)
    return MISSING


def in_format(place: Place, name: str, value: Any) -> Any:
    """A number or truth value in words, a number with a unit, a date in the format that is wanted, a JSON text.

    Args:
        name: of the argument; it may name the unit.
    """
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return MISSING
    types, text = place.types, value.strip()
    if types & {"array", "object"} and "string" not in types:
        return _json(text)
    if len(text) > MAX_SHORT:
        return MISSING
    if "string" in types:
        return in_date_form(place, text)
    if types & {"integer", "number"}:
        return _number(place, name, text)
    return _TRUTH.get(text.lower(), MISSING) if "boolean" in types else MISSING


def _number(place: Place, name: str, text: str) -> Any:
    if (word := text.lower()) in _WORDS:
        return _WORDS[word]
    if (length := _DURATION.fullmatch(text)) is not None:
        return _in_unit(length, place, name)
    if _GROUPED.fullmatch(text):
        return _as_number(text.replace(",", ""), place)
    found = _MEASURED.fullmatch(text)
    if found is None:
        return MISSING
    before, digits, after = found.groups()
    if before and after:
        return MISSING
    unit = (before or after or "").lower()
    if unit and not _is_of_unit(unit, place, name):
        return MISSING
    if re.match(r"[+-]?0\d", digits):
        return MISSING  # `007` is no number
    return _as_number(digits, place)


def _in_unit(length: re.Match[str], place: Place, name: str, *, named: bool = False) -> Any:
    """In the unit that the argument's text names, else in seconds; ``named``: the unit must be named."""
    unit = next((u for u in _SECONDS if _is_of_unit(u, place, name, named=named)), None)
    if unit is None:
        return MISSING
    parts = zip(length.groups()[1:], (_SECONDS[u] for u in ("week", "d", "h", "min", "s")), strict=True)
    number = sum((Decimal(digits or 0) * size for digits, size in parts), Decimal(0)) / _SECONDS[unit]
    whole = number == number.to_integral_value()
    if not whole and ("number" not in place.types or Decimal(repr(float(number))) != number):
        return MISSING
    sign = -1 if length[1] else 1
    return sign * (int(number) if whole else float(number))


def _is_of_unit(unit: str, place: Place, name: str, *, named: bool = False) -> bool:
    """``named``: the text must name it. One in an example (``0.05 for 5%``) is not named, nor is one in a text that
    denies something."""
    ours = _UNIT_OF.get(unit)
    texts = [str(part.schema.get(key, ""))[:2_000] for part in place.parts() for key in ("title", "description")]
    if named:
        texts = [_EXAMPLE.sub(" ", text) for text in texts]
        texts = [text for text in texts if _DENIALS.isdisjoint(_unit_words(text))]
    words = {word for text in (name, *texts) for word in _unit_words(text)}
    if ours is None:
        return len(unit) > 1 and unit in words
    found = {_UNIT_OF[word] for word in words if word in _UNIT_OF and word not in _ALSO_WORDS}
    return found == {ours} or not (named or found)


def _unit_words(text: str) -> list[str]:
    return _UNIT_WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


_EXAMPLE = re.compile(r"\d ?(?:[^\W\d_]+|[%°$€£¥])")
_DENIALS = frozenset({"not", "no", "nor", "never", "t", "cannot", "without", "except", "instead", "rather", "than"})
_ALSO_WORDS = frozenset(
    {"in", "m", "g", "s", "h", "d", "min", "second", "pound", "mi", "foot", "day", "month", "year", "week"}
)
"""Units that are other words besides."""


def _as_number(digits: str, place: Place) -> Any:
    number = float(digits)
    if number.is_integer() and abs(number) < 2**53:
        return int(number)
    return number if "number" in place.types else MISSING


def holds_whole_float(value: Any) -> bool:
    """Whether a value is, or has in it, a float without a fraction."""
    if not isinstance(value, dict | list | tuple):
        return isinstance(value, float) and value.is_integer()
    if not is_small(value):
        text = json_text(value)
        if text is not None and not may_hold_whole_float(text):
            return False
    return any(map(holds_whole_float, value.values() if isinstance(value, dict) else value))


def _json(text: str) -> Any:
    if text[:1] not in ("[", "{"):
        return MISSING
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_exact, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return MISSING


def _exact(text: str) -> float:
    number = float(text)
    if len(text) > MAX_SHORT or not isfinite(number) or Decimal(text) != Decimal(repr(number)):
        raise ValueError("a number that would be rounded")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key that stands twice")
    return made


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def date_form(place: Place) -> str:
    """The format of dates that a schema names, ``date`` or ``date-time`` or as :func:`strftime` has it; else empty."""
    for part in place.parts():
        if (named := part.schema.get("format")) in ("date", "date-time"):
            return str(named)
        shapes = set(_SHAPE.findall(str(part.schema.get("description", ""))[:2_000].upper()))
        if len(shapes) == 1:
            return _SHAPES.get(shapes.pop(), "")
    return ""


def in_date_form(place: Place, text: str) -> Any:
    """A date in the format that the schema names, where it is written in another; :data:`MISSING` where it is not."""
    form = date_form(place)
    if not form or len(text) > MAX_SHORT:
        return MISSING
    found = _date_of(text)
    if found is None or (form.startswith("%") and _fits(text, form)):
        return MISSING
    day, time = found
    if form == "date-time":
        return MISSING if time is not None else f"{day:%Y-%m-%d}T00:00:00Z"
    if time is not None and form != "date":
        return MISSING  # a description may show the day alone, and take a time behind it
    made = day.strftime("%Y-%m-%d" if form == "date" else form)
    return made if made != text else MISSING


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _date_of(text: str) -> tuple[date, str | None] | None:
    """The day that a text names, where it can be no other, and its time."""
    made: Callable[[int, int, int], date | None] = _day
    if found := _YMD.fullmatch(text):
        year, month, day = int(found[1]), int(found[3]), int(found[4])
        return _with(made(year, month, day), found[5])
    if found := _DIGITS.fullmatch(text):
        return _with(made(int(found[1]), int(found[2]), int(found[3])), None)
    if found := _DMY_WORDS.fullmatch(text):
        return _with(made(int(found[3]), _MONTHS.get(found[2].lower(), 0), int(found[1])), None)
    if found := _MDY_WORDS.fullmatch(text):
        return _with(made(int(found[3]), _MONTHS.get(found[1].lower(), 0), int(found[2])), None)
    if found := _XXY.fullmatch(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        if first > 12 or first == second:
            return _with(made(year, second, first), None)
        if second > 12:
            return _with(made(year, first, second), None)
    return None


def _with(day: date | None, time: str | None) -> tuple[date, str | None] | None:
    return None if day is None else (day, time)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
