"""Whether two requests to one tool differ in nothing but spelling: all that the repair of a write may do.

Case and separators of keys, and numbers that stand as text, may differ. Nothing may be added, left out, or asked for
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from atc.schemas.protocol import JsonSchema
from atc.schemas.repair.formats import MISSING, duration_in_unit, number_of
from atc.schemas.repair.places import MAX_DEPTH, Gate, Place, gate_of
from atc.schemas.repair.spelling import spelling_key

MAX_STEPS = 1_000
"""Pairs of values, and of names, that one comparison looks at."""


def same_request(
    schema: JsonSchema,
    given: Mapping[str, Any],
    sent: Mapping[str, Any],
) -> bool:
    """Whether the arguments ``sent`` say what the arguments ``given`` say, in another spelling.

    Args:
        schema: of the parameters.
        given: by the tool's own names, or those that a program gave in their place.
        sent: what would be sent in their place. Where it would take too long to tell, it is another request.
    """
    try:
        gate = gate_of(schema)
        return _same_object(gate.root, dict(given), dict(sent), _Reach(gate, count(1)))
    except (RecursionError, ValueError, TypeError):  # the schema is none, or a key is no text
        return False


@dataclass(frozen=True)
class _Reach:
    """How deep in a request a comparison is, and the steps of all of it: alternatives in one another multiply."""

    gate: Gate
    steps: count[int]
    depth: int = 0

    def below(self) -> _Reach:
        return _Reach(self.gate, self.steps, self.depth + 1)

    def step(self) -> None:
        if self.depth > MAX_DEPTH or next(self.steps) > MAX_STEPS:
            raise RecursionError("too much to compare")


def _same(place: Place, name: str, given: Any, sent: Any, at: _Reach) -> bool:
    if _equal(given, sent):
        return True
    at.step()
    return any(_same_at(option, name, given, sent, at.below()) for option in place.alternatives)


def _same_at(place: Place, name: str, given: Any, sent: Any, at: _Reach) -> bool:
    if isinstance(given, dict) and isinstance(sent, dict):
        return _same_object(place, given, sent, at)
    if isinstance(given, list) and isinstance(sent, list):
        items = place.items
        pairs = zip(given, sent, strict=False)
        return items is not None and len(given) == len(sent) and all(_same(items, name, a, b, at) for a, b in pairs)
    if isinstance(given, str) and isinstance(sent, str):
        return False
    made = number_of(place, given)
    if made is MISSING:
        made = duration_in_unit(place, name, given)
    return made is not MISSING and _equal(made, sent)


def _same_object(place: Place, given: dict[str, Any], sent: dict[str, Any], at: _Reach) -> bool:
    members, others = place.members, place.below("additionalProperties")
    anything = Place(place.root, "", {})
    left = {key: value for key, value in sent.items() if key not in given}
    for key, value in given.items():
        if key in sent:
            if not _same(members.get(key, others or anything), key, value, sent[key], at):
                return False
            continue
        named = [key] if key in members else [name for name in members if _means(key, name, at)]
        if value is None and len(named) == 1 and named[0] not in sent:
            if named[0] not in place.required and not at.gate.accepts(members[named[0]], None):
                continue  # where it is accepted it says something: that a date is cleared
            return False
        if key in members:
            return False
        meant = [name for name in left if name in members and _means(key, name, at)]
        if len(meant) != 1 or not _same(members[meant[0]], meant[0], value, left.pop(meant[0]), at):
            return False
    return not left


def _means(key: str, name: str, at: _Reach) -> bool:
    at.step()
    return spelling_key(key) == spelling_key(name) != ""


def _equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same: 1.0 is 1, and ``True`` is not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a is b or (isinstance(a, bool) == isinstance(b, bool) and bool(a == b))
