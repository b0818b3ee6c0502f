"""How long runs are kept: a bound on their number, and what is never deleted.

A run in progress is never deleted, nor one with a write in doubt: its journal is all that says what may have happened.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field

from atc.calls.journal import Journal
from atc.errors import EnvironmentProblem, JournalError, UsageError
from atc.traces.store import TRASH, RunStore, StoredRun

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


def delete(stored: StoredRun) -> None:
    """Delete a run: its trace, its journal and whatever else is in its folder.

    Raises:
        UsageError: the run is in progress, in doubt, a link, or its journal cannot be read.
        EnvironmentProblem: the folder cannot be deleted.
    """
    if stored.folder.is_symlink():
        raise UsageError(f"run {stored.run_id} is kept: {stored.folder} is a link to another folder")
    try:
        journal = Journal(stored.journal) if stored.journal.exists() else None
    except JournalError as error:
        raise UsageError(f"run {stored.run_id} is kept: {error}") from None
    try:
        doubtful = next((entry for entry in journal.entries.values() if entry.in_doubt), None) if journal else None
        if doubtful is not None:
            what = f"{doubtful.tool} may or may not have happened"
            raise UsageError(f"run {stored.run_id} is kept: {what}; check it by hand, then delete {stored.folder}")
        trash = stored.folder.with_name(TRASH + stored.run_id)
        os.replace(stored.folder, trash)  # gone at once, under the lock: nobody resumes what is half deleted
        shutil.rmtree(trash)
    except OSError as error:
        raise EnvironmentProblem(f"{stored.folder} cannot be deleted: {error.strerror or error}") from None
    finally:
        if journal is not None:
            journal.close()


def prune(store: RunStore, keep: int, *, at_most: int | None = None) -> Pruned:
    """Delete all but the newest ``keep`` runs, the oldest first, at most ``at_most`` of them. Never raises."""
    pruned = Pruned()
    try:
        old = store.list()[keep:]
    except OSError:
        return pruned  # a folder that cannot be read: the run that just ended matters more
    for stored in reversed(old):
        if at_most is not None and len(pruned.deleted) >= at_most:
            break
        try:
            delete(stored)
        except (UsageError, EnvironmentProblem) as error:
            pruned.spared[stored.run_id] = str(error)
        else:
            pruned.deleted.append(stored.run_id)
    for left in store.folder.glob(f"{TRASH}*"):  # of a process that ended in the middle
        shutil.rmtree(left, ignore_errors=True)
    return pruned
