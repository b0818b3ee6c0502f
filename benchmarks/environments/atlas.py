"""Atlas: this project's own tasks. Solved means the right answer and, in the trip store, what the reference leaves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from atc.atlas import Atlas, atlas_toolset
from atc.tools.tool import Toolset
from benchmarks.environments.atlas_tasks import AtlasTask, ReferenceRun, check, load_tasks, reference_answer
from benchmarks.environments.base import Environment, Episode, Gold, Task


class AtlasEnvironment(Environment):
    """The forty tasks of :mod:`benchmarks.environments.atlas_tasks`. It needs no data beside the repository's."""

    name = "atlas"

    def __init__(self) -> None:
        self._references: dict[str, ReferenceRun] = {}

    @cached_property
    def _tasks(self) -> dict[str, AtlasTask]:
        return {task.id: task for task in load_tasks()}

    def tasks(self) -> list[Task]:
        return [Task(task.id, task.task, task.tools) for task in self._tasks.values()]

    def open(self, task: Task) -> Episode:
        own = self._tasks[task.id]
        expected = self._reference(own)
        atlas = Atlas()

        def judge(value: Any) -> bool:
            return check(value, expected.value, unordered=own.unordered) and atlas.trips.state() == expected.trips

        gold = [(call.tool, call.arguments) for call in expected.calls]
        return Episode(self.toolset(atlas).only(*own.tools), judge, gold)

    def gold(self, task: Task) -> Gold:
        reference = self._reference(self._tasks[task.id])
        return Gold(tuple((call.tool, call.arguments) for call in reference.calls), reference.value)

    def toolset(self, atlas: Atlas) -> Toolset:
        """The tools of a world, with the documents that a system is to read."""
        return atlas_toolset(atlas)

    def _reference(self, task: AtlasTask) -> ReferenceRun:
        if task.id not in self._references:
            self._references[task.id] = reference_answer(task)
        return self._references[task.id]
