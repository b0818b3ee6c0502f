"""The yes or no to writes that wait for one (``approve="park"``): what waits in a store, and who decides."""

from __future__ import annotations

import getpass
import time
from collections.abc import Sequence
from dataclasses import dataclass

from atc._records.records import PendingCall
from atc.calls.parked import Decision
from atc.errors import RunInUse, UsageError
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import RunStore, StoredRun


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits, and the calls that it waits for, as it ended."""

    run_id: str
    task: str
    pending: tuple[PendingCall, ...]


def waiting_runs(store: RunStore, run_ids: Sequence[str]) -> list[WaitingRun]:
    """Return those of these runs that ended as ``waiting``, each with its calls about which nobody has decided.

    Raises:
        EnvironmentProblem, TraceError, JournalError: the store does not answer, or a trace or journal cannot be read.
    """
    found = []
    for run_id in run_ids:
        stored = store.run(run_id)
        try:
            pending = () if stored.is_held() else undecided(stored)
        except RunInUse:  # somebody resumes it, or decides about it, since it was looked at
            continue
        if pending:
            found.append(WaitingRun(run_id, str((stored.first("run_started") or {}).get("task", "")), pending))
    return found


def undecided(stored: StoredRun) -> tuple[PendingCall, ...]:
    """Return the calls that a run ended with and about which nobody has decided.

    Raises:
        TraceError: its end in the trace is damaged.
        JournalError: its journal cannot be read, or another process works on the run.
    """
    if not (asked := _asked(stored)):
        return ()
    journal = stored.open_journal()
    try:
        return tuple(call.shown for call in journal.parked.waiting() if call.number in asked)
    finally:
        journal.close()


def _asked(stored: StoredRun) -> set[int]:
    """Return the numbers of the calls that a run ended with; an earlier program may have asked about others."""
    ended = stored.last("run_ended") or {}
    if ended.get("status") != "waiting" or not stored.has_journal:
        return set()
    try:
        return {call.index for call in map(PendingCall.model_validate, ended.get("pending", ()))}
    except FAILS as error:
        raise damaged(stored.where, 0, error) from None


def decide(
    stored: StoredRun, numbers: Sequence[int] | None, *, yes: bool, by: str | None = None
) -> tuple[PendingCall, ...]:
    """Say yes or no to calls of a run that wait, and return them. The first decision about a call counts.

    Args:
        stored: the run.
        numbers: of the calls (:attr:`PendingCall.index`); ``None``: all that wait.
        yes: whether they may be made, exactly as they stand there.
        by: who decides; by default the user of this process.

    Raises:
        UsageError: none waits, one of them does not wait, was decided before, or waited too long.
        TraceError: the run's end in the trace is damaged.
        JournalError: the decision cannot be written down, or another process works on the run.
    """
    nothing = f"run {stored.run_id} has no call that waits for a yes (`atc approvals` lists them)"
    if not (asked := _asked(stored)):
        raise UsageError(nothing)
    journal = stored.open_journal()
    try:
        waiting = [call.number for call in journal.parked.waiting() if call.number in asked]
        if not waiting and numbers is None:
            raise UsageError(nothing)
        wanted = [journal.parked.undecided(number) for number in (waiting if numbers is None else numbers)]
        if gone := [
            call.number for call in wanted if call.number not in asked
        ]:  # of an earlier program: nobody is shown it
            raise UsageError(f"call {gone[0]} does not wait for a yes")
        now = time.time()
        if yes and (late := [call.number for call in wanted if call.until < now]):
            raise UsageError(
                f"call {late[0]} of run {stored.run_id} waited too long for a yes: "
                f"`atc resume {stored.run_id}` asks again"
            )
        for call in wanted:
            journal.decide(call.number, Decision(yes, by or _user(), now))
        return tuple(call.shown for call in wanted)
    finally:
        journal.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "the user"
