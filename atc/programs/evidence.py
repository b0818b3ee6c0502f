"""What a tool really answered, at one place of its response, in a few words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from atc.programs.values import ITEM, MEMBER

MISSING = object()
MAX_BRANCHES = 200


def places(value: Any, path: Sequence[str | int], *, exact: bool = False) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The concrete places that a path means in a recorded response, with what stands there.

    In an abstract path 0 and 1 stand for any item or member; in an ``exact`` one integers are list positions. A path that
    cannot be followed to its end gives its last step with :data:`MISSING`.
    """
    found: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    for step in path:
        found = [place for at, here in found[:MAX_BRANCHES] for place in _step(at, here, step, exact)]
    yield from found[:MAX_BRANCHES]


def _step(at: tuple[str | int, ...], here: Any, step: str | int, exact: bool) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if here is MISSING:
        return
    if not exact and step in (ITEM, MEMBER) and not isinstance(step, str):
        if isinstance(here, list):
            yield from (((*at, i), item) for i, item in enumerate(here))
            if not here:
                yield (*at, 0), MISSING
        elif isinstance(here, dict) and step == MEMBER:
            yield from (((*at, key), item) for key, item in here.items())
        return
    try:
        yield (*at, step), here[step]
    except (KeyError, IndexError, TypeError):
        yield (*at, step), MISSING


def expression(tool: str, path: Sequence[str | int]) -> str:
    """``find_cities(...)['cities'][0]``."""
    return f"{tool}(...)" + "".join(f"[{step!r}]" for step in path)


def describe(value: Any) -> str:
    """One clause: the keys of an object, the length of a list, or the value itself."""
    if value is MISSING:
        return "is not there"
    if isinstance(value, dict):
        keys = ", ".join(map(repr, list(value)[:25]))
        return f"has the keys {keys}{', …' if len(value) > 25 else ''}" if value else "is an empty object"
    if isinstance(value, list):
        return "is an empty list" if not value else f"is a list of {len(value)}: its first item {describe(value[0])}"
    return f"is {short(value, 120)}"


def short(value: Any, limit: int = 300) -> str:
    """A value as Python text, cut to ``limit`` characters."""
    text = repr(value) if not isinstance(value, float) else json.dumps(value)
    return text if len(text) <= limit else text[:limit] + " …"
