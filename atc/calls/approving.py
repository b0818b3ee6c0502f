"""Has the calls of one run approved: who is asked about each, what was answered before, and what the question says."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from atc import wording
from atc._host.redaction import Redactor
from atc._records.events import ApprovalAsked, Emit
from atc._records.packing import pack
from atc._records.records import Feed, Invocation, SameCall
from atc.calls import question
from atc.calls.approval import (
    NOBODY,
    Approval,
    ApprovalRequest,
    Asker,
    Judgement,
    Parked,
    Policy,
    Refusal,
    Verdicts,
    ask_at_terminal,
    nobody_knows,
    question_of,
)
from atc.calls.attempt import Attempt, cut_arguments
from atc.calls.broken_tools import BrokenTools
from atc.calls.contract import CallReply
from atc.calls.entry import CallEntry, CallKey
from atc.calls.journal import Journal
from atc.calls.json_values import copied
from atc.calls.own_exceptions import OwnExceptions
from atc.calls.parked import Decision, ParkedCall, digest_of
from atc.calls.parking import Elsewhere, Parking
from atc.calls.responses import MAX_ERROR
from atc.errors import AtcError, CallRefused
from atc.result import Call, Effect, RefusedBy
from atc.wording import plans

if TYPE_CHECKING:
    from atc.calls.applying import Applying
    from atc.calls.argument_origins import ArgumentOrigins
    from atc.schemas.protocol import Protocol

_STOPPED = Refusal("the user said no to this call and to all that need approval", by_user=True)
_NO_WAIT = (
    "it has to wait for approval, and neither the applying of a plan waits nor a conversation that is not kept: give "
    "it a task of its own"
)
_ALL_OF_TOOL, _NO_MORE = "a", "q"
_BY = "the user"


class Series:
    """The questions of one task at the terminal. From the second one on, an answer may hold for those that follow.

    A yes to all calls of a tool holds for none with something of its own to ask about: a warning, a repeat, the place
    of another tool.
    """

    def __init__(self) -> None:
        self._asked = False
        self._allowed: set[str] = set()
        self._stopped = False

    def ruled(self, request: ApprovalRequest) -> Literal[True] | Refusal | None:
        """Return what an earlier answer says of a call; ``None`` where it is asked about."""
        if self._stopped:
            return _STOPPED
        return True if request.is_ordinary and request.place in self._allowed else None

    async def ask(self, request: ApprovalRequest) -> Verdicts:
        """Ask at the terminal, as :func:`ask_at_terminal` does."""
        if not (self._asked and question.has_terminal()):
            self._asked = True
            return await ask_at_terminal(request)
        others = {_ALL_OF_TOOL: plans.yes_to_all(question.visible_name(request.tool))} if request.is_ordinary else {}
        answer = await question.choose(*question_of(request), others | {_NO_MORE: plans.NO_TO_ALL})
        if answer is None:
            return NOBODY
        if answer == _NO_MORE:
            self._stopped = True
            return _STOPPED
        if answer == _ALL_OF_TOOL:
            self._allowed.add(request.place)
        return answer in (question.YES, _ALL_OF_TOOL)


@dataclass
class Approving:
    """Has the calls of one run approved: one question at a time, each once.

    Args:
        journal: of the run.
        broken: names the tools in whose place a call is made.
        exceptions: describe what went wrong while the user was asked.
        redactor: of the run.
        emit: receives an event for every question.
        waiting: stops the clock of the program.
        same: returns a call of the run that did, or may have done, what a write asks for.
        feeds_of: says where the arguments of a call came from; ``None``: that is unknown.
        writes: returns the calls with effects that the task has made already.
        until: returns the event loop's time at which the run's own time is used up; ``None``: never.
        elsewhere: finds an equal call that waits in another run; ``None``: none is looked for.
        applying: has the one yes to the plan that is applied; ``None`` where none is.
        strangers: returns the tools whose text strangers write, of those that the run has called.
        protocol_of: returns the protocol of a tool by its name.
    """

    journal: Journal
    broken: BrokenTools
    exceptions: OwnExceptions
    redactor: Redactor
    emit: Emit
    waiting: Callable[[], AbstractContextManager[None]]
    same: Callable[[Attempt], SameCall | None]
    feeds_of: Callable[[Call], Awaitable[tuple[Feed, ...]]] | None
    writes: Callable[[], Sequence[CallEntry]]
    until: Callable[[], float | None]
    elsewhere: Elsewhere | None = None
    applying: Applying | None = None
    strangers: Callable[[], frozenset[str]] = frozenset
    protocol_of: Callable[[str], Protocol | None] = nobody_knows

    def __post_init__(self) -> None:
        self._asking = asyncio.Lock()
        self._denied: dict[CallKey, tuple[Refusal, RefusedBy]] = {}
        self._series = Series()
        self._shown: dict[int, Invocation] = {}  # what was done already, as questions show it
        self.origins: Callable[[], ArgumentOrigins] | None = None
        """Returns what finds where arguments come from; ``None`` where no program makes calls."""
        self.author_saw_any: Callable[[], bool] = bool
        """Returns whether the author of the program that runs has seen what strangers write."""
        self.parking = Parking(self.journal, self.redactor, self._explained, self.elsewhere)

    def forget(self) -> None:
        """Ask anew about what was denied: the user asks for something new."""
        self._denied.clear()
        self.journal.parked.forget_denied()
        self._series = Series()

    async def find_origins(self, approval: Approval, attempt: Attempt) -> None:
        """Find out where the arguments of a call come from, where a rule needs it, or text of strangers is in the run.

        Args:
            approval: the rule.
            attempt: the call; ``origins``, ``untrusted`` and ``author_saw`` of it are set.
        """
        policy = approval.policy
        if self.origins is None:
            return
        reads = attempt.reads and (policy is None or policy.reads(attempt.granted.protocol))
        strangers = frozenset() if reads else self.strangers()
        of_strangers = not reads and (bool(strangers) or self.author_saw_any())
        if not of_strangers and not (policy is not None and policy.needs_origins):
            return
        await self._follow(attempt)
        if of_strangers:
            attempt.untrusted = await asyncio.to_thread(_untrusted, attempt, strangers, policy)  # they may be many
        else:
            attempt.author_saw = ()

    async def _follow(self, attempt: Attempt) -> None:
        if attempt.origins is None and self.origins is not None:
            found = await self.origins().of(attempt)
            attempt.origins, attempt.author_saw = found.origins, found.author_saw
            attempt.strangers = tuple(sorted({*self.strangers(), *found.author_saw}))

    def let_ask(self, attempt: Attempt) -> None:
        """Let whoever reads a call later ask where its arguments came from."""
        if attempt.origins is None and not attempt.is_cut and (origins := self.origins) is not None:
            asked = attempt.asked()
            attempt.origins_later = lambda: origins().later(asked)

    async def approve(self, approval: Approval, attempt: Attempt) -> CallReply | None:
        """Ask whether to make a call, once for each call; whatever is not a yes is a no.

        Args:
            approval: the rule.
            attempt: the call; ``approved`` of it is set.

        Returns:
            The reply to a call that waits for approval; ``None`` where it is approved.

        Raises:
            CallRefused: it is not approved.
            JournalError: that it waits cannot be written down.
        """
        if attempt.reads:
            await self._approve_read(approval, attempt)
        elif attempt.again is not None:
            await self._approve_again(approval, attempt)
        elif (waits := await self._approve_write(approval, attempt)) is not None:
            return waits
        attempt.approved = True
        return None

    async def _approve_read(self, approval: Approval, attempt: Attempt) -> None:
        if approval.policy is not None:
            request = self._request(attempt)
            judgement = approval.policy.judge(request)
            await self._ask(judgement.answer, request, attempt, judgement=judgement)
        elif (asker := approval.of_read()) is not None:
            await self._ask(asker, self._request(attempt), attempt)

    async def _approve_again(self, approval: Approval, attempt: Attempt) -> None:
        """It is sent again unasked, for its yes was for this call. A rule that denies it now comes first."""
        if approval.policy is not None:
            request = replace(self._request(attempt), decided=True)
            judgement = approval.policy.judge(request)
            attempt.refused_by = "user" if judgement.denied is None else "rule"
            answer = await judgement.answer(request)
            if answer is not True:
                raise _refused(answer if isinstance(answer, Refusal) else Refusal("the user did not approve this call"))
            attempt.refused_by = None
        earlier = approval.earlier
        known = None if earlier is None else await earlier.find(attempt.key) or earlier.take(attempt.key, None)
        if known is not None:
            did = wording.repeat(known.run, known.in_doubt, None)
            raise CallRefused(
                f"the same call was begun before and its outcome is unknown, and {did}; it is not sent again",
                status="in_doubt",
                cause="in_doubt",
            )

    async def _approve_write(self, approval: Approval, attempt: Attempt) -> CallReply | None:
        ordinary = replace(
            self._request(attempt),
            warnings=attempt.warnings,
            instead_of=tuple(self.broken.instead_of(attempt.tool)),
        )
        earlier = approval.earlier
        known = await earlier.find(attempt.key) if earlier is not None else None
        parked = self.journal.parked.ask(attempt.key, self.journal.request) if self.journal.parked else None
        changed = () if parked is None else self.parking.changed(parked, attempt)
        told = (wording.tool_changed(changed),) if changed else ()
        is_void = False
        if parked is None or parked.decision is None or parked.is_denied:
            self._refuse_again(attempt)
        while True:
            request = replace(ordinary, same_as=self.same(attempt))
            if known is not None:
                request = replace(request, repeats=known.run, in_doubt=known.in_doubt, waits=known.waits)
            if self.applying is not None and (parked is None or not parked.is_denied):
                decision = self.applying.decision(request)
            else:
                decision = self.parking.decision(parked, request, attempt)
            if parked is not None and decision is None and not is_void:
                is_void = True
                await self._note(approval, request, attempt, self._what_became_of(parked, attempt))
            waits = self.parking.has_begun or (decision is None and self._waits(approval, request))
            if waits and (decision is None or decision.yes):
                if not approval.can_wait:
                    attempt.refused_by = "nobody"
                    raise _not_approved(_NO_WAIT)
                reply = await self.parking.park(attempt, _telling(request, told), parked)
                if attempt.number in self.journal.parked.of_number:  # now, and not before
                    await self._note(approval, request, attempt, Parked("parked", attempt.number))
                return reply
            try:
                if decision is None:
                    await self._decide(approval, request, attempt, told)
                else:
                    await self._as_decided(approval, request, attempt, decision)
            except CallRefused:
                attempt.refused_by = attempt.refused_by or "nobody"
                if decision is None and attempt.refused_by == "user":
                    await self.parking.park(attempt, request, parked, denied_by=_BY)
                raise
            # also where the yes is given now: it waits no more
            attempt.yes = parked.number if parked is not None else 0
            if earlier is None or (taken := earlier.take(attempt.key, known)) is None:
                return None
            known = taken  # another run took it while this one was decided over

    async def refuse_denied_before(self, approval: Approval, attempt: Attempt) -> None:
        """Refuse a write to which somebody said no before in this run.

        Raises:
            CallRefused: somebody did.
        """
        parked = None if attempt.reads else self.journal.parked.ask_denied(attempt.key, self.journal.request)
        if parked is not None and parked.decision is not None:
            self._refuse_again(attempt)
            await self._as_decided(approval, self._request(attempt), attempt, parked.decision)

    def _refuse_again(self, attempt: Attempt) -> None:
        """Refuse what this process was refused in the same words."""
        refusal, by = self._denied.get(attempt.key, (None, None))
        if refusal is not None and by == "user":
            attempt.refused_by = by
            raise _refused(refusal)

    @staticmethod
    def _waits(approval: Approval, request: ApprovalRequest) -> bool:
        if approval.policy is None:
            return approval.parks
        judgement = approval.policy.judge(request)
        return judgement.waits or (approval.parks and judgement.ruled is None)

    def _what_became_of(self, known: ParkedCall, attempt: Attempt) -> Parked | None:
        """Return what became of a parked call without a decision that holds; ``None`` where it waits as before."""
        is_late = time.time() > known.until
        decision = known.decision
        if decision is None:
            return Parked("expired", known.number) if is_late else None
        if not decision.holds:
            why = "approver"
        elif is_late:
            why = "expired"
        elif self.parking.changed(known, attempt):
            why = "tool"
        else:
            why = "reads" if self.journal.reads_again.changed_since(known.round) else "question"
        return Parked("voided", known.number, decision.by, why)

    async def _note(
        self, approval: Approval, request: ApprovalRequest, attempt: Attempt, parked: Parked | None
    ) -> None:
        """Have it written down what became of a call that waits. It is not made, so it goes on where that fails."""
        if approval.policy is None or parked is None:
            return
        try:
            await approval.policy.judge(request).note(request, parked)
        except (AtcError, OSError) as error:
            attempt.notes.append(f"the audit log cannot be written: {self.redactor.text(str(error))}")

    async def _as_decided(
        self, approval: Approval, request: ApprovalRequest, attempt: Attempt, decision: Decision
    ) -> None:
        """A rule that denies the call comes before what was decided while the run waited."""
        answer: Verdicts = decision.yes or Refusal(wording.denied_by(decision.by), by_user=True)
        attempt.refused_by = "user"
        if approval.policy is not None:
            request = replace(request, decided=answer, decided_by=decision.by)
            judgement = approval.policy.judge(request)
            attempt.refused_by = "rule" if judgement.denied is not None else "user"
            answer = await judgement.answer(request)
        if answer is not True:
            raise _refused(answer if isinstance(answer, Refusal) else Refusal("the user did not approve this call"))
        attempt.refused_by = None
        attempt.notes.append(wording.approved_by(decision.by, decision.at))

    def settle(self, approval: Approval, attempt: Attempt) -> None:
        """Let the caller's other runs know what became of a call, if it was approved."""
        if approval.earlier is None or attempt.reads or not attempt.approved:
            return
        entry = attempt.entry
        unsent = entry is None or entry.state == "refused" or (entry.state == "open" and not entry.sent)
        if unsent and attempt.again is None:
            approval.earlier.settle(attempt.key, "refused")
        else:
            approval.earlier.settle(attempt.key, "done" if entry is not None and entry.state == "done" else "unknown")

    def refuse_denied(self, approval: Approval, attempt: Attempt) -> None:
        """Refuse a call that no choice could allow. Nobody is asked.

        Raises:
            CallRefused: a rule denies it.
        """
        if approval.policy is None:
            return
        refusal = approval.policy.judge(self._request(attempt)).denied
        if refusal is not None:
            attempt.refused_by = "rule"
            raise _refused(refusal)

    async def _decide(
        self, approval: Approval, request: ApprovalRequest, attempt: Attempt, told: tuple[str, ...] = ()
    ) -> None:
        warnings, instead_of = request.warnings, request.instead_of
        if approval.policy is not None:  # it writes down what it decides, also where nobody is asked
            judgement = approval.policy.judge(request)
            announced = judgement.ruled is None
            asked = _telling(request, told)
            await self._ask(judgement.answer, asked, attempt, announced=announced, judgement=judgement)
            return
        verdict = approval.decide(request)
        if verdict == "allowed":
            return
        assert verdict != "parked", "what waits is parked before anybody is asked"
        if verdict == "denied" and request.is_repeat:
            did = wording.repeat(request.repeats, request.in_doubt, request.same_as, request.waits)
            raise _not_approved(f"{did}{'' if request.waits else ' before'}, and nobody could be asked about that")
        if verdict == "denied" and instead_of:
            raise _not_approved(f"it takes the place of {', '.join(instead_of)}, and nobody could be asked about that")
        if verdict == "denied" and request.of_strangers and approval.approve == "always":
            raise _not_approved(_not_asked(request))
        if verdict == "denied" and request.session is not None and approval.approve == "always":
            from atc.wording.origins import session_not_asked

            raise _not_approved(session_not_asked(request.session))
        if verdict == "denied":
            raise _not_approved(_not_in_this_run(request))
        if verdict == "warned":
            unresolved = "; ".join(warnings)[:MAX_ERROR]
            raise CallRefused(f"it depends on what the check warned about: {unresolved}", status="warned")
        await self._ask(verdict, _telling(request, told), attempt)

    async def _ask(
        self,
        asker: Asker,
        request: ApprovalRequest,
        attempt: Attempt,
        *,
        announced: bool = True,
        judgement: Judgement | None = None,
    ) -> None:
        async with self._asking:
            if (known := self._denied.get(attempt.key)) is not None:
                before, attempt.refused_by = known
                raise _refused(before)
            writes = announced and request.effect is not Effect.READ
            place = digest_of(attempt.granted, self.journal.run_key) if writes else ""
            request = replace(request, same_as=self.same(attempt), place=place)  # one that was under way may have begun
            if asker is ask_at_terminal:
                if (ruled := self._series.ruled(request)) is True:
                    attempt.notes.append("allowed by your approval to all calls of this tool")
                    return
                if ruled is not None:
                    attempt.refused_by = "user"
                    raise _refused(ruled)
                asker = self._series.ask
            try:
                with self.waiting():
                    if writes:
                        request = await self._explained(attempt, request)
                        self._emit_asked(attempt, request)
                    answer = asker(request.copied() if judgement is None else request)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except Exception as error:
                what = self.exceptions.describe(error, attempt.arguments)
                attempt.notes.append(f"asking for approval failed: {what}")
                raise _not_approved("the user could not be asked to approve this call") from error
            if answer is True and writes and place != digest_of(attempt.granted, self.journal.run_key):
                raise _not_approved("its tool, or the account that it goes to, changed while the user was asked")
            if answer is not True:
                said = answer if isinstance(answer, Refusal) else None
                if judgement is None and said is NOBODY and request.of_strangers:
                    said = Refusal(_not_asked(request))
                attempt.refused_by = "nobody"
                if judgement is not None and judgement.denied is not None:
                    attempt.refused_by = "rule"
                elif announced and (said is None or said.by_user):
                    attempt.refused_by = "user"
                before = said or Refusal("the user did not approve this call before")
                self._denied[attempt.key] = before, attempt.refused_by
                raise _refused(said or Refusal("the user did not approve this call"))

    async def _explained(self, attempt: Attempt, request: ApprovalRequest) -> ApprovalRequest:
        call = attempt.finish(CallReply(), self.redactor)
        feeds = await self.feeds_of(call) if self.feeds_of is not None else ()
        done = tuple(map(self._as_shown, self.writes()))
        until = self.until()
        wait_s = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
        await self._follow(attempt)
        origins, strangers = attempt.origins or {}, attempt.strangers
        return replace(request, feeds=feeds, done=done, wait_s=wait_s, origins=origins, strangers=strangers)

    def _as_shown(self, entry: CallEntry) -> Invocation:
        """Return a call that was done as every later question shows it: there may be many of both."""
        if entry.number not in self._shown:
            self._shown[entry.number] = Invocation(tool=entry.tool, arguments=cut_arguments(copied(entry.arguments)))
        return self._shown[entry.number]

    def _request(self, attempt: Attempt) -> ApprovalRequest:
        protocol = attempt.granted.protocol
        return ApprovalRequest(
            tool=attempt.tool,
            arguments=attempt.arguments,
            effect=attempt.effect,
            description=protocol.description,
            protocol=protocol,
            origins=attempt.origins or {},
            untrusted=attempt.untrusted,
            author_saw=attempt.author_saw,
            strangers=attempt.strangers,
            protocol_of=self.protocol_of,
            within=attempt.request.within,
            session=attempt.session,
        )

    def _emit_asked(self, attempt: Attempt, request: ApprovalRequest) -> None:
        flow = request.data_flow
        asked: ApprovalAsked = {
            **attempt.started(pack(self.redactor.value(attempt.arguments))),
            "warnings": list(request.warnings),
            "instead_of": list(request.instead_of),
            "feeds": [feed.model_dump(mode="json") for feed in request.feeds],
            "wait_s": request.wait_s,
            "data_flow": {} if flow is None else flow.model_dump(mode="json"),
        }
        self.emit("approval_asked", self.redactor.value(asked))


