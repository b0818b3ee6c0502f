"""A resource that the tools of one import share: one for each running event loop, closed by its last user."""

from __future__ import annotations

import abc
import asyncio
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


@dataclass
class _Held(Generic[T]):
    resource: T
    users: int = 0


class HeldPerLoop(abc.ABC, Generic[T]):
    """An asynchronous context manager that may be entered many times, also at once and in several event loops."""

    def __init__(self) -> None:
        self._held: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[T]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    @abc.abstractmethod
    def _make(self) -> T:
        """Make the resource of one event loop, when the first user enters there."""

    @abc.abstractmethod
    async def _close(self, resource: T) -> None:
        """Close the resource of one event loop, when its last user has left."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        with self._lock:
            held = self._held.get(loop)
            if held is None:
                held = self._held[loop] = _Held(self._make())
            held.users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            held = self._held[loop]
            held.users -= 1
            if held.users:
                return
            del self._held[loop]
        await self._close(held.resource)

    def _users(self) -> int:
        with self._lock:
            held = self._held.get(asyncio.get_running_loop())
        return held.users if held is not None else 0

    def _current(self) -> T | None:
        with self._lock:
            held = self._held.get(asyncio.get_running_loop())
        return held.resource if held is not None else None
