"""Decides over calls that are not reads: all are made, none is, the user is asked, or a function decides.

One vocabulary for the agent, the settings and the command line: ``"ask"``, ``"never"``, ``"always"`` or a function. A
call that depends on what the check warned about is not made unasked, also under ``"always"``. Nor is a write made
unasked that takes the place of another tool's: who said yes to all did not know of it. ``"always"`` asks at a terminal,
and without one the answer is no.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args
from typing import Protocol as Interface

from atc import wording
from atc._host.redaction import Redactor
from atc._records.choices import ApproveChoice, WarningsChoice
from atc._records.events import ApprovalAsked, Emit
from atc._records.packing import pack
from atc._records.records import Feed, Invocation, SameCall
from atc.calls import question
from atc.calls.attempt import Attempt
from atc.calls.broken_tools import BrokenTools
from atc.calls.entry import CallKey
from atc.calls.own_exceptions import OwnExceptions
from atc.calls.responses import MAX_ERROR
from atc.errors import CallRefused, UsageError
from atc.result import Effect, RefusedBy
from atc.wording import plans

if TYPE_CHECKING:
    from atc.schemas.protocol import Protocol

Verdict = Literal["allowed", "denied", "warned"]


@dataclass(frozen=True)
class ApprovalRequest:
    """A call with effects that waits for a yes.

    Attributes:
        warnings: what the check warned about and the call depends on, one sentence each.
        instead_of: the tools that it replaces: they failed, and surely did nothing.
        repeats: an earlier run of the same caller that did, or may have done, the same; empty if there is none.
        in_doubt: nobody knows whether that run did it: it was cut off, or is doing it now.
        same_as: a call of this run that did, or may have done, the same.
        protocol: of the tool.
        feeds: where its arguments come from, as far as that can be followed (:class:`atc._records.records.Feed`).
        done: the calls with effects that the task has made already.
        wait_s: seconds after which the run's own time is used up; ``None`` where it waits for as long as it takes.
    """

    tool: str
    arguments: dict[str, Any]
    effect: Effect
    description: str
    warnings: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    repeats: str = ""
    in_doubt: bool = False
    same_as: SameCall | None = None
    protocol: Protocol | None = field(default=None, compare=False, repr=False)
    feeds: tuple[Feed, ...] = field(default=(), repr=False)
    done: tuple[Invocation, ...] = field(default=(), repr=False)
    wait_s: float | None = None

    @property
    def is_repeat(self) -> bool:
        """Whether it may do again what was done. A program may call one tool twice: that is no repeat, unless the tool
        was said to read the first time, so that nothing held the call back."""
        return bool(self.repeats) or (self.same_as is not None and (self.same_as.was_read or not self.same_as.own))

    @property
    def is_ordinary(self) -> bool:
        """Whether there is nothing to ask about but the call itself."""
        return not (self.warnings or self.instead_of or self.repeats or self.same_as is not None)


@dataclass(frozen=True)
class Refusal:
    """A no that says why, for the program's author: who refused, or what would allow the call.

    Attributes:
        status: of the call: that nobody approved it, or that it depends on what the check warned about.
        by_user: somebody was asked and said no; else nobody could be asked.
    """

    reason: str
    status: Literal["denied", "warned"] = "denied"
    by_user: bool = False


Verdicts = bool | Refusal
Asker = Callable[[ApprovalRequest], Verdicts | Awaitable[Verdicts]]
"""Answers with ``True`` to allow the call; everything else is a no, and a :class:`Refusal` says why."""


@dataclass(frozen=True)
class EarlierWrite:
    """A call with effects that another run of the same caller made.

    Attributes:
        run: its id.
        in_doubt: nobody knows whether the call was done: the run was cut off, or is making it now.
    """

    run: str
    in_doubt: bool = False


class EarlierWrites(Interface):
    """What other runs of the same caller did, as one run sees it."""

    async def find(self, key: CallKey) -> EarlierWrite | None:
        """Return the same call of another run, if one did it or may have done it."""
        ...

    def take(self, key: CallKey, known: EarlierWrite | None) -> EarlierWrite | None:
        """Note that this run is about to make a call, unless another run has taken it.

        Args:
            key: of the call.
            known: the call of another run that was asked about.

        Returns:
            The call of a run that was not asked about; nothing is noted then. Else ``None``.
        """
        ...

    def settle(self, key: CallKey, outcome: Literal["done", "refused", "unknown"]) -> None:
        """Note that a call which was taken has ended. ``refused``: it surely was not done."""
        ...


class Judgement(Interface):
    """What a policy says of one call: it is decided once, for its arguments can be large."""

    @property
    def denied(self) -> Refusal | None:
        """Return why no choice can allow the call; ``None`` where one may."""
        ...

    @property
    def ruled(self) -> Literal[True] | Refusal | None:
        """Return what holds of the call without a question; ``None`` where a person or a function is asked."""
        ...

    async def answer(self, request: ApprovalRequest) -> Verdicts:
        """Answer, with a question where one is needed.

        Args:
            request: about the same call; it may say more of where its arguments come from.
        """
        ...


class Policy(Interface):
    """Rules that stand before the choice, and are asked about every call, reads too
    (:mod:`atc.calls.permissions.guard`)."""

    def judge(self, request: ApprovalRequest) -> Judgement:
        """Decide what the rules say of a call."""
        ...

    def of_run(self, run_id: str) -> Policy:
        """Return the same for one run."""
        ...


Approve = ApproveChoice | Asker


def checked_approve(choice: Approve | None, setting: ApproveChoice | None = None) -> Approve:
    """Return the choice, else the setting; without both, ``ask`` at a terminal and ``never`` elsewhere.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    approve = setting if choice is None else choice
    if approve is None:
        return "ask" if question.has_terminal() else "never"
    if not callable(approve) and approve not in get_args(ApproveChoice):
        raise UsageError(f"approve takes 'ask', 'never', 'always' or a function, not {approve!r}")
    return approve


