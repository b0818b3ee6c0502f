"""How long runs are kept: a bound on their number, and what is never deleted.

A run in progress is never deleted, nor one with a write in doubt: its journal is all that says what may have happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from atc.errors import EnvironmentProblem, UsageError
from atc.traces.stores.base import RunStore

AT_ONCE = 50
"""Runs that the end of a run deletes at most: nobody waits until thousands are deleted."""


@dataclass
class Pruned:
    """The result of :func:`prune`.

    Attributes:
        deleted: ids of the runs that were deleted.
        spared: old runs that were kept, each with the reason.
    """

    deleted: list[str] = field(default_factory=list)
    spared: dict[str, str] = field(default_factory=dict)


def prune(store: RunStore, keep: int, *, at_most: int | None = None) -> Pruned:
    """Delete all but the newest ``keep`` runs, the oldest first, at most ``at_most`` of them. Never raises."""
    pruned = Pruned()
    try:
        old = store.list()[keep:]
    except (OSError, EnvironmentProblem):
        return pruned  # a store that cannot be read: the run that just ended matters more
    for stored in reversed(old):
        if at_most is not None and len(pruned.deleted) >= at_most:
            break
        try:
            stored.delete()
        except (UsageError, EnvironmentProblem) as error:
            pruned.spared[stored.run_id] = str(error)
        else:
            pruned.deleted.append(stored.run_id)
    store.sweep()
    return pruned
