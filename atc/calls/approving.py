"""Has the calls of one run approved: who is asked about each, what was answered before, and what the question says."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from atc import wording
from atc._records.events import ApprovalAsked
from atc._records.packing import pack
from atc._records.records import Invocation
from atc.calls import question
from atc.calls.approval import (
    NOBODY,
    Approval,
    ApprovalRequest,
    Asker,
    Parked,
    Refusal,
    Verdicts,
    ask_at_terminal,
    question_of,
)
from atc.calls.attempt import ArgumentOrigins, Attempt, cut_arguments
from atc.calls.contract import CallReply
from atc.calls.entry import CallEntry, CallKey
from atc.calls.json_values import copied
from atc.calls.own_exceptions import OwnExceptions
from atc.calls.parked import Decision, ParkedCall, digest_of
from atc.calls.parking import Parking
from atc.calls.responses import MAX_ERROR
from atc.errors import AtcError, CallRefused
from atc.result import Effect, RefusedBy
from atc.wording import plans

if TYPE_CHECKING:
    from atc.calls.broker import Broker
    from atc.calls.permissions.guard import Guard, Judged

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


class Approving:
    """Has the calls of one run approved: one question at a time, each once.

    Args:
        broker: of the run.
        exceptions: describe what went wrong while the user was asked.

    Attributes:
        origins: returns what finds where arguments come from; ``None`` where no program makes calls.
        author_saw_any: returns whether the author of the program that runs has seen what strangers write.
    """

    def __init__(self, broker: Broker, exceptions: OwnExceptions) -> None:
        self._broker, self._exceptions = broker, exceptions
        self._journal, self._redactor = broker.journal, broker.redactor
        self._asking = asyncio.Lock()
        self._denied: dict[CallKey, tuple[Refusal, RefusedBy]] = {}
        self._series = Series()
        self._shown: dict[int, Invocation] = {}  # what was done already, as questions show it
        self.origins: Callable[[], ArgumentOrigins] | None = None
        self.author_saw_any: Callable[[], bool] = bool
        self.parking = Parking(broker.journal, broker.redactor, self._explained, broker.elsewhere)

    @property
    def _approval(self) -> Approval:
        return self._broker.approval

    def forget(self) -> None:
        """Ask anew about what was denied: the user asks for something new."""
        self._denied.clear()
        self._journal.parked.forget_denied()
        self._series = Series()

    async def find_origins(self, attempt: Attempt) -> None:
        """Find out where the arguments of a call come from, where a rule needs it, or text of strangers is in the run.

        Args:
                attempt: the call; ``origins``, ``untrusted`` and ``author_saw`` of it are set.
        """
        policy = self._approval.policy
        if self.origins is None:
            return
        rules = None if policy is None else policy.permissions
        reads = attempt.reads and (rules is None or rules.effect(attempt.granted.protocol) is Effect.READ)
        strangers = frozenset() if reads else self._broker.strangers()
        of_strangers = not reads and (bool(strangers) or self.author_saw_any())
        if not of_strangers and not (rules is not None and rules.needs_origins):
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
            attempt.strangers = tuple(sorted({*self._broker.strangers(), *found.author_saw}))

    def let_ask(self, attempt: Attempt) -> None:
        """Let whoever reads a call later ask where its arguments came from."""
        if attempt.origins is None and not attempt.is_cut and (origins := self.origins) is not None:
            asked = attempt.asked()
            attempt.origins_later = lambda: origins().later(asked)

    async def approve(self, attempt: Attempt) -> CallReply | None:
        """Ask whether to make a call, once for each call; whatever is not a yes is a no.

        Args:
                attempt: the call; ``approved`` of it is set.

        Returns:
            The reply to a call that waits for approval; ``None`` where it is approved.

        Raises:
            CallRefused: it is not approved.
            JournalError: that it waits cannot be written down.
        """
        if attempt.reads:
            await self._approve_read(attempt)
        elif attempt.again is not None:
            await self._approve_again(attempt)
        elif (waits := await self._approve_write(attempt)) is not None:
            return waits
        attempt.approved = True
        return None

    async def _approve_read(self, attempt: Attempt) -> None:
        if self._approval.policy is not None:
            request = self._request(attempt)
            judgement = self._approval.policy.judge(request)
            await self._ask(judgement.answer, request, attempt, judgement=judgement)
        elif (asker := self._approval.of_read()) is not None:
            await self._ask(asker, self._request(attempt), attempt)

    async def _approve_again(self, attempt: Attempt) -> None:
        """It is sent again unasked, for its yes was for this call. A rule that denies it now comes first."""
        if self._approval.policy is not None:
            request = replace(self._request(attempt), decided=True)
            judgement = self._approval.policy.judge(request)
            attempt.refused_by = "user" if judgement.denied is None else "rule"
            answer = await judgement.answer(request)
            if answer is not True:
                raise _refused(answer if isinstance(answer, Refusal) else Refusal("the user did not approve this call"))
            attempt.refused_by = None
        earlier = self._approval.earlier
        known = None if earlier is None else await earlier.find(attempt.key) or earlier.take(attempt.key, None)
        if known is not None:
            did = wording.repeat(known.run, known.in_doubt, None)
            raise CallRefused(
                f"the same call was begun before and its outcome is unknown, and {did}; it is not sent again",
                status="in_doubt",
                cause="in_doubt",
            )

    async def _approve_write(self, attempt: Attempt) -> CallReply | None:
        ordinary = replace(
            self._request(attempt),
            warnings=attempt.warnings,
            instead_of=tuple(self._broker.broken_tools.instead_of(attempt.tool)),
        )
        earlier = self._approval.earlier
        known = await earlier.find(attempt.key) if earlier is not None else None
        parked = self._journal.parked.ask(attempt.key, self._journal.request) if self._journal.parked else None
        changed = () if parked is None else self.parking.changed(parked, attempt)
        told = (wording.tool_changed(changed),) if changed else ()
        is_void = False
        if parked is None or parked.decision is None or parked.is_denied:
            self._refuse_again(attempt)
        while True:
            request = replace(ordinary, same_as=self._broker.same_call(attempt))
            if known is not None:
                request = replace(request, repeats=known.run, in_doubt=known.in_doubt, waits=known.waits)
            if self._broker.applying is not None and (parked is None or not parked.is_denied):
                decision = self._broker.applying.decision(request)
            else:
                decision = self.parking.decision(parked, request, attempt)
            if parked is not None and decision is None and not is_void:
                is_void = True
                await self._note(request, attempt, self._what_became_of(parked, attempt))
            waits = self.parking.has_begun or (decision is None and self._waits(request))
            if waits and (decision is None or decision.yes):
                if not self._approval.can_wait:
                    attempt.refused_by = "nobody"
                    raise _not_approved(_NO_WAIT)
                reply = await self.parking.park(attempt, _telling(request, told), parked)
                if attempt.number in self._journal.parked.of_number:  # now, and not before
                    await self._note(request, attempt, Parked("parked", attempt.number))
                return reply
            try:
                if decision is None:
                    await self._decide(request, attempt, told)
                else:
                    await self._as_decided(request, attempt, decision)
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

    async def refuse_denied_before(self, attempt: Attempt) -> None:
        """Refuse a write to which somebody said no before in this run.

        Raises:
            CallRefused: somebody did.
        """
        parked = None if attempt.reads else self._journal.parked.ask_denied(attempt.key, self._journal.request)
        if parked is not None and parked.decision is not None:
            self._refuse_again(attempt)
            await self._as_decided(self._request(attempt), attempt, parked.decision)

    def _refuse_again(self, attempt: Attempt) -> None:
        refusal, by = self._denied.get(attempt.key, (None, None))
        if refusal is not None and by == "user":
            attempt.refused_by = by
            raise _refused(refusal)

    def _waits(self, request: ApprovalRequest) -> bool:
        if self._approval.policy is None:
            return self._approval.parks
        judgement = self._approval.policy.judge(request)
        return judgement.waits or (self._approval.parks and judgement.ruled is None)

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
            why = "reads" if self._journal.reads_again.changed_since(known.round) else "question"
        return Parked("voided", known.number, decision.by, why)

    async def _note(self, request: ApprovalRequest, attempt: Attempt, parked: Parked | None) -> None:
        """Have it written down what became of a call that waits. It is not made, so it goes on where that fails."""
        if self._approval.policy is None or parked is None:
            return
        try:
            await self._approval.policy.judge(request).note(request, parked)
        except (AtcError, OSError) as error:
            attempt.notes.append(f"the audit log cannot be written: {self._redactor.text(str(error))}")

    async def _as_decided(self, request: ApprovalRequest, attempt: Attempt, decision: Decision) -> None:
        """A rule that denies the call comes before what was decided while the run waited."""
        answer: Verdicts = decision.yes or Refusal(wording.denied_by(decision.by), by_user=True)
        attempt.refused_by = "user"
        if self._approval.policy is not None:
            request = replace(request, decided=answer, decided_by=decision.by)
            judgement = self._approval.policy.judge(request)
            attempt.refused_by = "rule" if judgement.denied is not None else "user"
            answer = await judgement.answer(request)
        if answer is not True:
            raise _refused(answer if isinstance(answer, Refusal) else Refusal("the user did not approve this call"))
        attempt.refused_by = None
        attempt.notes.append(wording.approved_by(decision.by, decision.at))

    def settle(self, attempt: Attempt) -> None:
        """Let the caller's other runs know what became of a call, if it was approved."""
        earlier = self._approval.earlier
        if earlier is None or attempt.reads or not attempt.approved:
            return
        entry = attempt.entry
        unsent = entry is None or entry.state == "refused" or (entry.state == "open" and not entry.sent)
        if unsent and attempt.again is None:
            earlier.settle(attempt.key, "refused")
        else:
            earlier.settle(attempt.key, "done" if entry is not None and entry.state == "done" else "unknown")

    def refuse_denied(self, attempt: Attempt) -> None:
        """Refuse a call that no choice could allow. Nobody is asked.

        Raises:
            CallRefused: a rule denies it.
        """
        if self._approval.policy is None:
            return
        refusal = self._approval.policy.judge(self._request(attempt)).denied
        if refusal is not None:
            attempt.refused_by = "rule"
            raise _refused(refusal)

    async def _decide(self, request: ApprovalRequest, attempt: Attempt, told: tuple[str, ...] = ()) -> None:
        warnings, instead_of = request.warnings, request.instead_of
        if self._approval.policy is not None:  # it writes down what it decides, also where nobody is asked
            judgement = self._approval.policy.judge(request)
            announced = judgement.ruled is None
            asked = _telling(request, told)
            await self._ask(judgement.answer, asked, attempt, announced=announced, judgement=judgement)
            return
        verdict = self._approval.decide(request)
        if verdict == "allowed":
            return
        assert verdict != "parked", "what waits is parked before anybody is asked"
        if verdict == "denied" and request.is_repeat:
            did = wording.repeat(request.repeats, request.in_doubt, request.same_as, request.waits)
            raise _not_approved(f"{did}{'' if request.waits else ' before'}, and nobody could be asked about that")
        if verdict == "denied" and instead_of:
            raise _not_approved(f"it takes the place of {', '.join(instead_of)}, and nobody could be asked about that")
        if verdict == "denied" and request.of_strangers and self._approval.approve == "always":
            raise _not_approved(_not_asked(request))
        if verdict == "denied" and request.session is not None and self._approval.approve == "always":
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
        judgement: Judged | None = None,
    ) -> None:
        async with self._asking:
            if (known := self._denied.get(attempt.key)) is not None:
                before, attempt.refused_by = known
                raise _refused(before)
            writes = announced and request.effect is not Effect.READ
            place = digest_of(attempt.granted, self._journal.run_key) if writes else ""
            request = replace(
                request, same_as=self._broker.same_call(attempt), place=place
            )  # one that was under way may have begun
            if asker is ask_at_terminal:
                if (ruled := self._series.ruled(request)) is True:
                    attempt.notes.append("allowed by your approval to all calls of this tool")
                    return
                if ruled is not None:
                    attempt.refused_by = "user"
                    raise _refused(ruled)
                asker = self._series.ask
            try:
                with self._broker.waiting():
                    if writes:
                        request = await self._explained(attempt, request)
                        self._emit_asked(attempt, request)
                    answer = asker(request.copied() if judgement is None else request)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except Exception as error:
                what = self._exceptions.describe(error, attempt.arguments)
                attempt.notes.append(f"asking for approval failed: {what}")
                raise _not_approved("the user could not be asked to approve this call") from error
            if answer is True and writes and place != digest_of(attempt.granted, self._journal.run_key):
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
        call = attempt.finish(CallReply(), self._redactor)
        feeds = await self._broker.feeds_of(call) if self._broker.feeds_of is not None else ()
        done = tuple(map(self._as_shown, self._broker.writes))
        until = self._broker.until
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
            protocol_of=self._broker.protocol_of,
            within=attempt.request.within,
            session=attempt.session,
        )

    def _emit_asked(self, attempt: Attempt, request: ApprovalRequest) -> None:
        flow = request.data_flow
        asked: ApprovalAsked = {
            **attempt.started(pack(self._redactor.value(attempt.arguments))),
            "warnings": list(request.warnings),
            "instead_of": list(request.instead_of),
            "feeds": [feed.model_dump(mode="json") for feed in request.feeds],
            "wait_s": request.wait_s,
            "data_flow": {} if flow is None else flow.model_dump(mode="json"),
        }
        self._broker.emit("approval_asked", self._redactor.value(asked))


def _untrusted(attempt: Attempt, strangers: frozenset[str], policy: Guard | None) -> tuple[str, ...]:
    from atc.calls.untrusted import BY_WORDS, untrusted_arguments  # most runs call no such tool

    protocol = attempt.granted.protocol
    return untrusted_arguments(
        protocol,
        attempt.origins or {},
        strangers.__contains__,
        unknown_counts=bool(strangers),
        arguments={**dict.fromkeys(attempt.request.unknown), **attempt.arguments},
        targets=BY_WORDS if policy is None else policy.permissions.targets(protocol),
    )


def _telling(request: ApprovalRequest, told: tuple[str, ...]) -> ApprovalRequest:
    return replace(request, warnings=(*request.warnings, *told)) if told else request


def _not_asked(request: ApprovalRequest) -> str:
    from atc.calls.permissions.facts import Who
    from atc.calls.permissions.guard import Guard
    from atc.calls.permissions.permissions import Permissions, suspicion, to_allow_suspect
    from atc.wording.origins import ONE_YES

    rules = Permissions()
    decision = Guard(rules, Who(), ask_at_terminal).decision(request)
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
