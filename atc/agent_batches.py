"""An agent solves many tasks: several at a time, within budgets over all, on this machine or on many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.faces.batch.book import TaskResult
    from atc.faces.batch.limits import Limits
    from atc.faces.batch.work import Executor


class RunsBatches:
    """What :class:`atc.Agent` does with many tasks."""

    def map(
        self,
        tasks: Iterable[Any],
        *,
        concurrency: int = 4,
        ordered: bool = True,
        limits: Limits | None = None,
        results: str | os.PathLike[str] | None = None,
        retry: bool = False,
        on: Executor | str | None = None,
    ) -> Iterator[TaskResult]:
        """Solve many tasks and yield their results, in the order of the tasks. Blocks for each; see :meth:`amap`.

        ``for result in agent.map(["…", "…"]): print(result.id, result.status, result.value)``

        A task's failure is its result. Whoever breaks off, or is interrupted, stops the runs under way. An embedded
        model is one process: tasks at a time wait for it in a queue.

        Args:
            tasks: texts; or mappings with ``task`` and, where wanted, ``id``, ``answer``, ``images`` and
                ``instructions`` (:class:`atc.faces.batch.tasks.BatchTask`). All are looked at before any is begun.
            concurrency: how many at a time.
            ordered: yield them in the order of the tasks; else as they end.
            limits: budgets over all tasks (:class:`atc.faces.batch.limits.Limits`). What goes past them is not begun;
                runs under way are ended by them. ``over`` of a result says so.
            results: a file that gets a line a task; given again, what has ended is not done again, and what was cut off
                goes on, with nothing done twice.
            retry: go on also with tasks in that file that ended without an answer.
            on: where: ``"ray"``, ``"ray:ADDRESS"`` or an executor; by default here.

        Raises:
            UsageError: some tasks are wrong, which the message names by their numbers; or another process has the file.
            EnvironmentProblem: something is missing that every task needs, such as a model. What ran is stopped.
        """
        work = self.amap(
            tasks, concurrency=concurrency, ordered=ordered, limits=limits, results=results, retry=retry, on=on
        )
        return _blocking(work)

    def amap(
        self,
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
        """:meth:`map` for asynchronous code: ``async for result in agent.amap(tasks): …``

        ``source`` is noted in the traces: where the tools are, for a resume of one run by itself.

        Raises:
            As :meth:`map`; what is wrong with the tasks at once.
        """
        from atc.faces.batch.batch import opened_batch  # all of it comes with it

        agent = cast("Agent", self)
        return opened_batch(
            agent, tasks, concurrency, limits, results, retry=retry, on=on, source=source, ordered=ordered
        )


def _blocking(work: AsyncGenerator[TaskResult]) -> Iterator[TaskResult]:
    """The results of some work that goes on in a thread of its own while they are read."""
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        ready.set()
        async with contextlib.aclosing(work):
            async for result in work:
                ended.put((result, None))

    def inside() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # handed to the thread that waits
            ended.put((None, error))
        else:
            ended.put((None, None))
        finally:
            ready.set()

    def results() -> Iterator[TaskResult]:
        thread = threading.Thread(target=inside, name="atc-map")
        thread.start()
        ready.wait()
        try:
            while True:
                result, error = ended.get()
                if error is not None:
                    raise error
                if result is None:
                    return
                yield result
        finally:
            for loop, task in running:
                with contextlib.suppress(RuntimeError):  # it has ended
                    loop.call_soon_threadsafe(task.cancel)
            thread.join()

    ready = threading.Event()
    return results()
