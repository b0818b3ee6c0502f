"""Long tasks (:mod:`benchmarks.environments.long.tasks`): solved where what they leave and what is answered are right.

Every task offers twenty tools: those that its solution calls, and look-alikes out of some 150. So no system's search
for tools is tested here; all get the same twenty.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import atc
from atc._host.files import write_whole
from atc.cli.console import err
from benchmarks.common import RESULTS, ROOT
from benchmarks.environments.atlas_tasks import check
from benchmarks.environments.base import Environment, Episode, Gold, GoldCall, Task
from benchmarks.environments.long.services import open_world
from benchmarks.environments.long.tasks import LongTask, compose

CENT = 0.011
"""How far numbers that were written may lie apart: rounded otherwise, they are the same."""
PACKAGES = ("agentdojo", "bfcl-eval")
FOLDER = RESULTS / "long"
_TASKS = TypeAdapter(list[LongTask])
_PIECES = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


class LongTasks(Environment):
    """The composed tasks.

    Args:
        data: not needed: the packages have the services.
        composed: other tasks than the whole set's.
    """

    name = "long"

    def __init__(self, data: Path | None = None, composed: list[LongTask] | None = None) -> None:
        self._given = composed

    @cached_property
    def composed(self) -> dict[str, LongTask]:
        """The tasks by their ids."""
        return {task.id: task for task in (_kept() if self._given is None else self._given)}

    def tasks(self) -> list[Task]:
        return [Task(task.id, task.text, task.tools) for task in self.composed.values()]

    def open(self, task: Task) -> Episode:
        own = self.composed[task.id]
        world = open_world({tool.partition("_")[0] for tool in own.tools})

        def judge(value: Any) -> bool:
            left = world.state()
            wanted = {name: own.left[name] for name in left}
            return check(value, own.answer) and same(left, wanted)

        return Episode(world.tools.only(*own.tools), judge, own.calls)

    def gold(self, task: Task) -> Gold:
        own = self.composed[task.id]
        return Gold(own.calls, own.answer, self._spoil(own))

    def _spoil(self, task: LongTask) -> GoldCall | None:
        """A message or a payment that is made twice."""
        again = ("_send_", "_create_", "_schedule_", "_fund_", "_pay_", "_append_")
        return next((call for call in reversed(task.calls) if any(part in call[0] for part in again)), None)


def _kept() -> list[LongTask]:
    """The whole set: composed once for each state of its sources and packages, which takes up to a minute."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "benchmarks").rglob("*.py"), *Path(atc.__file__).parent.rglob("*.py")]):
        digest.update(path.read_bytes())
    with suppress(PackageNotFoundError):  # to compose says what is missing
        digest.update(" ".join(map(version, PACKAGES)).encode())
    file = FOLDER / f"{digest.hexdigest()[:16]}.json"
    with suppress(OSError, ValidationError):
        return _TASKS.validate_json(file.read_bytes())
    err.print("the long tasks are composed: that takes a minute or two, once")
    tasks = compose()
    with suppress(OSError):  # it is composed again next time
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_whole(file, _TASKS.dump_json(tasks).decode(), 0o644)
    return tasks


def same(left: Any, wanted: Any) -> bool:
    """Tell whether two states are the same: lists in any order, texts by their words, numbers to a cent."""
    if left == wanted:
        return True
    if isinstance(wanted, dict):
        return (
            isinstance(left, dict)
            and left.keys() == wanted.keys()
            and all(same(left[key], part) for key, part in wanted.items())
        )
    if isinstance(wanted, list):
        return isinstance(left, list) and len(left) == len(wanted) and _same_rows(left, wanted)
    if isinstance(wanted, str):
        return isinstance(left, str) and same_text(left, wanted)
    if isinstance(wanted, bool) or isinstance(left, bool):
        return False
    if isinstance(wanted, int | float) and isinstance(left, int | float):
        return abs(left - wanted) <= CENT
    return False


def _same_rows(left: list[Any], wanted: list[Any]) -> bool:
    rest = list(left)
    for row in wanted:
        found = next((place for place, other in enumerate(rest) if same(other, row)), None)
        if found is None:
            return False
        del rest[found]
    return True


def same_text(one: str, other: str) -> bool:
    """Tell whether two texts have the same words and numbers; signs, spaces and capitals do not count."""
    pieces = [_PIECES.findall(text.casefold()) for text in (one, other)]
    return len(pieces[0]) == len(pieces[1]) and all(map(_same_piece, *pieces))


def _same_piece(one: str, other: str) -> bool:
    if one == other:
        return True
    decimals = one[0].isdigit() and other[0].isdigit() and ("." in one or "." in other)
    return decimals and abs(float(one) - float(other)) <= CENT
