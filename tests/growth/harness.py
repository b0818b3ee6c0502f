"""What holds work to be linear in its input: its processor time for n, 2n and 4n, and the exponent of its growth."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

LEAST_S = 0.005
"""Processor seconds that the smallest input must take: less is not measured exactly."""
MOST_EXPONENT = 1.3
REPEATS = 3
ROUNDS = 2
"""It fails only if so many repeats agree, each with inputs twice as large as the one before, and a second round, too.
What outgrows the processor's caches takes more than twice the time, and more so beside a neighbor that fills them: work
that is known to be linear (:func:`_linear`) and takes as long is measured at the same moment, and what it grows by
beyond the line is taken off, up to a limit. The square shows beside it at any size and any time."""
MOST_TAKEN_OFF = 0.4
RUNS = 5
"""Of which the best counts."""
ENOUGH_S = 0.1
"""Processor seconds of all runs of one input after which two of them are enough: what takes long is measured well."""
USUAL_S = 0.05
"""Processor seconds of the work of :func:`slowness` on a quiet machine of two cores."""
STALL_S = 0.5
"""Processor seconds for which one piece of work may hold the event loop."""


def assert_linear(
    make: Callable[[int], T], run: Callable[[T], object], *, n: int = 1_000, most: int = 4_000_000
) -> None:
    """``run(make(n))`` must grow like ``n``: slower than ``n ** 1.3``.

    Args:
        make: makes an input of size ``n``; its time is not counted.
        run: the work. It may raise: a refusal takes time, too. It must leave its input as it is.
        n: where to begin; it is doubled until the work takes 5 ms.
        most: the largest size to begin with; four times as much is measured. Work that stays below 5 ms up to there is
            bounded, which passes.
    """
    while (least := _seconds(make(n), run, runs=2)) < LEAST_S:
        if 2 * n > most:
            return
        n *= 2
    found = []
    for size in [min(n << repeat, max(n, most)) for repeat in range(REPEATS)] * ROUNDS:
        times = [_seconds(made, run) for made in (make(size), make(2 * size), make(4 * size))]
        exponent = math.log(times[2] / times[0], 4)
        if exponent < MOST_EXPONENT or exponent < MOST_EXPONENT + min(_linear(times[0]) - 1, MOST_TAKEN_OFF):
            return
        found.append((exponent, times))
    shown = "; ".join(f"{exponent:.2f} ({', '.join(f'{1e3 * t:.1f} ms' for t in times)})" for exponent, times in found)
    pytest.fail(f"from n = {n:,} ({1e3 * least:.1f} ms) on it grows like n to the {shown}")


def _linear(seconds: float) -> float:
    """The exponent that linear work shows on this machine now, from inputs on for which it takes so many seconds."""
    n = 1_000
    while _seconds(_keys(n), _table, runs=2) < seconds and n < 1_000_000:
        n *= 2
    least, most = (_seconds(_keys(size), _table) for size in (n, 4 * n))
    return math.log(most / least, 4)


def _keys(n: int) -> list[str]:
    return [f"key{i}" for i in range(n)]


def _table(keys: list[str]) -> object:
    return {key: [key] for key in keys}


def _seconds(made: T, run: Callable[[T], object], runs: int = RUNS) -> float:
    """The best of some runs, in seconds of this process; garbage is not collected meanwhile."""
    best, spent = math.inf, 0.0
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(1, runs + 1):
            began = time.process_time()
            with contextlib.suppress(Exception):  # a refusal is an end, too
                run(made)
            took = time.process_time() - began
            best, spent = min(best, took), spent + took
            if number > 1 and spent > ENOUGH_S:
                break
    finally:
        if collecting:
            gc.enable()
    return best


def slowness() -> float:
    """How much slower than usual a processor is now, at least 1: what shares its core and caches slows its seconds."""
    began = time.thread_time()
    for _ in range(5):
        sum(number * number for number in range(200_000))
    return max(1.0, (time.thread_time() - began) / USUAL_S)


async def stall_of(work: Awaitable[object]) -> float:
    """The longest time for which the event loop does nothing else while ``work`` goes on.

    In processor seconds of the loop's thread: a busy machine adds nothing, nor do the threads that the work begins.
    """
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.005)
            longest = max(longest, time.thread_time() - began)

    beating = asyncio.ensure_future(beat())
    await asyncio.sleep(0.01)
    longest = 0.0
    try:
        await work
        await asyncio.sleep(0.01)  # what it did last counts, too
    finally:
        beating.cancel()
    return longest


def assert_no_stall(work: Callable[[], Awaitable[object]], most: float = STALL_S) -> None:
    """``work()`` must leave the event loop free for others: it is held for so many processor seconds at most."""
    stall = asyncio.run(_stalled(work))
    assert stall < most or stall < most * slowness(), (
        f"the event loop stood still for {stall:.2f} s of its processor time"
    )


async def _stalled(work: Callable[[], Awaitable[object]]) -> float:
    return await stall_of(work())
