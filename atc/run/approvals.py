"""The yes or no to writes that wait for one (``approve="park"``): what waits in a store, and who decides."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atc._records.records import PendingCall
from atc.calls.parked import Decision, ParkedCall
from atc.errors import JournalError, TraceError, UsageError
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import RunStore, StoredRun

UNREADABLE = (TraceError, JournalError, UsageError)
"""What is wrong with one run, and not with its store."""


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits, and the calls that it waits for, as it ended.

    Attributes:
        run_id: its name.
        task: what was wanted.
        pending: the calls about which nobody has decided.
        damage: why its calls cannot be read; empty where they can.
    """

    run_id: str
    task: str
    pending: tuple[PendingCall, ...] = ()
    damage: str = ""


def waiting_runs(store: RunStore, run_ids: Sequence[str]) -> list[WaitingRun]:
    """Return those of these runs that ended as ``waiting``, each with its calls about which nobody has decided.

    One that cannot be read says so (:attr:`WaitingRun.damage`); one that somebody works on just now is left out.

    Raises:
        EnvironmentProblem: the store does not answer.
    """
    found = []
    for run_id in run_ids:
        stored = store.run(run_id)
        if stored.is_held():  # somebody resumes it, or decides about it
            continue
        task, pending, damage = "", tuple[PendingCall, ...](), ""
        try:
            task = str((stored.first("run_started") or {}).get("task", ""))
            pending = undecided(stored)
        except FileNotFoundError:  # it was just deleted
            continue
        except (*UNREADABLE, OSError) as error:
            damage = str(error)
        if pending or damage:
            found.append(WaitingRun(run_id, task, pending, damage))
    return found


def undecided(stored: StoredRun) -> tuple[PendingCall, ...]:
    """Return the calls that a run ended with and about which nobody has decided.

    Raises:
        As :func:`asked_calls`.
    """
    return tuple(call.shown for call in asked_calls(stored) if call.decision is None)


def asked_calls(stored: StoredRun) -> tuple[ParkedCall, ...]:
    """Return the calls that a run ended with as ``waiting``, also those about which somebody has decided since.

    The journal is only looked at: nobody is kept from going on with the run.

    Raises:
        TraceError: its end in the trace is damaged.
        JournalError: its journal cannot be understood.
        UsageError: a newer version of ATC wrote it.
        OSError, EnvironmentProblem: it cannot be read.
    """
    if not (asked := _asked(stored)):
        return ()
    parked = stored.peek_journal().parked
    waiting = {call.number for call in parked.waiting()}
    return tuple(
        call
        for number, call in parked.of_number.items()
        if number in asked and (call.decision is not None or number in waiting)
    )


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
    stored: StoredRun,
    numbers: Sequence[int] | None,
    *,
    yes: bool,
    by: str | None = None,
    seen: Mapping[int, str] | None = None,
) -> tuple[PendingCall, ...]:
    """Say yes or no to calls of a run that wait, and return them. The first decision about a call counts.

    Args:
        stored: the run.
        numbers: of the calls (:attr:`PendingCall.index`); ``None``: all that wait.
        yes: whether they may be made, exactly as they stand there.
        by: who decides; by default the user of this process.
        seen: what was shown of each of them (:attr:`atc.calls.parked.ParkedCall.digest`): nothing else is decided.

    Raises:
        UsageError: none waits, one of them does not wait, was decided before, waited too long, or was not seen.
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
        if seen is not None and (unseen := [call.number for call in wanted if seen.get(call.number) != call.digest]):
            raise UsageError(f"call {unseen[0]} of run {stored.run_id} is not what was shown: look at it again")
        now = time.time()
        if yes and (late := [call.number for call in wanted if call.until < now]):
            raise UsageError(
                f"call {late[0]} of run {stored.run_id} waited too long for a yes: "
                f"`atc resume {stored.run_id}` asks again"
            )
        for call in wanted:
            journal.decide(call.number, Decision(yes, by or user(), now))
        return tuple(call.shown for call in wanted)
    finally:
        journal.close()


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "the user"
