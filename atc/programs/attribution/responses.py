"""What a tool really answered, at one place of its response, in a few words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from atc.calls.json_values import holds_nothing, is_empty
from atc.graph.identifiers import THINGS, is_identifier, words_of
from atc.programs.analysis.values import ITEM, MEMBER
from atc.result import Call, Effect

MISSING = object()
MAX_BRANCHES = 200
Place = tuple[tuple[str | int, ...], Any]
"""A path into a response, with what stands there."""

_IDENTITIES = THINGS | {"name", "title"}
"""Last words of the fields that tell one thing from another."""
_TOTALS = frozenset({"total", "count", "found", "matches"})
_DRIFT = "response differs from its schema: "


def places(value: Any, path: Sequence[str | int], *, exact: bool = False) -> Iterator[Place]:
    """The concrete places that a path means in a recorded response, with what stands there.

    In an abstract path 0 and 1 stand for any item or member; in an ``exact`` one integers are list positions. A path
    that cannot be followed ends with the step that is not there, and :data:`MISSING`.
    """
    found: list[Place] = [((), value)]
    for step in path:
        found = [place for at, here in found[:MAX_BRANCHES] for place in _step(at, here, step, exact)]
    yield from found[:MAX_BRANCHES]


def _step(at: tuple[str | int, ...], here: Any, step: str | int, exact: bool) -> Iterator[Place]:
    if here is MISSING:
        yield at, MISSING
    elif not exact and not isinstance(step, str) and isinstance(here, list):
        yield from (((*at, i), item) for i, item in enumerate(here))
        if not here:
            yield (*at, 0), MISSING
    elif not exact and step == MEMBER and isinstance(here, dict):
        yield from (((*at, key), item) for key, item in here.items())
    elif not exact and step == ITEM and isinstance(here, dict):
        yield from (((*at, f"key {key!r}"), key) for key in here)  # a loop over an object sees its keys
    else:
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


def told(call: Call, limit: int = 60) -> str:
    """A call as a program writes it."""
    return f"{call.tool}({', '.join(f'{name}={short(value, limit)}' for name, value in call.arguments.items())})"


def is_nothing(value: Any) -> bool:
    """Null, or empty; not 0 and not False."""
    return value is MISSING or is_empty(value)


def hollow(call: Call) -> bool:
    """Whether a call was answered with nothing: empty, null, or an object whose every list is empty.

    What has an effect has done something, whatever it answers; and an object with an identity of its own, which the
    call did not give, is a thing whose lists happen to be empty. An empty page behind others shows where they end.
    """
    return call.effect is not Effect.WRITE and call.page <= 1 and _holds_nothing(call)


def behind_the_last(call: Call) -> bool:
    """Whether a call read an empty page behind the last one."""
    return call.page > 1 and call.succeeded and _holds_nothing(call)


def _holds_nothing(call: Call) -> bool:
    response = call.value
    identified = isinstance(response, dict) and _identified(response, call.arguments)
    return is_empty(response) or (holds_nothing(response) and not identified)


def _identified(response: dict[str, Any], given: dict[str, Any]) -> bool:
    known = {str(value) for value in given.values()}
    return any(
        is_identifier(name, _IDENTITIES) and value and isinstance(value, str | int) and str(value) not in known
        for name, value in response.items()
    )


def found_nothing(call: Call) -> str:
    """What to do about a call that answered emptily."""
    return f"{told(call)} found nothing, it answered {short(call.value, 150)}: ask with fewer or other arguments"


def partial(call: Call) -> str:
    """What to know of a call that answered with the first part of a longer list: how many there are in all.

    Such a response has one list at its top and beside it a number with a telling name that is larger.
    """
    response = call.value
    lists = [item for item in response.values() if isinstance(item, list)] if isinstance(response, dict) else []
    if len(lists) != 1 or not lists[0] or call.page:
        return ""
    for name, total in response.items():
        counts = isinstance(total, int) and not isinstance(total, bool) and total > len(lists[0])
        if counts and any(word in _TOTALS for word in words_of(name)):
            return f"only {len(lists[0])} of {total}"
    return ""


def drift(call: Call, path: Sequence[str | int]) -> str:
    """What the broker noted of a response that is not what its schema says, at a place or around it; else nothing."""
    wanted = [step for step in path if isinstance(step, str)]
    for note in call.notes:
        where, _, said = note.removeprefix(_DRIFT).partition(": ")
        steps = re.findall(r"\.([^.\[]+)", where)
        around = steps == wanted[: len(steps)] or wanted == steps[: len(wanted)]
        if note.startswith(_DRIFT) and around:
            return f"{where}: {said}"
    return ""
