"""How long runs are kept: bounds on their number and their age, and what is never deleted.

A run in progress is never deleted, nor one with a write in doubt: its journal is all that says what may have happened.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from atc.errors import EnvironmentProblem, UsageError
from atc.traces.stores.base import RunInDoubt, RunStore, StoredRun

AT_ONCE = 50
"""Runs that the end of a run deletes at most: nobody waits until thousands are deleted."""


@dataclass
class Pruned:
    """The result of :func:`prune`.

    Attributes:
        deleted: ids of the runs that were deleted.
        spared: old runs that were kept, each with the reason. ``in_doubt``: of these, those with a write in doubt.
    """

    deleted: list[str] = field(default_factory=list)
    spared: dict[str, str] = field(default_factory=dict)
    in_doubt: dict[str, str] = field(default_factory=dict)


def prune(store: RunStore, keep: int | None, *, days: float | None = None, at_most: int | None = None) -> Pruned:
    """Delete old runs, the oldest first. Never raises.

    Args:
        store: where they are.
        keep: how many of the newest stay; ``None``: all.
        days: what began earlier than so many days ago goes too, by the time in its name.
        at_most: so many are deleted now.
    """
    try:
        runs = store.list()
    except (OSError, EnvironmentProblem):
        return Pruned()  # a store that cannot be read: the run that just ended matters more
    before = "" if days is None else time.strftime("%Y%m%d-%H%M%S", time.localtime(time.time() - days * 86_400))
    old = [run for place, run in enumerate(runs) if (keep is not None and place >= keep) or run.run_id < before]
    pruned = delete(reversed(old), at_most=at_most)
    store.sweep()
    return pruned


def delete(runs: Iterable[StoredRun], *, at_most: int | None = None, in_doubt: bool = False) -> Pruned:
    """Delete runs, at most so many. Never raises.

    Args:
        runs: in this order.
        at_most: so many are deleted now.
        in_doubt: also those with a write in doubt.
    """
    pruned = Pruned()
    for stored in runs:
        if at_most is not None and len(pruned.deleted) >= at_most:
            break
        try:
            stored.delete(in_doubt=in_doubt)
        except (UsageError, EnvironmentProblem) as error:
            pruned.spared[stored.run_id] = str(error)
            if isinstance(error, RunInDoubt):
                pruned.in_doubt[stored.run_id] = str(error)
        else:
            pruned.deleted.append(stored.run_id)
    return pruned
