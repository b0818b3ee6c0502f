"""When a server that failed may be tried again: at once after the first time, then ever later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

FIRST_S = 1.0
MOST_S = 300.0
"""Seconds before the third try, and at most."""


class Backoff:
    """Exponential, with jitter: many clients of one server do not come back at the same moment.

    Args:
        clock: seconds, never backwards.
        jitter: a factor around 1 for each delay.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.5),
    ) -> None:
        self._clock, self._jitter = clock, jitter
        self.failures = 0
        self._not_before = clock()

    def failed(self) -> None:
        """It failed once more."""
        self.failures += 1
        delay = 0.0 if self.failures == 1 else min(MOST_S, FIRST_S * 2.0 ** min(self.failures - 2, 30)) * self._jitter()
        self._not_before = self._clock() + delay

    def well(self) -> None:
        """It works."""
        self.failures = 0
        self._not_before = self._clock()

    @property
    def wait_s(self) -> float:
        """Seconds until it may be tried again."""
        return max(0.0, self._not_before - self._clock())