async def ask_at_terminal(request: ApprovalRequest) -> bool | Refusal:
    """Ask the user on standard error and read a line of standard input (:mod:`atc.calls.question`)."""
    answer = await question.ask(*_question(request))
    return _NOBODY if answer is None else answer


def _question(request: ApprovalRequest) -> tuple[str, dict[str, Any], tuple[str, ...], question.About]:
    """Return the heading, the arguments and the warnings of a question, and what else it says."""
    instead = f" {wording.takes_place(list(map(question.visible_name, request.instead_of)))}" * bool(request.instead_of)
    again = ""
    if request.is_repeat:
        run = question.visible_name(request.repeats) if request.repeats else ""
        again = f" again ({wording.repeat(run, request.in_doubt, request.same_as)})"
    elif request.same_as is not None:
        again = f", {wording.same_call(request.same_as)}"
    heading = f"allow {question.visible_name(request.tool)}{instead}{again}? effect: {request.effect.value}"
    origins = plans.origins(request.feeds, request.arguments)
    about = question.About(origins, [wording.call(each) for each in request.done], request.wait_s)
    return heading, request.arguments, request.warnings, about


_NOBODY = Refusal("nobody could be asked to approve this call: the input has ended")
_STOPPED = Refusal("the user said no to this call and to all that need a yes", by_user=True)
_ALL_OF_TOOL, _NO_MORE = "a", "q"


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
        return True if request.is_ordinary and request.tool in self._allowed else None

    async def ask(self, request: ApprovalRequest) -> Verdicts:
        """Ask at the terminal, as :func:`ask_at_terminal` does."""
        if not (self._asked and question.has_terminal()):
            self._asked = True
            return await ask_at_terminal(request)
        others = {_ALL_OF_TOOL: plans.yes_to_all(question.visible_name(request.tool))} if request.is_ordinary else {}
        answer = await question.choose(*_question(request), others | {_NO_MORE: plans.NO_TO_ALL})
        if answer is None:
            return _NOBODY
        if answer == _NO_MORE:
            self._stopped = True
            return _STOPPED
        if answer == _ALL_OF_TOOL:
            self._allowed.add(request.tool)
        return answer in (question.YES, _ALL_OF_TOOL)


