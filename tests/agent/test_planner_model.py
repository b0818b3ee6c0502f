"""A model of its own plans the search for tools of a run: within its budget, in its trace, and never in its way."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, Toolset
from atc.errors import ModelUnavailable, SettingsError
from atc.models.fake import FakeModel
from atc.tools.tool import Tool
from tests.support.fake_openai_server import Server, fails, says, serving
from tests.support.tools import make_tool

PLAN = says("<plan>\n1. forecast for a place\n</plan>", usage=(100, 10))
STOP = says("<stop_retrieval>", usage=(120, 5))
PROGRAM = "```python\nanswer = get_weather(n=1)\n```"
TASK = "shall I take an umbrella?"
TWO_STEPS = "look up the forecast for a place, and then say whether it rains there"


@pytest.fixture(autouse=True)
def _by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether an encoder is on this machine changes nothing here."""
    monkeypatch.setattr("atc.catalogue.index.retriever.encoder_for", lambda count: (None, []))


def tools() -> Toolset:
    weather = make_tool("get_weather", lambda _: "rain")
    described = Tool(weather.protocol.model_copy(update={"description": "Forecast for a place."}), weather.transport)
    return Toolset([*(make_tool(f"unrelated_{n}", lambda _, n=n: n) for n in range(60)), described])


def agent(server: Server | None, *replies: str, events: list[Any] | None = None, **given: Any) -> Agent:
    planner = (
        {"planner_model": "small", "planner_base_url": server.url, "planner_api_key": "sk-plans"} if server else {}
    )
    settings: dict[str, Any] = {"sentence": False, "max_tools": 3, "retrieval": "planned", **planner, **given}
    model = FakeModel([*(replies or (PROGRAM,))])
    return Agent(tools(), model=model, on_event=None if events is None else events.append, **settings)


def notices(events: list[Any]) -> list[str]:
    (chosen,) = (event.data for event in events if event.kind == "tools_chosen")
    return list(chosen.get("notices", ()))


def test_the_planner_plans_and_the_acting_model_acts() -> None:
    events: list[Any] = []
    with serving(PLAN, STOP) as server:
        result = agent(server, events=events).run(TASK)
        assert {*server.keys} == {"Bearer sk-plans"}
        assert [request["model"] for request in server.requests] == ["small", "small"]
    assert (result.value, result.usage.model_calls) == ("rain", 3)
    asked = [event.data for event in events if event.kind == "model_ended"]
    assert [(each["purpose"], each.get("model")) for each in asked] == [
        ("plan", "small"), ("plan", "small"), ("program", None)
    ]  # fmt: skip
    assert result.usage.prompt_tokens >= 220
    assert notices(events) == []


def test_its_calls_count_in_the_budget_of_the_run() -> None:
    with serving(PLAN, STOP) as server:
        result = agent(server, budget_model_calls=2).run(TASK)
    assert (result.status, result.usage.model_calls) == ("budget", 2)


@pytest.mark.usefixtures("no_backoff")
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (fails(401, "wrong key"), "set ATC_PLANNER_API_KEY"),
        (fails(404, "no such model"), "set ATC_PLANNER_MODEL"),
        (None, "correct ATC_PLANNER_BASE_URL"),
    ],
    ids=["wrong-key", "no-such-model", "unreachable"],
)
def test_where_it_fails_the_search_goes_on_without_a_plan_and_says_so(step: Any, said: str) -> None:
    events: list[Any] = []
    with serving(step or PLAN) as server:
        address = server.url
        result = agent(server, events=events).run(TWO_STEPS) if step else None
    if step is None:
        result = agent(None, events=events, planner_base_url=address, planner_model="small").run(TWO_STEPS)
    assert result is not None
    assert (result.status, result.value) == ("answered", "rain")
    (notice,) = notices(events)
    assert notice.startswith("tools were searched for without a plan: ")
    assert said in notice


def test_one_that_cannot_be_opened_is_said_before_the_run_begins() -> None:
    with pytest.raises(ModelUnavailable, match=r"planner_model='groq:small'.*no key for groq"):
        agent(None, planner_model="groq:small").run(TASK)


def test_each_model_has_its_price_and_a_budget_in_money_needs_both() -> None:
    priced = {"fake": {"input": 1, "output": 1}}
    both = priced | {"small": {"input": 10, "output": 10}}
    with serving(PLAN, STOP) as server:
        result: Result[Any] = agent(server, prices=both).run(TASK)
    own = agent(None, "<plan>1. x</plan>", "<stop_retrieval>", PROGRAM, prices=priced, retrieval="lexical").run(TASK)
    assert result.cost is not None
    assert result.cost > Decimal(235 * 10) / 1_000_000
    assert own.cost is not None
    with serving(PLAN, STOP) as server:
        assert agent(server, prices=priced).run(TASK).cost is None  # what the planner cost is not known
    with serving(PLAN, STOP) as server, pytest.raises(SettingsError, match="no price for the model 'small'"):
        agent(server, prices=priced, budget_money=1).run(TASK)


def test_a_search_that_does_not_plan_says_that_the_planner_is_idle() -> None:
    events: list[Any] = []
    with serving(PLAN) as server:
        assert agent(server, events=events, retrieval="lexical").run("get weather").value == "rain"
        assert server.requests == []
    assert "retrieval is not `planned`" in notices(events)[0]


def test_its_key_stands_in_no_trace(tmp_path: Path) -> None:
    with serving(fails(401, "the key sk-plans-0123456789 is wrong")) as server:
        agent(server, planner_api_key="sk-plans-0123456789", runs_dir=tmp_path).run("get weather")
    text = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    assert '"planner_model": "small"' in text
    assert "sk-plans" not in text


@pytest.mark.parametrize("ranking", ["similarity", "peak"])
def test_the_ranking_of_planned_queries_is_a_setting(ranking: str) -> None:
    with serving(PLAN, STOP) as server:
        assert agent(server, planned_ranking=ranking).run(TASK).value == "rain"
