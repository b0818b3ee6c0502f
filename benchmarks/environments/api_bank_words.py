"""API-Bank's values: their types, when two of them come to the same, and whether a text says one."""

from __future__ import annotations

import ast
import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

from atc.errors import ToolError
from atc.schemas.protocol import JsonSchema

Row = dict[str, Any]

WORDED = frozenset(
    {"content", "doctor_name", "hotel_name", "keyword", "location", "meeting_topic", "new_appointment_doctor"}
)
"""What a user words freely."""
LANGUAGES = {"english": "en", "french": "fr", "german": "de", "italian": "it", "spanish": "es", "chinese": "zh"}
TODAY = re.compile(r"today is (\d{4})-(\d\d)-(\d\d)")

_FILLERS = frozenset(("a", "an", "at", "for", "in", "my", "of", "on", "the", "to", "with", "dr"))
_MOMENT = re.compile(r"(?:(\d{4})-)?(\d\d)-(\d\d)(?: (\d\d):(\d\d):00)?")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_LONG, _GREAT = 2_000, 10**18
"""No longer text is read as another type, and no greater number as a text."""


def typed(value: Any, schema: JsonSchema) -> Any:
    """A value as its documented type where it can be read as one; the records write all as text."""
    kind = schema["type"]
    if isinstance(value, str) and len(value) < _LONG:
        if kind == "boolean" and value.casefold() in ("true", "false"):
            return value.casefold() == "true"
        if kind in ("integer", "array"):
            try:
                read = ast.literal_eval(value)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                return value
            return read if isinstance(read, int if kind == "integer" else list) else value
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value) if abs(value) < _GREAT else value
    return int(value) if kind == "integer" and isinstance(value, float) and value.is_integer() else value


def fits(value: Any, schema: JsonSchema) -> bool:
    kinds: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}
    kind = schema["type"]
    if kind == "array":
        item = str if schema["items"]["type"] == "string" else dict
        return isinstance(value, list) and all(isinstance(part, item) for part in value)
    return isinstance(value, kinds[kind]) and (kind == "boolean" or not isinstance(value, bool))


def is_moment(text: str, form: str) -> bool:
    try:
        return dt.datetime.strptime(text, form).strftime(form) == text
    except ValueError:
        return False


def plain(text: Any) -> str:
    """A text without what does not count: case, blanks and the punctuation around it."""
    return " ".join(str(text).casefold().split()).strip(" .,;:!?'\"")


def language(name: str) -> str:
    """The code of a language."""
    return LANGUAGES.get(plain(name), plain(name))


def words(text: Any) -> set[str]:
    """The words of a text that tell something, without their endings."""
    found = set(re.findall(r"[a-z0-9]+", str(text).casefold())) - _FILLERS
    return {re.sub(r"(?<=...)(ing|s)$", "", word) for word in found}


def measured(health_data: list[Row]) -> Row:
    """Measurements as the database has them: ``blood_pressure: [120, 80]``."""
    made: Row = {}
    for item in health_data:
        if not isinstance(item, dict) or not {"name", "value"} <= item.keys():
            raise ToolError("health_data must be a list of objects with a name and a value", status=422)
        numbers = [float(number) for number in re.findall(r"\d{1,9}(?:\.\d{1,9})?", str(item["value"]))]
        name = "_".join(str(item["name"]).casefold().split())
        made[name] = numbers if len(numbers) > 1 else numbers[0] if numbers else item["value"]
    return made


def alike(name: str, one: Any, other: Any) -> bool:
    """Tell whether two values of a field or argument come to the same.

    Texts may differ in case, blanks and the punctuation around them. What a user words freely will do if the words of
    one are among those of the other and are at least half of them. A list may be in any order.
    """
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(key, part, other[key]) for key, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        left = list(other)
        for part in one:
            at = next((at for at, item in enumerate(left) if alike(name, part, item)), None)
            if at is None:
                return False
            left.pop(at)
        return not left
    if "password" in name or isinstance(one, bool) or not isinstance(one, str):
        equal: bool = one == other
        return equal
    if name in WORDED:
        short, long = sorted((words(one), words(other)), key=len)
        return short <= long and 2 * len(short) >= len(long) > 0
    return plain(one) == plain(other)


# What a text says ---------------------------------------------------------------------------------------------------


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in an argument that are neither objects nor lists, each with its name."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(key, part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(name, part)
    else:
        yield name, value


def in_text(name: str, value: Any, request: str, today: str) -> bool:
    """Whether a text says a value of an argument, in these words or in others that mean it.

    Args:
        request: the text in lower case.
        today: the date, for a text that does not say it.
    """
    if isinstance(value, bool):
        return True  # to be understood
    if isinstance(value, int):
        return bool(re.search(rf"\b({value}|{_NUMBERS[value] if 0 <= value <= 10 else value})\b", request))
    text = str(value)
    if match := _MOMENT.fullmatch(text):
        year, month, day, hour, minute = match.groups()
        same_date = _date_in_text(year or today[:4], int(month), int(day), request, today)
        return same_date and (hour is None or _time_in_text(int(hour), minute, request))
    if name == "formula":
        return all(number in request for number in re.findall(r"\d+", text))
    if name in WORDED:
        cut_short = re.search(rf"{re.escape(plain(text))}['’]\w", request)  # "Don" of "Don't"
        return not cut_short and 2 * len(words(text) & words(request)) >= max(1, len(words(text)))
    if name == "tgt_lang":
        return any(word in LANGUAGES and language(word) == language(text) for word in re.findall(r"\w+", request))
    if name == "symptom":
        return plain(text) in request  # "coughed" says "cough"
    return any(
        re.search(rf"(?<!\w){re.escape(one)}(?!\w)", request) for one in (plain(text), plain(text).replace("_", " "))
    )


def _date_in_text(year: str, month: int, day: int, request: str, today: str) -> bool:
    if year not in request and year != today[:4]:
        return False
    name = dt.date(2000, month, 1).strftime("%B").lower()
    of_year = rf"\b{name[:3]}({name[3:]})?\.? 0?{day}(st|nd|rd|th)?\b|\b{day}(st|nd|rd|th)? (of )?{name}\b"
    if re.search(rf"{of_year}|\b{year}-{month:02}-{day:02}\b", request):
        return True
    now = dt.date.fromisoformat("-".join(found.groups()) if (found := TODAY.search(request)) else today)
    days = (dt.date(int(year), month, day) - now).days
    return (days == 0 and bool(re.search(r"\btoday\b(?! is)|\btonight\b", request))) or (
        days == 1 and "tomorrow" in request
    )


def _time_in_text(hour: int, minute: str, request: str) -> bool:
    minutes = "(:00)?" if minute == "00" else f":{minute}"
    half = "am" if hour < 12 else "pm"
    if (hour, minute) == (12, "00") and "noon" in request:
        return True
    return bool(re.search(rf"\b{hour % 12 or 12}{minutes} ?{half}\b|\b{hour:02}:{minute}\b", request))
