"""The broker: the one door through which every tool call passes.

granted? → arguments → replay → approval → journal → transport → response → journal → reply. Credentials live here.
A call that the transport did not send yet is not done, however it ends.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import tenacity

from atc.calls.approval import Approval, ApprovalRequest
from atc.calls.clock import Clock
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import CallKey, Entry, Journal, call_key
from atc.calls.json_values import TooMany, plain
from atc.calls.mask import masked_text
from atc.calls.own_exceptions import KeepTraceback, OwnExceptions, beginning
from atc.calls.record import CallRecord, Handled, cut_arguments
from atc.calls.redact import Redactor
from atc.calls.retries import pause
from atc.errors import CallRefused, Cause, ToolError
from atc.facts import Drift
from atc.packing import as_text, pack
from atc.result import Call, Effect
from atc.schemas.repair import repaired
from atc.schemas.validate import ensure_valid_schema, problems
from atc.tools.parameters import original_arguments
from atc.tools.tool import Answered, Tool, Toolset, answer_of
from atc.traces.events import Emit

MAX_ERROR = 4000
"""Characters of a tool's error that are passed on."""


@dataclass(frozen=True)
class CallPolicy:
    """What the broker allows.

    Attributes:
        max_calls: calls a run, replays not counted; a resumed run counts anew.
        call_timeout_s: seconds that one call may take, its retries included.
        response_bytes: size of one response as JSON; a longer text is cut, a larger structure is refused.
        read_attempts: how often a read that failed in passing is tried in all. A write is tried once.
        retry_wait_s: the first pause between two tries; it doubles, with jitter, unless the service names its own.
            Where the pause would outlast ``call_timeout_s`` there is no further try.
        replay: answer repeated calls from the journal and refuse to repeat an effect. Off only to measure its worth.
    """

    max_calls: int = 200
    call_timeout_s: float = 30.0
    response_bytes: int = 2_000_000
    read_attempts: int = 3
    retry_wait_s: float = 0.3
    replay: bool = True


def check_schemas(tools: Toolset) -> None:
    """
    Raises:
        ToolImportError: a tool's schema is none.
    """
    for name, tool in tools.items():
        ensure_valid_schema(tool.protocol.parameters, f"the parameters of {name}")
        if tool.protocol.returns is not None:
            ensure_valid_schema(tool.protocol.returns, f"the response of {name}")