def _untrusted(attempt: Attempt, strangers: frozenset[str], policy: Policy | None) -> tuple[str, ...]:
    from atc.calls.untrusted import BY_WORDS, untrusted_arguments  # most runs call no such tool

    protocol = attempt.granted.protocol
    return untrusted_arguments(
        protocol,
        attempt.origins or {},
        strangers.__contains__,
        unknown_counts=bool(strangers),
        arguments={**dict.fromkeys(attempt.request.unknown), **attempt.arguments},
        targets=BY_WORDS if policy is None else policy.targets(protocol),
    )


def _telling(request: ApprovalRequest, told: tuple[str, ...]) -> ApprovalRequest:
    return replace(request, warnings=(*request.warnings, *told)) if told else request


def _not_asked(request: ApprovalRequest) -> str:
    from atc.calls.permissions.facts import Who
    from atc.calls.permissions.permissions import Permissions, suspicion, to_allow_suspect
    from atc.wording.origins import ONE_YES

    rules = Permissions.default()
    assert request.protocol is not None
    decision = rules.decide(
        Who(),
        request.protocol,
        request.arguments,
        request.origins,
        untrusted=request.untrusted,
        author_saw=request.author_saw,
        protocol_of=request.protocol_of,
    )
    why = f"{suspicion(request, decision)}, and nobody could be asked about that ({ONE_YES})"
    return f"{why}{to_allow_suspect(request, decision, rules)}"


def _not_in_this_run(request: ApprovalRequest) -> str:
    told = "calls with effects are not approved in this run"
    if not request.of_strangers or (flow := request.data_flow) is None:
        return told
    from atc.wording import origins

    return f"{origins.suspicion(flow)}; {told} ({origins.ONE_YES})"


def _not_approved(message: str) -> CallRefused:
    return CallRefused(message, status="denied", cause="denied")


def _refused(refusal: Refusal) -> CallRefused:
    if refusal.status == "warned":
        return CallRefused(refusal.reason, status="warned")
    return _not_approved(refusal.reason)
