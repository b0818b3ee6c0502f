"""A clock that the host stops while a person or a model is waited for.

A program's wall clock and the time limit of a call measure what the program and its tools take. A question to a person
is neither: while the host waits for its answer, both stand still, and only the run's own budget goes on. Nothing that a
program sends stops the clock; only code of the host does, around a wait of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator


class Clock:
    """The time of one program and its calls. For one event loop at a time.

    It stands still while at least one :meth:`paused` block is open: blocks nest, and calls that wait at the same time
    count once.
    """

    def __init__(self) -> None:
        self._waiting = 0
        self._deadlines: list[Deadline] = []
        self._watchers: list[Callable[[bool], None]] = []

    @property
    def stopped(self) -> bool:
        """Whether the clock stands still now."""
        return self._waiting > 0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock for the block."""
        self._waiting += 1
        if self._waiting == 1:
            self._changed()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._changed()

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[Deadline]:
        """As :func:`asyncio.timeout`, in the time of this clock.

        Raises:
            TimeoutError: the block took longer; its :meth:`Deadline.expired` is true then.
        """
        async with asyncio.timeout(None) as timer:
            deadline = Deadline(timer, seconds)
            self._deadlines.append(deadline)
            if not self.stopped:
                deadline.go_on()
            try:
                yield deadline
            finally:
                self._deadlines.remove(deadline)

    @contextlib.contextmanager
    def watched(self, watcher: Callable[[bool], None]) -> Iterator[None]:
        """Call ``watcher`` with :attr:`stopped` whenever that changes, from within the block. It must not raise."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def _changed(self) -> None:
        for deadline in self._deadlines:
            if self.stopped:
                deadline.stand_still()
            else:
                deadline.go_on()
        for watcher in self._watchers:
            watcher(self.stopped)


class Deadline:
    """The time left of a :meth:`Clock.timeout`. Only its clock stops it and lets it go on."""

    def __init__(self, timer: asyncio.Timeout, seconds: float) -> None:
        self._timer, self._left = timer, seconds

    def expired(self) -> bool:
        """Whether the time is over."""
        return self._timer.expired()

    def stand_still(self) -> None:
        """Stop the countdown; what is left stays."""
        when = self._timer.when()
        if when is not None and not self.expired():
            self._left = max(when - asyncio.get_running_loop().time(), 0.0)
            self._timer.reschedule(None)

    def go_on(self) -> None:
        """Count down what is left."""
        if not self.expired():
            self._timer.reschedule(asyncio.get_running_loop().time() + self._left)
