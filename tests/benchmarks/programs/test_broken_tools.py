"""The broken-tools ruler itself: its twins give what the tools give, and its counts count."""

from __future__ import annotations

import asyncio
import hashlib
import re

import pytest

from benchmarks.environments.atlas_tasks import load_tasks, reference_answer
from benchmarks.programs.broken_tools import Cell, figures, tried
from benchmarks.programs.broken_twins import READS, TWINS, WRITES

TASKS = {task.id: task for task in load_tasks()}


def test_the_twelve_are_chosen_by_hash() -> None:
    writes = {"create_trip", "add_stop", "pay_deposit", "cancel_stop", "cancel_trip"}
    names = {name for task in TASKS.values() for name in task.tools if re.search(rf"\b{name}\(", task.reference)}
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    assert tuple(name for name in ordered if name not in writes)[:10] == READS
    assert tuple(name for name in ordered if name in writes)[:2] == WRITES
    assert TWINS.keys() == {*READS, *WRITES}


@pytest.mark.parametrize(
    ("task", "tool", "way", "rule", "solved", "status"),
    [
        ("australian-capital", "get_city", "drifts", True, True, "answered"),
        ("australian-capital", "get_city", "nothing", False, False, "unsolved"),
        ("lisbon-stay", "add_stop", "raises", True, True, "answered"),
        ("lisbon-stay", "add_stop", "hangs", True, False, "in_doubt"),
    ],
)
def test_one_try(task: str, tool: str, way: str, rule: bool, solved: bool, status: str) -> None:
    cell = Cell(task, tool, way)  # type: ignore[arg-type]
    expected = reference_answer(TASKS[task])
    made = asyncio.run(tried(cell, TASKS[task], expected, rule=rule))
    assert (made.solved, made.status, made.twice) == (solved, status, 0)
    assert made.routed is (rule and solved)
    assert figures([made])["twice"] == 0
