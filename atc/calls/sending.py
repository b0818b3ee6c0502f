"""Sends one call to its tool: within a time limit, and again where a read failed in passing.

A call that the transport did not send yet is not done. So the transport says right before it sends, and the broker
writes that down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import tenacity

from atc.calls.clock import Clock
from atc.calls.planning import refuse_effect
from atc.calls.record import CallRecord
from atc.calls.retries import pause
from atc.errors import CallRefused, Cause, InputNeeded, ToolError
from atc.host_time import HostTime
from atc.result import Effect
from atc.tools.tool import Answered, Tool, answer_of


@dataclass(frozen=True)
class Sender:
    """Sends the calls of one run.

    Args:
        clock: of the program that makes the calls; the time limit counts in it.
        timeout_s: seconds that one call may take, its retries included.
        read_attempts: how often a read is tried in all, if it fails with a passing error. A write is tried once.
        retry_wait_s: the first pause between two tries.
        reads_only: refuse to send anything but a read: this is a dry run.
        host_time: the run's account: the steps of a call at a service are added there, in our own code. Those of the
            user's functions are not: they have the time limit of a call.
    """

    clock: Clock
    timeout_s: float
    read_attempts: int
    retry_wait_s: float
    reads_only: bool = False
    host_time: HostTime = field(default_factory=HostTime)

    async def send(self, tool: Tool, record: CallRecord, mark_sent: Callable[[], None]) -> Answered:
        """Send a call and return what its tool answered.

        Args:
            tool: its transport is given.
            record: of the call; a retry is noted in it.
            mark_sent: writes down that the call is sent. The transport calls it right before.

        Raises:
            ToolError: the tool failed, or refused the call.
            AssertionError: it is no read, in a dry run.
            InputNeeded: only the user can answer it, and nobody is there.
            Exception: whatever ``mark_sent`` raised, also if the transport caught it.
        """
        refuse_effect(tool.protocol.effect, dry_run=self.reads_only)
        mark = _SentMark(mark_sent)
        try:
            return await self._in_time(tool, record, mark)
        finally:
            if mark.problem is not None:
                raise mark.problem

    async def _in_time(self, tool: Tool, record: CallRecord, mark: _SentMark) -> Answered:
        try:
            async with self.clock.timeout(self.timeout_s):
                trying = self._with_retries(tool, record, mark)
                if tool.protocol.source.remote:
                    trying = self._counted(trying)
                return await asyncio.create_task(trying)  # a tool may cancel its task, never ours
        except (ToolError, InputNeeded):
            raise
        except TimeoutError:
            remote = tool.protocol.source.remote  # a function may be slow with these arguments
            cause: Cause | None = "unreachable" if remote or record.effect is not Effect.READ else None
            message = f"no answer within {self.timeout_s:g} s"
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

    async def _with_retries(self, tool: Tool, record: CallRecord, mark: _SentMark) -> Answered:
        assert tool.transport is not None
        began = time.monotonic()
        try:
            return await answer_of(tool.transport, record.arguments, mark)
        except ToolError as error:
            attempts = self.read_attempts if record.effect is Effect.READ else 1
            if attempts == 1 or not error.transient:
                raise
            failed = error
        retrying = tenacity.AsyncRetrying(  # its own price is that of a call, so the first attempt goes without it
            stop=tenacity.stop_after_attempt(attempts) | tenacity.stop_before_delay(self.timeout_s),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ToolError) and error.transient),
            wait=pause(self.retry_wait_s),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                if attempt.retry_state.attempt_number == 1:
                    attempt.retry_state.start_time = began
                    raise failed
                record.notes.append(f"tried again after a passing failure ({attempt.retry_state.attempt_number})")
                return await answer_of(tool.transport, record.arguments, mark)
        raise AssertionError("tenacity ended without a result")


class _SentMark:
    """What a transport calls right before it sends. ``problem`` is what went wrong in it at our own side."""

    def __init__(self, mark_sent: Callable[[], None]) -> None:
        self._mark_sent = mark_sent
        self.problem: BaseException | None = None

    def __call__(self) -> None:
        try:
            self._mark_sent()
        except CallRefused:
            raise
        except BaseException as problem:
            self.problem = problem
            raise
