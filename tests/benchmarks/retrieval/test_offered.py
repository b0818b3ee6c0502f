"""The benchmark of what is offered: catalogues of environments, halves of tasks, and what a way leaves out."""

from __future__ import annotations

import asyncio

import pytest

from atc.atlas import atlas_toolset
from atc.catalogue.index.index import ToolIndex
from atc.settings import Settings
from benchmarks.environments import Task
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.shops import environments as shops
from benchmarks.retrieval.offered import TOGETHER, Crowd, Needing, Way, crowds, in_half, line, offered


def test_each_task_is_in_one_half() -> None:
    environment = shops()[0]
    tasks = [Task(str(n), "", ()) for n in range(40)]
    halves = [[in_half(environment, each, half) for each in tasks] for half in ("choose", "report")]
    assert all(one != other for one, other in zip(*halves, strict=True))
    assert 5 < sum(halves[0]) < 35
    assert all(in_half(environment, each, "both") for each in tasks)


@pytest.mark.slow  # the solutions of atlas are run
def test_environments_are_one_catalogue_and_large_ones_one_of_their_own() -> None:
    environments = [AtlasEnvironment(), *shops()]
    together, own = crowds(environments, "both", 3, 20)
    assert (together.name, own.name) == (TOGETHER, "atlas")
    assert set(own.tools) < set(together.tools)
    assert {each.env for each in own.tasks} == {"atlas"}
    assert {each.env for each in together.tasks} == {each.name for each in environments}
    assert all(each.needed <= set(together.tools) for each in together.tasks)


@pytest.mark.parametrize("more", [0, 6])
def test_a_line_counts_what_is_needed_and_not_offered(more: int) -> None:
    tools = atlas_toolset()
    every = Crowd(
        "some", tools, [Needing("atlas", "How many people live in Lyon?", frozenset({"get_city", "find_cities"}))]
    )
    settings = Settings.load(max_tools=1, learn=False)
    way = Way("words", {"prerequisites": False, "services": False, "consumers": 0}, more)
    (found,) = offered(every, way, ToolIndex.build(tools.protocols), settings)
    made = line(every, way, "all", [found])
    assert (found.tools, made["needed"], made["not offered"]) == (1 + more, 2, 1 if more else 2)
    assert made["tokens"] > 0


def test_no_tool_of_the_catalogue_can_be_called() -> None:
    together, *_ = crowds(shops(), "both", 1, 20)
    tool = next(iter(together.tools.values()))
    assert tool.transport is not None
    with pytest.raises(Exception, match="no tool is called"):
        asyncio.run(tool.transport({}))
