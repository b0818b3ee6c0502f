"""What was worked out of an object, kept for as long as that very object comes again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def kept_by_identity(most: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Keep what a function of one object returns, for objects that nobody changes: schemas, protocols.

    To look at such an object whole, to see whether it was there before, costs as much as the work. The object is held
    as long as its result, so that no other has its identity.

    Args:
        most: results that are kept; the oldest goes first.
    """

    def decorate(work: Callable[[T], R]) -> Callable[[T], R]:
        kept: dict[int, tuple[Any, R]] = {}

        @functools.wraps(work)
        def looked_up(given: T) -> R:
            found = kept.get(id(given))
            if found is not None and found[0] is given:
                return found[1]
            made = work(given)
            while len(kept) >= most:
                kept.pop(next(iter(kept)), None)  # another thread may have been first
            kept[id(given)] = given, made
            return made

        return looked_up

    return decorate
