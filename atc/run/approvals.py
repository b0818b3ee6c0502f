"""The yes or no to writes that wait for one (``approve="park"``): what waits in a store, and who decides."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atc import wording
from atc._host.blocking import wait_for
from atc._host.redaction import Redactor
from atc._records.records import Invocation, PendingCall
from atc.calls.attempt import cut_arguments
from atc.calls.parked import Decision, ParkedCall
from atc.calls.permissions.agent_permissions import permissions_named
from atc.errors import EnvironmentProblem, JournalError, TraceError, UsageError
from atc.result import Effect
from atc.run.request import check_rules
from atc.settings import Settings
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import RunStore, StoredRun

if TYPE_CHECKING:  # who decides without rules loads nothing of them
    from atc.calls.permissions.approvers import ApproverKey
    from atc.calls.permissions.permissions import Permissions

Via = Literal["python", "terminal", "command", "page", "mcp", "url"]
"""Where a decision was made: in Python, at a terminal, by a command without one, on the page, in an MCP client, or by
the answer of an approval address."""


UNREADABLE = (TraceError, JournalError, UsageError)
"""What is wrong with one run, and not with its store."""
ASKED = "asked"
"""The note of a run that says what came of asking at the approval URL (:mod:`atc.run.approval_url`)."""


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits, as it ended.

    Attributes:
        calls: the calls that it ended with, also those about which somebody has decided since.
        done: the calls with effects that it has made already.
        asked: what came of asking at the approval URL, as the run's note has it.
        damage: why its calls cannot be read; empty where they can.
    """

    run_id: str
    task: str
    calls: tuple[ParkedCall, ...] = ()
    done: tuple[Invocation, ...] = ()
    asked: Mapping[str, Any] | None = None
    damage: str = ""

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """Return the calls about which nobody has decided, as they are shown."""
        return tuple(call.shown for call in self.calls if call.decision is None)

    @property
    def decided(self) -> dict[int, ParkedCall]:
        """Return the calls about which somebody has decided, by their numbers."""
        return {call.number: call for call in self.calls if call.decision is not None}


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
        try:
            waiting = waiting_run(stored)
        except FileNotFoundError:  # it was just deleted
            continue
        except (*UNREADABLE, OSError) as error:
            waiting = WaitingRun(run_id, "", damage=str(error))
        if waiting.pending or waiting.damage:
            found.append(waiting)
    return found


def waiting_run(stored: StoredRun) -> WaitingRun:
    """Return a run with the calls that it ended with as ``waiting``, perhaps none.

    The journal is only looked at: nobody is kept from going on with the run.

    Raises:
        TraceError: its end in the trace is damaged.
        JournalError: its journal cannot be understood.
        UsageError: a newer version of ATC wrote it.
        OSError, EnvironmentProblem: it cannot be read.
    """
    task = str((stored.first("run_started") or {}).get("task", ""))
    if not (asked := _asked(stored)):
        return WaitingRun(stored.run_id, task)
    journal = stored.peek_journal()
    waiting = {call.number for call in journal.parked.waiting()}
    calls = (call for number, call in journal.parked.of_number.items() if number in asked)
    done = tuple(
        Invocation(tool=entry.tool, arguments=cut_arguments(entry.arguments))
        for _, entry in sorted(journal.entries.items())
        if entry.effect is not Effect.READ and entry.state == "done"
    )
    known = tuple(call for call in calls if call.decision is not None or call.number in waiting)
    return WaitingRun(stored.run_id, task, known, done, stored.note(ASKED))


def undecided(stored: StoredRun) -> tuple[PendingCall, ...]:
    """Return the calls of :func:`waiting_run`."""
    return waiting_run(stored).pending


def _asked(stored: StoredRun) -> set[int]:
    """Return the numbers of the calls that a run ended with; an earlier program may have asked about others."""
    ended = stored.last("run_ended") or {}
    if ended.get("status") != "waiting" or not stored.has_journal:
        return set()
    try:
        return {call.index for call in map(PendingCall.model_validate, ended.get("pending", ()))}
    except FAILS as error:
        raise damaged(stored.where, 0, error) from None


