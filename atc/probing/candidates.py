"""Values for arguments before a model is asked: what the schema says, what the service said, what was seen, and what
the world has agreed on for a name (ISO codes, dates, coordinates). Structure first: it is free, and it does not tire.

A value that was seen may serve as an argument by its name, by the thing that it belongs to, and by what it looks like
(ATC §4.2: the private arguments of other tools). The program that fetches it again comes from where it was seen.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from atc.calls.json_values import canonical
from atc.catalogue.graph.resources import OWN, REFERS, UNTOLD, Field, Fields, Wanted, fit, wanted
from atc.probing.links import Links
from atc.schemas.identifiers import GENERIC, VERBS, affinity, is_identifier, is_plural, owner_of, split, words_of
from atc.schemas.infer.text import MASKED
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.telltales import names_act

MAX_VALUES = 20_000
MAX_OF_A_TOOL = 400
"""Values kept of one tool: a big answer leaves room for the others."""
MAX_OF_A_FIELD = 8
"""Values kept of one field of one call."""
MAX_DEPTH = 8
MAX_ITEMS = 5
"""Items of a list that are looked at."""
MAX_TEXT = 200
MAX_KEYS = 200
"""Keys of an object that are looked at."""
REFERENCE, UNLIKELY = 0.8, 0.5
"""How likely a value serves at most that only refers to a thing, and one of another thing."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
Scalar = str | int | float | bool
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Seen:
    """One value of a response.

    Attributes:
        value: a text or a number.
        tool: that answered with it.
        arguments: of that call.
        path: to the value, from the response down.
        found: the field that it is of, and whose that is.
    """

    value: Scalar
    tool: str
    arguments: tuple[tuple[str, Any], ...]
    path: Path
    found: Field | None = field(default=None, compare=False)

    @property
    def field(self) -> str:
        """The name that it goes by; of an item of a plain list, and of a key that is data, that of what is listed."""
        if self.found is not None:
            return self.found.name
        return next((step for step in reversed(self.path) if isinstance(step, str)), "")

    @cached_property
    def owner(self) -> frozenset[str]:
        """Words for the thing that it belongs to: the names above it, and the tool that returned it."""
        return owner_of([step for step in self.path if isinstance(step, str)][:-1], self.tool)


