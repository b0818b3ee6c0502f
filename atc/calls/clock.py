"""The time of a run: what the host spends, and a clock that it stops while a person or a model is waited for.

A program's wall clock and the time limit of a call measure what the program and its tools take. A question to a person
is neither: while the host waits for its answer, both stand still, and only the run's own budget goes on. Nothing that a
program sends stops the clock; only code of the host does, around a wait of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

# ----------------------------------------------------------------------------------------------------------------------
# Processor time that the host spends on somebody's behalf: a run's, a tenant's.
#
# Each piece of such work is linear in what a stranger sent, and what a stranger sends is bounded; what is counted here
# bounds the sum of the pieces.


T = TypeVar("T")


class HostTime:
    """An account of processor seconds. For one thread at a time.

    Attributes:
        used_s: seconds so far.
    """

    def __init__(self) -> None:
        self.used_s = 0.0

    def steps(self, work: Awaitable[T]) -> Steps[T]:
        """Return ``work``, each of whose steps is counted; while it waits, nothing is."""
        return Steps(work, self._measured)

    def _measured(self, work: Callable[..., Any], *given: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*given)
        finally:
            self.used_s += time.thread_time() - began


class Steps(Generic[T]):
    """An awaitable whose steps, between which it waits, are made one by one; the first ones before it is awaited.

    Args:
        work: what is awaited.
        make: makes a step, which is a callable with its arguments.

    Attributes:
        make: the same for the steps to come.
        over: whether there is no further step.
        value: what ``work`` returned, once it is over.
        waits_for: what it waits for before the next step.
    """

    value: T

    def __init__(self, work: Awaitable[T], make: Callable[..., Any] = operator.call) -> None:
        self._steps, self.make = work.__await__(), make
        self.begun = self.over = False
        self.waits_for: Any = None

    def step(self, error: BaseException | None = None) -> bool:
        """Make a step, and return whether it was the last. ``error`` is raised where the work waits.

        Raises:
            BaseException: what the work raised.
        """
        self.begun = True
        try:
            if error is None:
                self.waits_for = self.make(self._steps.send, None)
            else:
                self.waits_for = self.make(self._steps.throw, error)
        except StopIteration as stop:
            self.over, self.value = True, stop.value
        return self.over

    def __await__(self) -> Generator[Any, Any, T]:
        if not self.begun:
            self.step()
        while not self.over:
            error: BaseException | None = None
            try:
                yield self.waits_for
            except BaseException as thrown:  # it is cancelled: that is the work's to see
                error = thrown
            self.step(error)
        return self.value


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

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """Return what ``work`` returns, within a :meth:`timeout`. Where it waits for nothing, there is no timer.

        Raises:
            TimeoutError: it took longer.
        """
        steps = Steps(work)
        if not steps.step():
            async with self.timeout(seconds):
                await steps
        return steps.value

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