@dataclass(frozen=True)
class Decider:
    """Makes the decisions of somebody who may decide (:func:`decider_of`).

    Attributes:
        by: who it is.
        via: where the decision is made, for the audit log.
        permissions: by which that is allowed; the audit log is written where there are some.
        signer: the approver's key.
        signatures: by the number of a call, what the approver signed elsewhere, in place of a key.
    """

    by: str
    via: Via
    settings: Settings
    permissions: Permissions | None = None
    signer: ApproverKey | None = None
    signatures: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_approver(self) -> bool:
        """Whether it is an approver, of those that the permissions name."""
        return self.permissions is not None and bool(self.permissions.approvers)

    def decision(self, run: str, call: ParkedCall, *, yes: bool, at: float) -> Decision:
        """Return the decision about a call, signed where approvers are named.

        Raises:
            UsageError: the signature that was given is not the approver's, of this decision.
        """
        if self.permissions is None or not self.permissions.approvers:
            return Decision(yes, self.by, at)
        from atc.calls.permissions.approvers import statement

        text, signature = statement(run, call, yes=yes), self.signatures.get(call.number, "")
        if self.signer is not None:
            signature = self.signer.sign(text)
        decision = Decision(yes, self.by, at, signature)
        if not self.permissions.approvers.have_signed(text, decision):
            raise UsageError(f"call {call.number}: that is not the signature of approver {self.by} for this decision")
        return decision

    def why_decided(self, run: str, call: ParkedCall) -> str:
        """Say who was first to decide about a call; empty where nobody has decided."""
        if (known := call.decision) is None:
            return ""
        counts = not known.signature
        if self.is_approver and self.permissions is not None:
            from atc.calls.permissions.approvers import statement

            counts = self.permissions.approvers.have_signed(statement(run, call, yes=known.yes), known)
        said = wording.decided_before(call.number, yes=known.yes, by=known.by, at=known.at)
        return said if counts else f"{said}: that counts for nothing here, and `atc resume {run}` asks again"

    def note(self, run: str, call: ParkedCall, decision: Decision) -> None:
        """Write a decision into the audit log, before it counts.

        Raises:
            EnvironmentProblem: it cannot be written.
        """
        if self.permissions is None:
            return
        from atc.calls.permissions.audit import AuditLog
        from atc.calls.permissions.facts import Who

        noting = AuditLog(self.settings.audit, Redactor(self.settings.secrets)).note(
            Who(),
            tool=call.key.tool,
            effect=Effect(call.shown.effect),
            arguments=call.shown.arguments,
            verdict="approved" if decision.yes else "denied",
            by="user",
            run=run,
            who=decision.by,
            via=self.via,
            call=call.number,
            flow=call.shown.data_flow,
        )
        try:
            wait_for(noting)
        except OSError as error:
            why = error.strerror or str(error)
            raise EnvironmentProblem(f"the audit log cannot be written ({why}), so nothing is decided") from None