class ValuePool:
    """What was seen so far."""

    def __init__(self) -> None:
        self._by_field: dict[str, list[Seen]] = {}
        self._by_value: dict[str, list[Seen]] = {}
        self._by_place: dict[tuple[str, tuple[str, ...]], list[Seen]] = {}
        self._count = 0
        self._of_tool: dict[str, int] = {}
        self._links = Links()

    def add(self, tool: str, arguments: dict[str, Any], response: Any) -> None:
        """Keep the texts and numbers of a response."""
        call = tuple(sorted(arguments.items(), key=lambda item: item[0]))
        leaves = [*_leaves(response, (), ())]
        fields = Fields(tool, "", [*dict.fromkeys(named for _, named, _ in leaves if _has_name(named))], {})
        field_at = lru_cache(maxsize=None)(fields.at)
        for path, named, value in leaves:
            self._links.add(tool, value)
            seen = Seen(value, tool, call, path, field_at(named if _has_name(named) else ()))
            if self._of_tool.get(tool, 0) >= MAX_OF_A_TOOL or self._count >= MAX_VALUES:
                return
            if seen.field and value != MASKED:
                kept = self._by_field.setdefault(seen.field.lower(), [])
                same = [s for s in kept if s.tool == tool and s.arguments == call]
                if len(same) < MAX_OF_A_FIELD and all(s.value != value for s in same):
                    kept.append(seen)
                    self._by_value.setdefault(str(value), []).append(seen)
                    self._by_place.setdefault((tool, named), []).append(seen)
                    self._count += 1
                    self._of_tool[tool] = self._of_tool.get(tool, 0) + 1

    def fitting(self, parameter: str, tool: str, schema: dict[str, Any] | None = None) -> list[tuple[float, Seen]]:
        """Values that may serve as an argument, the likeliest first; what the tool itself answered comes last.

        Args:
            parameter: its name.
            tool: whose argument it is.
            schema: what is known of it; values of another type do not fit.
        """
        found = []
        what = wanted(parameter, tool)
        for name, kept in self._by_field.items():
            for seen in kept:
                score = _sureness(what, tool, name, seen)
                if score > 0 and _type_fits(seen.value, schema or {}):
                    found.append((score - (0.5 if seen.tool == tool else 0.0), seen))
        found.sort(key=lambda pair: (-pair[0], *_distance(tool, pair[1]), str(pair[1].path), str(pair[1].value)))
        return [(score, seen) for score, seen in found if score > 0]

    def linked(self, parameter: str, path: str) -> list[Seen]:
        """What addresses in answers have in the place of an argument of a path, each value once."""
        found = dict(self._links.values(path, parameter))
        return [Seen(value, tool, (), ()) for value, tool in found.items()][:MAX_OF_A_FIELD]

    def find(self, value: Scalar) -> Seen | None:
        """Where a value was seen; of several places, one that identifies a thing."""
        return max(self._by_value.get(str(value), ()), key=lambda seen: is_identifier(seen.field), default=None)

    def at(self, tool: str, path: tuple[str, ...]) -> list[Seen]:
        """Values at one place of the responses of a tool; ``[]`` in the path stands for an item."""
        return list(self._by_place.get((tool, path), ()))

    def words(self, tool: str) -> list[Seen]:
        """Names and titles that were seen, for somebody who searches: those of the tool's own matter first."""
        about = frozenset(words_of(tool)) - VERBS
        kept = [seen for field in ("name", "title") for seen in self._by_field.get(field, ()) if seen.tool != tool]
        return sorted(kept, key=lambda seen: (not about & seen.owner, len(seen.path), str(seen.path)))


def _distance(tool: str, seen: Seen) -> tuple[int, int, str]:
    """How far a value is from a tool: what lies deep in a response is of something else.

    What only its tool names is near where the names of both tools are, and a tag of ``{run: [tag]}`` lies last.
    """
    if seen.found is None or not seen.found.alone:
        return 0, len(seen.path), seen.tool
    return -len({*words_of(tool)} & {*words_of(seen.tool)}), -len(seen.path), seen.tool


def _sureness(what: Wanted, tool: str, name: str, seen: Seen) -> float:
    """How likely a value serves, from 0 to 1: a thing's own id, then what nobody owns, then what refers to a thing."""
    how = fit(what, seen.found) if seen.found is not None else None
    if how is None:
        return LIKELY if _names_it(what, name) else min(affinity(what.name, tool, name, seen.owner), UNLIKELY)
    return {OWN: 1.0, UNTOLD: how.score, REFERS: min(how.score, REFERENCE)}[how.relation]


def _names_it(what: Wanted, name: str) -> bool:
    """Whether a field is what a thing is called, and the argument the thing itself: ``username`` for ``user``."""
    thing = "".join(what.words)
    return len(what.words) == 1 and name != thing and name.startswith(thing) and {*split(name[len(thing) :])} <= GENERIC


def _has_name(named: tuple[str, ...]) -> bool:
    return any(step != "[]" for step in named)


