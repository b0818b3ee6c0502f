"""Mistakes for which no rule helps, as programs make them, and what a service says of each.

A mistake is *right* to repair where its arguments and the refusal say what was meant, and *no repair* is right where
they do not: there, whatever is accepted is another request. None of them looks at how arguments are repaired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc.schemas.identifiers import COORDINATES, NAMES, is_identifier, words_of
from atc.schemas.protocol import JsonSchema
from benchmarks.programs.argument_repair_mistakes import Draw

Arguments = dict[str, Any]

MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten".split()
OTHER_UNITS = {
    "km": "miles", "kilometers": "miles", "kilometres": "miles", "miles": "km", "hours": "minutes",
    "minutes": "hours", "liter": "gallons", "gallon": "liters", "meters": "feet",
}  # fmt: skip
"""A unit that a parameter's text may name, and another that a call may give instead."""
CODES = {
    "USD": "US dollars", "EUR": "euros", "GBP": "British pounds", "JPY": "Japanese yen", "CHF": "Swiss francs",
    "TRY": "Turkish lira", "SEK": "Swedish kronor", "FR": "France", "US": "United States", "DE": "Germany",
    "NL": "Netherlands", "AT": "Austria", "CH": "Switzerland", "JP": "Japan", "IT": "Italy", "PT": "Portugal",
    "fr": "French", "es": "Spanish", "en": "English", "de": "German", "pt": "Portuguese", "JFK": "New York Kennedy",
    "LAX": "Los Angeles", "SFO": "San Francisco", "LYS": "Lyon", "GVA": "Geneva",
}  # fmt: skip
"""Codes, and the words that a call may give instead."""
CHOICES = {
    "attr_book_score": "book score", "lowest_price": "lowest price first", "price": "by price",
    "popularity": "popularity first", "class_descending": "class, descending", "gzip": "gzip compression",
    "lz4": "lz4 compression", "zlib": "zlib compression", "comma": "with comma", "currency": "as currency",
    "percent": "in percent", "economy": "coach", "business": "business class", "first": "first class",
    "fuel": "petrol", "all": "everything", "day": "daily",
    "best": "the best ones", "cheapest": "least expensive", "fastest": "quickest",
}  # fmt: skip
"""Values among which a document lets choose, and other words for them."""
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)")
_PLAIN = re.compile(r"[A-Z][A-Za-z]+(?: [A-Z][A-Za-z]+){0,2}")
_ITEMS = 50


@dataclass(frozen=True)
class Place:
    """The argument that a mistake changes.

    Attributes:
        key, value, schema: of the argument.
        required: whether the call needs it.
        task: the text of the task, in lower case.
        responses: of the calls before, in the same task.
        others: other values that calls of the same tool give this argument.
        draw: chooses.
    """

    key: str
    value: Any
    schema: JsonSchema
    required: bool
    task: str
    responses: Sequence[Any]
    others: Sequence[Any]
    draw: Draw

    @property
    def words(self) -> str:
        return " ".join(words_of(self.key))

    @property
    def is_id(self) -> bool:
        return is_identifier(self.key) and not set(words_of(self.key)) & COORDINATES

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float) and not isinstance(self.value, bool)


@dataclass(frozen=True)
class Mistake:
    """What is given in place of a right value.

    Attributes:
        given: the wrong value; ``None`` leaves the argument out.
        says: what the service answers.
        accepts: whether the service takes a value. It is as strict as its words, and knows no more.
        knowable: whether the arguments and the refusal say what was meant. Where not, no repair is right.
        guess: a wrong value that a model might give; ``None`` where none comes to mind.
    """

    given: Any
    says: str
    accepts: Callable[[Any], bool]
    knowable: bool = True
    guess: Any = None


Maker = Callable[[Place], Mistake | None]


