"""The executor on a Ray cluster: each slot is an actor with an agent of its own, on any machine.

An actor that dies is replaced, and its task goes on by the id of its run: what it did is in the journal, which all
machines see. Ray itself repeats nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import atc
from atc._host.blocking import in_thread
from atc._records.prices import Price
from atc.batch.book import TaskResult, failed
from atc.batch.limits import Ledger, Limits, Spent, Which
from atc.batch.ray_cluster import checked_address, imported, joined
from atc.batch.work import Executor, Job, do, prepare
from atc.errors import AtcError, BudgetExceeded, EnvironmentProblem, JournalError, RunInUse, SettingsError, UsageError
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.stores.base import RunStore, StoredRun, new_run_id

if TYPE_CHECKING:
    from atc.agent import Agent


START_S = 120.0
"""Seconds for an actor to find a place and to open its agent."""
PATIENCE_S = 60.0
"""Seconds for the journal of a run to be let go of whose worker has died, or is taken for dead."""
LOOK_S = 1.0
"""Seconds between two looks whether a run has begun."""
STOP_S = 15.0
"""Seconds that a run has to end when it is stopped."""
SENT = ("ATC_", "OPENAI_")
"""Beginnings of the names of variables that workers get."""


class OnRay(Executor):
    """Tasks on a Ray cluster.

    Args:
        make: opens the agent, on the machine that it runs on. It is pickled (cloudpickle), so that a function of a
            script will do. What it opens must be there: files of tools, a model's endpoint, the store of runs.
        address: ``HOST:PORT`` of the cluster's head, or ``auto``; by default ``RAY_ADDRESS``, else a cluster of its own
            on this machine, which ends with the batch.
        store: of the runs; by default that of the settings here. Workers must see the same one.
        cpus: processors that an actor takes, as Ray counts them.
        deaths: how many workers of one task may die before it is given up; how many in a row while they start.

    Raises:
        UsageError: the address is none.
        EnvironmentProblem: Ray is not installed.
    """

    def __init__(
        self,
        make: Callable[[], Agent],
        *,
        address: str | None = None,
        store: RunStore | None = None,
        cpus: float = 1,
        deaths: int = 3,
    ) -> None:
        self._address = checked_address(address)
        self._make, self._cpus, self._deaths = make, cpus, deaths
        ray = imported()
        try:
            self._made: bytes = ray.cloudpickle.dumps(make)
        except Exception as error:  # whatever an object says that cannot be pickled
            raise UsageError(
                f"the agent cannot be sent to other machines ({type(error).__name__}: {error}): give "
                "on=OnRay(make), where make is a function that opens it there (atc.batch.on_ray)"
            ) from None
        self._store = store or open_store(Settings.load())
        self._stack = AsyncExitStack()
        self._ray: Any = None
        self._desk: Any = None
        self._ledger: Ledger | None = None
        self._beacon: tuple[str, str] = "", ""
        self._idle: asyncio.Queue[Any] = asyncio.Queue()
        self._workers: set[Any] = set()
        self._opened: set[Any] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._stillborn = 0

    @classmethod
    def of_agent(cls, agent: Agent, *, address: str | None = None) -> OnRay:
        """An executor whose workers have agents like this one.

        Raises:
            UsageError: it cannot be sent to other machines.
        """
        return cls(partial(_like, *_parts(agent)), address=address, store=agent.store)

    async def open(self, ledger: Ledger | None, slots: int) -> None:
        await in_thread(self._store.check)
        self._ray = await self._stack.enter_async_context(joined(self._address, slots + 1))
        self._beacon = await asyncio.to_thread(self._lit)
        self._stack.push_async_callback(asyncio.to_thread, self._put_out)
        self._ledger = ledger
        self._stack.push_async_callback(self._dismiss)
        if ledger is not None:
            here = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                self._ray.get_runtime_context().get_node_id(), soft=False
            )
            made = self._ray.remote(Desk).options(num_cpus=0, max_concurrency=1_000, scheduling_strategy=here)
            self._desk = made.remote(ledger.limits, ledger.spent)
        for _ in range(slots):
            self._hire()
        first = await self._idle.get()
        self._idle.put_nowait(first)
        if isinstance(first, Exception):
            raise first

    async def do(self, slot: int, job: Job, seconds: float | None, started: Callable[[], None]) -> TaskResult:
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        died, patient_until = 0, loop.time() + PATIENCE_S  # workers of a leader that died may still hold the journal
        stored = self._store.run(job.run_id)
        while True:
            worker = await self._idle.get()
            if isinstance(worker, Exception):
                self._idle.put_nowait(worker)  # every slot is told
                raise worker
            left = None if until is None else max(0.01, until - loop.time())
            try:
                kind, said = await self._asked(worker, job, left, stored, started)
            except self._ray.exceptions.RayError as error:
                died += 1
                await self._bury(worker, job)
                if died > self._deaths:
                    how = f"its worker died {died} times; the last time: {type(error).__name__}"
                    return failed(job.task, job.run_id, f"{how}. `atc resume {job.run_id}`, or --retry, goes on")
                patient_until = loop.time() + PATIENCE_S
                continue
            except BaseException:
                await self._bury(worker, job, hire=False)
                raise
            self._idle.put_nowait(worker)
            if kind == "environment":
                raise EnvironmentProblem(said)
            if kind in ("journal", "in use"):
                if loop.time() < patient_until:
                    await asyncio.sleep(LOOK_S)
                    continue
                return failed(job.task, job.run_id, said, in_use=kind == "in use")
            await self._settle()
            assert isinstance(said, TaskResult)
            return said

    async def aclose(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    # -- one task -----------------------------------------------------------------------------------------------------

    async def _asked(
        self, worker: Any, job: Job, seconds: float | None, stored: StoredRun, started: Callable[[], None]
    ) -> tuple[str, Any]:
        asked = worker.do.remote(job, seconds)
        answer = asyncio.wrap_future(asked.future())
        begun = job.started
        try:
            while True:
                await asyncio.wait((answer,), timeout=None if begun else LOOK_S)
                if not begun and await in_thread(lambda: stored.exists):
                    begun = True
                    started()
                if answer.done():
                    kind, said = answer.result()
                    return kind, said
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._ray.cancel(asked)  # the run ends by itself, and says so in its trace
                await asyncio.wait((answer,), timeout=STOP_S)
            raise
        finally:
            answer.add_done_callback(_heard)

    async def _settle(self) -> None:
        if self._ledger is not None:
            self._ledger.spent, closed = await self._desk.state.remote()
            self._ledger.closed = self._ledger.closed or closed

    # -- workers ------------------------------------------------------------------------------------------------------

    def _hire(self) -> None:
        """Begin to start a worker. It is idle once it is open."""
        task = asyncio.create_task(self._hired())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _hired(self) -> None:
        options = {"num_cpus": self._cpus, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        worker = self._ray.remote(Worker).options(**options).remote()
        self._workers.add(worker)
        try:
            async with asyncio.timeout(START_S):
                about = await worker.about.remote()
                if about["version"] != atc.__version__:
                    raise EnvironmentProblem(
                        f"{about['host']} has ATC {about['version']}, and here it is {atc.__version__}: install the "
                        "same version on all machines"
                    )
                environment = {name: value for name, value in os.environ.items() if name.startswith(SENT)}
                money = self._ledger is not None and self._ledger.limits.money is not None
                given = (self._made, environment, os.getcwd(), self._beacon, self._desk, money)
                problem = await worker.open.remote(*given)
                if problem:
                    raise EnvironmentProblem(f"a worker cannot be opened on {about['host']}: {problem}")
        except TimeoutError:
            if len(self._workers) > 1 and any(each is not worker for each in self._workers):
                self._workers.discard(worker)  # the cluster is smaller than the batch: the others do its work
                self._ray.kill(worker)
                return
            what = f"no worker could be started on the Ray cluster within {START_S:g} s"
            self._idle.put_nowait(EnvironmentProblem(f"{what}: has it {self._cpus:g} free processors?"))
        except self._ray.exceptions.RayError as error:
            self._workers.discard(worker)
            self._stillborn += 1
            if self._stillborn <= self._deaths:
                self._hire()
                return
            what = f"{self._stillborn} workers died while they were started (the last: {type(error).__name__})"
            self._idle.put_nowait(EnvironmentProblem(f"{what}: look at Ray's logs, and run the batch again to go on"))
        except Exception as error:
            self._idle.put_nowait(error)
        else:
            self._stillborn = 0
            self._opened.add(worker)
            self._idle.put_nowait(worker)

    async def _bury(self, worker: Any, job: Job, *, hire: bool = True) -> None:
        self._workers.discard(worker)
        self._opened.discard(worker)
        with contextlib.suppress(Exception):
            self._ray.kill(worker)
        if self._desk is not None:
            self._desk.release.remote(job.run_id)
        if hire:
            self._hire()

    async def _dismiss(self) -> None:
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        with contextlib.suppress(Exception):
            closing = [asyncio.wrap_future(each.close.remote().future()) for each in self._opened]
            if closing:
                done, _ = await asyncio.wait(closing, timeout=STOP_S)
                for each in done:
                    each.exception()
        for each in [*self._workers, *([self._desk] if self._desk is not None else [])]:
            with contextlib.suppress(Exception):
                self._ray.kill(each)
        self._workers.clear()
        self._opened.clear()
        self._desk, self._idle = None, asyncio.Queue()

    # -- the store of runs --------------------------------------------------------------------------------------------

    def _lit(self) -> tuple[str, str]:
        run_id, token = new_run_id(), secrets.token_hex(16)
        stored = self._store.run(run_id)
        stored.make()
        stored.keep_note(BEACON, {"token": token})
        return run_id, token

    def _put_out(self) -> None:
        with contextlib.suppress(Exception):
            self._store.run(self._beacon[0]).delete()


def _heard(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()


def _parts(agent: Agent) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    if agent._resources._sandbox is not None:
        raise UsageError(
            "a sandbox that was given as an object stays here: name it by the setting, or give OnRay(make)"
        )
    settings = {name: getattr(agent.settings, name) for name in agent.settings.model_fields_set}
    settings |= {"runs_dir": agent.settings.runs_dir.absolute()}
    approve = agent._approval.approve
    ask_user = agent._ask_user
    objects: dict[str, Any] = {
        "model": agent._resources._model if agent._resources._model is not None else settings.pop("model", None),
        "strategy": agent._given_strategy or settings.pop("strategy", None),
        "permissions": agent.permissions,
        "answer": agent._answer,
        "policy": agent._policy,
        "approve": "never" if approve == "ask" else approve,  # nobody sits at a worker
        "ask_user": "stop" if ask_user == "ask" else ask_user,
    }
    for name in objects:
        settings.pop(name, None)
    return agent.tools, settings, objects


def _like(tools: Any, settings: dict[str, Any], objects: dict[str, Any]) -> Agent:
    try:
        return atc.Agent(tools, **objects, **settings)
    except SettingsError as error:
        raise EnvironmentProblem(str(error)) from None


BEACON = "beacon"
"""Name of the note by which a worker sees that its store of runs is that of the batch."""
Answer = tuple[Literal["result", "journal", "in use", "environment"], Any]


class Worker:
    """One slot of a batch on a cluster: a Ray actor with an agent of its own. It does one task at a time."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._spending: _AtDesk | None = None

    async def open(
        self, made: bytes, environment: Mapping[str, str], folder: str, beacon: tuple[str, str], desk: Any, money: bool
    ) -> str:
        """Open the agent.

        Args:
            made: what opens it, pickled.
            environment: variables that are set before.
            folder: to work in, where it is there.
            beacon: the run of the batch's store that has a note, and the note's token.
            desk: of the batch; ``None`` where nothing is limited.
            money: whether the batch is limited in money.

        Returns:
            What is wrong with this machine, in words; empty where nothing is.
        """
        os.environ.update(environment)
        with contextlib.suppress(OSError):
            os.chdir(folder)
        from ray import cloudpickle

        try:
            agent: Agent = cloudpickle.loads(made)()
            if not agent.settings.keep_runs:
                return "the agent keeps no runs, so that they could not go on after a worker has died"
            note = await in_thread(agent.store.run(beacon[0]).note, BEACON)
            if note is None or note.get("token") != beacon[1]:
                return (
                    f"it keeps its runs in {agent.store.where}, which is another place than the batch's: use a "
                    "database (ATC_STORE), or a folder that all machines share (ATC_RUNS_DIR)"
                )
            await prepare(agent, money=money)
        except AtcError as error:
            return str(error)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:1000]
        self._agent = agent
        self._spending = _AtDesk(desk) if desk is not None else None
        return ""

    async def about(self) -> dict[str, str]:
        """What this process is: its version of ATC, its machine, and its number."""
        return {"version": atc.__version__, "host": socket.gethostname(), "pid": str(os.getpid())}

    async def do(self, job: Job, seconds: float | None) -> Answer:
        """Do a task, begun or gone on with."""
        assert self._agent is not None
        try:
            result: TaskResult = await do(self._agent, job, self._spending, seconds)
        except JournalError as error:
            return "in use" if isinstance(error, RunInUse) else "journal", str(error)
        except EnvironmentProblem as error:
            return "environment", str(error)
        return "result", result

    async def close(self) -> None:
        """Close the agent: its processes end."""
        if self._agent is not None:
            await self._agent.aclose()


