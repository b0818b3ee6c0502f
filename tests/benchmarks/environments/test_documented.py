"""The same tasks over tools with other documents: what is read differs, what is done and judged does not."""

from __future__ import annotations

import asyncio
from typing import Any

from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import Toolset
from benchmarks.environments import VARIANTS, Environment, Episode, Gold, Task
from benchmarks.environments.base import served
from benchmarks.environments.documented import Documented, names_alone, tasks_from
from benchmarks.environments.self_test import judge
from benchmarks.tasks.read_tasks import is_read, is_sealed, order

WATER = Protocol(
    name="water",
    description="Waters a plant.",
    parameters={
        "type": "object",
        "properties": {"plant": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["plant", "amount"],
    },
    returns={"type": "number"},
    effect=Effect.WRITE,
    source=Source(location="garden", operation="PUT /plants/{plant}"),
)


class Garden(Environment):
    name = "garden"

    def tasks(self) -> list[Task]:
        return [Task("fern", "Water the fern.", ("water",))]

    def open(self, task: Task) -> Episode:
        given: list[float] = []

        def water(arguments: dict[str, Any]) -> float:
            given.append(arguments["amount"])
            return sum(given)

        tools = Toolset([served(WATER, water)])
        return Episode(tools, lambda value: value == sum(given) == 1, self.gold(task).calls)

    def gold(self, task: Task) -> Gold:
        return Gold((("water", {"plant": "fern", "amount": 1}),), 1)


def test_of_a_tool_that_is_told_by_its_names_nothing_else_is_known() -> None:
    told = names_alone(WATER)
    assert (told.description, told.returns, told.effect) == ("", None, Effect.WRITE)
    assert told.parameters == {"type": "object", "properties": {"plant": {}, "amount": {}}, "required": ["plant"]}


def test_only_what_is_read_of_a_tool_differs() -> None:
    said = Protocol(name="water", description="From a probing.", effect=Effect.READ)
    environment = Documented(Garden(), "probed", lambda task: {"water": said, "other": said})
    (task,) = environment.tasks()
    episode = environment.open(task)
    (tool,) = episode.tools.values()
    assert (environment.name, tool.protocol.description) == ("garden-probed", "From a probing.")
    assert (tool.protocol.effect, tool.protocol.source) == (Effect.WRITE, WATER.source)
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (1, [], [], [])
    assert tool.transport is not None
    asyncio.run(tool.transport({"plant": "fern", "amount": 1}))
    assert (episode.writes, episode.path, episode.precision) == (1, 1.0, 1.0)


def test_a_task_is_read_sealed_and_drawn_alike_whatever_its_tools_are_said_to_do() -> None:
    assert {tasks_from(name) for name in VARIANTS} == {"atlas", "restbench", "toolflow"}
    assert [tasks_from(name) for name in ("api_bank", "probed", "a-b")] == ["api_bank", "probed", "a-b"]
    ids = [f"task-{number}" for number in range(40)]
    sealed = [is_sealed("toolflow", id) for id in ids]
    assert {True, False} == set(sealed)
    assert [is_sealed("toolflow-bare", id) for id in ids] == sealed
    assert is_read("toolflow-probed", "weather-27") is is_read("toolflow", "weather-27") is True
    (task,) = Garden().tasks()
    assert order(Documented(Garden(), "bare", lambda _: {}), task) == order(Garden(), task)