@dataclass(frozen=True)
class Approval:
    """The rule that a broker follows.

    Args:
        approve: one of the words, or a function that is asked about every call which is not a read.
        warnings: ``allow``: a warning does not matter under ``always``, and sends no program back.
        reads: a function is asked about reads, too.
        earlier: what other runs of the same caller did: to do it again is asked about.
        policy: decides in place of all that, and knows of it what it needs.
    """

    approve: Approve = "never"
    warnings: WarningsChoice = "ask"
    reads: bool = False
    earlier: EarlierWrites | None = None
    policy: Policy | None = None

    @property
    def may_allow(self) -> bool:
        """Whether there is a call with effects that could be approved."""
        return self.policy is not None or self.approve != "never"

    def of_run(self, run_id: str) -> Approval:
        """Return the same for one run."""
        return self if self.policy is None else replace(self, policy=self.policy.of_run(run_id))

    def of_read(self) -> Asker | None:
        """Return who is asked about a read, if there is no policy; as a rule ``None``."""
        return self.approve if self.reads and callable(self.approve) else None

    def decide(self, request: ApprovalRequest) -> Verdict | Asker:
        """Return the verdict if nobody needs to be asked, else the function that asks."""
        if self.policy is not None:
            judgement = self.policy.judge(request)
            ruled = judgement.ruled
            return "denied" if isinstance(ruled, Refusal) else "allowed" if ruled else judgement.answer
        match self.approve:
            case "never":
                return "denied"
            case "ask":
                return ask_at_terminal
            case "always" if request.instead_of or request.is_repeat:
                return ask_at_terminal if question.has_terminal() else "denied"
            case "always" if not request.warnings or self.warnings == "allow":
                return "allowed"
            case "always":
                return ask_at_terminal if question.has_terminal() else "warned"
            case asker:
                return asker


def approval_of(given: Approve | Approval | None, setting: ApproveChoice | None, warnings: WarningsChoice) -> Approval:
    """Return the rule that was given, or that of a choice.

    Raises:
        UsageError: it is neither one of the words nor a function.
    """
    return given if isinstance(given, Approval) else Approval(checked_approve(given, setting), warnings)


# ----------------------------------------------------------------------------------------------------------------------
# Approval in one run: who is asked about a call that is not a read, and what was denied before.


AFTER_LOOK = "it was written after a `look` at values, and no program before that makes the same call"
"""The warning of a call that such values may have led to. Where nobody can be asked about it, the call is denied."""
_ALLOW_WARNINGS = 'nobody could be asked about it: approve it at a terminal or by a function, or set warnings="allow"'