def _leaves(value: Any, path: Path, named: tuple[str, ...]) -> Iterator[tuple[Path, tuple[str, ...], Scalar]]:
    if len(path) > MAX_DEPTH:
        return
    if isinstance(value, dict):
        items = list(value.items())[:MAX_KEYS]
        if keys_are_data(value, named[-1] if named else ""):
            yield from (((*path, key), (*named, "[]"), key) for key, _ in items if 0 < len(key) <= MAX_TEXT)
            for key, item in items:
                yield from _leaves(item, (*path, key), (*named, "[]"))
            return
        for key, item in items:
            yield from _leaves(item, (*path, key), (*named, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:MAX_ITEMS]):
            yield from _leaves(item, (*path, index), (*named, "[]"))
    elif (isinstance(value, str) and 0 < len(value) <= MAX_TEXT) or (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        yield path, named, value


def keys_are_data(value: Mapping[str, Any], name: str) -> bool:
    """Whether the keys of an object look like those of things: then they may serve as arguments.

    A guess that costs a call at most: nothing is documented by it.

    Args:
        value: an object of a response.
        name: its own name; empty at the top, and ``[]`` within a list or another such object.
    """
    items = list(value.items())[:MAX_KEYS]
    if not items or not all(isinstance(item, dict | list) for _, item in items):
        return False
    records = [item for _, item in items if isinstance(item, dict)]
    if all(isinstance(item, dict) and _holds(item, key) for key, item in items):
        return True  # each repeats its key: `{"1.2": {"version": "1.2"}}`
    if name not in ("", "[]"):
        return is_plural(name) and len(records) in (0, len(items))  # `"indexes": {"town": {…}}`
    if name == "[]" and len(records) == len(items):
        return True  # within another such object
    kinds = {frozenset(item) if isinstance(item, dict) else type(item) for _, item in items}
    return len(items) > 1 and len(kinds) == 1  # records of the same fields, or lists alone


def holds_keys(value: Any) -> bool:
    """Whether a response that holds no value says something by its keys: ``{"north": {"loss": {"unit": ""}}}``."""
    return isinstance(value, dict) and keys_are_data(value, "") and any(value.values())


def _holds(item: Mapping[str, Any], key: str) -> bool:
    return any(isinstance(value, str) and value == key for value in item.values())


def _type_fits(value: Scalar, schema: dict[str, Any]) -> bool:
    types = schema.get("type")
    allowed = {types} if isinstance(types, str) else set(types or ())
    if schema.get("format") == "date" and not (isinstance(value, str) and _DATE.fullmatch(value)):
        return False
    if not allowed:
        return True
    if isinstance(value, str):
        return "string" in allowed
    if isinstance(value, int):
        return bool(allowed & {"integer", "number", "string"})
    return bool(allowed & {"number", "string"})


MAX_COMBINATIONS = 40
SURE, LIKELY, WEAK = 1.0, 0.7, 0.2

# by the last words of a name; what standards and custom give, and nothing of any one service
_BY_NAME: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = (
    (("local", "time"), ("2025-06-16T12:00",)), (("datetime",), ("2025-06-16T12:00:00",)),
    (("timestamp",), ("2025-06-16T12:00:00Z",)), (("date",), ("2025-06-16", "2024-12-24")),
    (("day",), ("2025-06-16", 16)), (("start",), ("2025-06-16",)), (("end",), ("2025-06-20",)),
    (("arrival",), ("2025-06-16",)), (("departure",), ("2025-06-20",)), (("year",), (2025, 2024)), (("month",), (6,)),
    (("time",), ("12:00",)), (("country", "code"), ("FR", "DE")), (("country",), ("FR", "France", "DE")),
    (("currency", "code"), ("EUR", "USD")), (("currency",), ("EUR", "USD")), (("language", "code"), ("fr", "en")),
    (("language",), ("en", "fr")), (("lang",), ("en",)), (("locale",), ("en-US",)), (("region",), ("US", "Europe")),
    (("continent",), ("Europe", "EU")), (("timezone",), ("Europe/Paris", "America/New_York")),
    (("tz",), ("Europe/Paris",)), (("iata",), ("CDG", "JFK")), (("icao",), ("LFPG", "KJFK")),
    (("lat",), (48.85,)), (("latitude",), (48.85,)), (("lon",), (2.35,)), (("lng",), (2.35,)),
    (("longitude",), (2.35,)),
    (("email",), ("ada@example.org",)), (("url",), ("https://example.org/",)), (("phone",), ("+14155552671",)),
    (("zip",), ("10001",)), (("postcode",), ("75001",)), (("postal", "code"), ("75001",)), (("ip",), ("192.0.2.1",)),
    (("limit",), (5,)), (("size",), (5,)), (("count",), (5,)), (("per", "page"), (5,)), (("page",), (1,)),
    (("offset",), (0,)), (("skip",), (0,)), (("radius", "km"), (100,)), (("unit",), ("km", "mile")),
    (("value",), (10,)), (("amount",), (10,)), (("quantity",), (2,)), (("day",), (10,)), (("night",), (2,)),
)  # fmt: skip
_COUNTED = frozenset({"day", "night", "hour", "minute", "second", "week", "month", "year"})
_WORDS = frozenset(
    """
    name query q search keyword term text title prefix pattern criteria criterion
    """.split()
)
_BY_FORMAT: dict[str, tuple[Any, ...]] = {
    "date": ("2025-06-16",),
    "date-time": ("2025-06-16T12:00:00Z",),
    "time": ("12:00:00",),
    "email": ("ada@example.org",),
    "uri": ("https://example.org/",),
    "uuid": ("00000000-0000-4000-8000-000000000001",),
    "ipv4": ("192.0.2.1",),
}
_BY_TYPE: dict[str, tuple[Any, ...]] = {
    "integer": (1, 10),
    "number": (1.0, 10.0),
    "boolean": (True,),
    "string": ("a",),
    "array": ([],),
    "object": ({},),
}
_ANYTHING = (1, "a")


@dataclass(frozen=True)
class Candidate:
    """A value for an argument, how sure it is (0 to 1), and where it was seen, if it was."""

    value: Any
    sure: float
    seen: Seen | None = None


Bindings = dict[str, Candidate]


def candidates(parameter: str, schema: Mapping[str, Any], *, tool: str, pool: ValuePool | None) -> list[Candidate]:
    """Values that an argument may take, the likeliest first, none twice, and none that says that something be changed.

    Args:
        parameter: its name.
        schema: what is known of it.
        tool: whose it is.
        pool: values seen at other tools; ``None`` where a tool is probed alone.
    """
    found = [Candidate(value, SURE) for value in _documented_values(schema)]
    if pool is not None:
        found += [Candidate(seen.value, score, seen) for score, seen in pool.fitting(parameter, tool, dict(schema))]
    found += [Candidate(value, LIKELY) for value in _by_name(parameter, schema)]
    types = _types(schema)
    for kind in types:
        found += [Candidate(value, WEAK) for value in _BY_TYPE.get(kind, ())]
    if not types:
        found += [Candidate(value, WEAK / 2) for value in _ANYTHING]  # what the service says to it may tell more
    found.sort(key=lambda candidate: -candidate.sure)  # stable: of equals, what was found first
    unique: dict[str, Candidate] = {}
    for candidate in found:
        if names_act(parameter, candidate.value):
            continue  # `action=delete`: what answers to it is no read
        try:
            unique.setdefault(canonical(candidate.value), candidate)
        except (ValueError, RecursionError):
            continue  # NaN and the like: no JSON value
    return list(unique.values())


def combinations(options: Mapping[str, list[Candidate]]) -> Iterator[Bindings]:
    """Ways to fill all arguments, the likeliest first; each next one changes one argument, then two at once.

    Those that give two arguments the same value come last: a way from a place to itself tells little.
    """
    names = [name for name in options if options[name]]
    if len(names) < len(options):
        return
    ways: dict[str, Bindings] = {}
    for bindings in _ways(names, options):
        ways.setdefault(canonical({name: bindings[name].value for name in names}), bindings)
    ordered = sorted(ways.values(), key=_twice)
    yield from ordered[:MAX_COMBINATIONS]


def in_turn(ways: Iterable[Iterator[Bindings]]) -> Iterator[Bindings]:
    """The first of each, then the second of each, and so on."""
    left = list(ways)
    while left:
        for each in tuple(left):
            if (bindings := next(each, None)) is None:
                left.remove(each)
            else:
                yield bindings


def together(options: Mapping[str, list[Candidate]]) -> Iterator[Bindings]:
    """Ways in which the values of all arguments belong together: the first of each, then the second, and so on."""
    if options and all(options.values()):
        for depth in range(max(map(len, options.values()))):
            yield {name: found[min(depth, len(found) - 1)] for name, found in options.items()}


def _twice(bindings: Bindings) -> int:
    return len(bindings) - len({canonical(candidate.value) for candidate in bindings.values()})


def _ways(names: list[str], options: Mapping[str, list[Candidate]]) -> Iterator[Bindings]:
    first = {name: options[name][0] for name in names}
    if _twice(first):
        distinct = _distinct(names, options)
        yield distinct
        if len(names) == 2:
            yield dict(zip(names, reversed(distinct.values()), strict=True))
    yield first
    for depth in range(1, 8):
        for name in names:
            if depth < len(options[name]):
                yield {**first, name: options[name][depth]}
    for depth in range(1, 4):
        yield {name: options[name][min(depth, len(options[name]) - 1)] for name in names}


def _distinct(names: list[str], options: Mapping[str, list[Candidate]]) -> Bindings:
    chosen: Bindings = {}
    for name in names:
        taken = {canonical(candidate.value) for candidate in chosen.values()}
        chosen[name] = next((c for c in options[name] if canonical(c.value) not in taken), options[name][0])
    return chosen


def is_guess(parameter: str, schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value was only tried because nothing was known of its argument: it means nothing to anybody."""
    guessed = any(value is each or (value == each and type(value) is type(each)) for each in _ANYTHING)
    numbered = value == 1 and words_of(parameter)[-1:] == ("number",)
    return guessed and not numbered and not _types(schema) and not any(_by_name(parameter, schema))


def least_sure(bindings: Bindings) -> float:
    """The certainty of the least certain argument; :data:`SURE` without arguments."""
    return min((candidate.sure for candidate in bindings.values()), default=SURE)


def is_word(parameter: str) -> bool:
    """Whether an argument is free text that only somebody who knows the service's subject can supply."""
    words = words_of(parameter)
    return bool(words) and words[-1] in _WORDS


def _documented_values(schema: Mapping[str, Any]) -> Iterator[Any]:
    if "const" in schema:
        yield schema["const"]
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list):
            yield from listed[:6]
    for key in ("example", "default"):
        if schema.get(key) is not None:
            yield schema[key]


def _by_name(parameter: str, schema: Mapping[str, Any]) -> Iterator[Any]:
    wanted = set(_types(schema))
    yield from _BY_FORMAT.get(str(schema.get("format")), ())
    words = words_of(parameter)
    if parameter.lower().endswith("s") and words[-1:] and words[-1] in _COUNTED:
        yield 10  # `days`, `nights`: how many, not which
        return
    for ending, values in _BY_NAME:
        if tuple(words[-len(ending) :]) == ending:
            yield from (value for value in values if not wanted or _kind(value) & wanted)


def _types(schema: Mapping[str, Any]) -> list[str]:
    types = schema.get("type")
    listed = types if isinstance(types, list) else [types]
    return [kind for kind in listed if isinstance(kind, str)]


def _kind(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int):
        return {"integer", "number"}
    return {"number"} if isinstance(value, float) else {"string"}


def call_of(protocol: Protocol, written: Mapping[str, str]) -> str:
    """A call as a program writes it; ``written`` has the expression of each argument."""
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    by_name = {names.get(name, name): text for name, text in written.items()}
    usable = {name: text for name, text in by_name.items() if name.isidentifier() and not keyword.iskeyword(name)}
    odd = {name: text for name, text in by_name.items() if name not in usable}
    parts = [f"{name}={text}" for name, text in usable.items()]
    if odd:
        parts.append("**{" + ", ".join(f"{name!r}: {text}" for name, text in odd.items()) + "}")
    return f"{protocol.name}({', '.join(parts)})"


def literal_call(protocol: Protocol, arguments: Mapping[str, Any]) -> str:
    """A call with plain values."""
    return call_of(protocol, {name: repr(value) for name, value in arguments.items()})
