"""How long to wait before a read that failed in passing is tried again."""

from __future__ import annotations

import math
from collections.abc import Callable

import tenacity

from atc.errors import ToolError


def pause(first_s: float) -> Callable[[tenacity.RetryCallState], float]:
    """A wait that doubles from ``first_s`` seconds, with jitter, unless the service names its own."""
    backoff = tenacity.wait_exponential(multiplier=first_s, max=10) + tenacity.wait_random(0, first_s)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, ToolError) else None
        return float(asked) if isinstance(asked, int | float) and 0 <= asked < math.inf else backoff(state)

    return wait
