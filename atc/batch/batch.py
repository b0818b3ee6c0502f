"""The loop over the tasks of a batch: so many at a time, each written down before it begins and when it has ended."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from atc.batch.book import Begun, Book, TaskResult, not_begun
from atc.batch.limits import NO_LIMITS, Ledger, Limits
from atc.batch.tasks import BatchTask, tasks_of
from atc.batch.work import Executor, Here, Job, waits_in
from atc.errors import UsageError
from atc.traces.emitter import streamed
from atc.traces.stores.base import new_run_id

if TYPE_CHECKING:
    from atc.agent import Agent


MAX_CONCURRENCY = 1_000


@dataclass(frozen=True)
class Batch:
    """Tasks and how they are done.

    Attributes:
        tasks: as :func:`atc.batch.tasks.tasks_of` gives them.
        executor: where.
        concurrency: how many at a time.
        limits: over all.
        book: the file of results, opened; ``None``: nothing is written, and nothing can be gone on with.
        source: where the tools are, for a resume of one run by itself.
    """

    tasks: list[BatchTask]
    executor: Executor
    concurrency: int = 4
    limits: Limits = NO_LIMITS
    book: Book | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        right = isinstance(self.concurrency, int) and not isinstance(self.concurrency, bool)
        if not right or not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise UsageError(f"concurrency is a whole number from 1 to {MAX_CONCURRENCY:,}, not {self.concurrency!r}")

    async def results(self) -> AsyncGenerator[TaskResult]:
        """Do the tasks and yield their results as they end; first those that an earlier process has written.

        Closed early, or cancelled, it stops the runs under way; they can be gone on with.

        Raises:
            AtcError: the batch cannot begin, or something is missing that every task needs.
        """
        book = self.book
        if book is not None:
            book.check(self.tasks)
        todo: deque[tuple[int, BatchTask]] = deque()
        cut_off: list[tuple[int, BatchTask]] = []
        for index, task in enumerate(self.tasks):
            done = book.done(task) if book is not None else None
            if done is not None:
                yield done
            elif book is not None and task.id in book.begun:
                cut_off.append((index, task))
            else:
                todo.append((index, task))
        todo.extendleft(reversed(cut_off))  # first: later runs may have the store delete them
        if not todo:
            return
        async with aclosing(streamed(partial(self._do_all, todo))) as ended:
            async for result in ended:
                yield result

    async def _do_all(self, todo: deque[tuple[int, BatchTask]], ended: Callable[[TaskResult], None]) -> None:
        spent = self.book.spent if self.book is not None else None
        ledger = Ledger(self.limits, *((spent,) if spent is not None else ())) if self.limits else None
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.executor.aclose)
            slots = min(self.concurrency, len(todo))
            if ledger is None or ledger.used_up is None:
                await self.executor.open(ledger, slots)
            working = [asyncio.create_task(self._slot(number, todo, ledger, ended)) for number in range(slots)]
            try:
                await asyncio.gather(*working)
            finally:
                for each in working:
                    each.cancel()
                await asyncio.gather(*working, return_exceptions=True)

    async def _slot(
        self,
        number: int,
        todo: deque[tuple[int, BatchTask]],
        ledger: Ledger | None,
        ended: Callable[[TaskResult], None],
    ) -> None:
        book = self.book
        while todo:
            index, task = todo.popleft()
            if ledger is not None and (over := ledger.used_up) is not None:
                ended(not_begun(task, over))
                if index % 1_000 == 0:
                    await asyncio.sleep(0)
                continue
            begun = book.begun.get(task.id) if book is not None else None
            if begun is None:
                begun = Begun(new_run_id())
                if book is not None:
                    await book.in_thread(book.begin, task, begun.run_id)
            started = partial(book.started, task) if book is not None else _nothing
            left = ledger.seconds_left if ledger is not None else None
            job = Job(index, task, begun.run_id, begun.started, begun.again, self.source)
            result = await self.executor.do(number, job, left, started)
            if book is not None and not result.in_use:
                await book.in_thread(book.end, result, task)
            ended(result)


def _nothing() -> None:
    """Nobody writes down that a run has begun."""


class MapOptions(TypedDict, total=False):
    """Names what :meth:`atc.Agent.map` and ``amap`` take beside the tasks; their meaning stands there."""

    concurrency: int
    ordered: bool
    limits: Limits | None
    results: str | os.PathLike[str] | None
    retry: bool
    on: Executor | str | None
    source: str | None


def run_batch(
    agent: Agent,
    tasks: Iterable[Any],
    *,
    concurrency: int = 4,
    ordered: bool = True,
    limits: Limits | None = None,
    results: str | os.PathLike[str] | None = None,
    retry: bool = False,
    on: Executor | str | None = None,
    source: str | None = None,
) -> AsyncGenerator[TaskResult]:
    """Solve many tasks and yield their results: :meth:`atc.Agent.amap`. What is wrong with its parts is raised now.

    Raises:
        UsageError: as :meth:`atc.Agent.map`.
    """
    checked = tasks_of(tasks)
    if results is not None and not agent.settings.keep_runs:
        raise UsageError("a file of results needs runs that are kept, to go on with them: leave out keep_runs=False")
    if limits is not None and not isinstance(limits, Limits):
        raise UsageError(f"limits is an atc.batch.limits.Limits, not {type(limits).__name__}")
    batch = Batch(checked, executor_of(agent, on), concurrency, limits or NO_LIMITS, source=source)
    book = Book(Path(results), again=retry, waits=waits_in(agent.store)) if results is not None else None
    found = _written(batch, book) if book is not None else batch.results()
    return _in_order(found, [task.id for task in checked]) if ordered else found


def executor_of(agent: Agent, on: Executor | str | None) -> Executor:
    """Where the tasks are done.

    Raises:
        UsageError: it is neither an executor nor the name of one.
    """
    if on is None:
        return Here(agent)
    if isinstance(on, Executor):
        return on
    if isinstance(on, str) and (on == "ray" or on.startswith("ray:")):
        from atc.batch.on_ray import OnRay

        return OnRay.of_agent(agent, address=on.partition(":")[2] or None)
    raise UsageError(f"on={on!r:.100} is no executor: give ray, ray:ADDRESS or an executor, or leave it out")


async def _written(batch: Batch, book: Book) -> AsyncGenerator[TaskResult]:
    try:
        await book.in_thread(book.__enter__)
        async with aclosing(replace(batch, book=book).results()) as found:
            async for result in found:
                yield result
    finally:
        closing = asyncio.get_running_loop().run_in_executor(None, book.close)
        await asyncio.shield(closing)  # a reader that stops cancels this, and may open the files at once again


async def _in_order(found: AsyncGenerator[TaskResult], ids: list[str]) -> AsyncGenerator[TaskResult]:
    early: dict[str, TaskResult] = {}
    upcoming = iter(ids)
    wanted = next(upcoming, None)
    async with aclosing(found):
        async for result in found:
            early[result.id] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted = next(upcoming, None)
