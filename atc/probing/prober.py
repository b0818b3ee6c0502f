"""Chain of probing (ATC §4.2, Fig. 3): first each tool alone, then the rest with the help of those that are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import anyio

from atc._host.blocking import wait_for
from atc.calls.approval import Approve, checked_approve
from atc.errors import UsageError
from atc.models.base import Model
from atc.models.budget import Budget as ModelBudget
from atc.models.budget import BudgetedModel
from atc.probing.asking import Asker
from atc.probing.call_policy import Budget, Meter, Runner, metered
from atc.probing.candidates import ValuePool
from atc.probing.demonstrations import demonstrate
from atc.probing.descriptions import describe
from atc.probing.document import FROM_RECORDING, Store, take_recorded
from atc.probing.drift import Drift, look_again
from atc.probing.explore import Explorer
from atc.probing.record import Record, State
from atc.probing.report import Report, report_of
from atc.result import Effect
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Toolset

PASSES = 2
"""How often calls are made for demonstrations."""
AT_ONCE = 4
"""Tools that are probed at the same time; those of one round do not depend on each other."""


@dataclass(frozen=True)
class Progress:
    """One step of probing: a tool was begun, called, or left.

    Attributes:
        record: what is known of the tool.
        round: 1 for the first; 0 in a check.
        under_way: whether more is to come of the tool in this round.
        calls: that were sent to all tools so far.
        tool_calls_left: calls that the budget leaves to this tool.
        calls_left: calls that it leaves to all tools together.
    """

    record: Record
    round: int
    under_way: bool
    calls: int
    tool_calls_left: int
    calls_left: int
    _records: Mapping[str, Record] = field(repr=False)

    def states(self) -> Counter[State]:
        """How many tools are in each state now."""
        return Counter(record.state for record in self._records.values())


@dataclass
class Prober:
    """Probes the tools of a toolset until they are documented, or it is known why not.

    Args:
        tools: from any importer.
        model: as for an agent; ``None`` takes the settings'.
        budget: what probing may cost the service.
        tries: N of the paper: how often the model is asked for values that structure does not know, once for all tools;
            0 does without a model.
        rounds: β of the paper, before the model is asked and after each reply; 1 probes each tool alone.
        allow_effects: shell patterns of tools that are called though they may change something; ``approve`` decides
            over each call.
        approve: decides over every call that is not a read, as for an agent.
        folder: where documents and what is known are kept; probing goes on from there.
        settings: for the model, the sandbox and time limits.

    Raises:
        UsageError: no tools, or effects that nobody would approve.
    """

    tools: Toolset
    model: Model | str | None = None
    budget: Budget = field(default_factory=Budget)
    tries: int = 3
    rounds: int = 4
    allow_effects: tuple[str, ...] = ()
    approve: Approve | None = None
    folder: str | None = None
    sandbox: Sandbox | None = None
    settings: Settings = field(default_factory=Settings.load)
    on_progress: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        if not self.tools:
            raise UsageError("there is no tool to probe")
        self._approve = checked_approve(self.approve, self.settings.approve)
        if self._approve == "park":
            raise UsageError(
                "probing does not wait for approval: approve takes 'ask', 'never', 'always' or a function here"
            )
        if self.allow_effects and self._approve == "never":
            raise UsageError("calls with effects need somebody who approves each of them: give `approve` (--approve)")
        self._opened: Model | None = None

    def probe(self) -> Report:
        """Probe all tools; a tool that cannot be documented is a line of the report. Blocks; see :meth:`aprobe`.

        Raises:
            EnvironmentProblem: no model, or not the isolation that was asked for.
        """
        return wait_for(self.aprobe())

    async def aprobe(self) -> Report:
        """:meth:`probe` for asynchronous code. Stopped in the middle, it keeps what is known in ``folder``."""
        store = Store(self.folder)
        records, spent = store.load(self.tools), ModelBudget(None, None, None)
        take_recorded(self.tools, records)
        if all(record.state == "documented" for record in records.values()):  # nothing has to be called
            store.keep(self.tools, records)
            return report_of(self.tools, records, Meter(self.budget), spent, replaced=store.replaced)
        declared = {name: tool.protocol for name, tool in self.tools.items()}
        async with self._runner(records) as (runner, meter, steps):
            asker = Asker(BudgetedModel(self._model(), spent), self.settings) if self.tries else None
            explorer = Explorer(runner, records, ValuePool(), asker, meter, store.save)
            explorer.remember()
            try:
                await self._rounds(explorer, records, steps, store)
                await self._demonstrated(explorer, declared)
                if asker is not None:
                    await describe(asker, declared, records)
            except BaseExceptionGroup as group:
                raise _first(group) from None  # by itself: a group would hide what is wrong
            finally:  # also what tools learnt while others were probed, and while they were under way
                store.keep(self.tools, records)
        return report_of(self.tools, records, meter, spent, replaced=store.replaced)

    def check(self) -> list[Drift]:
        """Check whether the tools that ``folder`` documents have changed. Blocks.

        Of the folder nothing is changed but the list of the tools by whose documents programs would fail
        (:attr:`Tool.drifted`).

        Raises:
            UsageError: the folder holds no record of a probing.
            EnvironmentProblem: not the isolation that was asked for.
        """
        return wait_for(self.acheck())

    async def acheck(self) -> list[Drift]:
        """:meth:`check` for asynchronous code."""
        store = Store(self.folder, must_exist=True)
        known = [record for record in store.load_all().values() if record.state == "documented"]
        records = {record.name: record for record in known if record.reason != FROM_RECORDING}
        made = [Drift(tool=record.name, problem="recorded") for record in known if record.name not in records]
        if not records:
            raise UsageError(
                f"{self.folder} documents tools from a recording alone, which were never called: record again"
                if known
                else f"{self.folder} holds no record of a documented tool: probe it first, with -o {self.folder}"
            )
        async with self._runner(records) as (runner, _, steps):
            for record in records.values():
                with steps.under_way(record, 0):
                    made.append(await look_again(runner, record))
        store.note_drifted(drift.tool for drift in made if drift.breaks)
        return made

    @asynccontextmanager
    async def _runner(self, records: dict[str, Record]) -> AsyncIterator[tuple[Runner, Meter, _Steps]]:
        meter = Meter(self.budget)
        steps = _Steps(records, meter, self.on_progress)
        allowed, refused = metered(self.tools, meter, self.allow_effects, self.settings.call_timeout_s)
        for name, why in refused.items():
            if name in records and records[name].open:
                records[name].state, records[name].reason = "skipped", why
        async with AsyncExitStack() as stack:
            sandbox = self.sandbox
            if sandbox is None:
                sandbox = await stack.enter_async_context(open_sandbox(self.settings))
            await stack.enter_async_context(allowed.opened())
            await sandbox.prepare()
            yield Runner(allowed, sandbox, self.settings, self._approve, lambda *_: None), meter, steps

    async def _demonstrated(self, explorer: Explorer, declared: dict[str, Protocol]) -> None:
        """What is answered then may be what another tool's demonstration lacks."""
        for _ in range(PASSES):
            called = explorer.meter.total
            ways = await anyio.to_thread.run_sync(demonstrate, declared, explorer.records)
            for name, record in ways.records.items():
                tool = explorer.runner.tools.get(name)
                reads = tool is not None and tool.protocol.effect is Effect.READ and record.instances
                if record.demonstration is None and reads:  # nothing is sent for what a recording answers
                    await explorer.complete(record, ways.missing(name))
            if called == explorer.meter.total:
                return
        await anyio.to_thread.run_sync(demonstrate, declared, explorer.records)

    async def _rounds(self, explorer: Explorer, records: dict[str, Record], steps: _Steps, store: Store) -> None:
        """B starts with all tools that may be called, H is empty; until a round adds nothing (Eq. 3)."""
        number, since_asked, known = 0, 0, -1
        while waiting := [record for record in records.values() if record.open]:
            before, known = known, sum(record.state == "documented" for record in records.values())
            if since_asked == self.rounds or (number > 1 and before == known):
                if explorer.asked == self.tries or not await explorer.ask():
                    return
                since_asked = 0
            number += 1
            since_asked += 1
            await self._round(explorer, waiting, number, steps, store)

    async def _round(self, explorer: Explorer, waiting: list[Record], number: int, steps: _Steps, store: Store) -> None:
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def one(record: Record) -> None:
            async with limiter:
                with steps.under_way(record, number):
                    await explorer.probe(record, number, chain=number > 1 and self.rounds > 1)
                    store.save(record)
                    if record.state == "documented":
                        store.document(self.tools[record.name].protocol, record)

        try:
            async with anyio.create_task_group() as group:
                for record in waiting:
                    group.start_soon(one, record)
        except BaseExceptionGroup as several:  # no model, no jail: the same for all
            raise several.exceptions[0] from None

    def _model(self) -> Model:
        if isinstance(self.model, Model):
            return self.model
        if self._opened is None:
            from atc.models.resolve import resolve_model  # only here: it imports the client of every endpoint

            self._opened = resolve_model(self.settings, self.model)
        return self._opened

    def close(self) -> None:
        """Close the model that this prober opened."""
        opened, self._opened = self._opened, None
        if opened is not None:
            wait_for(opened.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Steps:
    """Tells of each step, if somebody listens."""

    def __init__(self, records: Mapping[str, Record], meter: Meter, tell: Callable[[Progress], None] | None) -> None:
        self._records, self._meter, self._tell = records, meter, tell
        self._rounds: dict[str, int] = {}  # of the tools under way
        if tell is not None:
            meter.counted = self._step

    @contextmanager
    def under_way(self, record: Record, number: int) -> Iterator[None]:
        """Tell that a tool is begun, and, unless an exception ends it, that it is left."""
        self._rounds[record.name] = number
        self._step(record.name)
        yield
        self._step(record.name, under_way=False)
        del self._rounds[record.name]

    def _step(self, name: str, *, under_way: bool = True) -> None:
        meter = self._meter
        if self._tell is not None and name in self._rounds:  # no tool that another one's program calls for a value
            step = (self._records[name], self._rounds[name], under_way, meter.sent.total())
            self._tell(Progress(*step, meter.left(name), meter.left_of_all, self._records))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def probe(tools: Toolset | Iterable[Callable[..., Any]], **options: Any) -> Report:
    """Probe tools and return what is known of them: :class:`Prober` in one call.

    Raises:
        UsageError, EnvironmentProblem: as :class:`Prober`.
    """
    with Prober(tools if isinstance(tools, Toolset) else Toolset.from_functions(*tools), **options) as prober:
        return prober.probe()
