"""Write the parts of sentences: exceptions, answers, calls, places and values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from atc._records.packing import shortened
from atc._records.records import Answered, BodyError, Drift, Invocation, Observed, Place, Raised

ALONE = "the program alone"
"""Says that a value stands in the program and nowhere else."""
SHOWN_OF_PART = 80
"""Characters of a part of an argument."""
_SHOWN_OF_EMPTY, _SHOWN_OF_ANSWER, _SHOWN_OF_VALUE = 150, 500, 120


class _Hidden:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "…"


HIDDEN = _Hidden()


def exception(raised: Raised | None) -> str:
    """Write ``IndexError: list index out of range (it has 3 items)``."""
    if raised is None:
        return ""
    items = "" if raised.items is None else f" (it has {raised.items} items)" if raised.items else " (it is empty)"
    return f"{raised.type}: {raised.message}{items}{f' ({raised.hint})' if raised.hint else ''}"


def answer(answered: Answered) -> str:
    """Say what a call was answered; where that is nothing, what to do about it."""
    made = call(answered.invocation)
    if answered.nothing:
        shown = short(answered.value, _SHOWN_OF_EMPTY)
        return f"{made} found nothing, it answered {shown}: ask with fewer or other arguments"
    return f"{made} answered {short(answered.value, _SHOWN_OF_ANSWER)}"


def drift(found: Drift) -> str:
    """Write ``$.cities[0].id: "x" is not of type "integer"``."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.path)
    return f"${steps}: {found.what}"


def drifted(found: Drift) -> str:
    """Write a drift as a note on the call."""
    return f"response differs from its schema: {drift(found)}"


def stated(found: BodyError) -> str:
    """Write the error that a response states in its body, as a note on the call."""
    return f"the response states an error: {found.message}"


def call(made: Invocation, limit: int = 60) -> str:
    """Write a call as a program does, with at most ``limit`` characters of an argument."""
    return f"{made.tool}({', '.join(f'{name}={short(value, limit)}' for name, value in made.arguments.items())})"


def expression(place: Place) -> str:
    """Write ``find_cities(...)['cities'][0]``; ``[…]`` is any item or member."""
    return f"{place.tool}(...){steps(place)}"


def steps(place: Place) -> str:
    """Write ``['cities'][0]``."""
    return "".join("[…]" if step is None else f"[{step!r}]" for step in place.path)


def described(observed: Observed) -> str:
    """Say in one clause the keys of an object, the length of a list, or the value itself."""
    match observed.type:
        case "missing":
            return "is not there"
        case "object":
            return f"has the keys {keys_of(observed)}" if observed.keys else "is an empty object"
        case "list":
            first = f": its first item {described(observed.first)}" if observed.first is not None else ""
            return f"is a list of {observed.length}{first}" if observed.length else "is an empty list"
        case "value":
            return f"is {short(observed.value, _SHOWN_OF_VALUE)}"


def keys_of(observed: Observed) -> str:
    """List the keys of an object, as far as they are known."""
    return f"{listed(observed.keys)}{', …' if observed.length > len(observed.keys) else ''}"


def short(value: Any, limit: int = 300) -> str:
    """Write a value as Python text, cut to ``limit`` characters."""
    text = repr(value) if not isinstance(value, float) else json.dumps(value)
    return shortened(text, limit)


def listed(names: Iterable[str | int]) -> str:
    """List names or keys, as Python writes them."""
    return ", ".join(map(repr, names))
