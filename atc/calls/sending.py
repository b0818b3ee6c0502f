"""Sends one call to its tool: within a time limit, and again where a read failed in passing.

A call that the transport did not send yet is not done. So the transport says right before it sends, and the broker
writes that down.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atc._records.records import Feed
from atc.calls.attempt import Attempt
from atc.calls.clock import Clock, HostTime
from atc.calls.contract import CallReply
from atc.calls.json_values import copied
from atc.errors import CallRefused, Cause, InputNeeded, ToolError
from atc.result import Call, Effect
from atc.schemas.protocol import original_arguments
from atc.schemas.validate import ensure_valid_schema
from atc.tools.keys import KeyedTransport
from atc.tools.tool import Answered, Sending, Toolset, Transport, answer_of

if TYPE_CHECKING:
    import tenacity

# ----------------------------------------------------------------------------------------------------------------------
# What the broker of a run allows, and what it asks of the tools that are granted.


@dataclass(frozen=True)
class CallPolicy:
    """Bounds what the broker allows.

    Attributes:
        max_calls: calls in a run, without replays; a resumed run counts from zero.
        call_timeout_s: seconds that one call may take, its retries included; a write whose answer was lost, and that is
            sent again with its idempotency key, has as many once more.
        response_bytes: size of one response as JSON; what is larger is refused, and never cut.
        max_values: values that the arguments of one call may hold, and one response: lists, objects, what is in them.
            More arguments are refused; more of a response, as what is over ``response_bytes``.
        read_attempts: how often a read is tried in all, if it fails with a passing error. A write is tried once.
        retry_wait_s: the first pause between two tries; it doubles, with jitter, unless the service names its own.
            Where the pause would outlast ``call_timeout_s`` there is no further try.
        unwritten: characters of the journal that wait to be written while reads go on.
        notice_s: seconds after which a run says that it waits for its journal.
        replay: answer repeated calls from the journal and refuse to repeat an effect. Off only to measure its worth.
    """

    max_calls: int = 200
    call_timeout_s: float = 30.0
    response_bytes: int = 2_000_000
    max_values: int = 100_000
    read_attempts: int = 3
    retry_wait_s: float = 0.3
    unwritten: int = 10_000_000
    notice_s: float = 1.0
    replay: bool = True


def check_schemas(tools: Toolset) -> None:
    """Check that the schemas of all tools are valid JSON Schemas.

    Raises:
        ToolImportError: one is not.
    """
    for name, tool in tools.items():
        ensure_valid_schema(tool.protocol.parameters, f"the parameters of {name}")
        if tool.protocol.returns is not None:
            ensure_valid_schema(tool.protocol.returns, f"the response of {name}")


# ----------------------------------------------------------------------------------------------------------------------
# How long to wait before a read that failed in passing is tried again.


def pause(first_s: float) -> Callable[[tenacity.RetryCallState], float]:
    """Return a wait that doubles from ``first_s`` seconds, with jitter, unless the service names its own."""
    import tenacity

    backoff = tenacity.wait_exponential(multiplier=first_s, max=10) + tenacity.wait_random(0, first_s)

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, ToolError) else None
        return float(asked) if isinstance(asked, int | float) and 0 <= asked < math.inf else backoff(state)

    return wait


# ----------------------------------------------------------------------------------------------------------------------
# What a dry run does with a call that is not a read: it passes the gates, and is planned instead of made.
#
# A planned call is neither in the journal nor handed to its tool, and nobody is asked to approve it. What it would
# answer is not known. A later call that takes a part of that is planned too, also where it is a read.


NOT_MADE = frozenset({"planned", "pending"})
"""Statuses of calls that pass for done within a program, and were not made."""
_ASKS_ALWAYS = "it depends on what the check warned about: a real run asks before it makes this call"
_NOT_CHECKED = "its arguments can be checked only when all of them are known"


def held_back(calls: Iterable[Call]) -> Literal["planned", "waiting"] | None:
    """Return why a program ended that made calls which are no calls: one waits for approval, or one was planned;
    ``None`` where all were made."""
    statuses = {call.status for call in calls}
    return "waiting" if "pending" in statuses else "planned" if "planned" in statuses else None


def refuse_effect(effect: Effect, *, dry_run: bool) -> None:
    """Stop what would hand a call with effects to its tool in a dry run. No gate lets one come that far.

    Raises:
        AssertionError: it is one. The run breaks off.
    """
    if dry_run and effect is not Effect.READ:
        raise AssertionError("a dry run hands no call with effects to its tool")


def plan(attempt: Attempt) -> CallReply:
    """Plan a call that has passed all gates but the approval, and return its reply."""
    attempt.status = "planned"
    if attempt.warnings:
        attempt.notes.append(_ASKS_ALWAYS)
    return CallReply(planned=True)


def plan_unknown(attempt: Attempt, calls: Collection[Call], *, may_plan: bool) -> CallReply:
    """Plan a call some of whose arguments rest on planned calls, and return its reply.

    Args:
        attempt: the call; its request says which arguments, by the program's own claim.
        calls: those of the run that have ended.
        may_plan: calls of this run may be planned, or wait.

    Raises:
        CallRefused: they may not, or what it rests on was not planned.
    """
    unknown, protocol = attempt.request.unknown, attempt.granted.protocol
    planned = {call.index: call.tool for call in calls if call.status in NOT_MADE}
    if not may_plan or any(number not in planned for places in unknown.values() for number, _ in places):
        raise CallRefused("its arguments hold values of calls that were not planned", status="invalid_arguments")
    attempt.arguments, awaited = (
        original_arguments(protocol, attempt.arguments),
        original_arguments(protocol, {**unknown}),
    )
    if not attempt.arguments.keys().isdisjoint(awaited):
        raise CallRefused("an argument is either known or not", status="invalid_arguments")
    for name, places in awaited.items():
        attempt.awaits += [
            Feed(argument=name, kind="planned", call=number, tool=planned[number], path=path) for number, path in places
        ]
    attempt.status = "planned"
    attempt.notes.append(_NOT_CHECKED)
    return CallReply(planned=True)


@dataclass(frozen=True)
class Sender:
    """Sends the calls of one run: each within a time limit, and again where a read failed in passing.

    Args:
        clock: of the program that makes the calls; the time limit counts in it.
        policy: says how long a call may take, and how often it is tried.
        reads_only: refuse to send anything but a read: this is a dry run.
        host_time: the run's account: the steps of a call at a service are added there, in our own code. Those of the
            user's functions are not: they have the time limit of a call.
    """

    clock: Clock
    policy: CallPolicy
    reads_only: bool = False
    host_time: HostTime = field(default_factory=HostTime)

    async def send(self, attempt: Attempt, mark_sent: Sending) -> Answered:
        """Send a call and return what its tool answered.

        Args:
            attempt: the call of a tool with a transport; a retry is noted in it.
            mark_sent: writes down that the call is sent. The transport awaits it right before.

        Raises:
            ToolError: the tool failed, or refused the call.
            AssertionError: it is no read, in a dry run.
            InputNeeded: only the user can answer it, and nobody is there.
            Exception: whatever ``mark_sent`` raised, also if the transport caught it.
        """
        refuse_effect(attempt.granted.protocol.effect, dry_run=self.reads_only)
        mark = _SentMark(mark_sent)
        try:
            return await self._in_time(attempt, mark)
        except ToolError as error:
            if mark.waits:  # the time was up, which is neither the tool's fault nor a doubt
                raise ToolError(_NOT_RECORDED, status="timeout") from None
            if mark.problem is not None or not _may_be_sent_again(attempt, error):
                raise
            lost = error
        finally:
            if mark.problem is not None:
                raise mark.problem
        return await self._once_more(attempt, mark, lost)

    async def _once_more(self, attempt: Attempt, mark: _SentMark, lost: ToolError) -> Answered:
        await asyncio.sleep(self.policy.retry_wait_s if lost.retry_after is None else lost.retry_after)
        if not _may_be_sent_again(attempt, lost):
            raise lost
        attempt.notes.append("its answer was lost, so it was sent again with its idempotency key")
        try:
            return await self._in_time(attempt, mark)
        except ToolError as error:
            # whatever the service says now, the first one may have been done
            message = f"{lost.message}; sent again with its idempotency key: {error.message}"
            failed = ToolError(message, status=lost.status, outcome="unknown", cause=lost.cause)
            failed.retry_after = error.retry_after
            raise failed from None

    async def _in_time(self, attempt: Attempt, mark: _SentMark) -> Answered:
        remote = attempt.granted.protocol.source.remote
        trying = self._with_retries(attempt, mark)
        if remote:
            trying = self._counted(trying)
        if not getattr(attempt.granted.transport, "blocks", False):  # else in a thread: nothing has a hand on our task
            trying = _unless_cancelled(trying)
        try:
            return await self.clock.within(self.policy.call_timeout_s, trying)
        except (ToolError, InputNeeded):
            raise
        except TimeoutError:
            # a function may be slow with these arguments
            cause: Cause | None = "unreachable" if remote or not attempt.reads else None
            message = f"no answer within {self.policy.call_timeout_s:g} s"
            raise ToolError(message, status="timeout", outcome="unknown", cause=cause) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # it is we who were stopped, not the tool
            raise ToolError("the tool cancelled its own call", status="cancelled", outcome="unknown") from None
        except Exception as error:  # a transport of the user's may raise anything; the run goes on
            name = type(error).__name__
            raise ToolError(f"{name}: {error}", status=name, outcome="unknown", raised=error) from error

    async def _counted(self, work: Coroutine[Any, Any, Answered]) -> Answered:
        return await self.host_time.steps(work)

    async def _with_retries(self, attempt: Attempt, mark: _SentMark) -> Answered:
        began = time.monotonic()
        try:
            return await answer_of(_keyed(attempt), copied(attempt.arguments), mark)
        except ToolError as error:
            tries = self.policy.read_attempts if attempt.reads else 1
            if tries == 1 or not error.transient:
                raise
            failed = error
        import tenacity  # most runs try nothing again

        retrying = tenacity.AsyncRetrying(  # its own price is that of a call, so the first attempt goes without it
            stop=tenacity.stop_after_attempt(tries) | tenacity.stop_before_delay(self.policy.call_timeout_s),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ToolError) and error.transient),
            wait=pause(self.policy.retry_wait_s),
            reraise=True,
        )
        async for trial in retrying:
            with trial:
                if trial.retry_state.attempt_number == 1:
                    trial.retry_state.start_time = began
                    raise failed
                attempt.notes.append(f"tried again after a passing failure ({trial.retry_state.attempt_number})")
                return await answer_of(_keyed(attempt), copied(attempt.arguments), mark)
        raise AssertionError("tenacity ended without a result")


async def _unless_cancelled(work: Coroutine[Any, Any, Answered]) -> Answered:
    """A tool may cancel the task of its call, never ours. Whatever it returns or raises all the same, it was cut off:
    it is neither done nor refused."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        return await asyncio.create_task(work)
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