@dataclass
class Approving:
    """Has the calls of one run approved: one question at a time, each once.

    Args:
        broken: names the tools in whose place a call is made.
        exceptions: describe what went wrong while the user was asked.
        redactor: of the run.
        emit: receives an event for every question.
        waiting: stops the clock of the program.
        explained: adds to a request what helps a person to answer it.
        same: returns a call of the run that did, or may have done, what a write asks for.
    """

    broken: BrokenTools
    exceptions: OwnExceptions
    redactor: Redactor
    emit: Emit
    waiting: Callable[[], AbstractContextManager[None]]
    explained: Callable[[Attempt, ApprovalRequest], Awaitable[ApprovalRequest]]
    same: Callable[[Attempt], SameCall | None]

    def __post_init__(self) -> None:
        self._asking = asyncio.Lock()
        self._denied: dict[CallKey, tuple[Refusal, RefusedBy]] = {}
        self._series = Series()

    def forget(self) -> None:
        """Ask anew about what was denied: the user asks for something new."""
        self._denied.clear()
        self._series = Series()

    async def approve(self, approval: Approval, attempt: Attempt) -> None:
        """Ask whether to make a call, once for each call; whatever is not a yes is a no.

        Args:
            approval: the rule.
            attempt: the call; ``approved`` of it is set.

        Raises:
            CallRefused: it is not approved.
        """
        if attempt.reads:
            await self._approve_read(approval, attempt)
        else:
            await self._approve_write(approval, attempt)
        attempt.approved = True

    async def _approve_read(self, approval: Approval, attempt: Attempt) -> None:
        request = _request_about(attempt)
        if approval.policy is not None:
            judgement = approval.policy.judge(request)
            await self._ask(judgement.answer, request, attempt, judgement=judgement)
        elif (asker := approval.of_read()) is not None:
            await self._ask(asker, request, attempt)

    async def _approve_write(self, approval: Approval, attempt: Attempt) -> None:
        ordinary = replace(
            _request_about(attempt),
            warnings=attempt.warnings,
            instead_of=tuple(self.broken.instead_of(attempt.tool)),
        )
        earlier = approval.earlier
        known = await earlier.find(attempt.key) if earlier is not None else None
        while True:
            request = replace(ordinary, same_as=self.same(attempt))
            if known is not None:
                request = replace(request, repeats=known.run, in_doubt=known.in_doubt)
            try:
                await self._decide(approval, request, attempt)
            except CallRefused as refused:
                attempt.refused_by = attempt.refused_by or "nobody"
                if refused.status == "warned" and AFTER_LOOK in attempt.warnings:
                    raise _not_approved(f"{refused.message}; {_ALLOW_WARNINGS}") from None
                raise
            if earlier is None or (taken := earlier.take(attempt.key, known)) is None:
                return
            known = taken  # another run took it while this one was decided over

    def settle(self, approval: Approval, attempt: Attempt) -> None:
        """Let the caller's other runs know what became of a call, if it was approved."""
        if approval.earlier is None or attempt.reads or not attempt.approved:
            return
        entry = attempt.entry
        if entry is None or entry.state == "refused" or (entry.state == "open" and not entry.sent):
            approval.earlier.settle(attempt.key, "refused")
        else:
            approval.earlier.settle(attempt.key, "done" if entry.state == "done" else "unknown")

    def refuse_denied(self, approval: Approval, attempt: Attempt) -> None:
        """Refuse a call that no choice could allow. Nobody is asked.

        Raises:
            CallRefused: a rule denies it.
        """
        if approval.policy is None:
            return
        refusal = approval.policy.judge(_request_about(attempt)).denied
        if refusal is not None:
            attempt.refused_by = "rule"
            raise _refused(refusal)

    async def _decide(self, approval: Approval, request: ApprovalRequest, attempt: Attempt) -> None:
        warnings, instead_of = request.warnings, request.instead_of
        if approval.policy is not None:  # it writes down what it decides, also where nobody is asked
            judgement = approval.policy.judge(request)
            announced = judgement.ruled is None
            await self._ask(judgement.answer, request, attempt, announced=announced, judgement=judgement)
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
        await self._ask(verdict, request, attempt)

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
            request = replace(request, same_as=self.same(attempt))  # one that was under way may have begun
            if asker is ask_at_terminal:
                if (ruled := self._series.ruled(request)) is True:
                    attempt.notes.append("allowed by your yes to all calls of this tool")
                    return
                if ruled is not None:
                    attempt.refused_by = "user"
                    raise _refused(ruled)
                asker = self._series.ask
            try:
                with self.waiting():
                    if announced and request.effect is not Effect.READ:
                        request = await self.explained(attempt, request)
                        self._emit_asked(attempt, request)
                    answer = asker(request)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except Exception as error:
                what = self.exceptions.describe(error, attempt.arguments)
                attempt.notes.append(f"asking for approval failed: {what}")
                raise _not_approved("the user could not be asked to approve this call") from error
            if answer is not True:
                said = answer if isinstance(answer, Refusal) else None
                attempt.refused_by = "nobody"
                if judgement is not None and judgement.denied is not None:
                    attempt.refused_by = "rule"
                elif announced and (said is None or said.by_user):
                    attempt.refused_by = "user"
                before = said or Refusal("the user did not approve this call before")
                self._denied[attempt.key] = before, attempt.refused_by
                raise _refused(said or Refusal("the user did not approve this call"))

    def _emit_asked(self, attempt: Attempt, request: ApprovalRequest) -> None:
        asked: ApprovalAsked = {
            **attempt.started(pack(self.redactor.value(attempt.arguments))),
            "warnings": list(request.warnings),
            "instead_of": list(request.instead_of),
            "feeds": [feed.model_dump(mode="json") for feed in request.feeds],
            "wait_s": request.wait_s,
        }
        self.emit("approval_asked", self.redactor.value(asked))


def _request_about(attempt: Attempt) -> ApprovalRequest:
    protocol = attempt.granted.protocol
    return ApprovalRequest(
        tool=attempt.tool,
        arguments=attempt.arguments,
        effect=attempt.effect,
        description=protocol.description,
        protocol=protocol,
    )


def _not_approved(message: str) -> CallRefused:
    return CallRefused(message, status="denied", cause="denied")


def _refused(refusal: Refusal) -> CallRefused:
    if refusal.status == "warned":
        return CallRefused(refusal.reason, status="warned")
    return _not_approved(refusal.reason)
