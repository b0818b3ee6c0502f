"""Mistakes in one argument, as programs make them. None of them looks at the rules that repair arguments."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from atc.schemas.protocol import JsonSchema

Rule = Literal["lossless", "of a read", "refuse"]
"""What is right: to restore; to restore it for a read alone; to refuse, for nothing says what was meant."""
UNITS = {
    "km": "miles",
    "kilometers": "miles",
    "miles": "km",
    "meters": "feet",
    "feet": "meters",
    "kg": "lb",
    "pounds": "kg",
    "hours": "minutes",
    "minutes": "hours",
    "seconds": "minutes",
    "days": "weeks",
    "weeks": "days",
    "months": "years",
    "years": "months",
    "USD": "EUR",
    "EUR": "USD",
    "dollars": "euros",
    "percent": "points",
    "pixels": "cm",
    "px": "cm",
    "bytes": "KB",
    "MB": "KB",
}
"""A unit that a parameter's text may name, and another that a call may give instead."""
OTHER_UNITS = ("km", "days", "items", "USD", "kg", "px")
_MONTHS = "January February March April May June July August September October November December".split()
_TRUE, _FALSE = ("yes", "True", "on", "TRUE", "1", "y"), ("no", "False", "off", "FALSE", "0", "n")


class Draw:
    """Choices that hang on nothing but the call."""

    def __init__(self, seed: str) -> None:
        self.seed = seed

    def number(self, salt: str, below: int) -> int:
        digest = hashlib.sha256(f"{salt}\n{self.seed}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % below

    def one(self, salt: str, items: Sequence[Any]) -> Any:
        return items[self.number(salt, len(items))]

    def shuffled(self, salt: str, items: Sequence[str]) -> list[str]:
        return sorted(items, key=lambda item: hashlib.sha256(f"{salt}\n{item}\n{self.seed}".encode()).digest())


@dataclass(frozen=True)
class Place:
    """The argument that a corruption changes."""

    key: str
    value: Any
    schema: JsonSchema
    known: Mapping[str, JsonSchema]
    draw: Draw
    kind: str

    @property
    def wants(self) -> str:
        kind = self.schema.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def scalar(self) -> bool:
        return isinstance(self.value, str | int | float) and self.wants in ("string", "number", "integer", "boolean")

    @property
    def number(self) -> bool:
        return self.wants in ("number", "integer") and isinstance(self.value, int | float)

    @property
    def words(self) -> list[str]:
        """``camelCase`` → camel, case."""
        return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", self.key)

    @property
    def text(self) -> str:
        return f"{self.key} {self.schema.get('description') or ''}"

    @property
    def parted(self) -> bool:
        """Whether the text says that commas part several items."""
        return bool(re.search(r"comma.{0,20}(separat|delimit)|(separat|delimit).{0,20}comma", self.text, re.IGNORECASE))

    def one(self, items: Sequence[Any]) -> Any:
        return self.draw.one(self.kind + self.key, items)

    def edited(self, text: str) -> str:
        """One letter left out, doubled, swapped with its neighbour, or another in its place."""
        at = 1 + self.draw.number("place" + self.key, max(1, len(text) - 2))
        letter = text[at]
        ways = [text[:at] + text[at + 1 :], text[:at] + letter + text[at:]]
        if at + 1 < len(text) and text[at + 1] != letter:
            ways.append(text[:at] + text[at + 1] + letter + text[at + 2 :])
        ways.append(text[:at] + ("x" if letter != "x" else "e") + text[at + 1 :])
        made: str = self.one(ways)
        return made


Changed = tuple[str, Any] | None


def _key_case(at: Place) -> Changed:
    ways = [at.key.upper(), at.key.lower(), at.key[:1].swapcase() + at.key[1:]]
    ways = [way for way in ways if way != at.key]
    return (at.one(ways), at.value) if ways else None


def _key_separators(at: Place) -> Changed:
    if not re.search(r"[-_. ]", at.key.strip("-_. ")):
        return None
    ways = [re.sub(r"[-_. ]+", with_, at.key) for with_ in ("", "_", "-")]
    ways = [way for way in ways if way != at.key]
    return at.one(ways), at.value


def _key_camel_snake(at: Place) -> Changed:
    words = at.words
    if len(words) < 2:
        return None
    snake, camel = "_".join(words).lower(), words[0].lower() + "".join(word.capitalize() for word in words[1:])
    ways = [way for way in (snake, camel) if way != at.key]
    return at.one(ways), at.value


def _key_plural(at: Place) -> Changed:
    if len(at.key) < 3 or not at.key[-1].isalpha():
        return None
    return (at.key[:-1] if at.key.endswith("s") else at.key + "s"), at.value


def _key_edit(at: Place) -> Changed:
    return (at.edited(at.key), at.value) if len(at.key) > 4 else None


def _number_as_text(at: Place) -> Changed:
    return (at.key, str(at.value)) if at.number and not isinstance(at.value, bool) else None


def _text_as_number(at: Place) -> Changed:
    if at.wants != "string" or not isinstance(at.value, str) or not re.fullmatch(r"0|[1-9]\d{0,14}", at.value):
        return None
    return at.key, int(at.value)


def _truth_in_words(at: Place) -> Changed:
    if at.wants != "boolean" or not isinstance(at.value, bool):
        return None
    return at.key, at.one(_TRUE if at.value else _FALSE)


def _truth_as_text(at: Place) -> Changed:
    return (at.key, str(at.value).lower()) if at.wants == "boolean" and isinstance(at.value, bool) else None


def _words_for_number(at: Place) -> Changed:
    return (at.key, at.one(["many", "default", "none", "any"])) if at.number else None


def _list_of_one(at: Place) -> Changed:
    return (at.key, [at.value]) if at.scalar else None


def _list_of_parts(at: Place) -> Changed:
    parts = at.value.split(",") if isinstance(at.value, str) and at.wants == "string" and at.parted else []
    return (at.key, parts) if len(parts) > 1 and all(part == part.strip() != "" for part in parts) else None


def _list_of_two(at: Place) -> Changed:
    """A list where one value is wanted. Of a text of several items it says what is meant."""
    if at.parted:
        return None
    other = f"{at.value}x" if isinstance(at.value, str) else 7 if at.value != 7 else 8
    return (at.key, [at.value, other]) if at.scalar and not isinstance(at.value, bool) else None


def _item_alone(at: Place) -> Changed:
    alone = isinstance(at.value, list) and len(at.value) == 1 and isinstance(at.value[0], str | int | float)
    return (at.key, at.value[0]) if alone else None


def _object_by_name(at: Place) -> Changed:
    if not at.scalar or isinstance(at.value, bool):
        return None
    last = (at.words or [at.key])[-1].lower()
    field = at.one([at.key, last if last.isalpha() else at.key])
    other = {"label": "first of three", "rank": 1, "active": True}
    return at.key, {field: at.value, **{k: v for k, v in other.items() if k != field}}


def _object_of_one(at: Place) -> Changed:
    return (at.key, {at.one(["value", at.key]): at.value}) if at.scalar and not isinstance(at.value, bool) else None


def _object_unclear(at: Place) -> Changed:
    """Two fields of the type, neither of the name: nothing says which."""
    if not at.scalar or isinstance(at.value, bool):
        return None
    other = f"{at.value}x" if isinstance(at.value, str) else 7 if at.value != 7 else 8
    return at.key, {"first": at.value, "second": other}


def _object_of_another(at: Place) -> Changed:
    """An object without what is meant: its only field of the type is something else."""
    if not at.scalar or isinstance(at.value, bool):
        return None
    field, other = at.one([("status", "total"), ("state", "count")])
    if isinstance(at.value, str):
        return (at.key, {field: "ok"}) if field not in at.key.lower() else None
    return (at.key, {other: 7 if at.value != 7 else 8}) if other not in at.key.lower() else None


def _enum_case(at: Place) -> Changed:
    values = at.schema.get("enum")
    if not values or not isinstance(at.value, str):
        return None
    ways = [way for way in (at.value.upper(), at.value.lower(), at.value.capitalize()) if way not in values]
    return (at.key, at.one(ways)) if ways else None


def _enum_letter(at: Place) -> Changed:
    values = at.schema.get("enum")
    if not values or not isinstance(at.value, str) or len(at.value) < 4:
        return None
    made = at.edited(at.value)
    return (at.key, made) if made.lower() not in {value.lower() for value in values} else None


def _enum_other(at: Place) -> Changed:
    values = at.schema.get("enum")
    return (at.key, at.one(["everything", "standard", "unknown"])) if values and isinstance(at.value, str) else None


def _unit_named(at: Place) -> Changed:
    unit = _unit_of(at)
    return (at.key, at.one([f"{at.value} {unit}", f"{at.value}{unit}"])) if unit else None


def _unit_other(at: Place) -> Changed:
    unit = _unit_of(at)
    return (at.key, f"{at.value} {UNITS[unit]}") if unit and UNITS[unit].lower() not in at.text.lower() else None


def _unit_unnamed(at: Place) -> Changed:
    if not at.number or isinstance(at.value, bool) or _unit_of(at):
        return None
    units = [unit for unit in OTHER_UNITS if unit.lower() not in at.text.lower()]
    return (at.key, f"{at.value} {at.one(units)}") if units else None


def _unit_of(at: Place) -> str:
    if not at.number or isinstance(at.value, bool):
        return ""
    words = re.findall(r"[A-Za-z]+", at.text)
    named = [unit for unit in UNITS if unit in words]
    return named[0] if len(named) == 1 else ""


def _date_otherwise(at: Place) -> Changed:
    day = _day(at)
    if day is None:
        return None
    month = _MONTHS[day.month - 1]
    ways = [f"{day:%Y/%m/%d}", f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}", f"{day}T00:00:00Z"]
    return at.key, at.one([*ways, f"{day:%Y%m%d}"])


def _date_unclear(at: Place) -> Changed:
    """``05/06/2023``: day first or month first."""
    day = _day(at)
    return (at.key, f"{day:%d/%m/%Y}") if day is not None and day.day <= 12 and day.day != day.month else None


def _day(at: Place) -> date | None:
    if at.schema.get("format") != "date" or not isinstance(at.value, str):
        return None
    try:
        return date.fromisoformat(at.value) if re.fullmatch(r"\d{4}-\d\d-\d\d", at.value) else None
    except ValueError:
        return None


MISTAKES: tuple[tuple[str, Rule, Callable[[Place], Changed]], ...] = (
    ("key: case", "lossless", _key_case),
    ("key: separators", "lossless", _key_separators),
    ("key: camel or snake", "lossless", _key_camel_snake),
    ("key: plural", "of a read", _key_plural),
    ("key: one edit", "of a read", _key_edit),
    ("type: number as text", "lossless", _number_as_text),
    ("type: text as number", "of a read", _text_as_number),
    ("type: truth as text", "of a read", _truth_as_text),
    ("type: truth in words", "of a read", _truth_in_words),
    ("type: words for a number", "refuse", _words_for_number),
    ("type: an item for its list", "of a read", _item_alone),
    ("nest: list of one", "of a read", _list_of_one),
    ("nest: a list for a text of several", "of a read", _list_of_parts),
    ("nest: list of two", "refuse", _list_of_two),
    ("nest: object of one field", "of a read", _object_of_one),
    ("nest: object, the field by name", "of a read", _object_by_name),
    ("nest: object, two fields alike", "refuse", _object_unclear),
    ("nest: object of something else", "refuse", _object_of_another),
    ("enum: case", "lossless", _enum_case),
    ("enum: one letter", "of a read", _enum_letter),
    ("enum: another word", "refuse", _enum_other),
    ("unit: the one documented", "of a read", _unit_named),
    ("unit: not documented", "of a read", _unit_unnamed),
    ("unit: another than documented", "refuse", _unit_other),
    ("date: written otherwise", "of a read", _date_otherwise),
    ("date: day or month first", "refuse", _date_unclear),
)


Arguments = dict[str, Any]
EXTRAS: tuple[tuple[str, Any], ...] = (
    ("currency", "EUR"),
    ("verbose", True),
    ("timeout", 30),
    ("include_details", True),
    ("output_format", "json"),
    ("max_results", 10),
    ("user_agent", "curl"),
    ("dry_run", False),
    ("notify", "owner@example.org"),
    ("units", "metric"),
)
"""Arguments that a program may think a tool has."""


@dataclass(frozen=True)
class Corrupted:
    """A call after a corruption.

    Attributes:
        meant: the arguments to restore; ``None`` where a refusal is right.
        lossless: whether they are the same request in another spelling or format, all that a write may have repaired.
        enumerated: whether it is to be held to the schema with enumerations.
    """

    kind: str
    arguments: Arguments
    meant: Arguments | None
    lossless: bool
    enumerated: bool = False


Siblings = Sequence[tuple[str, Any]]


def corruptions(
    schema: JsonSchema, arguments: Arguments, enumerated: JsonSchema | None = None, siblings: Siblings = ()
) -> Iterator[Corrupted]:
    """One call's corruptions: of each kind that it has room for, one.

    Args:
        schema: that ``arguments`` fit. ``enumerated``: the same with the values that descriptions list.
        siblings: arguments of other tools of the same service.
    """
    draw = Draw(json.dumps(arguments, sort_keys=True))
    known: Mapping[str, JsonSchema] = schema["properties"]
    lossless: list[tuple[str, str, Any]] = []
    for kind, rule, make in MISTAKES:
        for key in draw.shuffled(kind, [name for name in arguments if name in known]):
            about = known[key] if not kind.startswith("enum") else (enumerated or schema)["properties"][key]
            changed = make(Place(key, arguments[key], about, known, draw, kind))
            if changed is None or changed == (key, arguments[key]):
                continue
            if changed[0] != key and (changed[0] in known or changed[0] in arguments):
                continue
            yield _judged(kind, rule, _with(arguments, {key: changed}), arguments)
            if rule == "lossless" and not kind.startswith(("enum", "date")):  # the schema does not ask for these
                lossless.append((key, *changed))
            break
    pairs = [(one, two) for one in lossless for two in lossless if one[0] < two[0] and one[1] != two[1]]
    if pairs:
        both = {key: (name, value) for key, name, value in draw.one("two", pairs)}
        yield _judged(TWO, "lossless", _with(arguments, both), arguments)
    yield from _whole(schema, arguments, siblings, draw)


def _with(arguments: Arguments, changed: Mapping[str, tuple[str, Any]]) -> Arguments:
    return dict(changed.get(name, (name, value)) for name, value in arguments.items())


def _whole(schema: JsonSchema, arguments: Arguments, siblings: Siblings, draw: Draw) -> Iterator[Corrupted]:
    known = schema["properties"]
    required = [name for name in schema.get("required", ()) if name in arguments]
    left: Arguments = {}
    if required:
        gone = draw.one("drop", required)
        left = {name: value for name, value in arguments.items() if name != gone}
        yield _judged("required one dropped", "refuse", left, arguments)
    plain = {_plain(name) for name in known}
    free = [(k, v) for k, v in EXTRAS if not any(k in name or name in k for name in (*known, *plain))]
    if free:
        key, value = draw.one("extra", free)
        yield _judged("extra: a plausible one", "of a read", {**arguments, key: value}, arguments)
    near = [(k, v) for k, v in siblings if _plain(k) not in plain]
    if near:
        key, value = draw.one("sibling", near)
        yield _judged("extra: of a sister tool", "of a read", {**arguments, key: value}, arguments)
        if required:
            yield _judged("a sister tool's for a required one", "refuse", {**left, key: value}, arguments)
    absent = [k for k in known if k not in arguments and k not in schema.get("required", ()) and known[k].get("type")]
    absent = [k for k in absent if "null" not in known[k]["type"]]
    if absent:
        key = draw.one("null", absent)
        yield _judged("null for an optional one", "lossless", {**arguments, key: None}, arguments)


def _plain(name: str) -> str:
    """Without case, separators and a plural's end: a sister tool's argument of the same name is no other one."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).rstrip("s")


def _judged(kind: str, rule: Rule, made: Arguments, meant: Arguments) -> Corrupted:
    return Corrupted(kind, made, None if rule == "refuse" else meant, rule == "lossless", kind.startswith("enum"))


TWO = "two mistakes, each lossless"
KINDS = (
    *(kind for kind, _, _ in MISTAKES),
    TWO,
    "required one dropped",
    "a sister tool's for a required one",
    "extra: a plausible one",
    "extra: of a sister tool",
    "null for an optional one",
)
