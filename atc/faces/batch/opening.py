"""A batch from what its caller gives: the tasks, where they are done, and the file of results."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atc.errors import UsageError
from atc.faces.batch.batch import Batch
from atc.faces.batch.book import Book
from atc.faces.batch.executor import Executor, Here
from atc.faces.batch.limits import NO_LIMITS, Limits
from atc.faces.batch.outcome import TaskResult
from atc.faces.batch.tasks import tasks_of

if TYPE_CHECKING:
    from atc.agent import Agent


def opened_batch(
    agent: Agent,
    tasks: Iterable[Any],
    concurrency: int,
    limits: Limits | None,
    results: str | os.PathLike[str] | None,
    *,
    retry: bool,
    on: Executor | str | None,
    source: str | None,
    ordered: bool,
) -> AsyncGenerator[TaskResult]:
    """The results of a batch (:meth:`atc.Agent.amap`). What is wrong with its parts is raised now.

    Raises:
        UsageError: as :meth:`atc.Agent.map`.
    """
    checked = tasks_of(tasks)
    if results is not None and not agent.settings.keep_runs:
        raise UsageError("a file of results needs runs that are kept, to go on with them: leave out keep_runs=False")
    if limits is not None and not isinstance(limits, Limits):
        raise UsageError(f"limits is an atc.faces.batch.limits.Limits, not {type(limits).__name__}")
    batch = Batch(checked, executor_of(agent, on), concurrency, limits or NO_LIMITS, source=source)
    found = _written(batch, Path(results), retry) if results is not None else batch.results()
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
        from atc.faces.batch.on_ray import OnRay

        return OnRay.of_agent(agent, address=on.partition(":")[2] or None)
    raise UsageError(f"on={on!r:.100} is no executor: give ray, ray:ADDRESS or an executor, or leave it out")


async def _written(batch: Batch, path: Path, retry: bool) -> AsyncGenerator[TaskResult]:
    with Book(path, again=retry) as book:
        async with aclosing(replace(batch, book=book).results()) as found:
            async for result in found:
                yield result


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
