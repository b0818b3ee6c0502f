"""Retrieval: few tools are all offered; of many, those that speak of the task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.retriever import IndexRetriever
from atc.catalogue.sketch import Sketch
from atc.errors import UsageError
from atc.models.fake import FakeModel
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool
from tests.support.few import few
from tests.support.retrieval import no_model
from tests.support.tools import make_tool


def tools(count: int = 0, *more: Tool) -> Toolset:
    return Toolset([*(make_tool(f"unrelated_{n}", lambda _, n=n: n) for n in range(count)), *more])


def described(name: str, text: str, **fields: Any) -> Tool:
    return Tool(Protocol(name=name, description=text, **fields))


def choose(task: str, toolset: Toolset, limit: int = 20) -> list[str]:
    return list(retrieve(task, toolset, limit).tools)


def retrieve(task: str, toolset: Toolset, limit: int) -> Sketch:
    return asyncio.run(IndexRetriever().retrieve(task, toolset, limit, no_model))


def test_few_tools_are_all_offered_as_they_were_given() -> None:
    given = tools(20)
    assert retrieve("anything", given, 20).tools is given


@pytest.mark.parametrize("task", ["????", "日本の天気", "\x00", "x" * 20_000])
def test_a_task_without_known_words_still_gets_tools(task: str) -> None:
    chosen = choose(task, tools(30), 20)
    assert len(chosen) == len(set(chosen)) == 20


def test_the_choice_is_the_same_every_time() -> None:
    given = tools(50, described("get_weather", "Forecast."))
    assert len({tuple(choose("weather forecast", given)) for _ in range(3)}) == 1


def test_an_agent_offers_the_chosen_tools_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FakeModel(["```python\nanswer = unrelated_7(n=1)\n```"])
    result = Agent(tools(30), model=model, sentence=False, **few(monkeypatch, 3)).run("use unrelated 7 please")
    assert result.value == 7
    assert {call.tool for call in result.calls} == {"unrelated_7"}
    assert model.prompts[0][-1].content.count("def unrelated_") == 3


def test_a_retriever_of_ones_own_takes_its_place() -> None:
    class Last:
        async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Any) -> Sketch:
            return Sketch(tools.only(list(tools)[-1]))

    model = FakeModel(["```python\nanswer = unrelated_4(n=1)\n```"])
    assert Agent(tools(5), model=model, sentence=False, retriever=Last()).run("x").value == 4


def test_an_index_of_more_tools_than_the_agent_has_serves_too() -> None:
    many = tools(60, described("get_weather", "Forecast for a place."))
    few = many.select("unrelated_1*", "get_weather")
    retriever = IndexRetriever(ToolIndex.build(many))
    found = asyncio.run(retriever.retrieve("unrelated forecast", few, 3, no_model)).tools
    assert len(found) == 3
    assert set(found) <= set(few)
    other = IndexRetriever(ToolIndex.build(tools(60)))
    with pytest.raises(UsageError, match="build it of the same tools"):
        asyncio.run(
            other.retrieve("unrelated", Toolset([described(f"x_{n}", "unrelated") for n in range(9)]), 3, no_model)
        )
