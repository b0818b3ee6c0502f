"""Which rules fired: every place where a rule (:mod:`atc.programs.rules`) changes something notes its id here.

Nobody counts unless :func:`counting_rules` is open, as a benchmark opens it around a run. The count follows the run
into its tasks and threads (:mod:`contextvars`), so runs beside each other are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_COUNTS: ContextVar[Counter[str] | None] = ContextVar("fired_rules", default=None)


def fired(rule: str, times: int = 1) -> None:
    """Note that a rule found what it is for: a rewrite, a finding, a line of a note, another next step.

    Args:
        rule: its id.
        times: how often; with 0 nothing is noted.
    """
    counts = _COUNTS.get()
    if counts is not None and times:
        counts[rule] += times


@contextmanager
def counting_rules() -> Iterator[Counter[str]]:
    """Count the rules that fire within the block; one within another counts for itself alone."""
    counts: Counter[str] = Counter()
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)
