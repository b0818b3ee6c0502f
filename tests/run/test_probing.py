"""``probe="reads"``: what offered tools answer is known before the first program, and stays for later runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, Tool, Toolset
from atc.errors import SettingsError
from atc.models.fake import FakeModel
from atc.probing import reads
from atc.result import Effect
from atc.run import probing
from atc.run.given_program import run_given
from atc.schemas.protocol import Source
from tests.support.tools import make_tool

pytestmark = pytest.mark.inline

NUMBER = {"type": "integer"}


def code(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])


CANCEL = code("answer = cancel_order(order_id=list_orders()['orders'][0]['order_id'])")
ANSWER = code("answer = list_orders()['orders'][0]['order_id']")


def of_shop(tool: Tool) -> Tool:
    """The tool, as one that another process knows again."""
    source = Source(kind="mcp", location="https://shop.example", operation=tool.name)
    return Tool(tool.protocol.model_copy(update={"source": source}), tool.transport)


class Shop:
    """A service without documents of its responses."""

    def __init__(self, folder: Path, *more: Tool) -> None:
        self.folder, self.calls = folder, list[str]()

        def counted(name: str, value: Any) -> Any:
            def made(_: Any) -> Any:
                self.calls.append(name)
                return value

            return made

        orders = {"orders": [{"order_id": 8812, "note": "a private note"}]}
        tools = [
            make_tool("list_orders", counted("list_orders", orders)),
            make_tool("get_order", counted("get_order", {"total": 3.5}), required=("order_id",), order_id=NUMBER),
            make_tool(
                "cancel_order", counted("cancel_order", {}), Effect.WRITE, required=("order_id",), order_id=NUMBER
            ),
            *more,
        ]
        self.tools = Toolset(map(of_shop, tools))

    def agent(self, *replies: str, **settings: Any) -> tuple[Agent, FakeModel]:
        model = FakeModel(replies)
        given: dict[str, Any] = {"probe": "reads", "catalogue": self.folder / "catalogue", "sentence": False} | settings
        return Agent(self.tools, model=model, **given), model

    def run(self, *replies: str, **settings: Any) -> tuple[Result, str]:
        agent, model = self.agent(*(replies or (ANSWER,)), **settings)
        with agent:
            return agent.run("tell"), model.prompts[0][-1].content


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "IN_RUN", replace(probing.IN_RUN, seconds=60.0))
    monkeypatch.setattr(reads, "LEARNT_S", 60.0)  # a busy disk takes long to keep what is learnt


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_the_first_prompt_has_the_shapes_and_no_value(shop: Shop) -> None:
    result, prompt = shop.run()
    assert (result.status, result.value) == ("answered", 8812)
    assert [(each.tool, each.learnt) for each in result.probed] == [("list_orders", True), ("get_order", True)]
    assert "'order_id': int" in prompt
    assert "{'total': float}" in prompt
    assert "8812" not in prompt
    assert "private" not in prompt
    assert shop.calls == ["list_orders", "get_order", "list_orders"]
    assert [call.tool for call in result.calls] == ["list_orders"]
    assert result.usage.tool_calls == 1


def test_off_is_the_default_and_calls_nothing_beforehand(shop: Shop) -> None:
    result, prompt = shop.run(probe="off")
    assert (result.probed, shop.calls) == ((), ["list_orders"])
    assert "order_id': int" not in prompt


def test_it_stands_in_the_trace_by_itself_and_the_journal_does_not_have_it(shop: Shop, tmp_path: Path) -> None:
    agent, _ = shop.agent(ANSWER, runs_dir=tmp_path / "runs")
    with agent:
        result = agent.run("tell")
        stored = agent.store.find(result.run_id)
    events = list(stored.events())
    probed = [event for event in events if event["kind"] == "tool_probed"]
    assert [event["data"]["tool"] for event in probed] == ["list_orders", "get_order"]
    assert probed[1]["data"]["arguments"] == {"order_id": 8812}
    kinds = [event["kind"] for event in events]
    assert kinds.index("tools_chosen") < kinds.index("tool_probed") < kinds.index("model_started")
    assert kinds.count("call_ended") == 1
    assert [each["tool"] for each in events[-1]["data"]["probed"]] == ["list_orders", "get_order"]


def test_a_later_run_knows_and_calls_nothing_twice(shop: Shop, tmp_path: Path) -> None:
    shop.run()
    del shop.calls[:]
    again = Shop(tmp_path)  # another process
    result, prompt = again.run()
    assert (result.probed, again.calls) == ((), ["list_orders"])
    assert "{'total': float}" in prompt


def test_a_conversation_probes_once(tmp_path: Path) -> None:
    empty = make_tool("list_empty", lambda _: [])
    shop = Shop(tmp_path, empty)
    agent, _ = shop.agent(ANSWER, code("answer = 2"), code("answer = get_order(order_id=1)"))
    with agent:
        talk = agent.conversation()
        first, second = talk.run("tell"), talk.run("and the total?")
    assert len(first.probed) == 3
    assert second.probed == ()


def test_a_run_that_goes_on_is_not_probed_again(shop: Shop, tmp_path: Path) -> None:
    agent, _ = shop.agent(CANCEL, runs_dir=tmp_path / "runs", approve="park")
    with agent:
        waiting = agent.run("cancel")
        assert waiting.status == "waiting"
        before = len(shop.calls)
        agent.approve(waiting.run_id)
        result = agent.resume(waiting.run_id)
    assert result.status == "answered"
    assert result.probed == ()
    assert shop.calls[before:] == ["cancel_order"]


def test_a_program_that_somebody_gives_is_not_probed_for(shop: Shop) -> None:
    agent, _ = shop.agent()
    with agent:
        given = asyncio.run(run_given(agent, "answer = list_orders()"))
    assert (given.result.status, given.result.probed) == ("answered", ())
    assert shop.calls == ["list_orders"]


@pytest.mark.parametrize("settings", [{"learn": False}, {"keep_runs": False}], ids=["no learning", "no runs"])
def test_what_could_not_be_kept_is_refused(shop: Shop, settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="probe=reads keeps what it finds"):
        shop.agent(**settings)


def test_a_dry_run_may_read_beforehand(shop: Shop) -> None:
    agent, _ = shop.agent(CANCEL)
    with agent:
        result = agent.run("cancel", dry_run=True)
        assert (result.status, len(result.probed)) == ("planned", 2)
    assert shop.calls == ["list_orders", "get_order", "list_orders"]
