"""Which tasks a quick run takes: some of every environment, and more of those whose tools are told in few words.

A small model on two cores reads some fifty tokens a second, so what a task costs is mostly the length of its tools'
documents. One task of each environment is taken; the others are the shortest among a few that are drawn of each.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from atc.tools.stubs import render_stubs
from benchmarks.environments.base import Environment, Task
from benchmarks.environments.documented import tasks_from

TASKS, DRAWN, MOST = 24, 12, 4
"""Tasks in all; drawn of each environment to choose among; taken of each at most."""


def order(environment: Environment, task: Task) -> str:
    """Where a task stands in the draw: always at the same place, as if at random."""
    return hashlib.sha256(f"{tasks_from(environment.name)}/{task.id}".encode()).hexdigest()


def quick_tasks(environments: Sequence[Environment]) -> dict[str, set[str]]:
    """The tasks of a quick run by their environment: stated ones, the same ones every time.

    Raises:
        EnvironmentProblem: an environment's data is missing.
    """
    sized = sorted(
        (_characters(environment, task), environment.name, task.id)
        for environment in environments
        for task in sorted(_stated(environment), key=lambda task: order(environment, task))[:DRAWN]
    )
    taken: dict[str, set[str]] = {}
    for _, name, task in sized:
        taken.setdefault(name, {task})
    room = TASKS - len(taken)
    counts = Counter(taken.keys())
    for _, name, task in sized:
        if room > 0 and task not in taken[name] and counts[name] < MOST:
            taken[name].add(task)
            counts[name] += 1
            room -= 1
    return taken


def _stated(environment: Environment) -> list[Task]:
    return [task for task in environment.tasks() if task.stated]


def _characters(environment: Environment, task: Task) -> int:
    """Of what a model reads of a task."""
    return len(task.text) + len(render_stubs(environment.open(task).tools.protocols))
