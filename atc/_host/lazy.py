"""Attributes that are found when they are first asked for, by whichever thread asks.

Python 3.11's :func:`functools.cached_property` has one lock for the attribute of all objects: while one thread reads
the 30,000 tools of one graph, the event loop would wait for that before it reads two tools of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


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
