"""Tasks that somebody has read are known, and half of the others are run only when that is said."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from atc.errors import UsageError
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.base import Environment, Episode, Gold, Task
from benchmarks.systems.atc import Atc
from benchmarks.tasks.read_tasks import in_part, is_read, is_sealed, read_tasks
from benchmarks.tasks.rows import JUDGE, Row
from benchmarks.tasks.run import Plan, systems_of
from benchmarks.tasks.summary import summarise


class WorkBenchOf100(Environment):
    """A hundred tasks in an environment that has a sealed half."""

    name = "workbench"

    def tasks(self) -> list[Task]:
        return [Task(f"task-{number}", "Do it.", ()) for number in range(100)]

    def open(self, task: Task) -> Episode:
        raise NotImplementedError

    def gold(self, task: Task) -> Gold:
        raise NotImplementedError


def ids(**part: Any) -> set[str]:
    plan = Plan([], [], **part)
    return {task.id for task in plan.tasks(WorkBenchOf100())}


def test_every_task_of_the_repository_and_24_of_the_quick_run_are_read() -> None:
    assert {f"atlas/{task.id}" for task in AtlasEnvironment().tasks()} <= read_tasks().keys()
    others = [name for name in read_tasks() if not name.startswith("atlas/")]
    assert len(others) >= 20
    assert all(name.count("/") >= 1 and name == name.strip() for name in others)


def test_the_sealed_half_is_run_only_when_that_is_said() -> None:
    sealed, usual = ids(part="sealed"), ids()
    assert sealed | usual == ids(part="all")
    assert not sealed & usual
    assert 35 <= len(sealed) <= 65
    assert ids(part="unread") == usual  # none of these was read


def test_what_was_read_is_neither_unread_nor_sealed() -> None:
    task = sorted(read_tasks())[0].partition("/")
    assert is_read(task[0], task[2])
    assert not is_sealed(task[0], task[2])
    assert [in_part(task[0], task[2], part) for part in ("open", "unread", "sealed")] == [True, False, False]


def test_a_task_that_was_read_to_decide_a_judge_was_unread_in_the_rows_before_it() -> None:
    later = [name.partition("/") for name, judge in read_tasks().items() if judge == 1]
    assert len(later) >= 40
    assert all(is_read(env, task) and is_read(env, task, JUDGE) and not is_read(env, task, 1) for env, _, task in later)
    assert is_read("atlas", "daylight-lyon", 1)


def test_a_sample_of_the_sealed_half_is_drawn_anew_by_its_salt() -> None:
    drawn = {part: ids(part=part, sample=10) for part in ("sealed", "open")}
    assert drawn["sealed"] == set(
        sorted(ids(part="sealed"), key=lambda task: sha256(f"second/workbench/{task}".encode()).hexdigest())[:10]
    )
    assert drawn["open"] == set(
        sorted(ids(part="open"), key=lambda task: sha256(f"workbench/{task}".encode()).hexdigest())[:10]
    )


def test_an_environment_of_ones_own_has_no_sealed_half() -> None:
    assert not any(is_sealed("greenhouse", str(number)) for number in range(50))


def test_the_summary_begins_with_what_nobody_has_read() -> None:
    read = sorted(read_tasks())[0].split("/", 1)
    rows = [
        Row(
            env=env,
            task=task,
            system="atc",
            version="v",
            seed=0,
            model="m",
            terms="t",
            stated=True,
            status="answered",
            solved=solved,
        )
        for env, task, solved in ((*read, True), ("workbench", "task-1", False))
    ]
    lines = summarise(rows, ["atc"])
    assert (lines[0]["env"], lines[0]["tries"], lines[0]["solved"]) == ("unread", 1, 0)
    assert {line["env"] for line in summarise(rows[1:], ["atc"])} == {"workbench"}


def test_a_rule_can_be_taken_away_by_the_name_of_a_system() -> None:
    whole, one, two = systems_of("atc, atc-rules:name-spelling,atc-rules:idle-call+argument-spelling")
    assert (whole.name, one.name) == ("atc", "atc-rules:name-spelling")
    assert isinstance(two, Atc)
    assert two._settings == {"rules": "-idle-call,-argument-spelling"}
    with pytest.raises(UsageError, match="there is no rule name-spellin;"):
        systems_of("atc-rules:name-spellin")
    with pytest.raises(UsageError, match="there is no nobody"):
        systems_of("nobody")
