"""An event loop whose time is made up: waiting costs nothing, and no machine is too busy for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.DefaultSelector):
    """Never waits: where a loop would, its time leaps to the next thing that is due."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits, and nothing will ever happen")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Only for coroutines that wait for each other and for time, not for threads, processes or connections."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """As :func:`asyncio.run`, in made-up time: it begins at 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    """The time of the running loop."""
    return asyncio.get_running_loop().time()
