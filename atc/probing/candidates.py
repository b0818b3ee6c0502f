"""Values for arguments before a model is asked: what the schema says, what the service said, what was seen, and what
the world has agreed on for a name (ISO codes, dates, coordinates). Structure first: it is free, and it does not tire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atc.calls.json_values import canonical
from atc.graph.identifiers import words_of
from atc.probing.value_pool import Seen, ValuePool

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


def candidates(
    parameter: str, schema: Mapping[str, Any], *, tool: str, pool: ValuePool | None, allowed: Iterable[Any] = ()
) -> list[Candidate]:
    """Values that an argument may take, the likeliest first, none twice.

    Args:
        parameter: its name.
        schema: what is known of it.
        tool: whose it is.
        pool: values seen at other tools; ``None`` where a tool is probed alone.
        allowed: values that the service itself named in an error message.
    """
    found = [Candidate(value, SURE) for value in allowed]
    found += [Candidate(value, SURE) for value in _documented_values(schema)]
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
    for keyword in ("examples", "enum"):
        listed = schema.get(keyword)
        if isinstance(listed, list):
            yield from listed[:6]
    for keyword in ("example", "default"):
        if schema.get(keyword) is not None:
            yield schema[keyword]


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
