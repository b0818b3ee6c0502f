"""``retrieval="planned"``: the run's model plans the search, and its plan reaches the writer."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Settings, Toolset
from atc.tools.tool import Tool
from atc_research.toolqp.retrieval import Planned, planned_peak
from tests.support.few import few
from tests.support.tools import make_tool


def weather_of_many() -> Toolset:
    weather = make_tool("get_weather", lambda _: "rain")
    told = Tool(weather.protocol.model_copy(update={"description": "Forecast for a place."}), weather.transport)
    return Toolset([*(make_tool(f"unrelated_{n}", lambda _, n=n: n) for n in range(60)), told])


@pytest.mark.parametrize("made", [Planned, planned_peak])
def test_a_planned_search_is_told_and_its_plan_reaches_the_writer(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.catalogue.index.retriever.encoder_for", lambda count: (None, []))
    plan = "<plan>\n1. forecast for a place\n</plan>"
    model = FakeModel([plan, "<stop_retrieval>", "```python\nanswer = get_weather(n=1)\n```"])
    events: list[Any] = []
    given: dict[str, Any] = {"sentence": False, "on_event": events.append, **few(monkeypatch, 3)}
    result = Agent(weather_of_many(), model=model, retriever=made(Settings.load()), **given).run("take an umbrella?")
    assert (result.value, result.usage.model_calls) == ("rain", 3)
    (chosen,) = (event.data for event in events if event.kind == "tools_chosen")
    assert chosen["queries"] == ["forecast for a place"]
    assert "The tools were searched for by this outline" in model.prompts[2][-1].content


def test_a_model_of_its_own_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.catalogue.index.retriever.encoder_for", lambda count: (None, []))
    planner = FakeModel(["<plan>\n1. forecast for a place\n</plan>", "<stop_retrieval>"])
    model = FakeModel(["```python\nanswer = get_weather(n=1)\n```"])
    retriever = Planned(Settings.load(), model=planner)
    agent = Agent(weather_of_many(), model=model, retriever=retriever, sentence=False, **few(monkeypatch, 3))
    result = agent.run("take an umbrella?")
    assert (result.value, result.usage.model_calls, len(planner.prompts)) == ("rain", 1, 2)


def test_its_names_are_entry_points() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"]["atc.retrieval"]) == {"planned", "planned-peak", "related"}
