"""How often a principal calls, over all its connections and runs. It is counted in this process, by a clock that nobody
sets: a restart counts anew."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from atc.errors import UsageError
from atc.permissions.facts import Caps

HOUR_S = 3_600.0


@dataclass
class Limiter:
    """The counts of one principal.

    Args:
        clock: seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _calls: deque[float] = field(default_factory=deque)
    _writes: deque[float] = field(default_factory=deque)
    runs: int = 0

    def take(self, caps: Caps, *, writes: bool) -> str:
        """Count a call that is about to be made; the cap that it would break, which leaves it uncounted.

        Returns:
            Empty, or ``calls_per_hour`` or ``writes_per_hour``.
        """
        now = self.clock()
        for times in (self._calls, self._writes):
            while times and now - times[0] >= HOUR_S:
                times.popleft()
        if caps.calls_per_hour is not None and len(self._calls) >= caps.calls_per_hour:
            return "calls_per_hour"
        if writes and caps.writes_per_hour is not None and len(self._writes) >= caps.writes_per_hour:
            return "writes_per_hour"
        if caps.calls_per_hour is not None:
            self._calls.append(now)
        if writes and caps.writes_per_hour is not None:
            self._writes.append(now)
        return ""

    def give_back(self, caps: Caps, *, writes: bool) -> None:
        """Uncount the call that was taken last: it was not made."""
        if caps.calls_per_hour is not None and self._calls:
            self._calls.pop()
        if writes and caps.writes_per_hour is not None and self._writes:
            self._writes.pop()

    @contextmanager
    def run(self, caps: Caps) -> Iterator[None]:
        """Hold one of the runs that may go on at once.

        Raises:
            UsageError: so many go on already.
        """
        if caps.max_runs_at_once is not None and self.runs >= caps.max_runs_at_once:
            raise UsageError(
                f"{self.runs} of your runs go on already, and {caps.max_runs_at_once} may at once: wait for one to end"
            )
        self.runs += 1
        try:
            yield
        finally:
            self.runs -= 1


class Limiters:
    """The counts of all principals of a process."""

    def __init__(self) -> None:
        self._of: dict[str, Limiter] = {}

    def of(self, principal: str) -> Limiter:
        """Those of one principal."""
        return self._of.setdefault(principal, Limiter())
