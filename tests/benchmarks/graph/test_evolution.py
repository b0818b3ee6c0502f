"""The benchmark of the memory: its runs teach what they should, and its service drifts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.graph import evolution


@pytest.mark.slow
def test_with_learning_a_drifting_service_takes_fewer_calls(tmp_path: Path) -> None:
    arms = [asyncio.run(evolution.drift(tmp_path / str(learns), 1, learns)) for learns in (False, True)]
    assert sum(arms[1].calls) < sum(arms[0].calls)
    assert sum(arms[1].solved) >= sum(arms[0].solved)
