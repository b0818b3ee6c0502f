"""One task of a batch, done by an agent: begun, gone on with where it was cut off, or read back where it had ended."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from atc._host.blocking import in_thread
from atc._records.events import Event
from atc.batch.book import TaskResult, failed, task_result
from atc.batch.limits import Ledger, Spending, SpendingModel
from atc.batch.tasks import BatchTask
from atc.errors import EnvironmentProblem, JournalError, RunInUse, TraceError
from atc.models.base import NoModel
from atc.models.budget import missing_price
from atc.result import Result
from atc.run.approvals import undecided
from atc.settings import Settings
from atc.traces.reading import FAILS, damaged
from atc.traces.stores.base import RunStore, StoredRun

if TYPE_CHECKING:
    from atc.agent import Agent


_LOOK_S, _LATE_S = 0.5, 5.0
"""Seconds between two looks at a run that another process holds, and beyond a lease that has lapsed by then."""
_CLOCK_S = 0.05
"""How much earlier than its deadline a run may say that it ended."""


@dataclass(frozen=True)
class Job:
    """A task and the run that it has.

    Attributes:
        index: of the task in the batch, from 0.
        task: what is to be done.
        run_id: of its run.
        started: whether that run surely began before.
        again: whether it is gone on with also where it has ended without an answer.
        source: where the tools are, for a resume of the run by itself.
    """

    index: int
    task: BatchTask
    run_id: str
    started: bool = False
    again: bool = False
    source: str | None = None


async def prepare(agent: Agent, *, money: bool) -> None:
    """Open what all tasks need, so that what is missing is found before any of them begins.

    Raises:
        EnvironmentProblem: no model, not the isolation that was asked for, or the store of runs cannot be used.
        SettingsError: the batch is limited in money, and the model has no price.
    """
    await in_thread(agent.store.check)
    model = agent._resources.model()
    priced = model.name in agent.settings.prices or isinstance(model, NoModel)
    if money and not priced:
        raise missing_price(model.name)
    await agent._resources.sandbox().prepare()


async def do(
    agent: Agent,
    job: Job,
    spending: Spending | None = None,
    seconds: float | None = None,
    started: Callable[[], None] | None = None,
) -> TaskResult:
    """Do a task to its end. Its own failure is its result.

    Args:
        agent: that does it.
        job: the task, with its run.
        spending: is asked before each call of the model.
        seconds: that are left for it of the batch's.
        started: is called once the run has begun, before it can do anything.

    Raises:
        EnvironmentProblem: something is missing that every task needs.
        JournalError: its journal is damaged, or another process works on the run.
    """
    task = job.task
    model = None
    if spending is not None:
        model = SpendingModel(agent._resources.model(), spending, job.run_id, agent.settings.prices)

    def listener(event: Event) -> None:
        if event.kind == "run_started" and started is not None:
            started()

    try:
        result = await _once_free(lambda: _run(agent, job, model, seconds, listener), _lease_s(agent.settings))
    except (EnvironmentProblem, JournalError):
        raise
    except Exception as error:  # of a task's own: a wrong image, a trace that is damaged, a bug in a user's type
        return failed(task, job.run_id, f"{type(error).__name__}: {error}"[:1000])
    over: Any = None
    if result.status == "budget":
        over = model.refused if model is not None else None
        if over is None and seconds is not None and result.usage.seconds >= seconds - _CLOCK_S:
            over = "seconds"
    return task_result(result, task, over)


def _lease_s(settings: Settings) -> float:
    """Seconds for which a process that was killed may still hold a run: in a folder it holds none."""
    return settings.store_lease_s + _LATE_S if settings.store is not None else 0.0


async def _once_free(run: Callable[[], Awaitable[Result[Any]]], seconds: float) -> Result[Any]:
    """Raises RunInUse where another process still works on it after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        try:
            return await run()
        except RunInUse:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(_LOOK_S)


