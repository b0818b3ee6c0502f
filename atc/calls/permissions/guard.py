"""Asks the permissions about every call of one run, then somebody, and writes down what was decided.

A question is put where the permissions want one, and where an allowed write is not an ordinary one: it depends on what
the check warned about, it takes another tool's place, or the same was done before.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from atc.calls.approval import Approval, ApprovalRequest, EarlierWrites, Parked, Refusal, Verdicts
from atc.calls.permissions.approvers import statement
from atc.calls.permissions.audit import AuditLog, Verdict
from atc.calls.permissions.facts import Caller, Caps, Decision
from atc.calls.permissions.permissions import (
    Permissions,
    decided_by,
    oddity,
    refusal,
    suspicion,
    to_allow,
    to_allow_suspect,
)
from atc.calls.permissions.tool_tables import said_of
from atc.errors import AtcError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Protocol

if TYPE_CHECKING:
    from atc.calls.parked import ParkedCall

# ----------------------------------------------------------------------------------------------------------------------
# How often a principal calls, over all its connections and runs. It is counted in this process, by a clock that nobody
# sets: a restart counts anew.


HOUR_S = 3_600.0


@dataclass
class Limiter:
    """The counts of one principal.

    Args:
        clock: seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    _calls: deque[float] = field(default_factory=deque)
    _writes: deque[float] = field(default_factory=deque)
    runs: int = 0

    def take(self, caps: Caps, *, writes: bool) -> str:
        """Count a call that is about to be made; the cap that it would break, which leaves it uncounted.

        Returns:
            Empty, or ``calls_per_hour`` or ``writes_per_hour``.
        """
        now = self.clock()
        for times in (self._calls, self._writes):
            while times and now - times[0] >= HOUR_S:
                times.popleft()
        counted = self._counted(caps, writes)
        for name, times in counted.items():
            if len(times) >= getattr(caps, name):
                return name
        for times in counted.values():
            times.append(now)
        return ""

    def give_back(self, caps: Caps, *, writes: bool) -> None:
        """Uncount the call that was taken last: it was not made."""
        for times in self._counted(caps, writes).values():
            if times:
                times.pop()

    def _counted(self, caps: Caps, writes: bool) -> dict[str, deque[float]]:
        counted = {"calls_per_hour": self._calls} | ({"writes_per_hour": self._writes} if writes else {})
        return {name: times for name, times in counted.items() if getattr(caps, name) is not None}

    @contextmanager
    def run(self, caps: Caps) -> Iterator[None]:
        """Hold one of the runs that may go on at once.

        Raises:
            UsageError: so many go on already.
        """
        if caps.max_runs_at_once is not None and self.runs >= caps.max_runs_at_once:
            raise UsageError(
                f"{self.runs} of your runs go on already, and {caps.max_runs_at_once} may at once: wait for one to end"
            )
        self.runs += 1
        try:
            yield
        finally:
            self.runs -= 1


Ask = Callable[[ApprovalRequest], Verdicts | Awaitable[Verdicts]]
"""Asks somebody: ``True`` for a yes, ``False`` for a no; a refusal where nobody could be asked, and why."""


Choice = Callable[[ApprovalRequest, Decision], Literal[True] | Refusal | None]
"""Returns the answer that needs no question, where the permissions want one, or allow; ``None`` where somebody is asked
(:mod:`.agent_permissions`)."""


def always_asks(request: ApprovalRequest, decision: Decision) -> Literal[True] | None:
    """Return ``True`` for what is allowed, if nothing is odd about it: every question is put."""
    return True if decision.verdict == "allow" and not (decision.suspect or is_odd(request)) else None


def is_odd(request: ApprovalRequest) -> bool:
    """Return whether a call wants a person whatever a rule allows; :attr:`.Decision.suspect` is apart from that."""
    return bool(request.warnings or request.instead_of or request.is_repeat or request.of_session)