class Desk:
    """The ledger of a batch as a Ray actor, which all workers ask."""

    def __init__(self, limits: Limits, spent: Spent) -> None:
        self._ledger = Ledger(limits, spent)

    async def begin(self, run_id: str, prompt: int, most: int, price: Price | None) -> int | Which:
        """As :meth:`Ledger.begin`; the budget that is used up in place of an exception."""
        try:
            return await self._ledger.begin(run_id, prompt, most, price)
        except BudgetExceeded as error:
            return error.which  # type: ignore[return-value]

    async def end(self, run_id: str, reserved: int, used: Spent) -> None:
        """As :meth:`Ledger.end`."""
        self._ledger.end(run_id, reserved, used)

    async def release(self, run_id: str) -> None:
        """As :meth:`Ledger.release`."""
        self._ledger.release(run_id)

    async def state(self) -> tuple[Spent, Which | None]:
        """What was spent, and the budget that is used up."""
        return self._ledger.spent, self._ledger.closed


class _AtDesk:
    """The desk as a :class:`atc.batch.limits.Spending`."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    async def begin(self, run_id: str, prompt: int, most: int, price: Price | None) -> int:
        allowed = await self._desk.begin.remote(run_id, prompt, most, price)
        if isinstance(allowed, str):
            raise BudgetExceeded(allowed, f"the tasks of the batch have used up their budget of {allowed} together")
        return int(allowed)

    def end(self, run_id: str, reserved: int, used: Spent) -> None:
        self._desk.end.remote(run_id, reserved, used)
