"""Approval in one run: who is asked about a call that is not a read, and what was denied before."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from atc import wording
from atc.calls.approval import (
    Approval,
    ApprovalRequest,
    Asker,
    EarlierWrite,
    Judgement,
    Refusal,
    Series,
    ask_at_terminal,
)
from atc.calls.bans import Bans
from atc.calls.entry import CallKey, Entry
from atc.calls.own_exceptions import OwnExceptions
from atc.calls.record import CallRecord
from atc.calls.redact import Redactor
from atc.calls.responses import MAX_ERROR
from atc.errors import CallRefused
from atc.facts import SameCall
from atc.packing import pack
from atc.result import Effect, RefusedBy
from atc.tools.tool import Tool
from atc.traces.events import ApprovalAsked, Emit

AFTER_LOOK = "it was written after a `look` at values, and no program before that makes the same call"
"""The warning of a call that such values may have led to. Where nobody can be asked about it, the call is denied."""
_ALLOW_WARNINGS = 'nobody could be asked about it: approve it at a terminal or by a function, or set warnings="allow"'


@dataclass
class Approving:
    """Has the calls of one run approved: one question at a time, each once.

    Args:
        bans: name the tools in whose place a call is made.
        exceptions: describe what went wrong while the user was asked.
        redactor: of the run.
        emit: is told of every question.
        waiting: stops the clock of the program.
        explained: adds to a request what somebody who is asked wants to know.
        same: a call of the run that did, or may have done, what a write asks for.
    """

    bans: Bans
    exceptions: OwnExceptions
    redactor: Redactor
    emit: Emit
    waiting: Callable[[], AbstractContextManager[None]]
    explained: Callable[[CallRecord, ApprovalRequest], Awaitable[ApprovalRequest]]
    same: Callable[[CallRecord, CallKey], SameCall | None]

    def __post_init__(self) -> None:
        self._asking = asyncio.Lock()
        self._denied: dict[CallKey, tuple[Refusal, RefusedBy]] = {}
        self._series = Series()

    def forget(self) -> None:
        """Ask anew about what was denied: the user asks for something new."""
        self._denied.clear()
        self._series = Series()

    async def approve(
        self, approval: Approval, record: CallRecord, tool: Tool, key: CallKey, warnings: tuple[str, ...]
    ) -> None:
        """Ask whether to make a call, once for each call; whatever is not a yes is a no.

        Args:
            approval: the rule.
            record: of the call.
            tool: of the call.
            key: of the call.
            warnings: what the check warned about in its program and the call depends on.

        Raises:
            CallRefused: it is not approved.
        """
        if record.effect is Effect.READ:
            request = self._request(record, tool)
            if approval.policy is not None:
                judgement = approval.policy.judge(request)
                await self._ask(judgement.answer, request, record, key, judgement=judgement)
            elif (asker := approval.of_read()) is not None:
                await self._ask(asker, request, record, key)
            return
        instead_of = tuple(self.bans.instead_of(record.tool))
        earlier = approval.earlier
        known = await earlier.find(key) if earlier is not None else None
        while True:
            try:
                request = self._request(record, tool, warnings, instead_of, known, self.same(record, key))
                await self._decide(approval, request, record, key)
            except CallRefused as refused:
                record.refused_by = record.refused_by or "nobody"
                if refused.status == "warned" and AFTER_LOOK in warnings:
                    raise _not_approved(f"{refused.message}; {_ALLOW_WARNINGS}") from None
                raise
            if earlier is None or (taken := earlier.take(key, known)) is None:
                return
            known = taken  # another run took it while this one was decided over

    def settle(self, approval: Approval, record: CallRecord, key: CallKey, entry: Entry | None) -> None:
        """Tell the caller's other runs what became of an approved call; ``entry`` is its entry in the journal."""
        if approval.earlier is None or record.effect is Effect.READ:
            return
        if entry is None or entry.state == "refused" or (entry.state == "open" and not entry.sent):
            approval.earlier.settle(key, "refused")
        else:
            approval.earlier.settle(key, "done" if entry.state == "done" else "unknown")

    def _request(
        self,
        record: CallRecord,
        tool: Tool,
        warnings: tuple[str, ...] = (),
        instead_of: tuple[str, ...] = (),
        earlier: EarlierWrite | None = None,
        same: SameCall | None = None,
    ) -> ApprovalRequest:
        given = record.tool, record.arguments, record.effect, tool.protocol.description, warnings, instead_of
        repeated = (earlier.run, earlier.in_doubt) if earlier is not None else ("", False)
        return ApprovalRequest(*given, *repeated, same, protocol=tool.protocol)

    def refuse_denied(self, approval: Approval, record: CallRecord, tool: Tool) -> None:
        """Refuse a call that no choice could allow. Nobody is asked.

        Raises:
            CallRefused: a rule denies it.
        """
        if approval.policy is None:
            return
        refusal = approval.policy.judge(self._request(record, tool)).denied
        if refusal is not None:
            record.refused_by = "rule"
            raise _refused(refusal)

    async def _decide(self, approval: Approval, request: ApprovalRequest, record: CallRecord, key: CallKey) -> None:
        warnings, instead_of = request.warnings, request.instead_of
        if approval.policy is not None:  # it writes down what it decides, also where nobody is asked
            judgement = approval.policy.judge(request)
            announced = judgement.ruled is None
            await self._ask(judgement.answer, request, record, key, announced=announced, judgement=judgement)
            return
        verdict = approval.decide(request)
        if verdict == "allowed":
            return
        if verdict == "denied" and request.is_repeat:
            did = wording.repeat(request.repeats, request.in_doubt, request.same_as)
            raise _not_approved(f"{did} before, and nobody could be asked about that")
        if verdict == "denied" and instead_of:
            raise _not_approved(f"it takes the place of {', '.join(instead_of)}, and nobody could be asked about that")
        if verdict == "denied":
            raise _not_approved("calls with effects are not approved in this run")
        if verdict == "warned":
            unresolved = "; ".join(warnings)[:MAX_ERROR]
            raise CallRefused(f"it depends on what the check warned about: {unresolved}", status="warned")
        await self._ask(verdict, request, record, key)

    async def _ask(
        self,
        asker: Asker,
        request: ApprovalRequest,
        record: CallRecord,
        key: CallKey,
        *,
        announced: bool = True,
        judgement: Judgement | None = None,
    ) -> None:
        async with self._asking:
            if (known := self._denied.get(key)) is not None:
                before, record.refused_by = known
                raise _refused(before)
            request = replace(request, same_as=self.same(record, key))  # one that was under way may have begun
            if asker is ask_at_terminal:
                if (ruled := self._series.ruled(request)) is True:
                    record.notes.append("allowed by your yes to all calls of this tool")
                    return
                if ruled is not None:
                    record.refused_by = "user"
                    raise _refused(ruled)
                asker = self._series.ask
            try:
                with self.waiting():
                    if announced and request.effect is not Effect.READ:
                        request = await self.explained(record, request)
                        self._emit_asked(record, request)
                    answer = asker(request)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except Exception as error:
                what = self.exceptions.describe(error, record.arguments)
                record.notes.append(f"asking for approval failed: {what}")
                raise _not_approved("the user could not be asked to approve this call") from error
            if answer is not True:
                said = answer if isinstance(answer, Refusal) else None
                record.refused_by = "nobody"
                if judgement is not None and judgement.denied is not None:
                    record.refused_by = "rule"
                elif announced and (said is None or said.by_user):
                    record.refused_by = "user"
                self._denied[key] = said or Refusal("the user did not approve this call before"), record.refused_by
                raise _refused(said or Refusal("the user did not approve this call"))

    def _emit_asked(self, record: CallRecord, request: ApprovalRequest) -> None:
        asked: ApprovalAsked = {
            **record.started(pack(self.redactor.value(record.arguments))),
            "warnings": list(request.warnings),
            "instead_of": list(request.instead_of),
            "feeds": [feed.model_dump(mode="json") for feed in request.feeds],
            "wait_s": request.wait_s,
        }
        self.emit("approval_asked", self.redactor.value(asked))


def _not_approved(message: str) -> CallRefused:
    return CallRefused(message, status="denied", cause="denied")


def _refused(refusal: Refusal) -> CallRefused:
    if refusal.status == "warned":
        return CallRefused(refusal.reason, status="warned")
    return _not_approved(refusal.reason)
