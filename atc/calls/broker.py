"""The broker: the one door through which every tool call passes.

granted? → arguments → replay → approval → journal → transport → response → journal → reply. Credentials live here.
:mod:`atc.calls.sending` sends a call to its tool; :mod:`atc.calls.responses` makes what came back fit for a program.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from atc import wording
from atc.calls.approval import AFTER_LOOK, Approval, ApprovalRequest, Approving
from atc.calls.argument_repairs import STATED, ArgumentRepairs
from atc.calls.bans import Bans
from atc.calls.clock import Clock, HostTime
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import CallKey, Entry, Journal, call_key
from atc.calls.record import CallRecord, Handled, as_json, cut_arguments, refuse_repetition, same_call
from atc.calls.redact import KeepTraceback, OwnExceptions, Redactor
from atc.calls.responses import Responses, refuse_too_many
from atc.calls.sending import CallPolicy, Sender, check_schemas, plan, plan_unknown, refuse_effect
from atc.errors import CallRefused, ToolError
from atc.packing import pack
from atc.records import Drift, Feed, Invocation, Replacement, SameCall
from atc.result import Call, Effect
from atc.schemas.error_bodies import error_in
from atc.schemas.repair import RULES, repair_arguments
from atc.schemas.validate import problems
from atc.tools.protocol import SourceKey, original_arguments
from atc.tools.tool import Tool, Toolset
from atc.traces.events import Emit

__all__ = ["Broker", "CallPolicy", "check_schemas"]


@dataclass
class Broker:
    """Makes the calls of one run. :meth:`call` is what a sandbox driver is given.

    Args:
        tools: what is granted. Nothing else can be called.
        journal: where calls are written down and replayed from.
        emit: receives an event for every call as it begins and ends.
        approval: decides over every call whose effect is not a read; without one, none is made.
        task: the run's task: what it names is no secret to its programs.
        keep_traceback: keeps the traceback of an exception of the user's own functions; ``None`` keeps none.
        reuse_s: seconds for which an earlier task's reads of the tools ``reusable`` are used again, in a conversation.
        rules: the ids of the rules that are on (:mod:`atc.programs.rules`): some of them repair arguments.
        clock: of the program that makes the calls (:attr:`atc.sandboxes.contract.Job.clock`), and of their time limits.
        dry_run: a call that is not a read passes the gates and is planned, not made; nobody is asked to approve it.
        host_time: the run's account: processor time that its calls take at services is added there.

    Attributes:
        calls: every call of the run that has ended, in order.
        made: calls that were let through to approval; :attr:`CallPolicy.max_calls` bounds it.
        warnings: by tool, what the check warned about in the program that runs and its calls depend on.
        known_writes: once a program has looked at values: the tools that the one which runs calls as a program did
            before. A call of another one with effects has a warning of its own. ``None``: no program has looked.
        bans: tools that broke, and what may be called in their place.
        past_the_end: calls by which ``all_pages`` found that no page is left: they failed, and nothing is wrong.
        feeds_of: says where the arguments of a call came from, for who is asked about it; ``None``: nobody knows.
        until: the event loop's time at which the run's own time is used up; ``None``: never.
        all_tools: the tools that there are, granted or not (:meth:`know`).
        repairs: repairs arguments with the model's help, once it is given a :attr:`ArgumentRepairs.repairer`.

    Raises:
        ToolImportError: a tool's schema is not a valid JSON Schema.
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
    reuse_s: float = 0.0
    reusable: Toolset = field(default_factory=Toolset)
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known_writes: frozenset[str] | None = None
    rules: frozenset[str] = RULES
    dry_run: bool = False
    host_time: HostTime = field(default_factory=HostTime)
    past_the_end: set[int] = field(default_factory=set)
    feeds_of: Callable[[Call], Awaitable[tuple[Feed, ...]]] | None = None
    until: float | None = None
    all_tools: Toolset | None = None

    def __post_init__(self) -> None:
        self.bans = Bans(self.journal.banned, self.name_now)
        policy = self.policy
        self.repairs = ArgumentRepairs(self.journal, self.redactor, policy.repairs, self.waiting)
        exceptions = OwnExceptions(self.redactor, self.task, self.calls, self.keep_traceback)
        self._approving = Approving(
            self.bans, exceptions, self.redactor, self.emit, self.waiting, self._explained, self._same
        )
        self._sender = Sender(
            self.clock, policy.call_timeout_s, policy.read_attempts, policy.retry_wait_s, self.dry_run, self.host_time
        )
        self._responses = Responses(self.redactor, exceptions, policy.response_bytes, policy.max_values)
        self._numbers = max(self.journal.entries, default=0)
        granted, self.tools = self.tools, Toolset()
        self.grant(granted)
        self.bans.rename(self.journal)

    def know(self, tools: Toolset) -> None:
        """Say which tools there are, granted or not: the journal may know them by other names, or others than these."""
        self.all_tools = tools
        self.bans.rename(self.journal)

    def source_of(self, tool: str) -> SourceKey | None:
        """What a tool is known by at its source; ``None`` where that is unknown, or not its own alone."""
        tools = self.all_tools if self.all_tools is not None and tool in self.all_tools else self.tools
        return tools.source_keys.get(tool)

    def key_of(self, call: Call) -> CallKey:
        """What a call of this run is known by in the journal.

        Raises:
            ValueError: its arguments have no canonical form.
        """
        return call_key(call.tool, call.arguments, self.source_of(call.tool))

    def name_now(self, tool: str, source: SourceKey | None) -> str | None:
        """The name that a tool of the journal has now; ``None`` where it is not there, or another has its name."""
        tools = self.tools if self.all_tools is None else self.all_tools
        if source is not None and (name := tools.by_source_key.get(source)) is not None:
            return name
        if tool not in tools and tool not in self.tools:
            return None
        known = self.source_of(tool)
        return tool if source is None or known is None else None

    def _same(self, record: CallRecord, key: CallKey) -> SameCall | None:
        """A call of the run that did, or may have done, what a write asks for."""
        return None if record.effect is Effect.READ else same_call(self.journal, key, self.name_now)

    def grant(self, tools: Toolset) -> None:
        """Let programs call these tools too, from now on.

        Raises:
            ToolImportError: a tool's schema is not a valid JSON Schema; nothing is granted.
        """
        check_schemas(tools)
        self.tools = Toolset({**self.tools, **tools}.values())

    def ban(self, tool: str, substitutes: Sequence[Replacement]) -> None:
        """Refuse a tool that broke until the run ends (:mod:`atc.calls.bans`); these may be called in its place.

        Where it is a write, one alone may, and this holds for later tasks of a conversation, too.

        Raises:
            JournalError: it cannot be written down, so nothing may take the write's place.
        """
        if tool not in self.tools or self._as_recorded(self.tools[tool]).protocol.effect is not Effect.READ:
            substitutes = substitutes[:1]
            for each in substitutes:
                self.journal.ban(tool, each, (self.source_of(tool), self.source_of(each.tool)))
        self.bans.add(tool, substitutes, self.source_of(tool))

    def begin_program(self, warnings: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Begin a new program. ``warnings``: by tool, what the check warned about in it and a call depends on."""
        self.journal.begin_attempt()
        self.warnings = warnings or {}

    def begin_stage(self, *, new_request: bool = False, inputs: Mapping[str, Any] | None = None) -> None:
        """Commit what the last program did, which succeeded, and begin the next stage (:mod:`atc.calls.journal`).

        Programs of the next stage are no revisions of it. Its reads are not replayed; its writes are neither demanded
        nor done again.

        Args:
            new_request: the user asks for something new, so a write may equal one of an earlier stage.
            inputs: values of earlier stages, for the programs of this one; JSON values and bytes.

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written down; the stage before goes on.
        """
        self.journal.begin_stage(new_request=new_request, inputs=inputs)
        self.warnings = {}
        new_request = self.journal.new_request  # false where it was begun before (Journal.begin_again)
        if new_request:
            self._approving.forget()  # what was denied was denied for another request
        masked = pack(self.redactor.value(self.journal.inputs))
        self.emit("stage_started", {"stage": self.journal.stage, "new_request": new_request, "inputs": masked})

    def begin_request(self, *, answered: bool, inputs: Mapping[str, Any], calls: int = 0) -> None:
        """Begin the next task of a conversation (:meth:`Journal.begin_request`), whose last call was number ``calls``.

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written down.
        """
        self.journal.begin_request(answered=answered, inputs=inputs)
        self._numbers = max(self._numbers, calls)
        masked = pack(self.redactor.value(self.journal.inputs))
        self.emit("stage_started", {"stage": self.journal.stage, "new_request": True, "inputs": masked})

    def waiting(self) -> AbstractContextManager[None]:
        """Stop the clock of the program and its calls for a block that waits for a person or a model.

        The run's own budget goes on.
        """
        return self.clock.paused()

    @property
    def writes(self) -> list[Entry]:
        """The calls with effects that this request has made, of all its programs and processes."""
        journal = self.journal
        entries = (entry for number, entry in sorted(journal.entries.items()) if number > journal.before)
        return [entry for entry in entries if entry.effect is not Effect.READ and entry.state == "done"]

    async def _explained(self, record: CallRecord, request: ApprovalRequest) -> ApprovalRequest:
        """A request with where its arguments come from, what is done already, and how long the run can wait."""
        call = record.finish(CallReply(), self.redactor)
        feeds = await self.feeds_of(call) if self.feeds_of is not None else ()
        done = tuple(Invocation(tool=entry.tool, arguments=cut_arguments(entry.arguments)) for entry in self.writes)
        wait_s = None if self.until is None else max(0.0, self.until - asyncio.get_running_loop().time())
        return replace(request, feeds=feeds, done=done, wait_s=wait_s)

    async def call(self, request: CallRequest) -> CallReply:
        """Handle one call of a program. Whatever goes wrong with the call is the reply's error.

        Raises:
            JournalError: the call cannot be written down. What was begun stays in doubt.
        """
        return (await self.handled(request)).reply

    async def handled(self, request: CallRequest) -> Handled:
        """:meth:`call`, with the call's number in the run and the next page that the response's headers name.

        Raises:
            JournalError: as :meth:`call`.
        """
        record = self._begun(request)
        try:
            value = await self._handle(record)
        except ToolError as error:
            return await self._repaired_after(request, record, error, partial(self._failed, record, error))
        except BaseException:  # the run was stopped, or cannot go on
            self._cut_off(record)
            raise
        reply = record.reply(value)
        if record.status == "ok" and (stated := record.body_error) is not None:
            why = ToolError(stated.message, status=STATED)
            return await self._repaired_after(request, record, why, partial(self._ended, record, reply))
        return Handled(self._ended(record, reply), record.number, record.next_page)

    async def _repaired_after(
        self, request: CallRequest, record: CallRecord, error: ToolError, end: Callable[[], CallReply]
    ) -> Handled:
        """What a call that failed is answered with: the answer of a call with repaired arguments, or its own end.

        Args:
            request: of the call. ``record``: of it.
            error: why it failed, or what its response states.
            end: ends the call as it came out.
        """
        tool, made = self.tools.get(record.tool), None
        try:
            if tool is not None and record.number in self.journal.entries and self.made < self.policy.max_calls:
                made = await self.repairs.after(record, tool, error)
        except ToolError:
            made = None  # its program has ended
        except BaseException:
            end()
            raise
        if made is None:
            return Handled(end(), record.number, record.next_page)
        again = self._begun(request)
        record.repaired_by = again.number
        failed = Handled(end(), record.number, record.next_page)
        self.repairs.take_after(again, record, made)
        try:
            value = await self._handle(again)
        except ToolError as second:
            self._failed(again, second)
            return failed  # as the program's own arguments failed
        except BaseException:
            self._cut_off(again)
            raise
        ended = Handled(self._ended(again, again.reply(value)), again.number, again.next_page)
        return ended if again.body_error is None else failed

    def refuse(self, request: CallRequest, error: CallRefused) -> CallReply:
        """Record a call that is refused before any gate."""
        return self._failed(self._begun(request), error)

    def _begun(self, request: CallRequest) -> CallRecord:
        self._numbers += 1
        return CallRecord(
            self._numbers,
            self.journal.attempt,
            request.tool,
            request.arguments,
            request.line,
            page=request.page,
            stage=self.journal.stage,
            unknown=request.unknown,
        )

    async def _handle(self, record: CallRecord) -> Any:
        tool = self._granted(record)
        refuse_too_many(record.arguments, self.policy.max_values)
        if record.unknown:
            await self.bans.compare(record, self.journal)
            self.bans.refuse(record, self.journal, self.redactor)
            self._count()
            return plan_unknown(record, tool.protocol, self.calls, dry_run=self.dry_run)
        await self.repairs.gate(record, tool, self._check_arguments, may_ask=self._may_be_made(record))
        await self.bans.compare(record, self.journal)  # nothing waits from the journal's answer to the approval
        key = _key(record)
        if self.policy.replay:
            if (entry := self.journal.claim(key)) is not None:
                record.status, record.next_page, record.unread = "replayed", entry.next_page, entry.unread
                self._note_body(record, tool, entry.value)
                return entry.value
            if (earlier := self._earlier_read(record, tool, key)) is not None:
                self._note_body(record, tool, earlier.value)
                return earlier.value
            refuse_repetition(self.journal, record, key)
        self.bans.refuse(record, self.journal, self.redactor)
        self._count()
        if self.dry_run and record.effect is not Effect.READ:
            self._approving.refuse_denied(self.approval, record, tool)
            return plan(record, self._warnings(record))
        await self._approving.approve(self.approval, record, tool, key, self._warnings(record))
        try:
            if (record.stage, record.attempt) != (self.journal.stage, self.journal.attempt):
                raise CallRefused("its program ended before this call was made", status="stopped")
            return await self._make(record, tool, key)
        finally:
            self._approving.settle(self.approval, record, key, self.journal.entries.get(record.number))

    def _warnings(self, record: CallRecord) -> tuple[str, ...]:
        """What is unresolved about the program of a call, and about the call itself."""
        seen = self.known_writes is None or record.tool in self.known_writes
        found = self.warnings.get(record.tool, ())
        return found if seen else (*found, AFTER_LOOK)

    def _count(self) -> None:
        if self.made >= self.policy.max_calls:
            raise CallRefused(f"this run has used up its {self.policy.max_calls} tool calls", status="too_many_calls")
        self.made += 1

    def _earlier_read(self, record: CallRecord, tool: Tool, key: CallKey) -> Entry | None:
        """The read of an earlier task that answers this call. A page of several is read anew, with the others."""
        if self.reuse_s <= 0 or record.page or record.effect is not Effect.READ:
            return None
        if self.reusable.get(record.tool) is not tool:  # such as a search for tools, which does more than answer
            return None
        found = self.journal.reusable(key, self.reuse_s)
        if found is None:
            return None
        entry, age = found
        self.journal.reuse(record.number, entry, self.redactor.value(record.arguments))
        record.status, record.next_page = "replayed", entry.next_page
        record.notes.append(f"read {age:.0f} s ago for an earlier task of this conversation")
        return entry

    def _granted(self, record: CallRecord) -> Tool:
        tool = self.tools.get(record.tool)
        if tool is None:
            raise CallRefused(f"{record.tool!r} is not one of the tools of this task", status="not_granted")
        if tool.transport is None:
            message = f"{record.tool!r} has no transport: it can be shown, not called"
            raise CallRefused(message, status="not_granted")
        tool = self._as_recorded(tool)
        record.effect, record.source = tool.protocol.effect, self.source_of(record.tool)
        return tool

    def _as_recorded(self, tool: Tool) -> Tool:
        """A tool with the effect that the journal has of it, where it acted in this run and is now said to read."""
        if tool.protocol.effect is not Effect.READ:
            return tool
        acted = self.journal.acted(tool.name, self.source_of(tool.name))
        return tool if acted is None else tool.graded(acted.effect)

    def _may_be_made(self, record: CallRecord) -> bool:
        """Whether a call could be made, were its arguments right."""
        approved = record.effect is Effect.READ or self.approval.may_allow
        return approved and self.made < self.policy.max_calls and record.tool not in self.bans

    def _check_arguments(self, record: CallRecord, tool: Tool) -> None:
        """The schema gate (RETO §3.4, Eq. 11) with its deterministic tier of repair."""
        arguments = original_arguments(tool.protocol, record.arguments)
        known = self.repairs.respellings.get(record.tool)
        schema, masked = tool.protocol.parameters, self.redactor.value
        made = repair_arguments(schema, arguments, record.effect, known, self.rules, masked)
        record.original, record.arguments = (arguments if made.repairs else None), made.arguments
        record.repairs = made.repairs
        record.notes += wording.argument_repairs(made.repairs, made.more)
        if made.problems:
            raise CallRefused("; ".join(map(str, made.problems[:3])), status="invalid_arguments")

    async def _make(self, record: CallRecord, tool: Tool, key: CallKey) -> Any:
        refuse_effect(record.effect, dry_run=self.dry_run)
        masked = self.redactor.value(record.arguments)
        if (same := self._same(record, key)) is not None:
            record.notes.append(wording.same_call(same))
        entry = self.journal.begin(
            record.number,
            key,
            masked,
            record.effect,
            None if record.original is None else self.redactor.value(record.original),
            record.repaired_for,
        )
        # only once the call is in the journal: a resume relies on that order
        self.emit("call_started", record.started(pack(masked)))
        began = time.perf_counter()
        try:
            answered = await self._sender.send(tool, record, partial(self._mark_sent, entry))
            record.notes += answered.notes
            value = self._responses.usable(answered.value, record)
        except ToolError as error:
            failure = self._responses.failure(error, tool, record, sent=entry.sent)
            self.journal.fail(entry, surely_not_done=failure.outcome == "refused", message=failure.message)
            raise failure from None
        finally:
            record.seconds = time.perf_counter() - began
        self._responses.service_answered(tool)
        if record.unread is None:
            self._note_drift(record, tool, value)
            self._note_body(record, tool, value)
        record.next_page = self.redactor.value(answered.next_page)
        self.journal.succeed(entry, value, record.next_page, record.unread)
        return value

    def _mark_sent(self, entry: Entry) -> None:
        """Write down, right before it happens, that a call is handed to its tool."""
        if entry.sent:
            return
        self.journal.send(entry)
        if entry.effect is not Effect.READ:
            self.emit("call_sent", {"index": entry.number})

    def _note_body(self, record: CallRecord, tool: Tool, value: Any) -> None:
        """Note the error that a response states in its body."""
        shown = [example.response for example in tool.protocol.examples]
        if (stated := error_in(value, tool.protocol.returns, examples=shown)) is not None:
            record.body_error = stated.model_copy(update={"message": self.redactor.text(stated.message)})

    def _note_drift(self, record: CallRecord, tool: Tool, value: Any) -> None:
        if tool.protocol.returns is not None:
            found = problems(tool.protocol.returns, value)[:3]
            record.drift = [Drift(path=each.path, what=each.message) for each in found]

    def _failed(self, record: CallRecord, error: ToolError) -> CallReply:
        record.cause = error.cause
        if record.status == "ok":
            record.status = "refused" if isinstance(error, CallRefused) else "failed"
        if record.status == "refused":
            masked = self.redactor.value  # before they are cut: half a credential is not known as one
            record.arguments = cut_arguments(masked(record.arguments))
            record.original = cut_arguments(masked(record.original)) if record.original is not None else None
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
        self.emit("call_ended", as_json(call))
        return reply


def _key(record: CallRecord) -> CallKey:
    try:
        return call_key(record.tool, record.arguments, record.source)
    except ValueError as error:
        raise CallRefused(f"$: {error}", status="invalid_arguments") from None