def _text(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _day_in_words(at: Place) -> Mistake | None:
    if not (isinstance(at.value, str) and (day := _DAY.fullmatch(at.value))):
        return None
    year, month, number = map(int, day.groups())
    given = f"{number} {MONTHS[month - 1]} {year}"
    return Mistake(given, f"{at.key}: give the date as YYYY-MM-DD", lambda value: _text(value, _DAY.pattern))


def _day_of_two_readings(at: Place) -> Mistake | None:
    if not (isinstance(at.value, str) and (day := _DAY.fullmatch(at.value))):
        return None
    year, month, number = map(int, day.groups())
    if number > 12 or number == month:
        return None
    given, says = f"{number:02}/{month:02}/{year}", f"{at.key}: invalid format, give the date as YYYY-MM-DD"
    guess = f"{year}-{number:02}-{month:02}"
    return Mistake(given, says, lambda value: _text(value, _DAY.pattern), knowable=False, guess=guess)


def _time_of_half_days(at: Place) -> Mistake | None:
    if not (isinstance(at.value, str) and (time := _TIME.fullmatch(at.value))):
        return None
    hour, minute = map(int, time.groups())
    given = f"{(hour - 1) % 12 + 1}:{minute:02} {'PM' if hour >= 12 else 'AM'}"
    guess = f"{hour - 12:02}:{minute:02}" if hour > 12 else None
    says = f"{at.key} must be HH:MM, 24 hours"
    return Mistake(given, says, lambda value: _text(value, _TIME.pattern), guess=guess)


def _unit(at: Place) -> str:
    named = re.findall(r"[a-z]+", f"{at.words} {str(at.schema.get('description') or '').lower()}")
    return next((word for word in named if word in OTHER_UNITS), "")


def _own_unit(at: Place) -> Mistake | None:
    unit = _unit(at)
    return _of_number(at, f"{at.value} {unit}") if at.is_number and unit else None


def _other_unit(at: Place) -> Mistake | None:
    unit = _unit(at)
    return _of_number(at, f"{at.value} {OTHER_UNITS[unit]}", knowable=False) if at.is_number and unit else None


def _number_in_words(at: Place) -> Mistake | None:
    if not isinstance(at.value, int) or at.is_id or isinstance(at.value, bool) or not 2 <= at.value <= 10:
        return None
    return _of_number(at, NUMBERS[at.value])


def _of_number(at: Place, given: str, *, knowable: bool = True) -> Mistake:
    return Mistake(
        given,
        f"{at.key}: {given!r} is no number",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        knowable,
        None if knowable else at.value,
    )


def _range_of_years(at: Place) -> Mistake | None:
    """RETO's own example (App. A.7): a range, where the tool takes one year."""
    if "year" not in words_of(at.key) or not re.fullmatch(r"\d{4}", str(at.value)):
        return None
    given = f"{at.value}-{int(at.value) + 3}"
    return Mistake(
        given,
        f"Invalid {at.key} format: it should be 4 digits",
        lambda value: re.fullmatch(r"\d{4}", str(value)) is not None,
        knowable=False,
        guess=at.value,
    )


def _code_in_words(at: Place) -> Mistake | None:
    """Nothing but the model's own knowledge says which code is meant, and the refusal names another one."""
    words = CODES.get(at.value) if isinstance(at.value, str) else None
    other = _other(at, lambda value: isinstance(value, str) and len(value) == len(at.value))
    if words is None or other is None:
        return None
    says = f"{at.key}: {words!r} is unknown, give a code such as {other!r}"
    return Mistake(words, says, lambda value: isinstance(value, str) and len(value) == len(at.value), guess=other)


def _choices(at: Place) -> Sequence[Any]:
    if isinstance(listed := at.schema.get("enum"), list):
        return listed
    text = str(at.schema.get("description") or "")
    found = re.search(r"(?:\[Enum\]:|[Oo]ptions are:?)\s*(.{3,200})", text)
    return re.findall(r"[A-Za-z][\w-]*", found[1]) if found else ()


def _other_word(at: Place) -> Mistake | None:
    words, choices = CHOICES.get(at.value) if isinstance(at.value, str) else None, list(_choices(at))
    if words is None or at.value not in choices:
        return None
    guess = next((choice for choice in choices if choice != at.value), None)
    says = f"{at.key} must be one of {', '.join(map(str, choices))}"
    return Mistake(words, says, lambda value: value in choices, guess=guess)


def _name_for_id(at: Place) -> Mistake | None:
    """The name of the thing whose id an earlier call of the program returned."""
    if not at.is_id:
        return None
    named = next((name for response in at.responses for name in _named(response, at.value)), None)
    if named is None:
        return None
    return Mistake(
        named,
        f"{at.key}: {named!r} is no valid {at.words}",
        lambda value: type(value) is type(at.value) and value == at.value,
    )


def _named(response: Any, id: Any) -> Iterator[str]:
    """Names that stand beside an id, in the same object of a response."""
    waiting = [response]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if any(value == id and type(value) is type(id) for value in part.values()):
                yield from (
                    value
                    for key, value in part.items()
                    if isinstance(value, str) and value != id and set(words_of(str(key))[-1:]) & NAMES
                )
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part[:_ITEMS]


def _left_out(at: Place) -> Mistake | None:
    """The task says the value; the call and the refusal do not."""
    text = str(at.value)
    if not at.required or len(text) < 3 or text.casefold() not in at.task:
        return None
    return Mistake(None, f"{at.key} is required", lambda value: value is not None)


def _unknown_id(at: Place) -> Mistake | None:
    """An id that was made up: no other id is right."""
    if not at.is_id or not isinstance(at.value, int | str) or not re.search(r"\d", str(at.value)):
        return None
    other = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), str(at.value))
    given: Any = int(other) if isinstance(at.value, int) else other
    says = f"{at.key}: there is no {at.words} {given!r}"
    return Mistake(given, says, lambda value: value == at.value, knowable=False)


