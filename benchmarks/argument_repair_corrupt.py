"""Corruptions of a call's arguments: small mistakes as programs make them, drawn by hash, with what was meant.

None of them looks at the rules that repair them. Where nothing in the call says what was meant, a refusal is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc.tools.protocol import JsonSchema
from benchmarks.argument_repair_mistakes import MISTAKES, Draw, Place, Rule

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
