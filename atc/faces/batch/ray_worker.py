"""The side of a Ray cluster on which tasks run: a process with an agent of its own, and the ledger of a batch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import atc
from atc.errors import AtcError, BudgetExceeded, EnvironmentProblem, JournalError, RunInUse
from atc.faces.batch.limits import Ledger, Limits, Spent, Which
from atc.faces.batch.outcome import TaskResult
from atc.faces.batch.work import Job, do, prepare
from atc.prices import Price

if TYPE_CHECKING:
    from atc.agent import Agent

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
            note = await asyncio.to_thread(agent.store.run(beacon[0]).note, BEACON)
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

    async def begin(self, run_id: str, prompt: int, most: int, count: int, price: Price | None) -> int | Which:
        """As :meth:`Ledger.begin`; the budget that is used up in place of an exception."""
        try:
            return await self._ledger.begin(run_id, prompt, most, count, price)
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
    """The desk as a :class:`atc.faces.batch.limits.Spending`."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    async def begin(self, run_id: str, prompt: int, most: int, count: int, price: Price | None) -> int:
        allowed = await self._desk.begin.remote(run_id, prompt, most, count, price)
        if isinstance(allowed, str):
            raise BudgetExceeded(allowed, f"the tasks of the batch have used up their budget of {allowed} together")
        return int(allowed)

    def end(self, run_id: str, reserved: int, used: Spent) -> None:
        self._desk.end.remote(run_id, reserved, used)