def _example_of_id(at: Place) -> Mistake | None:
    """The refusal shows another thing's id, and the service would take it."""
    other = _other(at, lambda value: isinstance(value, str))
    if not at.is_id or not isinstance(at.value, str) or other is None:
        return None
    given = f"the {at.words}"
    says = f"{at.key}: {given!r} is no {at.words}; it looks like {other!r}"
    return Mistake(given, says, lambda value: isinstance(value, str) and " " not in value, knowable=False, guess=other)


def _suggestion(at: Place) -> Mistake | None:
    """The refusal suggests another thing, and the service would take it."""
    if at.is_id or not (isinstance(at.value, str) and _PLAIN.fullmatch(at.value)) or at.schema.get("enum"):
        return None
    other = _other(at, lambda value: isinstance(value, str) and _PLAIN.fullmatch(value) is not None)
    if other is None:
        return None
    given = at.value[:2] + at.value[2:3] * 2 + at.value[4:]
    if given == at.value:
        return None
    says = f"{at.key}: nothing is named {given!r}. Did you mean {other!r}?"
    return Mistake(given, says, lambda value: value in (at.value, other), guess=other)


def _labelled(at: Place) -> Mistake | None:
    if not (isinstance(at.value, str) and _PLAIN.fullmatch(at.value)) or at.schema.get("enum"):
        return None
    says = f"{at.key}: give the value alone, without a label"
    return Mistake(f"{at.words}: {at.value}", says, lambda value: isinstance(value, str) and ":" not in value)


def _list_in_words(at: Place) -> Mistake | None:
    items = at.value
    if not isinstance(items, list) or not 2 <= len(items) <= 6 or not all(isinstance(item, str) for item in items):
        return None
    given = f"{', '.join(items[:-1])} and {items[-1]}"
    return Mistake(given, f"{at.key} must be a list", lambda value: isinstance(value, list))


def _other(at: Place, fits: Callable[[Any], bool]) -> Any:
    """Another value of the same parameter, that fits; ``None`` where there is none."""
    found = sorted({value for value in at.others if isinstance(value, str) and value != at.value and fits(value)})
    return at.draw.one(f"other/{at.key}", found) if found else None


KINDS: Mapping[str, Maker] = {
    "day in words": _day_in_words,
    "day of two readings": _day_of_two_readings,
    "time of half days": _time_of_half_days,
    "number with its unit": _own_unit,
    "number in another unit": _other_unit,
    "number in words": _number_in_words,
    "range of years": _range_of_years,
    "code in words": _code_in_words,
    "choice in other words": _other_word,
    "name for an id": _name_for_id,
    "left out": _left_out,
    "unknown id": _unknown_id,
    "example of an id": _example_of_id,
    "suggestion": _suggestion,
    "labelled": _labelled,
    "list in words": _list_in_words,
}
