"""The broker: the one door through which every tool call passes. Credentials live here.

granted → arguments → turn → replay → limits → origins → plan → approval → begin → send → response → outcome. That is
the list :attr:`Broker.stages`. One :class:`~atc.calls.attempt.Attempt` passes it, and the first reply of a stage ends
the call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from atc import wording
from atc._host.redaction import Redactor
from atc._records.events import Emit, unheard
from atc._records.origins import CallOrigins
from atc._records.packing import pack
from atc._records.records import Feed, Replacement, SameCall
from atc.calls.approval import Approval
from atc.calls.approving import Approving
from atc.calls.argument_repairs import ArgumentRepairs
from atc.calls.at_most_once import refuse_repetition, same_call, still_in_doubt
from atc.calls.attempt import ArgumentOrigins, Attempt, as_json
from atc.calls.broken_tools import Alike, BrokenTools, nothing_alike
from atc.calls.clock import Clock, HostTime
from atc.calls.contract import CallReply, CallRequest
from atc.calls.idempotency import SentKey, new_key
from atc.calls.journal import CallEntry, CallKey, Journal, call_key
from atc.calls.own_exceptions import KeepTraceback, OwnExceptions
from atc.calls.parked import digest_of
from atc.calls.parking import Elsewhere
from atc.calls.responses import Responses, refuse_too_many
from atc.calls.sending import CallPolicy, Sender, check_schemas, plan, plan_unknown, refuse_effect
from atc.errors import CallRefused, ToolError
from atc.result import Call, Effect
from atc.schemas.protocol import Protocol as ToolProtocol
from atc.schemas.protocol import SourceKey
from atc.schemas.repair import RULES
from atc.tools.tool import Tool, Toolset

if TYPE_CHECKING:
    from atc.calls.applying import Applying

__all__ = ["Broker", "CallPolicy", "Stage", "check_schemas"]

FEW_LEFT, FEW_PART = 20, 10
"""Calls that are left of a run when one of its calls says so: so many, or one in ten of a run that may make fewer."""

Stage = Callable[[Attempt], Awaitable[CallReply | None]]
"""One step of a call: a reply ends the call, ``None`` lets it go on, and a ToolError refuses or fails it."""


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
        rules: the ids of the rules that are on (:mod:`atc._records.rules`): some of them repair arguments.
        clock: of the program that makes the calls (:attr:`atc.sandboxes.contract.Job.clock`), and of their time limits.
        dry_run: a call that is not a read passes the gates and is planned, not made; nobody is asked to approve it.
        host_time: the run's account: processor time that its calls take at services is added there.

        alike: says whether a write, the second tool, may do what another one did.
        feeds_of: says where the arguments of a call came from, for a person who is asked; ``None``: that is unknown.
        elsewhere: finds an equal call that waits for approval in another run; ``None``: none is looked for.
        applying: holds the writes to a plan that is applied; ``None`` where none is.

    Attributes:
        stages: what a call passes, in order. A stage may change the attempt, refuse it (``CallRefused``) or reply.
        calls: every call of the run that has ended, in order.
        made: calls that were let through to approval; :attr:`CallPolicy.max_calls` bounds it.
        warnings: by tool, what the check warned about in the program that runs and its calls depend on.
        bans: tools that broke, and what may be called in their place.
        past_the_end: calls by which ``all_pages`` found that no page is left: they failed, and nothing is wrong.
        until: the event loop's time at which the run's own time is used up; ``None``: never.
        all_tools: the tools that there are, granted or not (:meth:`know`).
        planned: the calls that a dry run planned, in order.
        repairs: holds arguments to their schema, and repairs them.

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
    rules: frozenset[str] = RULES
    dry_run: bool = False
    host_time: HostTime = field(default_factory=HostTime)
    past_the_end: set[int] = field(default_factory=set)
    alike: Alike = nothing_alike
    feeds_of: Callable[[Call], Awaitable[tuple[Feed, ...]]] | None = None
    until: float | None = None
    all_tools: Toolset | None = None
    elsewhere: Elsewhere | None = None
    applying: Applying | None = None
    planned: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.journal.parked:
            self.approval.check_decisions(self.journal.parked.of_number.values())
        self.broken_tools = BrokenTools(dict(self.journal.banned), self.name_now, self.alike)
        policy = self.policy
        self.repairs = ArgumentRepairs(self.redactor)
        exceptions = OwnExceptions(self.redactor, self.task, self.calls, self.keep_traceback)
        self._approving = Approving(self, exceptions)
        self._sender = Sender(self.clock, policy, self.dry_run, self.host_time)
        self._responses = Responses(self.redactor, exceptions, policy.response_bytes, policy.max_values)
        self.stages: list[Stage] = [
            self._granted,
            self._arguments,
            self._turn,
            self._replay,
            self._limits,
            self._origins,
            self._plan,
            self._approval,
            self._begin,
            self._send,
            self._response,
            self._outcome,
        ]
        self._numbers = self.journal.last
        self.earlier_calls: Sequence[CallEntry] = ()
        """The calls of another run whose values this one's calls have: of a run that is undone."""
        self._called: set[tuple[str, SourceKey | None]] = set()
        self._counted = 0
        self._seen_before: Callable[[], Collection[str]] = frozenset
        self._marked: dict[str, tuple[ToolProtocol | None, bool]] = {}
        granted, self.tools = self.tools, Toolset()
        self.grant(granted)
        self.broken_tools.rename(self.journal)

    def know(self, tools: Toolset) -> None:
        """Say which tools there are, granted or not: the journal may know them by other names, or others than these."""
        self.all_tools = tools
        self.broken_tools.rename(self.journal)

    def follow(
        self,
        origins: Callable[[], ArgumentOrigins],
        author_saw_any: Callable[[], bool] = bool,
        seen_before: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """Say who finds where the arguments of calls come from, and whether their author has seen what strangers write.

        Nobody is asked for the first but where it is needed. ``seen_before``: returns the untrusted tools that answered
        in other runs, of which this one may have values.
        """
        self._approving.origins, self._approving.author_saw_any = origins, author_saw_any
        self._seen_before = seen_before

    def is_untrusted(self, tool: str) -> bool:
        """Return whether strangers write what a tool returns: the permissions say so, or its source does, or did before
        in this run."""
        known = self.protocol_of(tool)
        if tool not in self._marked or self._marked[tool][0] is not known:
            protocol = ToolProtocol.model_construct(name=tool) if known is None else known
            policy = self.approval.policy
            marked = bool(protocol.untrusted) if policy is None else policy.permissions.is_untrusted(protocol)
            self._marked[tool] = known, marked or self._marked.get(tool, (None, False))[1]
        return self._marked[tool][1]

    def protocol_of(self, tool: str) -> ToolProtocol | None:
        """Return the protocol of a tool, granted or not."""
        known = self.tools.get(tool) or (None if self.all_tools is None else self.all_tools.get(tool))
        return None if known is None else known.protocol

    def strangers(self) -> frozenset[str]:
        """Return the tools whose text strangers write, of those that answered in the run, or in those before it."""
        entries = self.journal.entries
        new = (*islice(reversed(entries.values()), len(entries) - self._counted), *self.earlier_calls)
        self._counted = len(entries)
        self._called.update((entry.tool, entry.key.source) for entry in new)
        names = ((tool, self.name_now(tool, source) or tool) for tool, source in self._called)  # programs write either
        called = frozenset(name for both in names if any(map(self.is_untrusted, both)) for name in both)
        return called.union(self._seen_before())

    def source_of(self, tool: str) -> SourceKey | None:
        """Return what a tool is known by at its source; ``None`` where that is unknown, or not its own alone."""
        tools = self.all_tools if self.all_tools is not None and tool in self.all_tools else self.tools
        return tools.source_keys.get(tool)

    def key_of(self, call: Call) -> CallKey:
        """Return what a call of this run is known by in the journal.

        Raises:
            ValueError: its arguments have no canonical form.
        """
        return call_key(call.tool, call.arguments, self.source_of(call.tool))

    def name_now(self, tool: str, source: SourceKey | None) -> str | None:
        """Return the name that a tool of the journal has now; ``None`` if it is gone, or another has its name."""
        tools = self.tools if self.all_tools is None else self.all_tools
        if source is not None and (name := tools.by_source_key.get(source)) is not None:
            return name
        if tool not in tools and tool not in self.tools:
            return None
        known = self.source_of(tool)
        return tool if source is None or known is None else None

    def reads(self, tool: str) -> bool:
        """Return whether a tool is known to read only."""
        return tool in self.tools and self.tools[tool].protocol.effect is Effect.READ

    def grant(self, tools: Toolset) -> None:
        """Let programs call these tools too, from now on.

        Raises:
            ToolImportError: a tool's schema is not a valid JSON Schema; nothing is granted.
        """
        check_schemas(tools)
        self.tools = Toolset({**self.tools, **tools}.values())

    def ban(self, tool: str, substitutes: Sequence[Replacement]) -> None:
        """Refuse a tool that broke until the run ends (:mod:`atc.calls.broken_tools`); these may take its place.

        In the place of a write one alone may be called, and this holds for later tasks of a conversation, too.

        Raises:
            JournalError: it cannot be written down, so nothing may take the write's place.
        """
        source = self.source_of(tool)
        if tool not in self.tools or self._as_recorded(self.tools[tool], source).protocol.effect is not Effect.READ:
            substitutes = substitutes[:1]
            for each in substitutes:
                self.journal.ban(tool, each, (source, self.source_of(each.tool)))
        self.broken_tools.add(tool, substitutes, source)

    def begin_program(self, warnings: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Begin a new program. ``warnings``: by tool, what the check warned about in it and a call depends on."""
        self.journal.begin_attempt()
        self._approving.parking.begin_program()
        self.warnings = warnings or {}

    def begin_stage(
        self,
        *,
        new_request: bool = False,
        inputs: Mapping[str, Any] | None = None,
        origins: CallOrigins | None = None,
    ) -> None:
        """Commit what the last program did, which succeeded, and begin the next stage (:meth:`Journal.begin_stage`).

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written down; the stage before goes on.
        """
        self.journal.begin_stage(new_request=new_request, inputs=inputs, origins=origins)
        self.warnings = {}
        new_request = self.journal.new_request  # false where it was begun before (Journal.begin_again)
        if new_request:
            self._approving.forget()  # what was denied was denied for another request
        self._emit_stage(new_request)

    def begin_request(
        self, *, answered: bool, inputs: Mapping[str, Any], calls: int = 0, origins: CallOrigins | None = None
    ) -> None:
        """Begin the next task of a conversation (:meth:`Journal.begin_request`), whose last call was number ``calls``.

        Raises:
            ValueError: an input is neither a JSON value nor bytes.
            JournalError: it cannot be written down.
        """
        self.journal.begin_request(answered=answered, inputs=inputs, origins=origins)
        self._numbers = max(self._numbers, calls)
        self._emit_stage(True)

    def _emit_stage(self, new_request: bool) -> None:
        masked = pack(self.redactor.value(self.journal.inputs))
        self.emit("stage_started", {"stage": self.journal.stage, "new_request": new_request, "inputs": masked})

    def waiting(self) -> AbstractContextManager[None]:
        """Stop the clock of the program and its calls for a block that waits for a person or a model.

        The run's own budget goes on.
        """
        return self.clock.paused()

    @property
    def holds_back(self) -> bool:
        """Whether calls may be planned, or wait, instead of being made."""
        return self.dry_run or self.approval.may_park

    @property
    def writes(self) -> list[CallEntry]:
        """Return the calls with effects that this request has made, in all its programs and processes."""
        journal = self.journal
        entries = (entry for number, entry in sorted(journal.entries.items()) if number > journal.before)
        return [entry for entry in entries if entry.effect is not Effect.READ and entry.state == "done"]

    # -- one call ------------------------------------------------------------------------------------------------------

    async def call(self, request: CallRequest) -> CallReply:
        """Handle one call of a program. Whatever goes wrong with the call is the reply's error.

        Raises:
            JournalError: the call cannot be written down. What was begun stays in doubt.
        """
        return (await self.handled(request)).reply

    async def handled(self, request: CallRequest) -> Attempt:
        """Handle one call as :meth:`call` does, and return the attempt that answers it, which has ended.

        Raises:
            JournalError: as :meth:`call`.
        """
        attempt = self._begun(request)
        await self._pass_stages(attempt)
        return self._end(attempt)

    async def _pass_stages(self, attempt: Attempt) -> None:
        try:
            attempt.reply = await self._reply(attempt)
        except BaseException:  # the run was stopped, or cannot go on
            self._cut_off(attempt)
            raise
        finally:
            self._approving.settle(attempt)
            if self.applying is not None:
                self.applying.ended(attempt)

    async def _reply(self, attempt: Attempt) -> CallReply:
        try:
            for stage in self.stages:
                if (reply := await stage(attempt)) is not None:
                    return reply
        except ToolError as error:
            attempt.error = self._failed(attempt, error)
            if attempt.entry is not None and attempt.entry.sent and not attempt.reads:
                await self.written()
            return attempt.reply  # still empty: the call's end words the error
        raise AssertionError("the last stage gives no reply")

    # -- its stages, in their order ------------------------------------------------------------------------------------

    async def _granted(self, attempt: Attempt) -> None:
        tool = self.tools.get(attempt.tool)
        if tool is None:
            raise CallRefused(f"{attempt.tool!r} is not one of the tools of this task", status="not_granted")
        if tool.kept is not None:
            message = f"{attempt.tool!r} is a kept program: programs alone can call it"
            raise CallRefused(message, status="not_granted")
        if tool.transport is None:
            message = f"{attempt.tool!r} has no transport: it can be shown, not called"
            raise CallRefused(message, status="not_granted")
        attempt.source = self.source_of(attempt.tool)
        attempt.granted = self._as_recorded(tool, attempt.source)
        attempt.effect = attempt.granted.protocol.effect
        attempt.session = None if attempt.reads else attempt.granted.session
        refuse_too_many(attempt.arguments, self.policy.max_values)

    async def _arguments(self, attempt: Attempt) -> None:
        if not attempt.request.unknown:
            await self.repairs.gate(attempt, self.rules)
            attempt.take_key()
        # nothing waits from the journal's answer to the approval
        await self.broken_tools.compare(attempt, self.journal)

    async def _turn(self, attempt: Attempt) -> None:
        if self.applying is not None:
            if attempt.request.unknown:
                raise CallRefused("nothing is planned while a plan is applied", status="invalid_arguments")
            await self.applying.take_turn(attempt)

    async def _replay(self, attempt: Attempt) -> CallReply | None:
        if attempt.request.unknown or not self.policy.replay:
            return None
        entry = self.journal.claim(attempt.key) or self._earlier_read(attempt)
        if entry is not None:
            self._responses.note_error(attempt, entry.value)
            return attempt.replayed(entry)
        attempt.again = self._to_send_again(attempt)
        try:
            refuse_repetition(self.journal, attempt)
        except CallRefused as error:
            if error.cause is None and not attempt.reads:  # it is not in doubt itself
                await self._approving.refuse_denied_before(attempt)
            raise
        return None

    async def _limits(self, attempt: Attempt) -> None:
        self.broken_tools.refuse(attempt, self.journal, self.redactor)
        if self.made >= self.policy.max_calls:
            raise CallRefused(f"this run has used up its {self.policy.max_calls} tool calls", status="too_many_calls")
        self.made += 1
        left = self.policy.max_calls - self.made
        if left and left == min(FEW_LEFT, self.policy.max_calls // FEW_PART):
            attempt.notes.append(wording.calls_left(left, self.policy.max_calls))

    async def _origins(self, attempt: Attempt) -> None:
        await self._approving.find_origins(attempt)

    async def _plan(self, attempt: Attempt) -> CallReply | None:
        self._approving.parking.refuse_ended()
        attempt.warnings = self.warnings.get(attempt.tool, ())
        if attempt.request.unknown:
            reply = plan_unknown(attempt, self.calls, may_plan=self.holds_back)
        elif attempt.reads or not self.dry_run:
            return None
        else:
            self._approving.refuse_denied(attempt)
            reply = plan(attempt)
        self.planned.append(attempt)
        return reply

    async def _approval(self, attempt: Attempt) -> CallReply | None:
        if (waits := await self._approving.approve(attempt)) is not None:
            return waits
        if (attempt.stage, attempt.program) != (self.journal.stage, self.journal.attempt):  # a person takes time
            raise CallRefused("its program ended before this call was made", status="stopped")
        return None

    async def _begin(self, attempt: Attempt) -> None:
        refuse_effect(attempt.effect, dry_run=self.dry_run)
        if attempt.reads:
            self._approving.parking.note_read()
        if (behind := self.journal.behind) is not None and behind.unwritten > self.policy.unwritten:
            await self.written()
        attempt.idempotency = self._key_of(attempt)
        attempt.masked = masked = self.redactor.value(attempt.arguments)
        if attempt.again is not None:
            attempt.notes.append(wording.sent_again(attempt.again.number))
        elif (same := self.same_call(attempt)) is not None:
            attempt.notes.append(wording.same_call(same))
        attempt.entry = self.journal.begin(
            attempt.number,
            attempt.key,
            masked,
            attempt.effect,
            None if attempt.original is None else self.redactor.value(attempt.original),
            attempt.yes,
            attempt.reads and self._approving.parking.has_begun,
            None if attempt.reads else attempt.idempotency,
            0 if attempt.again is None else attempt.again.number,
        )
        if not attempt.reads:
            await self.written()  # before the time limit of the call begins
        # only once the call is in the journal: a resume relies on that order
        if self.emit is not unheard:
            self.emit("call_started", attempt.started(pack(masked)))

    async def _send(self, attempt: Attempt) -> None:
        assert attempt.entry is not None
        attempt.began = time.perf_counter()
        try:
            answered = await self._sender.send(attempt, partial(self._mark_sent, attempt.entry))
        finally:
            attempt.measured()
        attempt.notes += map(self.redactor.text, answered.notes)
        attempt.value, attempt.next_page = answered.value, answered.next_page

    async def _response(self, attempt: Attempt) -> None:
        try:
            attempt.value = self._responses.usable(attempt.value, attempt)
        finally:
            attempt.measured()
        self._responses.service_answered(attempt.granted)
        if attempt.unread is None:
            self._responses.note_drift(attempt)
            self._responses.note_error(attempt, attempt.value)
        if attempt.next_page is not None:
            attempt.next_page = self.redactor.value(attempt.next_page)

    async def _outcome(self, attempt: Attempt) -> CallReply:
        assert attempt.entry is not None
        self.journal.succeed(attempt.entry, attempt.value, attempt.next_page, attempt.unread)
        self._compare(attempt, attempt.value)
        attempt.reply = attempt.answered(attempt.value)
        if not attempt.reads:
            await self.written()
        return attempt.reply

    # -- what they share -----------------------------------------------------------------------------------------------

    def refuse(self, request: CallRequest, error: CallRefused) -> CallReply:
        """Record a call that is refused before any stage."""
        attempt = self._begun(request)
        attempt.error = error
        return self._end(attempt).reply

    def _compare(self, attempt: Attempt, value: Any, *, failed: bool = False) -> None:
        if not attempt.reads:
            return
        parked, reads_again = self.journal.parked, self.journal.reads_again
        changed = reads_again.compare(attempt.number, attempt.key, value, parked.rounds(), failed=failed)
        if changed is not None and not changed.is_new:
            attempt.notes.append(wording.read_changed(changed))

    def _begun(self, request: CallRequest) -> Attempt:
        self._numbers += 1
        return Attempt(request, number=self._numbers, program=self.journal.attempt, stage=self.journal.stage)

    def same_call(self, attempt: Attempt) -> SameCall | None:
        """Return a call of the run that did, or may have done, what a write asks for."""
        return None if attempt.reads else same_call(self.journal, attempt.key, self.name_now)

    def _to_send_again(self, attempt: Attempt) -> CallEntry | None:
        if attempt.reads or self.dry_run or self._approving.parking.has_begun:
            return None
        rule = attempt.granted.key_rule
        if rule is None or self.journal.doubtful(attempt.key) is None:
            return None
        return self.journal.to_send_again(
            attempt.key, rule, digest_of(attempt.granted, self.journal.run_key), time.time()
        )

    def _key_of(self, attempt: Attempt) -> SentKey | None:
        if attempt.again is not None:
            return attempt.again.idempotency
        rule = attempt.granted.key_rule
        return None if rule is None else new_key(rule, digest_of(attempt.granted, self.journal.run_key), time.time())

    def _earlier_read(self, attempt: Attempt) -> CallEntry | None:
        """A page of several is read anew, with the rest."""
        if self.reuse_s <= 0 or attempt.request.page or not attempt.reads:
            return None
        if self.reusable.get(attempt.tool) is not attempt.granted:  # such as a search for tools, which does more
            return None
        found = self.journal.reusable(attempt.key, self.reuse_s)
        if found is None:
            return None
        entry, age = found
        self.journal.reuse(attempt.number, entry, self.redactor.value(attempt.arguments))
        attempt.notes.append(f"read {age:.0f} s ago for an earlier task of this conversation")
        return entry

    def _as_recorded(self, tool: Tool, source: SourceKey | None) -> Tool:
        """Give a tool that is now said to read the effect that the journal has of it, if it acted, or waits."""
        if tool.protocol.effect is not Effect.READ or not self.journal.has_acted:
            return tool
        acted = self.journal.acted(tool.name, source)
        effect = self.journal.parked.effect_of(tool.name, source) if acted is None else acted.effect
        return tool if effect is None else tool.graded(effect)

    async def _mark_sent(self, entry: CallEntry) -> None:
        if entry.sent:
            return
        if entry.effect is Effect.READ:
            self.journal.send(entry)
            return
        self.journal.mark(entry)
        await self.written()
        self.journal.send(entry)
        self.emit("call_sent", {"index": entry.number})

    async def written(self) -> None:
        """Wait until all that was written down so far is on disk.

        Raises:
            JournalError: it cannot be.
        """
        with self._noticed():
            await self.journal.written()

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """Say so where the journal is waited for, and stop the clock of the program: it is no fault of its."""
        with ExitStack() as stack:

            def notice() -> None:
                stack.enter_context(self.waiting())
                self.emit("store_waiting", {"journal": self.journal.name})

            stack.callback(asyncio.get_running_loop().call_later(self.policy.notice_s, notice).cancel)
            yield

    def _failed(self, attempt: Attempt, error: ToolError) -> ToolError:
        """Return an error as the program may see it; write the failure of a call that was begun into the journal."""
        entry = attempt.entry
        if entry is None or entry.state != "open":
            return error
        failure = self._responses.failure(error, attempt, sent=entry.sent)
        self.journal.fail(entry, surely_not_done=failure.outcome == "refused", message=failure.message)
        self._compare(attempt, None, failed=True)
        return failure if attempt.again is None else still_in_doubt(attempt, failure)

    def _cut_off(self, attempt: Attempt) -> None:
        """Record a call that was begun and whose outcome nobody will learn; one that was not sent did nothing."""
        entry = self.journal.entries.get(attempt.number)
        if entry is None:
            return
        if entry.state == "done":  # it was answered, and the record of that was waited for
            self._end(attempt)
            return
        message = f"the run was stopped {'during this call' if entry.sent else 'before this call was sent'}"
        self.journal.cut_off(entry, message)
        attempt.status = "in_doubt" if entry.in_doubt else "failed"
        attempt.error, attempt.reply = None, CallReply(error=message, status="stopped")
        self._end(attempt)

    def _end(self, attempt: Attempt) -> Attempt:
        if attempt.error is not None:
            attempt.reply = attempt.fail(attempt.error, self.redactor)
            if self.applying is not None and self.applying.ends(attempt.error):
                attempt.reply = attempt.reply._replace(ends=True)
        self._approving.let_ask(attempt)
        call = attempt.finish(attempt.reply, self.redactor)
        self.calls.append(call)
        if self.emit is not unheard:
            self.emit("call_ended", as_json(call))
        return attempt