def decider_of(
    *,
    by: str | None = None,
    via: Via = "python",
    key: str | None = None,
    signatures: Mapping[int, str] | None = None,
    permissions: Permissions | None = None,
    settings: Settings | None = None,
) -> Decider:
    """Return who decides, where he may.

    Args:
        by: for the record; by default the user of this process. With a key it is the approver whose key it is.
        via: where the decision is made.
        key: of an approver; by default the one of the settings.
        signatures: by the number of a call, what the approver ``by`` signed elsewhere, in place of a key.
        permissions: name the approvers; by default those of the settings.
        settings: by default those of this process.

    Raises:
        UsageError: the permissions name approvers, and it is none of them; or they name none, and a key was given.
        SettingsError: the permissions cannot be read.
        EnvironmentProblem: what signs is not installed.
    """
    settings = settings or Settings.load()
    permissions = permissions or permissions_named(settings)
    if permissions is None or not permissions.approvers:
        if key is not None or any((signatures or {}).values()):
            raise UsageError("the permissions here name no [approvers], so an approver's key says nothing")
        return Decider(by or user(), via, settings, permissions)
    if signatures and by is not None:
        return Decider(by, via, settings, permissions, signatures=signatures)
    if key is None and settings.approver_key is not None:
        key = settings.approver_key.get_secret_value()
    if key is None:
        raise UsageError(
            f"[approvers] of {permissions.path} say who decides, and nobody else does: it takes the key of one of them "
            "(`atc runs approve RUN --key-file FILE`, ATC_APPROVER_KEY, agent.approve(run_id, key=…))"
        )
    from atc.calls.permissions.approvers import ApproverKey

    signer = ApproverKey(key)
    return Decider(permissions.approvers.of_key(signer), via, settings, permissions, signer)


def decide(
    stored: StoredRun,
    numbers: Sequence[int] | None,
    *,
    yes: bool,
    by: str | None = None,
    decider: Decider | None = None,
    seen: Mapping[int, str] | None = None,
) -> tuple[PendingCall, ...]:
    """Say yes or no to calls of a run that wait, and return them. The first decision about a call counts.

    Args:
        stored: the run.
        numbers: of the calls (:attr:`PendingCall.index`); ``None``: all that wait.
        yes: whether they may be made, exactly as they stand there.
        by: who decides; by default the user of this process.
        decider: in place of ``by``; without one it is ``decider_of(by=by)``.
        seen: what was shown of each of them (:attr:`atc.calls.parked.ParkedCall.digest`): nothing else is decided.

    Raises:
        UsageError: none waits, one of them does not wait, was decided before, waited too long, or was not seen; or the
            permissions name approvers, and this is none of them.
        TraceError: the run's end in the trace is damaged.
        JournalError: the decision cannot be written down, or another process works on the run.
        EnvironmentProblem: the audit log cannot be written.
    """
    decider = decider or decider_of(by=by)
    if decider.permissions is None:
        check_rules(stored)
    nothing = f"run {stored.run_id} has no call that waits for approval (`atc runs approvals` lists them)"
    if not (asked := _asked(stored)):
        raise UsageError(nothing)
    journal = stored.open_journal()
    try:
        waiting = [call.number for call in journal.parked.waiting() if call.number in asked]
        if not waiting and numbers is None:
            raise UsageError(nothing)
        replaced = {call.instead for call in journal.parked.of_number.values()}
        known = [call for n, call in journal.parked.of_number.items() if n in {*(numbers or ())} - replaced]
        if first := next(filter(None, (decider.why_decided(stored.run_id, call) for call in known)), ""):
            raise UsageError(first)
        wanted = [journal.parked.undecided(number) for number in (waiting if numbers is None else numbers)]
        if gone := [
            call.number for call in wanted if call.number not in asked
        ]:  # of an earlier program: nobody is shown it
            raise UsageError(f"call {gone[0]} does not wait for approval")
        if seen is not None and (unseen := [call.number for call in wanted if seen.get(call.number) != call.digest]):
            raise UsageError(f"call {unseen[0]} of run {stored.run_id} is not what was shown: look at it again")
        now = time.time()
        if yes and (late := [call.number for call in wanted if call.until < now]):
            raise UsageError(
                f"call {late[0]} of run {stored.run_id} waited too long for approval: "
                f"`atc resume {stored.run_id}` asks again"
            )
        decisions = [decider.decision(stored.run_id, call, yes=yes, at=now) for call in wanted]
        for call, decision in zip(wanted, decisions, strict=True):
            decider.note(stored.run_id, call, decision)
            journal.decide(call.number, decision)
        return tuple(call.shown for call in wanted)
    finally:
        journal.close()


def user() -> str:
    """Return who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "the user"
