"""What is found when it is first asked for, by whichever thread asks: attributes, and what was worked out of an object.

Python 3.11's :func:`functools.cached_property` has one lock for the attribute of all objects: while one thread reads
the 30,000 tools of one graph, the event loop would wait for that before it reads two tools of another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")


class lazy(Generic[T]):
    """Works as :func:`functools.cached_property`, without a lock: two threads that ask at once both find it."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._find(instance)
        return found


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
