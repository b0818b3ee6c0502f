"""What the host does for one program, against the program's share of it.

Frames that are decoded, the steps of calls in the broker and the replies that are encoded are counted, waiting is not.
Two readings of the wall clock stand around each piece, for one of the processor's costs half a microsecond: pieces are
summed up, and now and then held to the processor time that the thread really took since.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from atc.calls.clock import HostTime, MeasuredSteps

T = TypeVar("T")
WINDOW_S = 0.005
"""Seconds of work that are summed up before the processor time is read."""


class HostShare:
    """The account of one program with the host. For one event loop.

    A busy machine takes the processor away in the middle of a piece: of the pieces of a window no more is counted than
    the thread's own processor time in it.

    Args:
        account: of whom the program belongs to; what is counted here is added to it.
        limit_s: processor seconds that may be added to it, by whomever, from now on.
        used_up: called whenever more was.
    """

    def __init__(self, account: HostTime, limit_s: float, used_up: Callable[[], None]) -> None:
        self._account, self._used_up = account, used_up
        self._before, self._most = account.used_s, account.used_s + limit_s
        self._pieces, self._inside = 0.0, False  # in a piece: what is inside of it is counted with it
        self._processor = time.thread_time()

    def used_s(self) -> float:
        """Processor seconds of the account since the program began."""
        self._settle()
        return self._account.used_s - self._before

    def counting(self, work: Callable[[], object]) -> Callable[[], None]:
        """``work``, which does not wait, counted whenever it is called."""

        def counted() -> None:
            mark = self._begin()
            try:
                work()
            finally:
                self._end(mark)

        return counted

    def steps(self, work: Awaitable[T]) -> Awaitable[T]:
        """``work``, each of whose steps is counted; while it waits, nothing is."""
        return MeasuredSteps(work, self._begin, self._end)

    def _begin(self) -> tuple[float, bool]:
        inside, self._inside = self._inside, True
        return time.perf_counter(), inside

    def _end(self, mark: tuple[float, bool]) -> None:
        began, self._inside = mark
        if not self._inside:
            self.charge(time.perf_counter() - began)

    def charge(self, seconds: float) -> None:
        """Add a piece of work that took so many seconds by the wall clock."""
        self._pieces += seconds
        if self._pieces >= WINDOW_S:
            self._settle()
        if self._account.used_s > self._most:
            self._used_up()

    def _settle(self) -> None:
        now = time.thread_time()
        self._account.used_s += min(self._pieces, now - self._processor)
        self._pieces, self._processor = 0.0, now
