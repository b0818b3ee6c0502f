"""Settles calls in doubt: by a read that the user's permissions name, or by the word of a person.

A call in doubt was sent, and no answer came. The read looks at the service whether it was done. It passes the broker,
with the permissions, the limits and the audit of any call; it is no call of the run, and answers none of its programs.

*Done* counts at once. *Not done* counts only if the call was given up as long ago as its own time limit is, and if a
second reading says so too: the service may be at it still. Everything else leaves the call in doubt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from atc._host.blocking import in_thread
from atc._host.redaction import Redactor
from atc._records.events import CallSettled, Emit, Event, unheard
from atc._records.packing import as_text
from atc._records.records import DoubtReason, SettledCall
from atc.calls.attempt import Attempt
from atc.calls.broker import Broker
from atc.calls.contract import CallRequest
from atc.calls.entry import CallEntry
from atc.calls.journal import Journal
from atc.calls.named_calls import NoValue, encoded, filled, sent_arguments
from atc.calls.permissions.conditions import Condition
from atc.calls.permissions.patterns import Reader
from atc.calls.permissions.tool_tables import Settle, said_of
from atc.calls.sending import MAX_RETRY_AFTER_S
from atc.calls.settled import Settlement
from atc.errors import AtcError, UsageError
from atc.result import Effect
from atc.run.approvals import user
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent

PAUSE_S = 2.0
"""Seconds at least from the first reading that says a call was not done to the second."""
OK = 200
"""What ``status`` is of a read that succeeded, whatever it is made of."""
MAX_SAID = 300
"""Characters of what a read said that are shown."""


@dataclass
class Doubt:
    """One call in doubt, while it is settled.

    Attributes:
        entry: of the journal.
        settle: how the user's file settles it; ``None``: it does not.
        tool: of the read, with the arguments that it is called with.
        found: what is known of it up to now.
    """

    entry: CallEntry
    settle: Settle | None = None
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    found: SettledCall = field(init=False)

    def __post_init__(self) -> None:
        self.stays("no_read")

    def stays(self, why: DoubtReason, said: str = "") -> None:
        """Leave it in doubt."""
        self._found("in_doubt", why, said)

    def ends(self, *, done: bool) -> None:
        """Note what it was."""
        self._found("done" if done else "not_done")

    def _found(self, outcome: Literal["done", "not_done", "in_doubt"], why: DoubtReason = "", said: str = "") -> None:
        entry = self.entry
        self.found = SettledCall(
            index=entry.number,
            tool=entry.tool,
            arguments=entry.arguments,
            outcome=outcome,
            why=why,
            by="" if self.settle is None else self.settle.read.text,
            said=said[:MAX_SAID],
        )


Noted = Callable[[SettledCall], None]
Pause = Callable[[float], Awaitable[None]]


@dataclass
class Settling:
    """Settles the calls in doubt of one journal.

    Args:
        agent: whose tools, permissions and limits count.
        journal: of the run, which this process holds.
        run_id: of the run.
        given_up: when each call was given up, or else sent, in seconds since 1970, as far as the trace tells.
        timeout_s: the time limit of a call when the run was begun.
        noted: is told of each call that is settled.
        pause: waits.
    """

    agent: Agent
    journal: Journal
    run_id: str
    given_up: dict[int, float]
    timeout_s: float
    noted: Noted
    pause: Pause = asyncio.sleep

    def __post_init__(self) -> None:
        self._redactor = Redactor(self.agent.settings.secrets)
        self._broker = Broker(
            tools=Toolset(),
            journal=Journal(),  # of its own: a read of this kind answers no program
            emit=unheard,
            policy=self.agent._policy,
            approval=self.agent._approval.of_run(self.run_id),
            redactor=self._redactor,
            rules=frozenset(),  # the arguments are the call's own: nothing repairs them
            dry_run=True,  # and whatever comes, no call with effects is made
        )
        self._broker.know(self.agent.tools)
        self._broker.begin_program()
        self._timeout_s = max(self.timeout_s, self._broker.policy.call_timeout_s)

    async def settle(self, numbers: Sequence[int] | None = None) -> tuple[SettledCall, ...]:
        """Settle calls in doubt by their reads, and return what came of each.

        Args:
            numbers: of the calls; ``None``: all that are in doubt.

        Raises:
            UsageError: one of them is not in doubt.
            JournalError: what was found cannot be written down.
        """
        doubts = [self._doubt(entry) for entry in _chosen(self.journal, numbers)]
        readable = [each for each in doubts if each.tool is not None]
        async with AsyncExitStack() as stack:
            for each in readable:
                await self._open(stack, each)
            first = [each for each in readable if await self._reads(each) is False]
            if first:  # the service may be at it still
                await self.pause(max(PAUSE_S, *(self._left(each.entry) for each in first)))
            for each in first:
                if await self._reads(each) is False:
                    await self._end(each, done=False)
                elif each.found.outcome == "in_doubt" and each.found.why not in ("failed", "both"):
                    each.stays("changed", each.found.said)
        return tuple(each.found for each in doubts)

    def _doubt(self, entry: CallEntry) -> Doubt:
        name = self._broker.name_now(entry.tool, entry.key.source)
        written = self.agent.tools[name].protocol if name is not None and name in self.agent.tools else None
        doubt = Doubt(entry, None if written is None else said_of(tables_of(self.agent), written, lambda of: of.settle))
        doubt.stays("no_read")
        if doubt.settle is None:
            return doubt
        read = self.agent.tools.get(doubt.settle.read.tool)
        if read is None or read.transport is None:
            doubt.stays("no_tool")
        elif not self._only_reads(read):
            doubt.stays("not_a_read")
        elif (arguments := sent_arguments(entry)) is None:
            doubt.stays("masked")
        else:
            try:
                doubt.arguments = encoded(filled(doubt.settle.read, arguments, written), read.protocol)
                doubt.tool = read
            except NoValue as missing:
                doubt.stays("no_value", missing.what)
        return doubt

    def _only_reads(self, tool: Tool) -> bool:
        acted = self.journal.acted(tool.name, self._broker.source_of(tool.name))
        return tool.protocol.effect is Effect.READ and acted is None

    async def _open(self, stack: AsyncExitStack, doubt: Doubt) -> None:
        assert doubt.tool is not None
        try:
            tools = Toolset([doubt.tool])
            await stack.enter_async_context(tools.opened())
            self._broker.grant(tools)
        except Exception as error:  # a server of the user's may fail to start in any way
            doubt.tool = None
            doubt.stays("failed", self._redactor.text(str(error)))

    async def _reads(self, doubt: Doubt) -> bool | None:
        """``True``: the call was done. ``False``: the read says that it was not, once. ``None``: neither."""
        if doubt.tool is None or doubt.settle is None:
            return None
        request = CallRequest(doubt.entry.number, doubt.tool.name, doubt.arguments, 0)
        try:
            attempt = await self._broker.handled(request)
        except AtcError as error:  # such as an audit log that cannot be written
            doubt.stays("failed", self._redactor.text(str(error)))
            return None
        facts = _facts(attempt)
        said = attempt.reply.error if attempt.reply.error is not None else as_text(attempt.reply.value)[: 2 * MAX_SAID]
        if facts is None:
            doubt.stays("failed", self._redactor.text(said))
            return None
        done, not_done = _holds(doubt.settle.done, facts), _holds(doubt.settle.not_done, facts)
        if done is not not_done:
            if done:
                await self._end(doubt, done=True)
            return done
        why: DoubtReason = "both" if done else "failed" if attempt.reply.error is not None else "neither"
        doubt.stays(why, self._redactor.text(said))
        return None

    async def _end(self, doubt: Doubt, *, done: bool) -> None:
        doubt.ends(done=done)
        found = doubt.found
        if not doubt.entry.in_doubt:  # it was sent again with its key, and that try was settled before
            return
        self.journal.settle(found.index, Settlement(done, found.by, person=False, at=time.time()))
        await self.journal.written()
        self.noted(found)

    def _left(self, entry: CallEntry) -> float:
        now, limit = time.time(), self._timeout_s
        if entry.idempotency is not None and entry.state == "open":  # it may have been sent once more before the end
            limit = 2 * limit + MAX_RETRY_AFTER_S
        until = self.given_up.get(entry.number, now) + limit
        return min(max(0.0, until - now), limit)  # a clock may have been set back


def _facts(attempt: Attempt) -> dict[str, Any] | None:
    """Return what conditions speak of: ``status`` and ``body`` of a read; ``None`` where the service said nothing."""
    if attempt.reply.planned or attempt.entry is None:  # refused before it was made
        return None
    if attempt.reply.error is not None:
        stated = type(attempt.reply.status) is int and attempt.cause is None
        return {"status": attempt.reply.status} if stated else None
    stated = attempt.body_error is None  # a body that states an error is no success
    return {"body": attempt.reply.value} | ({"status": OK} if stated else {})


def _holds(conditions: Iterable[Condition], facts: dict[str, Any]) -> bool:
    given, reader = [*conditions], Reader()
    return bool(given) and all(each.allows(facts, reader) for each in given)


def _chosen(journal: Journal, numbers: Sequence[int] | None) -> list[CallEntry]:
    doubtful = {entry.number: entry for entry in journal.entries.values() if entry.in_doubt}
    if numbers is None:
        return [*doubtful.values()]
    if missing := [number for number in numbers if number not in doubtful]:
        raise UsageError(f"call {missing[0]} is not in doubt")
    return [doubtful[number] for number in dict.fromkeys(numbers)]


def tables_of(agent: Agent) -> Any:
    """Return the ``[tools]`` tables of an agent's permissions."""
    policy = agent._approval.policy
    return () if policy is None else policy.permissions.tools


