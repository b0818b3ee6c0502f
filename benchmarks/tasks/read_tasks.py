"""Which tasks somebody has read: figures are reported on the others first, and half of those are kept sealed.

``read_tasks.txt`` lists every task whose text or transcript anybody opened while ATC was changed, as
``environment/task``. Add a task before you open it. Of the others half, by a hash of their names, is sealed: it is run
by ``--sealed`` alone, for a last measurement. A task is the same one where its tools are documented otherwise.

The first sample of the sealed half (``published/honest.jsonl`` and ``large.jsonl``, judge 1) was drawn as open samples
are, by the hash of a task's name. What its tries showed was used to change ATC. So a second one is drawn, by the hash
of the name with a salt (:data:`SECOND`). Some tasks are in both.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from atc.tools.stubs import render_stubs
from benchmarks.common import ROOT
from benchmarks.environments.base import Environment, Task
from benchmarks.environments.documented import tasks_from

FILE = ROOT / "benchmarks" / "read_tasks.txt"
_SINCE = re.compile(r"# Read after the tries of judge (\d+)")
"""The heading of tasks that were read only then: they were unread in rows of that judge."""
SECOND = "second"
"""The salt of the draw among sealed tasks."""

Part = Literal["open", "unread", "sealed", "all"]
"""``open``: all but the sealed half. ``unread``: of these what nobody has read. ``sealed``: the sealed half alone."""


@cache
def read_tasks() -> Mapping[str, int]:
    """The tasks that somebody has read, as ``environment/task``, and the last judge whose rows are from before that."""
    found, judge = dict[str, int](), 0
    for line in map(str.strip, FILE.read_text(encoding="utf-8").splitlines()):
        if heading := _SINCE.match(line):
            judge = int(heading[1])
        elif line and not line.startswith("#"):
            found[line] = judge
    return found


def is_read(environment: str, task: str, judge: int | None = None) -> bool:
    """Whether somebody has read a task; given a row's judge, whether somebody had when the row was made."""
    since = read_tasks().get(f"{tasks_from(environment)}/{task}")
    return since is not None and (judge is None or judge > since)


def is_sealed(environment: str, task: str) -> bool:
    """Whether a task is in the sealed half. Only environments of which something was read have one."""
    environment = tasks_from(environment)
    if is_read(environment, task) or environment not in {name.partition("/")[0] for name in read_tasks()}:
        return False
    return hashlib.sha256(f"sealed/{environment}/{task}".encode()).digest()[0] % 2 == 0


def in_part(environment: str, task: str, part: Part) -> bool:
    """Whether a task belongs to a part of its environment."""
    if part == "all":
        return True
    sealed = is_sealed(environment, task)
    if part == "sealed":
        return sealed
    return not sealed and (part == "open" or not is_read(environment, task))


TASKS, DRAWN, MOST = 24, 12, 4
"""Tasks in all; drawn of each environment to choose among; taken of each at most."""


def order(environment: Environment, task: Task, salt: str = "") -> str:
    """Where a task stands in the draw: always at the same place, as if at random. Another salt draws others."""
    return hashlib.sha256(f"{salt and salt + '/'}{tasks_from(environment.name)}/{task.id}".encode()).hexdigest()


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
    return len(task.text) + len(render_stubs(environment.open(task).tools.protocols))
