"""Parks the writes of one run, and finds what was decided about those that were parked before.

From the first parked call of a program on, no write is sent, also none that a rule allows: what follows may rest on it.
Further writes are collected, so that a loop is one form. A read that is made meanwhile does not see what a parked call
would change, so the next write may rest on what is not so: it ends the collecting, and every later call is refused.
So does a write for which the form has no room.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from atc import wording
from atc._host.redaction import Redactor
from atc._records.origins import is_within
from atc._records.packing import as_text
from atc._records.records import ChangedRead, PendingCall
from atc.calls.approval import ApprovalRequest
from atc.calls.attempt import Attempt, masked_flow
from atc.calls.contract import CallReply
from atc.calls.entry import CallKey
from atc.calls.journal import Journal
from atc.calls.json_values import canonical, copied
from atc.calls.parked import WAITS_S, Decision, ParkedCall, changed_parts, parts_of
from atc.errors import CallRefused
from atc.tools.tool import Tool

MAX_FORM = 4_000_000
"""Characters of JSON that the arguments of one form take; a first call may take more. A run that waits is kept for
days, and whoever wrote its program says how large it is."""
Elsewhere = Callable[[CallKey, Tool], Awaitable[str]]
_ENDED = "the run waits for approval to an earlier call: nothing is called until then"


@dataclass
class Parking:
    """The parked calls of one run.

    Args:
        journal: of the run.
        redactor: of the run.
        explained: adds to a request what helps a person to answer it.
        elsewhere: returns the first other run in which an equal call waits, by its key and its tool.
    """

    journal: Journal
    redactor: Redactor
    explained: Callable[[Attempt, ApprovalRequest], Awaitable[ApprovalRequest]]
    elsewhere: Elsewhere | None = None

    def __post_init__(self) -> None:
        self.has_begun = False
        """Whether the run has parked a call."""
        self._has_read = self._has_ended = False
        self._size = 0

    def begin_program(self) -> None:
        """Let the next program ask for the parked calls again. Where one of this run waits, nothing begins anew: a
        strategy that goes on all the same sends no write, and what it asked for before waits beside the rest."""
        if not self.has_begun:
            self.journal.parked.begin_program()

    def note_read(self) -> None:
        """Note that a read is made."""
        self._has_read = self.has_begun

    def refuse_ended(self) -> None:
        """Refuse a call after the collecting has ended.

        Raises:
            CallRefused: it has.
        """
        if self._has_ended:
            raise CallRefused(_ENDED, status="waiting")

    def decision(self, known: ParkedCall | None, request: ApprovalRequest, attempt: Attempt) -> Decision | None:
        """Return the decision that holds for a call.

        Args:
            known: the parked call that equals it, if there is one.
            request: about the call. A yes is none to what it did not show: a warning, a repeat, another tool's place,
                an origin of an argument.
            attempt: the call.
        """
        if known is None or known.decision is None or not known.decision.holds:
            return None
        if not known.decision.yes:
            return known.decision
        again = request.is_repeat and not _was_settled(request)
        is_odd = again or request.instead_of or not {*_told(request)} <= {*known.shown.warnings}
        if known.decision.signature and not self._was_shown(known, attempt):
            return None
        if not is_within(masked_flow(request.data_flow, self.redactor), known.shown.data_flow):
            return None
        if is_odd or self._changed_since(known) or not self._is_good(known, attempt):
            return None
        return known.decision

    async def park(
        self, attempt: Attempt, request: ApprovalRequest, known: ParkedCall | None, *, denied_by: str = ""
    ) -> CallReply:
        """Let a call wait for approval, on disk before this returns.

        Args:
            attempt: the call.
            request: about it.
            known: a parked call that equals it: it goes on waiting, or keeps its yes, if that still holds.
            denied_by: who said no to it while the run went on: that is written down with it, and nothing waits.

        Raises:
            CallRefused: a read came between, or the form is full, so the collecting ends.
            JournalError: it cannot be written down.
        """
        if not denied_by:
            self._take_room(attempt)
        if known is None or not self._goes_on(known, request, attempt):
            request = await self.explained(attempt, request)
            same_as = await self.elsewhere(attempt.key, attempt.granted) if self.elsewhere is not None else ""
            now = time.time()
            shown = PendingCall(
                index=attempt.number,
                tool=self.redactor.text(attempt.tool),
                effect=attempt.effect.value,
                line=attempt.request.shown_line,
                within=attempt.request.within,
                arguments=copied(self.redactor.value(attempt.arguments)),
                feeds=request.feeds,
                warnings=tuple(map(self.redactor.text, _told(request))),
                changed=tuple(self.journal.reads_again.changes if known is None else self._changed_since(known)),
                data_flow=masked_flow(request.data_flow, self.redactor),
                same_as=same_as,
                until=now + WAITS_S,
            )
            self.journal.park(
                ParkedCall(
                    number=attempt.number,
                    key=attempt.key,
                    parts=parts_of(attempt.granted, self.journal.run_key),
                    at=now,
                    until=shown.until,
                    shown=shown,
                    instead=0 if known is None else known.number,
                    request=self.journal.request,
                )
            )
        if (row := self.journal.parked.of_number.get(attempt.number, known)) is not None and denied_by:
            self.journal.decide(row.number, Decision(False, denied_by, time.time()))
            return CallReply()
        attempt.status = "pending"
        return CallReply(planned=True)

    def _take_room(self, attempt: Attempt) -> None:
        self._size += len(as_text(attempt.arguments))
        if self._has_read or (self.has_begun and self._size > MAX_FORM):
            self._has_ended = True
            raise CallRefused(_ENDED, status="waiting")
        self.has_begun = True

    def _goes_on(self, known: ParkedCall, request: ApprovalRequest, attempt: Attempt) -> bool:
        if known.decision is not None:
            return self.decision(known, request, attempt) is not None
        is_shown = is_within(masked_flow(request.data_flow, self.redactor), known.shown.data_flow)
        return is_shown and self._is_good(known, attempt) and not self._changed_since(known)

    def _changed_since(self, known: ParkedCall) -> Sequence[ChangedRead]:
        return self.journal.reads_again.changed_since(known.round)

    def _was_shown(self, known: ParkedCall, attempt: Attempt) -> bool:
        """Return whether what an approver was shown is this call: a hand in the store could show another one."""
        shown = known.shown
        sent = canonical(self.redactor.value(attempt.arguments))
        return shown.tool == self.redactor.text(known.key.tool) and canonical(shown.arguments) == sent

    def _is_good(self, known: ParkedCall, attempt: Attempt) -> bool:
        return time.time() <= known.until and not self.changed(known, attempt)

    def changed(self, known: ParkedCall, attempt: Attempt) -> tuple[str, ...]:
        """Return which parts of the tool of a parked call are not what they were."""
        return changed_parts(known.parts, parts_of(attempt.granted, self.journal.run_key))


def _was_settled(request: ApprovalRequest) -> bool:
    return request.same_as is not None and request.same_as.settled and not request.repeats


def _told(request: ApprovalRequest) -> tuple[str, ...]:
    sent = request.same_as if _was_settled(request) else None
    return request.warnings if sent is None else (*request.warnings, wording.settled_as_not_done(sent))
