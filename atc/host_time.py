"""Processor time that the host spends on somebody's behalf: a run's, a tenant's.

Each piece of such work is linear in what a stranger sent, and what a stranger sends is bounded; what is counted here
bounds the sum of the pieces.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

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
        """``work``, each of whose steps is counted; while it waits, nothing is."""
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