# ----------------------------------------------------------------------------------------------------------------------
# The calls in doubt of a kept run.


async def settle_run(agent: Agent, run_id: str, numbers: Sequence[int] | None = None) -> tuple[SettledCall, ...]:
    """Settle calls in doubt of a kept run by their reads.

    Raises:
        UsageError: there is no such run, it has no journal, or one of the calls is not in doubt.
        JournalError: its journal is damaged, or another process works on the run.
    """
    stored = await in_thread(agent.store.find, run_id)
    noting = _noting(stored, Redactor(agent.settings.secrets))
    async with written_behind(stored) as (journal, writer):
        given_up, timeout_s = await in_thread(_given_up_at, stored)

        def noted(found: SettledCall) -> None:
            writer.submit(noting, found)

        return await Settling(agent, journal, stored.run_id, given_up, timeout_s, noted).settle(numbers)


async def settle_resumed(agent: Agent, journal: Journal, stored: StoredRun, emit: Emit) -> tuple[SettledCall, ...]:
    """Settle the calls in doubt of a run that goes on: a read is harmless, so nobody is asked for it.

    Raises:
        JournalError: what was found cannot be written down.
    """
    if not tables_of(agent):
        return ()

    def noted(found: SettledCall) -> None:
        emit("call_settled", settled_event(found))

    given_up, timeout_s = await in_thread(_given_up_at, stored)
    return await Settling(agent, journal, stored.run_id, given_up, timeout_s, noted).settle()


