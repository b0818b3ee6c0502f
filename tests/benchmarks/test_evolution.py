"""The benchmark of the memory: its runs teach what they should, and its service drifts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc.programs.lessons.reading import lessons_of
from benchmarks import evolution


def test_a_made_up_run_teaches_three_edges() -> None:
    lessons = lessons_of(evolution.made_up_run(3), evolution.made_up_tools())
    assert sum(lessons.calls.values()) == 6
    assert len(lessons.feeds) == 3
    assert {path for _, path, _, _ in lessons.feeds} == {("items", "[]", "id")}


def test_what_is_learnt_is_counted(tmp_path: Path) -> None:
    assert evolution.learning(30, tmp_path, beside=500)["runs"] == 30


@pytest.mark.slow
def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    found = evolution.two_writers(tmp_path)
    assert found["counted"] == found["expected"]
    assert not found["failed"]


@pytest.mark.slow
def test_with_learning_a_drifting_service_takes_fewer_calls(tmp_path: Path) -> None:
    arms = [asyncio.run(evolution.drift(tmp_path / str(learns), 1, learns)) for learns in (False, True)]
    assert sum(arms[1].calls) < sum(arms[0].calls)
    assert sum(arms[1].solved) >= sum(arms[0].solved)