@dataclass
class Broker:
    """Makes the calls of one run. :meth:`call` is what a sandbox driver is given.

    Args:
        tools: what is granted. Nothing else can be called.
        journal: where calls are written down and replayed from.
        emit: told of every call as it begins and ends.
        approval: decides over every call whose effect is not a read; without one, none is made.
        task: the run's task: what it names is no secret to its programs.
        keep_traceback: keeps the traceback of an exception of the user's own functions; ``None`` keeps none.
        clock: of the program that makes the calls (:attr:`atc.sandboxes.contract.Job.clock`), and of their time limits.

    Raises:
        ToolImportError: a tool's schema is none.
    """

    tools: Toolset
    journal: Journal
    emit: Emit
    policy: CallPolicy = field(default_factory=CallPolicy)
    approval: Approval = field(default_factory=Approval)
    redactor: Redactor = field(default_factory=Redactor)
    task: str = ""
    keep_traceback: KeepTraceback | None = None
    clock: Clock = field(default_factory=Clock)
    calls: list[Call] = field(default_factory=list)
    made: int = 0
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._approving = asyncio.Lock()
        self._denied: set[CallKey] = set()
        self._answered: set[str] = set()  # services that answered a call of this run
        self._exceptions = OwnExceptions(self.redactor, self.task, self.calls, self.keep_traceback)
        self._numbers = max(self.journal.entries, default=0)
        granted, self.tools = self.tools, Toolset()
        self.grant(granted)

    def grant(self, tools: Toolset) -> None:
        """Let programs call these tools too, from now on.

        Raises:
            ToolImportError: a tool's schema is none; nothing is granted.
        """
        check_schemas(tools)
        self.tools = Toolset({**self.tools, **tools}.values())

    def begin_program(self, warnings: Sequence[str] = ()) -> None:
        """A new program starts. ``warnings``: what the check warned about in it, and nobody has resolved."""
        self.journal.begin_attempt()
        self.warnings = tuple(warnings)

    def begin_stage(self, *, new_request: bool = False, inputs: Mapping[str, Any] | None = None) -> None:
        """The last program succeeded: commit what it did, and begin the next stage (:mod:`atc.calls.journal`).

        Programs that run from now on are no revisions of it: its reads are not replayed, and its writes neither asked
        for nor done again.

        Args:
            new_request: the user asks for something new, so a write may equal one of an earlier stage.
            inputs: values of earlier stages, for the programs of this one; JSON values and bytes.

        Raises:
            ValueError: the inputs are no JSON values and bytes.
            JournalError: it cannot be written down; the stage before goes on.
        """
        self.journal.begin_stage(new_request=new_request, inputs=inputs)
        self.warnings = ()
        new_request = self.journal.new_request  # false where it was begun before (Journal.begin_again)
        if new_request:
            self._denied.clear()  # it was denied for another request
        masked = pack(self.redactor.value(self.journal.inputs))
        self.emit("stage_started", {"stage": self.journal.stage, "new_request": new_request, "inputs": masked})

    def waiting(self) -> AbstractContextManager[None]:
        """For a block in which a person or a model is waited for: the clock of the program and its calls stands still.

        The run's own budget goes on.
        """
        return self.clock.paused()

    async def call(self, request: CallRequest) -> CallReply:
        """Handle one call of a program, whatever it is; what goes wrong with it is the reply's error.

        Raises:
            JournalError: the call cannot be written down. What was begun stays in doubt.
        """
        return (await self.handled(request)).reply

    async def handled(self, request: CallRequest) -> Handled:
        """:meth:`call`, with the call's number in the run, and what the response's headers say of the next page."""
        record = self._begun(request)
        try:
            value = await self._handle(record)
        except ToolError as error:
            return Handled(self._failed(record, error), record.number)
        except BaseException:  # the run was stopped, or cannot go on
            self._cut_off(record)
            raise
        return Handled(self._ended(record, CallReply(value=value)), record.number, record.next_page)

    def refuse(self, request: CallRequest, error: CallRefused) -> CallReply:
        """Record a call that is refused before any gate was asked."""
        return self._failed(self._begun(request), error)

    def _begun(self, request: CallRequest) -> CallRecord:
        self._numbers += 1
        journal, arguments, line = self.journal, request.arguments, request.line
        return CallRecord(
            self._numbers, journal.attempt, request.tool, arguments, line, page=request.page, stage=journal.stage
        )  # fmt: skip

    async def _handle(self, record: CallRecord) -> Any:
        tool = self._granted(record)
        self._check_arguments(record, tool)
        key = _key(record)
        if self.policy.replay:
            if (entry := self.journal.claim(key)) is not None:
                record.status, record.next_page = "replayed", entry.next_page
                return entry.value
            self._once_only(record, key)
        if self.made >= self.policy.max_calls:
            raise CallRefused(f"this run has used up its {self.policy.max_calls} tool calls", status="too_many_calls")
        self.made += 1
        await self._approved(record, tool, key)
        if (record.stage, record.attempt) != (self.journal.stage, self.journal.attempt):
            raise CallRefused("its program ended before this call was made", status="stopped")
        return await self._make(record, tool, key)

    def _granted(self, record: CallRecord) -> Tool:
        tool = self.tools.get(record.tool)
        if tool is None or tool.transport is None:
            what = (
                "is not one of the tools of this task"
                if tool is None
                else "has no transport: it can be shown, not called"
            )
            raise CallRefused(f"{record.tool!r} {what}", status="not_granted")
        record.effect = tool.protocol.effect
        return tool

    def _check_arguments(self, record: CallRecord, tool: Tool) -> None:
        """The schema gate (RETO §3.4, Eq. 11) with its deterministic tier of repair."""
        arguments = original_arguments(tool.protocol, record.arguments)
        record.arguments, notes = repaired(tool.protocol.parameters, arguments)
        record.notes += notes
        wrong = problems(tool.protocol.parameters, record.arguments)
        if wrong:
            raise CallRefused("; ".join(map(str, wrong[:3])), status="invalid_arguments")

    def _once_only(self, record: CallRecord, key: CallKey) -> None:
        """Refuse what could do the same thing twice."""
        if record.effect is Effect.READ:
            return
        if self.journal.doubtful(key) is not None:
            raise CallRefused(
                "the same call was begun before and its outcome is unknown; it is not made again",
                status="in_doubt",
                cause="in_doubt",
            )
        if (done := self.journal.committed(key)) is not None:
            raise CallRefused(
                f"an earlier stage already did {record.tool} with {as_text(done.arguments)[:500]}, and it is not done "
                "again. Leave this call out, and use the values that the earlier stage left",
                status="already_done",
            )
        if (earlier := self.journal.unasked(record.tool)) is None:
            return
        said = as_text(earlier.arguments)[:500]
        if earlier.in_doubt:
            raise CallRefused(
                f"an earlier program began {record.tool} with {said} and its outcome is unknown; calling it with "
                "others might do it twice. If this is another matter, first call it with exactly those and catch the "
                "ToolError",
                status="in_doubt",
            )
        raise CallRefused(
            f"an earlier program already did {record.tool} with {said}; call it with exactly these arguments "
            "to get its recorded answer before you call it with others",
            status="already_done",
        )

    async def _approved(self, record: CallRecord, tool: Tool, key: CallKey) -> None:
        """Ask, once for each call; whatever is not a yes is a no."""
        if record.effect is Effect.READ:
            return
        request = ApprovalRequest(
            record.tool, record.arguments, record.effect, tool.protocol.description, self.warnings
        )  # fmt: skip
        verdict = self.approval.decide(request)
        if verdict == "allowed":
            return
        if verdict == "denied":
            raise _not_approved("calls with effects are not approved in this run")
        if verdict == "warned":
            warnings = "; ".join(self.warnings)[:MAX_ERROR]
            raise CallRefused(f"the program has an unresolved warning: {warnings}", status="warned")
        async with self._approving:  # one question at a time
            if key in self._denied:
                raise _not_approved("the user did not approve this call before")
            self.emit("approval_asked", pack(self.redactor.value(record.started() | {"warnings": list(self.warnings)})))
            try:
                with self.waiting():
                    answer = verdict(request)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except Exception as error:
                record.notes.append(f"asking for approval failed: {self._exceptions.words(error, record.arguments)}")
                raise _not_approved("the user could not be asked to approve this call") from error
            if answer is not True:
                self._denied.add(key)
                raise _not_approved("the user did not approve this call")

    async def _make(self, record: CallRecord, tool: Tool, key: CallKey) -> Any:
        entry = self.journal.begin(record.number, key, self.redactor.value(record.arguments), record.effect)
        # told after it is in the journal: a resume relies on that
        self.emit("call_started", pack(self.redactor.value(record.started())))
        began = time.perf_counter()
        try:
            answered = await self._answered_by(tool, record, _Sending(self, entry))
            record.notes += answered.notes
            value = self._usable(answered.value, record)
        except ToolError as error:
            raise self._noted(entry, record, tool, error) from None
        finally:
            record.seconds = time.perf_counter() - began
        self._answered.add(tool.protocol.source.service)
        self._note_drift(record, tool, value)
        record.next_page = self.redactor.value(answered.next_page)
        self.journal.succeed(entry, value, record.next_page)
        return value

    async def _answered_by(self, tool: Tool, record: CallRecord, sending: _Sending) -> Answered:
        """Make the call; whatever goes wrong at the tool is a ToolError, and what goes wrong here is not."""
        try:
            return await self._in_time(tool, record, sending)
        finally:
            if sending.problem is not None:
                raise sending.problem

    async def _in_time(self, tool: Tool, record: CallRecord, sending: _Sending) -> Answered:
        limit = self.policy.call_timeout_s
        try:
            async with self.clock.timeout(limit):
                trying = self._tried(tool, record, sending)
                return await asyncio.create_task(trying)  # a tool may cancel its task, never ours
        except ToolError:
            raise
        except TimeoutError:
            remote = tool.protocol.source.remote  # a function may be slow with these arguments
            cause: Cause | None = "unreachable" if remote or record.effect is not Effect.READ else None
            raise ToolError(f"no answer within {limit:g} s", status="timeout", outcome="unknown", cause=cause) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # it is we who were stopped, not the tool
            raise ToolError("the tool cancelled its own call", status="cancelled", outcome="unknown") from None
        except Exception as error:  # a transport of the user's may raise anything; the run goes on
            name = type(error).__name__
            raise ToolError(f"{name}: {error}", status=name, outcome="unknown", raised=error) from error

    async def _tried(self, tool: Tool, record: CallRecord, sending: _Sending) -> Answered:
        assert tool.transport is not None
        attempts = self.policy.read_attempts if record.effect is Effect.READ else 1
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(attempts) | tenacity.stop_before_delay(self.policy.call_timeout_s),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ToolError) and error.transient),
            wait=pause(self.policy.retry_wait_s),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    record.notes.append(f"tried again after a passing failure ({attempt.retry_state.attempt_number})")
                return await answer_of(tool.transport, record.arguments, sending)
        raise AssertionError("tenacity ended without a result")

    def _noted(self, entry: Entry, record: CallRecord, tool: Tool, error: ToolError) -> ToolError:
        """Write a failure down; return it as the program may see it."""
        message = self.redactor.text(str(error.message))
        if error.raised is not None:
            message = self._exceptions.masked(message, record.arguments)
            record.traceback = self._exceptions.kept(record.number, error.raised)
        elif self.tools[record.tool].protocol.source.kind == "function":
            message = masked_text(beginning(message))
        elif error.service_message:
            record.service_message = self.redactor.text(error.service_message)[:MAX_ERROR]
        message = message[:MAX_ERROR]
        outcome = error.outcome if entry.sent else "refused"
        surely_not = outcome == "refused"
        self.journal.fail(entry, surely_not_done=surely_not, message=message)
        record.status = "failed" if surely_not or record.effect is Effect.READ else "in_doubt"
        if isinstance(error, CallRefused):
            record.status = "refused"  # by a gate of ours before the transport: the tool never heard of it
        status = error.status
        if status is not None and type(status) is not int:
            status = self.redactor.text(str(status))[:100]
        cause = self._cause(record, tool, error, surely_not)
        return ToolError(message, status=status, outcome=outcome, cause=cause)

    def _cause(self, record: CallRecord, tool: Tool, error: ToolError, surely_not_done: bool) -> Cause | None:
        """Why no other program can help, if none can.

        A call that may have been sent and got no answer: an effect is in doubt. A read shows that the service is down,
        unless the service answered before: then other arguments may help.
        """
        service = tool.protocol.source.service
        if error.cause != "unreachable":
            self._answered.add(service)
            return error.cause
        if surely_not_done:
            return "unreachable"
        if record.effect is not Effect.READ:
            return "in_doubt"
        return None if service in self._answered else "unreachable"

    def _usable(self, value: Any, record: CallRecord) -> Any:
        """The response as the program gets it. One that cannot be used fails a read; after an effect it is dropped."""
        limit = self.policy.response_bytes
        try:
            value = self.redactor.value(plain(value))
            size = len(json.dumps(pack(value), ensure_ascii=False).encode())
            if size <= limit:
                return value
            if isinstance(value, str):
                record.notes.append(f"the response was cut from {size:,} bytes")
                return value.encode()[:limit].decode("utf-8", "ignore") + f" … [cut: it has {size:,} bytes]"
            problem = ToolError(
                f"the response has {size:,} bytes, over the limit of {limit:,}: ask for less", status="too_large"
            )
        except TooMany as error:
            problem = ToolError(f"the response is too large, {error}: ask for less", status="too_large")
        except ValueError as error:
            problem = ToolError(f"the response is no usable JSON: {error}", status="bad_response", cause="bad_response")
        if record.effect is Effect.READ:
            raise problem
        record.notes.append(f"it was done; {problem.message}, so its response was dropped")
        return None

    def _note_drift(self, record: CallRecord, tool: Tool, value: Any) -> None:
        if tool.protocol.returns is not None:
            found = problems(tool.protocol.returns, value)[:3]
            record.drift = [Drift(path=each.path, what=each.message) for each in found]

    def _failed(self, record: CallRecord, error: ToolError) -> CallReply:
        record.cause = error.cause
        if record.status == "ok":
            record.status = "refused" if isinstance(error, CallRefused) else "failed"
        if record.status == "refused":
            record.arguments = cut_arguments(record.arguments)
        return self._ended(record, CallReply(error=self.redactor.text(error.message), status=error.status))

    def _cut_off(self, record: CallRecord) -> None:
        """Record a call that was begun and whose outcome nobody will learn; one that was not sent did nothing."""
        entry = self.journal.entries.get(record.number)
        if entry is None:
            return
        message = f"the run was stopped {'during this call' if entry.sent else 'before this call was sent'}"
        self.journal.cut_off(entry, message)
        record.status = "in_doubt" if entry.in_doubt else "failed"
        self._ended(record, CallReply(error=message, status="stopped"))

    def _ended(self, record: CallRecord, reply: CallReply) -> CallReply:
        call = record.finish(reply, self.redactor)
        self.calls.append(call)
        self.emit("call_ended", call.model_dump(mode="json"))
        return reply


class _Sending:
    """What a transport calls right before it sends one call. ``problem`` is what went wrong in it at our own side."""

    def __init__(self, broker: Broker, entry: Entry) -> None:
        self._broker, self._entry = broker, entry
        self.problem: BaseException | None = None

    def __call__(self) -> None:
        entry = self._entry
        if entry.sent:
            return
        try:
            self._broker.journal.send(entry)
            if entry.effect is not Effect.READ:
                self._broker.emit("call_sent", {"index": entry.number})
        except CallRefused:
            raise
        except BaseException as problem:
            self.problem = problem
            raise


def _not_approved(message: str) -> CallRefused:
    return CallRefused(message, status="denied", cause="denied")


def _key(record: CallRecord) -> CallKey:
    try:
        return call_key(record.tool, record.arguments)
    except ValueError as error:
        raise CallRefused(f"$: {error}", status="invalid_arguments") from None