def settle_by_hand(
    stored: StoredRun, numbers: Sequence[int] | None, *, done: bool, by: str | None = None
) -> tuple[SettledCall, ...]:
    """Take the word of a person for calls in doubt.

    Raises:
        UsageError: it has no journal, no call is named, or one of them is not in doubt.
        JournalError: its journal is damaged, or another process works on the run.
    """
    if not numbers:
        raise UsageError("a person's word is about calls that were looked at: name them by their numbers")
    journal, who = opened(stored), by or user()
    try:
        found = []
        noted = _noting(stored, Redactor())
        for entry in _chosen(journal, numbers):
            outcome: Literal["done", "not_done"] = "done" if done else "not_done"
            each = SettledCall(index=entry.number, tool=entry.tool, arguments=entry.arguments, outcome=outcome, by=who)
            journal.settle(entry.number, Settlement(done, who, person=True, at=time.time()))
            noted(each)
            found.append(each)
        return tuple(found)
    finally:
        journal.close()


def in_doubt(stored: StoredRun) -> tuple[SettledCall, ...]:
    """Return the calls in doubt of a kept run.

    Raises:
        UsageError: it has no journal.
        JournalError: its journal is damaged, or another process works on the run.
    """
    journal = opened(stored)
    try:
        return tuple(Doubt(entry).found for entry in _chosen(journal, None))
    finally:
        journal.close()


def opened(stored: StoredRun) -> Journal:
    """Return the journal of a kept run, which nobody else can write until it is closed.

    Raises:
        UsageError: it has none.
        JournalError: it is damaged, lacks a call, or another process works on the run.
    """
    if not stored.has_journal:
        raise UsageError(f"run {stored.run_id} has no journal: what it did is not known")
    journal = stored.open_journal()
    try:
        journal.require(stored.begun_writes())
    except BaseException:
        journal.close()
        raise
    return journal


@asynccontextmanager
async def written_behind(stored: StoredRun) -> AsyncIterator[tuple[Journal, Executor]]:
    """Hold the journal of a kept run for a block, and the thread that writes it.

    Raises:
        UsageError, JournalError: as :func:`opened`.
    """
    journal = await in_thread(opened, stored)
    try:
        await in_thread(journal.write_behind)
        assert journal.behind is not None
        yield journal, journal.behind.writer
    finally:
        await journal.aclose()


def _given_up_at(stored: StoredRun) -> tuple[dict[int, float], float]:
    """Return when the calls of a run were given up, or else sent, and the time limit of each when it was begun; 0 if it
    does not say. A call whose answer did not come in time is one that takes its service longer than that."""
    given_up: dict[int, float] = {}
    timeout_s = 0.0
    for event in stored.events():
        kind, data, at = event["kind"], event["data"], event["at"]
        of_call = kind in ("call_sent", "call_ended") and isinstance(data.get("index"), int)
        if of_call and isinstance(at, int | float):
            given_up[data["index"]] = float(at)
        elif kind == "run_started":
            given = (data.get("settings") or {}).get("call_timeout_s")
            timeout_s = max(timeout_s, float(given)) if isinstance(given, int | float) else timeout_s
    return given_up, timeout_s


def _noting(stored: StoredRun, redactor: Redactor) -> Noted:
    def noted(found: SettledCall) -> None:
        data = settled_event(found)
        trace = stored.open_trace()
        try:
            trace.write_line(Event("call_settled", redactor.value(data)).line())
        finally:
            trace.close()

    return noted


def settled_event(found: SettledCall) -> CallSettled:
    """Return the data of the event ``call_settled``."""
    return {"index": found.index, "tool": found.tool, "outcome": found.outcome, "by": found.by}
