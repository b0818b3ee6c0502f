"""The time of a run: what the host spends, and a clock that it stops while a person or a model is waited for.

A program's wall clock and the time limit of a call measure what the program and its tools take. A question to a person
is neither: while the host waits for its answer, both stand still, and only the run's own budget goes on. Nothing that a
program sends stops the clock; only code of the host does, around a wait of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

# ----------------------------------------------------------------------------------------------------------------------
# Processor time that the host spends on somebody's behalf: a run's, a tenant's.
#
# Each piece of such work is linear in what a stranger sent, and what a stranger sends is bounded; what is counted here
# bounds the sum of the pieces.


T = TypeVar("T")
M = TypeVar("M")


class HostTime:
    """An account of processor seconds. For one thread at a time.

    Attributes:
        used_s: seconds so far.
    """

    def __init__(self) -> None:
        self.used_s = 0.0

    def steps(self, work: Awaitable[T]) -> Awaitable[T]:
        """Return ``work``, each of whose steps is counted; while it waits, nothing is."""
        return MeasuredSteps(work, time.thread_time, self._add)

    def _add(self, began: float) -> None:
        self.used_s += time.thread_time() - began


class MeasuredSteps(Generic[T, M]):
    """An awaitable, each of whose steps is measured; while it waits, nothing is.

    Args:
        work: what is awaited.
        begin: called before each step.
        end: called after it with what ``begin`` returned, also where the step raises.
    """

    def __init__(self, work: Awaitable[T], begin: Callable[[], M], end: Callable[[M], None]) -> None:
        self._work, self._begin, self._end = work, begin, end

    def __await__(self) -> Generator[Any, Any, T]:
        steps, begin, end = self._work.__await__(), self._begin, self._end
        error: BaseException | None = None
        while True:
            mark = begin()
            try:
                waits_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                end(mark)
            try:
                yield waits_for
                error = None
            except BaseException as thrown:  # it is cancelled: that is the work's to see
                error = thrown


# ----------------------------------------------------------------------------------------------------------------------
# A clock that the host stops while a person or a model is waited for.


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
        """Return whether the clock stands still now."""
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

    def timeout(self, seconds: float) -> Deadline:
        """Bound an ``async with`` block as :func:`asyncio.timeout` does, in the time of this clock.

        Raises:
            TimeoutError: the block took longer; its :meth:`Deadline.expired` is true then.
        """
        return Deadline(self._deadlines, seconds, stopped=self.stopped)

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
    """The time left of a :meth:`Clock.timeout`, while its block goes on. Only its clock stops it and lets it go on."""

    def __init__(self, running: list[Deadline], seconds: float, *, stopped: bool) -> None:
        self._running, self._left = running, seconds
        self._timer = asyncio.timeout(None if stopped else seconds)

    async def __aenter__(self) -> Deadline:
        await self._timer.__aenter__()
        self._running.append(self)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self._running.remove(self)
        await self._timer.__aexit__(*raised)  # it raises TimeoutError, where that is what happened

    def expired(self) -> bool:
        """Return whether the time is over."""
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
