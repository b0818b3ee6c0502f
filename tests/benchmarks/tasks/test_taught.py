"""ATC that was taught by the solutions of other tasks: never by a task's own, and its graph is another one."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.store import GraphStore
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import UsageError
from atc.models.base import Model
from atc.models.fake import FakeModel
from atc_research.naviagent import navigate
from benchmarks.environments import Environment, Task, open_environment
from benchmarks.systems import SYSTEMS, taught
from benchmarks.systems.base import Job
from benchmarks.tasks.gateway import Caps, Session
from tests.support.gateway import solved

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(DATA is None, reason="ATC_DATA names no data directory")


def test_a_task_is_taught_by_the_other_half_alone() -> None:
    environment = open_environment("atlas")
    tasks = environment.tasks()
    teaching = {of: {task.id for task in taught.teachers(environment, of)} for of in (0, 1)}
    assert all(task.id not in teaching[taught.half("atlas", task.id)] for task in tasks)
    assert not teaching[0] & teaching[1]
    assert min(map(len, teaching.values())) > 10
    first, second = (taught.teachers(environment, 0, 5) for _ in range(2))
    assert (first, len(first)) == (second, 5), "always the same ones"


def test_what_a_try_does_is_not_kept(tmp_path: Path) -> None:
    kept = taught.Kept(GraphStore(tmp_path / "learnt.db"))
    kept.add(Lessons("1", answered=True), {})
    assert not kept.learnt({})
    assert list(tmp_path.iterdir()) == []


def test_without_its_task_it_is_not_tried() -> None:
    with pytest.raises(UsageError, match="of which environment"):
        solved(SYSTEMS["navigate-learnt-a"])


@dataclass(frozen=True)
class _Scripted(Job):
    """A try whose model retrieves tools once, and answers."""

    replies: tuple[str, ...] = ()

    def opened_model(self) -> Model:
        return FakeModel(self.replies)


def decided(action: str, **more: Any) -> str:
    return json.dumps([{"dependency_rank": 1, "intent": "", "analysis": "", "action": action, **more}])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["atlas", pytest.param("api_bank", marks=needs_data)])
def test_the_learnt_graph_that_the_strategy_sees_is_not_the_static_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = open_environment(name, DATA)
    seen: list[ToolGraph] = []

    def leading(graph: ToolGraph, targets: list[str], search: str, have: Any = ()) -> list[str]:
        seen.append(graph)
        return targets

    monkeypatch.setattr(navigate, "leading_to", leading)
    static, learnt = asyncio.run(_both(environment, seen))
    assert not static.learnt, "nothing was learnt"
    assert learnt.learnt.calls
    assert learnt.learnt.feeds
    assert _weights(static) != _weights(learnt)
    assert static.protocols.keys() == learnt.protocols.keys(), "of the same tools"


async def _both(environment: Environment, seen: list[ToolGraph]) -> list[ToolGraph]:
    """The graphs that the two systems see in a try of the same task, whose solution has the most tools."""

    def breadth(task: Task) -> tuple[int, str]:
        gold = environment.gold(task)
        return len({tool for tool, _ in gold.calls} if gold else ()), task.id

    task = max(taught.teachers(environment, 0, 1_000), key=breadth)
    found = []
    for name in ("navigate-static-a", "navigate-learnt-a"):
        system, session = SYSTEMS[name], Session(environment.open(task), Caps(), 0.3, 1)
        script = (decided("retrieve_api", recall_description=task.text), decided("direct_answer", answer="1"), "1")
        job = _Scripted(task.text, "", session, "tiny", 32_000, session.caps, of=(environment, task), replies=script)
        try:
            await system.solve(job)
        finally:
            await system.aclose()
        found.append(seen[-1])
    return found


def _weights(graph: ToolGraph) -> set[str]:
    return {f"{tool} {feed}" for tool in graph.protocols for feed in graph.feeds(tool)}