_NOT_RECORDED = "its record was not written in time, so it was not sent"
MAX_RETRY_AFTER_S = 10.0
"""Seconds that a service may ask for before a write is sent again at once; after more, a resume may send it."""


def _may_be_sent_again(attempt: Attempt, error: ToolError) -> bool:
    entry, key = attempt.entry, attempt.idempotency
    if attempt.reads or key is None or entry is None or entry.state != "open" or not entry.sent:
        return False
    down = isinstance(error.status, int) and error.status >= 500
    lost = error.outcome == "unknown" and (down or error.transient or error.status == "timeout")
    return lost and (error.retry_after or 0) <= MAX_RETRY_AFTER_S and key.is_open(time.time())


def _keyed(attempt: Attempt) -> Transport:
    """Each try of a read bears a new key: a service may answer with the failure that it remembers."""
    transport, key = attempt.granted.transport, attempt.idempotency
    assert transport is not None
    if key is None or not isinstance(transport, KeyedTransport):
        return transport
    return transport.keyed(key.place, str(uuid.uuid4()) if attempt.reads else key.key)


class _SentMark:
    """Is awaited by a transport right before it sends. ``problem`` is what went wrong in it at our own side; ``waits``
    stays true where it was cut off before the record was written: nothing was sent then."""

    def __init__(self, mark_sent: Sending) -> None:
        self._mark_sent = mark_sent
        self.problem: BaseException | None = None
        self.waits = False

    async def __call__(self) -> None:
        self.waits = True
        try:
            await self._mark_sent()
        except asyncio.CancelledError:
            raise
        except BaseException as problem:
            self.waits = False
            if not isinstance(problem, CallRefused):
                self.problem = problem
            raise
        self.waits = False