class Guard:
    """Decides over the calls of one run: each call once, for its arguments can be large.

    Args:
        permissions: of the user.
        client: who calls.
        ask: asks somebody.
        audit: where decisions are written down; nowhere without one.
        run: id of the run.
        limiter: counts the caller's calls, over all its runs.
        choice: decides where the permissions leave something open.
    """

    def __init__(
        self,
        permissions: Permissions,
        client: Caller,
        ask: Ask,
        audit: AuditLog | None = None,
        *,
        run: str = "",
        limiter: Limiter | None = None,
        choice: Choice = always_asks,
    ) -> None:
        self.permissions, self.client, self.run = permissions, client, run
        self._ask, self._audit, self._limiter = ask, audit, limiter or Limiter()
        self._choice = choice

    def of_run(self, run_id: str) -> Guard:
        """Return the same, for one run: its id stands in the audit."""
        made = copy(self)
        made.run = run_id
        return made

    def holds(self, call: ParkedCall) -> bool:
        """Return whether the decision about a parked call is of somebody who may decide."""
        if (known := call.decision) is None:
            return True
        return self.permissions.approvers.have_signed(statement(self.run, call, yes=known.yes), known)

    def settling_read(self, protocol: Protocol) -> str:
        """Return the call, as the user wrote it, that says whether a call in doubt of a tool was done; empty without
        one."""
        settle = said_of(self.permissions.tools, protocol, lambda table: table.settle)
        return "" if settle is None else settle.read.text

    def approval(self, earlier: EarlierWrites | None = None) -> Approval:
        """Return the rule for a broker; ``earlier``: what the caller's other runs did."""
        return Approval(self.asker, reads=True, earlier=earlier, policy=self)

    def decision(self, request: ApprovalRequest) -> Decision:
        """Return what the permissions say of a call."""
        protocol = request.protocol
        if protocol is None:  # a request that somebody made by hand
            protocol = Protocol(name=request.tool, effect=request.effect)
        return self.permissions.decide(
            self.client,
            protocol,
            request.arguments,
            request.origins,
            untrusted=request.untrusted,
            author_saw=request.author_saw,
            protocol_of=request.protocol_of,
        )

    def judge(self, request: ApprovalRequest) -> Judged:
        """Return what the permissions say of a call, decided once."""
        decision = self.decision(request)
        return Judged(self, decision, self._ruled(request, decision))

    async def asker(self, request: ApprovalRequest) -> Verdicts:
        """Decide over a call, and answer."""
        return await self.judge(request).answer(request)

    async def answer(
        self, request: ApprovalRequest, decision: Decision, ruled: Literal[True] | Refusal | None
    ) -> Verdicts:
        """Answer by what was decided, by the caps, by a question; and write it down.

        A call with effects is refused where that cannot be written down.
        """
        caps, writes = self.permissions.caps(self.client), decision.effect is not Effect.READ
        if isinstance(ruled, Refusal):
            return await self._noted(request, decision, ruled, _by(decision, ruled))
        if isinstance(request.decided, Refusal):  # a no stands, also where a rule would allow the call unasked
            return await self._noted(request, decision, request.decided, "user")
        if broken := self._limiter.take(caps, writes=writes):
            told = f"{broken} is {getattr(caps, broken)} for this client: an hour after the first of them it may go on"
            return await self._noted(request, decision, Refusal(told), f"cap {broken}")
        try:
            answer, by = (True, _by(decision, ruled)) if ruled is True else await self._asked(request, decision)
            noted = await self._noted(request, decision, answer, by)
        except BaseException:
            self._limiter.give_back(caps, writes=writes)
            with suppress(AtcError, OSError):
                await self.write(request, decision, "refused", "nobody")
            raise
        if noted is not True:
            self._limiter.give_back(caps, writes=writes)
        return noted

    async def _asked(self, request: ApprovalRequest, decision: Decision) -> tuple[Verdicts, str]:
        answer: Verdicts | Awaitable[Verdicts]
        if request.decided is not None:
            answer = request.decided
        elif decision.waits:  # a write waits before it comes here
            answer = Refusal("it is approved elsewhere, and here it cannot wait for that")
        else:
            answer = self._ask(replace(request.copied(), effect=decision.effect))
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Refusal) and not answer.by_user:
            return self._with_line(answer, request, decision), "nobody"
        return (answer if isinstance(answer, Refusal) else answer is True), "user"

    def _ruled(self, request: ApprovalRequest, decision: Decision) -> Literal[True] | Refusal | None:
        if decision.verdict == "deny":
            return Refusal(refusal(decision, self.permissions))
        if decision.verdict == "allow" and decision.effect is Effect.READ and not is_odd(request):
            return True
        answer = self._choice(request, decision)
        if isinstance(answer, Refusal) and not answer.by_user:
            return self._with_line(answer, request, decision)
        return answer

    def _with_line(self, answer: Refusal, request: ApprovalRequest, decision: Decision) -> Refusal:
        if request.is_repeat or request.instead_of:  # a line would allow the call by itself, and not this one
            return replace(answer, reason=f"{oddity(request)}; {answer.reason}")
        if decision.suspect:
            reason = f"{suspicion(request, decision)}; {answer.reason}"
            return replace(answer, reason=f"{reason}{to_allow_suspect(request, decision, self.permissions)}")
        if decision.verdict == "allow":  # by a rule, but it is an odd call: no line would change that
            reason = f"{oddity(request)}; {answer.reason}"
            return replace(answer, reason=reason, status="warned" if request.warnings else "denied")
        return replace(answer, reason=f"{answer.reason}{to_allow(decision, self.permissions)}")

    # -- the audit -----------------------------------------------------------------------------------------------------

    async def _noted(self, request: ApprovalRequest, decision: Decision, answer: Verdicts, by: str) -> Verdicts:
        allowed = answer is True
        if allowed and decision.effect is Effect.READ and by == "default":
            return answer
        try:
            await self.write(request, decision, "allowed" if allowed else "refused", by)
        except (AtcError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return Refusal(f"the audit log cannot be written ({why}), so no call is made that it should have")
        return answer

    async def write(
        self, request: ApprovalRequest, decision: Decision, verdict: Verdict, by: str, parked: Parked | None = None
    ) -> None:
        """Write down what was decided over a call, or became of one that waits."""
        if self._audit is None:
            return
        await self._audit.note(
            self.client,
            tool=request.tool,
            effect=decision.effect,
            arguments=request.arguments,
            verdict=verdict,
            by=by,
            run=self.run,
            repeats=request.repeats,
            who=request.decided_by if parked is None else parked.who,
            call=0 if parked is None else parked.call,
            why="" if parked is None else parked.why,
            flow=request.data_flow,
        )


@dataclass(frozen=True)
class Judged:
    """Holds what the permissions say of one call."""

    guard: Guard
    decision: Decision
    ruled: Literal[True] | Refusal | None

    @property
    def denied(self) -> Refusal | None:
        """Return why no choice can allow the call."""
        return Refusal(refusal(self.decision, self.guard.permissions)) if self.decision.verdict == "deny" else None

    @property
    def waits(self) -> bool:
        """Return whether the call waits for approval that is given elsewhere."""
        return self.ruled is None and self.decision.waits and self.decision.effect is not Effect.READ

    async def answer(self, request: ApprovalRequest) -> Verdicts:
        """Answer, with a question where one is needed."""
        return await self.guard.answer(request, self.decision, self.ruled)

    async def note(self, request: ApprovalRequest, parked: Parked) -> None:
        """Write down what became of the call while it waits.

        Raises:
            AtcError, OSError: it cannot be written.
        """
        by = "nobody" if parked.event == "expired" else decided_by(self.decision)
        by = "user" if parked.event == "voided" else by
        await self.guard.write(request, self.decision, parked.event, by, parked)


def _by(decision: Decision, answer: Literal[True] | Refusal) -> str:
    if decision.verdict == ("allow" if answer is True else "deny"):
        return decided_by(decision)
    return "choice" if answer is True else "nobody"
