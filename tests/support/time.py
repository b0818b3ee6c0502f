"""How long something may take, on a machine that is busy with other things."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def little_work(seconds: float = 10.0) -> Iterator[None]:
    """The block must take less processor time of this process; what other programs take meanwhile does not count."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    assert took < seconds, f"it took {took:.1f} s of processor time"