async def _run(
    agent: Agent, job: Job, model: SpendingModel | None, seconds: float | None, listener: Callable[[Event], None]
) -> Result[Any]:
    task = job.task
    if agent.settings.keep_runs:
        stored = agent.store.run(job.run_id)
        there = await in_thread(_there, stored, again=job.again)
        if isinstance(there, Result):
            return there
        if there:
            return await agent._go_on(
                stored,
                answer=None if isinstance(task.answer, str) else task.opened_answer(),
                images=task.images,
                seconds=seconds,
                model=model,
                listener=listener,
            )
        if job.started:
            reason = (
                f"the run {job.run_id} was begun and is not in {agent.store.where} any more: what it did is not known. "
                "Look yourself; to do the task anew give it another id"
            )
            return failed(task, job.run_id, reason)
    request = agent._request(
        task.task,
        answer=task.opened_answer(),
        images=task.images,
        instructions=task.instructions,
        source=job.source,
    )
    return await agent._begin(replace(request, seconds=seconds), run_id=job.run_id, model=model, listener=listener)


def _there(stored: StoredRun, *, again: bool) -> Result[Any] | bool:
    """The result of a run that has ended by itself, and is not to go on; else whether it has begun.

    One that ended as ``waiting`` goes on once nothing of it waits any more, and not before.

    Raises:
        JournalError: its trace is not there, and its journal has calls or cannot be read; or another process decides.
        TraceError: its end is damaged.
    """
    if not stored.exists or stored.first("run_started") is None:
        if stored.has_journal:
            journal = stored.open_journal()
            try:
                if journal.entries:
                    raise JournalError(f"run {stored.run_id} has a journal and no trace {stored.where}: look yourself")
            finally:
                journal.close()
        return False
    ended = stored.last("run_ended")
    if ended is None or ended.get("raised"):
        return True
    if ended.get("status") == "waiting":
        return _read(stored, ended) if still_waits(stored) else True
    if again and ended.get("status") not in ("answered", "planned"):
        return True
    return _read(stored, ended)


def still_waits(stored: StoredRun) -> bool:
    """Return whether calls of a run wait for a decision, and it is not too late for one.

    Raises:
        TraceError, JournalError: its end or its journal is damaged, or another process works on it.
    """
    return any(call.until > time.time() for call in undecided(stored))


def waits_in(store: RunStore) -> Callable[[str], bool]:
    """Return what says of the id of a run in this store whether calls of it wait for a decision."""

    def waits(run_id: str) -> bool:
        stored = store.run(run_id)
        try:
            return stored.exists and (stored.is_held() or still_waits(stored))  # held: somebody decides, or goes on
        except (TraceError, JournalError):  # what goes on with it says so
            return False

    return waits


def _read(stored: StoredRun, ended: dict[str, Any]) -> Result[Any]:
    try:
        known = {name: value for name, value in ended.items() if name in Result.model_fields}
        return Result.model_validate_json(json.dumps(known))
    except FAILS as error:
        raise damaged(stored.where, 0, error) from None


class Executor(ABC):
    """Does tasks, several at a time. Each slot has one at a time."""

    @abstractmethod
    async def open(self, ledger: Ledger | None, slots: int) -> None:
        """Get ready for so many slots.

        Args:
            ledger: of the batch; ``None`` where nothing is limited.
            slots: tasks at a time.

        Raises:
            AtcError: it cannot: nothing has begun then.
        """

    @abstractmethod
    async def do(self, slot: int, job: Job, seconds: float | None, started: Callable[[], None]) -> TaskResult:
        """Do a task to its end. Cancelled, it stops the run before the cancellation is passed on.

        Args:
            slot: number of the slot, from 0.
            job: the task, with its run.
            seconds: that are left of the batch's.
            started: is called once the run has begun.

        Raises:
            EnvironmentProblem: something is missing that every task needs.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Let go of what was opened here."""


class Here(Executor):
    """Tasks in this process, by one agent: its model and its sandbox are shared."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._ledger: Ledger | None = None

    async def open(self, ledger: Ledger | None, slots: int) -> None:
        self._ledger = ledger
        await prepare(self._agent, money=ledger is not None and ledger.limits.money is not None)

    async def do(self, slot: int, job: Job, seconds: float | None, started: Callable[[], None]) -> TaskResult:
        try:
            return await do(self._agent, job, self._ledger, seconds, started)
        except JournalError as error:
            return failed(job.task, job.run_id, str(error), in_use=isinstance(error, RunInUse))

    async def aclose(self) -> None:
        """The agent stays its owner's to close."""
