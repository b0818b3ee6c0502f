"""Where the tasks of a batch are done: the contract of an executor, and the one in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from atc.errors import JournalError, RunInUse
from atc.faces.batch.limits import Ledger
from atc.faces.batch.outcome import TaskResult, failed
from atc.faces.batch.work import Job, do, prepare

if TYPE_CHECKING:
    from atc.agent import Agent


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
