"""Single calls that no program asked for: reads that are made so that what a tool answers is known beforehand.

One way for a run (``probe="reads"``), for ``--probe-reads`` of ``atc mcp``, and for the calls that its clients make one
at a time. Each call passes the broker as any other; the catalogue learns the shape of an answer, and no more stays.

A tool is called where it surely reads (:func:`atc.probing.call_policy.why_not`), its response says nothing, and each
argument that it must be given has a value that is known: one that its own document states (``const``, ``enum``,
``examples``, ``default``), or one that a tool of the same service has just answered with. A value that was only made up
for its name is none, nor is one of another service: nobody asked that it go there. Nobody is asked about such a call,
either: one that would need approval is left out.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from atc._host.redaction import Redactor
from atc._records.records import ProbedRead
from atc.calls.approval import Approval, ApprovalRequest
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import Journal
from atc.catalogue.catalogue import Catalogue
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.probing.call_policy import door_of, why_not
from atc.probing.candidates import LIKELY, SURE, UNLIKELY, Candidate, ValuePool, candidates, combinations
from atc.result import Effect
from atc.schemas.identifiers import GENERIC, VERBS, words_of
from atc.schemas.observed import says_nothing
from atc.schemas.protocol import Parameter, Protocol, parameters_of
from atc.settings import Settings
from atc.tools.tool import Tool, Toolset

MAX_BYTES = 5_000_000
"""Bytes of one answer."""
LOOKED_AT = 4
"""Tools whose arguments are sought, for each call that may be made: values are many where answers are."""
AT_ONCE = 4
"""Calls at the same time."""
GRACE_S = 0.2
"""Seconds that a call which is given up has to end."""
LEARNT_S = 5.0
"""Seconds that are waited until an answer is learnt, at most."""
SHOWN = ("corrected", "seen", "stated")
"""The evidence of an edge that is more than names."""
CLOSING = (401, 429)
"""Statuses after which a service is asked nothing more: it wants a credential, or rest."""


@dataclass(frozen=True)
class Limits:
    """What probing reads may cost.

    Attributes:
        calls: at most.
        seconds: that all take together; what is under way then is given up.
        wave: calls after which it is seen anew what can be called, for their answers may serve as arguments.
    """

    calls: int
    seconds: float
    wave: int


AT_START = Limits(calls=100, seconds=120.0, wave=25)
"""Of a server, which begins to serve meanwhile."""
IN_RUN = Limits(calls=10, seconds=5.0, wave=4)
"""Of a run, whose first program waits for it."""


async def single_call(
    tool: Tool,
    arguments: Mapping[str, Any],
    approval: Approval,
    redactor: Redactor,
    timeout_s: float,
    *,
    attempts: int = 3,
    begin: Callable[[Broker], None] = lambda _: None,
) -> CallReply:
    """Make one call. Whatever goes wrong with it is the reply's error.

    Args:
        tool: what its transport needs is held by the caller, or made for this call.
        arguments: JSON values by parameter; they are checked, and not repaired.
        approval: decides over it.
        redactor: masks the credentials that are known.
        timeout_s: seconds that it may take.
        attempts: how often a read is tried that fails in passing.
        begin: is given the broker before it makes the call.

    Raises:
        ToolImportError: the tool's schema is not a valid JSON Schema.
    """
    journal = Journal(None)
    policy = CallPolicy(1, timeout_s, MAX_BYTES, read_attempts=attempts)
    broker = Broker(Toolset([tool]), journal, _unheard, policy, approval, redactor, rules=frozenset())
    begin(broker)
    broker.begin_program()
    try:
        return await broker.call(CallRequest(1, tool.name, dict(arguments), 0))
    finally:
        journal.close()


def _unheard(kind: str, data: Any) -> None:
    """Nobody listens to the events of a call that belongs to no program."""


async def probe_reads(
    catalogue: Catalogue,
    settings: Settings,
    approval: Approval,
    redactor: Redactor,
    *,
    among: Collection[str] | None = None,
    task: str = "",
    limits: Limits = AT_START,
    opened: bool = False,
    heard: Callable[[ProbedRead], None] = lambda _: None,
) -> list[ProbedRead]:
    """Call each tool once that surely reads, of whose response nothing is known, and whose arguments are known.

    What one answers gives arguments to the next, so this goes on until nothing more can be called, or its time is up.

    Args:
        catalogue: of the tools; it learns the shapes, and knows which were called before in this process.
        settings: for the time limit of a call.
        approval: a tool that it would ask about, or denies, is not called.
        redactor: masks the credentials that are known.
        among: the names of the tools that may be called, the likeliest first; all when not given.
        task: the user's words: of the values that a document allows, one that they name comes first, and so do tools
            that they seem to mean.
        limits: what it may cost.
        opened: what the tools' transports need is open already.
        heard: told of each call as it ends.

    Returns:
        The calls that were made, in the order of their waves.

    Raises:
        UsageError: the catalogue learns nothing.
        ToolImportError: a tool's schema is not a valid JSON Schema.
    """
    if not settings.learns:
        raise UsageError("what a probe finds cannot be kept, for `learn` is off (ATC_LEARN)")
    timeout_s = min(settings.call_timeout_s, limits.seconds)
    probing = _Reads(catalogue, approval, redactor, limits, timeout_s, task, opened, heard)
    await probing.make([*catalogue.tools] if among is None else among)
    return probing.made


@dataclass
class _Reads:
    """One probing of reads.

    Attributes:
        made: the calls that have ended.
        answers: with their service, tool and arguments, those whose values are in no pool yet.
        pools: by service, the values of its answers.
        closed: services that are asked nothing more.
    """

    catalogue: Catalogue
    approval: Approval
    redactor: Redactor
    limits: Limits
    timeout_s: float
    task: str
    opened: bool
    heard: Callable[[ProbedRead], None]
    made: list[ProbedRead] = field(default_factory=list)
    answers: list[tuple[str, str, dict[str, Any], Any]] = field(default_factory=list)
    pools: dict[str, ValuePool] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    async def make(self, among: Iterable[str]) -> None:
        """Make the calls, in waves: one gives values to the next."""
        until = time.monotonic() + self.limits.seconds
        graph = await self.catalogue.current_graph()
        todo = self._silent(among, graph)
        while todo and (left := self.limits.calls - len(self.made)) > 0:
            most = min(left, self.limits.wave)
            wave = await asyncio.to_thread(self._ready, todo, graph, most, until)  # answers may hold many values
            if not wave or not await self._wave(wave, until):
                return
            todo = [name for name in todo if name not in wave]
            graph = await self.catalogue.current_graph()  # with what the answers have just taught

    def _silent(self, among: Iterable[str], graph: ToolGraph) -> list[str]:
        tools, shown = self.catalogue.tools, graph.protocols_with_shapes
        found = [
            name
            for name in among
            if name in tools
            and name not in self.catalogue.probed
            and tools[name].transport is not None
            and self.catalogue.may_learn(name)
            and not why_not(tools[name].protocol)
            and says_nothing(shown[name].returns)
        ]
        return by_task(self.task, {name: tools[name].protocol for name in found})[: self.limits.calls * LOOKED_AT]

    async def _wave(self, wave: Mapping[str, dict[str, Any]], until: float) -> bool:
        """Return whether there is time for more."""
        limiter, begun = asyncio.Semaphore(AT_ONCE), dict[str, float]()
        calls = {asyncio.create_task(self._call(name, given, limiter, begun)): name for name, given in wave.items()}
        try:
            done, late = await asyncio.wait(calls, timeout=max(0.0, until - time.monotonic()))
        finally:
            for each in calls:
                each.add_done_callback(_heard_out)
                each.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE_S)  # what does not end then ends without us: it reads
        made = [each.result() for each in done]
        given_up = [calls[each] for each in late if calls[each] in begun]
        made += [self._read(name, wave[name], "timeout", since=begun[name]) for name in given_up]
        for read in filter(None, made):
            self.made.append(read)
            self.heard(read)
        return not late

    async def _call(
        self, name: str, arguments: dict[str, Any], limiter: asyncio.Semaphore, begun: dict[str, float]
    ) -> ProbedRead | None:
        tool = self.catalogue.tools[name]
        place = service_of(tool)
        async with limiter:
            if name in self.catalogue.probed or place in self.closed or _asks(self.approval, tool, arguments):
                return None
            self.catalogue.probed.add(name)
            begun[name] = time.monotonic()
            async with Toolset([] if self.opened else [tool]).opened():
                reply = await single_call(tool, arguments, self.approval, self.redactor, self.timeout_s, attempts=1)
            if reply.error is not None:
                if reply.status in CLOSING:
                    self.closed.add(place)
                return self._read(name, arguments, reply.status or "error", since=begun[name])
            self.answers.append((place, name, arguments, reply.value))
            return self._read(name, arguments, "ok", await self._learnt(name, reply.value), since=begun[name])

    def _read(
        self, name: str, arguments: dict[str, Any], status: int | str, learnt: bool = False, *, since: float
    ) -> ProbedRead:
        seconds = round(time.monotonic() - since, 6)
        shown = self.redactor.value(arguments)
        return ProbedRead(tool=name, arguments=shown, status=status, learnt=learnt, seconds=seconds)

    async def _learnt(self, name: str, value: Any) -> bool:
        """Have the catalogue learn the shape of an answer; whether it does. It goes on where it takes long."""
        learning = self.catalogue.observe(name, value, new=True)
        if learning is not None:
            await asyncio.wait([asyncio.wrap_future(learning)], timeout=LEARNT_S)
        return learning is not None

    def _ready(self, todo: list[str], graph: ToolGraph, most: int, until: float) -> dict[str, dict[str, Any]]:
        while self.answers:
            place, tool, arguments, value = self.answers.pop()
            self.pools.setdefault(place, ValuePool()).add(tool, arguments, value)
        for least in (LIKELY, UNLIKELY):  # what only may be meant serves where nothing likelier can be called
            found: dict[str, dict[str, Any]] = {}
            for name in todo:
                if len(found) >= most or time.monotonic() >= until:
                    break
                if (given := self._arguments(name, graph, least)) is not None:
                    found[name] = given
            if found:
                break
        return found

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _arguments(self, name: str, graph: ToolGraph, least: float) -> dict[str, Any] | None:
        tool = self.catalogue.tools[name]
        pool = self.pools.get(service_of(tool))
        if self.approval.policy is not None and self.approval.policy.permissions.needs_origins:
            pool = None  # a rule asks where values come from: what a service answered is not handed on unasked
        required = [each for each in parameters_of(tool.protocol) if each.required]
        if len(required) < len(tool.protocol.required):
            return None  # one of them is not described at all
        options = {each.original: [*self._values(each, name, pool, graph, least)] for each in required}
        found = next(combinations(options), None)
        return None if found is None else {each: candidate.value for each, candidate in found.items()}

    def _values(
        self, parameter: Parameter, name: str, pool: ValuePool | None, graph: ToolGraph, least: float
    ) -> Iterator[Candidate]:
        known = candidates(parameter.original, parameter.schema, tool=name, pool=pool)
        stated = [each for each in known if each.seen is None and each.sure >= SURE]
        yield from sorted(stated, key=lambda each: not _is_named(each.value, self.task))
        if pool is not None:
            path = self.catalogue.tools[name].protocol.source.path
            yield from (Candidate(seen.value, SURE, seen) for seen in pool.linked(parameter.original, path))
            for feed in graph.feeds(name):  # as runs and documents say
                if feed.parameter == parameter.original and feed.evidence in SHOWN and not feed.supplier.inside:
                    yield from (
                        Candidate(seen.value, SURE, seen) for seen in pool.at(feed.supplier.tool, feed.supplier.path)
                    )
        yield from (each for each in known if each.seen is not None and each.sure >= least)


def service_of(tool: Tool) -> str:
    """Return what a tool's values may be handed on within: a server, or the module of the user's own functions."""
    source = tool.protocol.source
    return source.location.partition(":")[0] if source.in_process else door_of(tool).place


def by_task(task: str, tools: Mapping[str, Protocol]) -> list[str]:
    """Return the names of tools, those first that a task seems to need, by the words of their names alone.

    A word counts the more the fewer tools have it. What a tool that is meant must be given (a ``country_code``) counts
    half for the tools that have its word in their names (``list_countries``): one of them may give it.
    """
    about = {name: frozenset(words_of(name)) - VERBS for name in tools}
    common = Counter(word for words in about.values() for word in words)
    meant = frozenset(words_of(task)) & common.keys()
    own = {name: sum(1 / common[word] for word in words & meant) for name, words in about.items()}
    wanted: dict[str, float] = {}
    for name, known in own.items():
        for word in {word for parameter in tools[name].required for word in words_of(parameter)} - GENERIC:
            wanted[word] = max(wanted.get(word, 0.0), known / 2)
    worth = {name: own[name] + max((wanted.get(word, 0.0) for word in about[name]), default=0.0) for name in tools}
    return sorted(tools, key=lambda name: -worth[name])


def _heard_out(call: asyncio.Task[Any]) -> None:
    """Take note of how a call ended that nobody waits for any more."""
    if not call.cancelled():
        call.exception()


def _asks(approval: Approval, tool: Tool, arguments: dict[str, Any]) -> bool:
    """Whether somebody would have to be asked about a call, or a rule denies it, or says that it is no read."""
    if approval.policy is None:
        return approval.of_read() is not None
    if approval.policy.permissions.effect(tool.protocol) is not Effect.READ:
        return True
    protocol = tool.protocol
    asked = ApprovalRequest(tool.name, arguments, Effect.READ, protocol.description, protocol=protocol)
    return approval.policy.judge(asked).ruled is not True


def _is_named(value: Any, task: str) -> bool:
    return isinstance(value, str) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", task, re.IGNORECASE) is not None
