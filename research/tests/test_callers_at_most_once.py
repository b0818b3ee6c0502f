"""Whatever a model writes, and wherever a run is cut off: no strategy that calls tools writes a thing twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atc import Toolset
from atc.errors import ModelError, ToolError
from atc.result import Effect
from tests.support.agent import agent
from tests.support.tools import make_tool

TEXT = {"type": "string"}


def act(tool: str, item: str) -> str:
    return f'Action: {tool}\nAction Input: {{"item": "{item}"}}'


calls = st.builds(act, st.sampled_from(["order", "pay", "look"]), st.sampled_from(["pen", "ink", "moon", "fog"]))
words = st.sampled_from(["Give Up", "Skip", "nothing", "Final Answer: 1", 'Action: order\nAction Input: {"item":'])
reply = st.one_of(st.lists(calls, min_size=1, max_size=4).map("\n".join), words)


class World:
    """``moon`` is refused. ``fog`` may have been done when it fails: then nobody knows."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        kinds = {"order": Effect.WRITE, "pay": Effect.UNKNOWN, "look": Effect.READ}
        self.tools = Toolset(
            make_tool(name, self._behind(name, effect), effect, required=("item",), item=TEXT)
            for name, effect in kinds.items()
        )

    def _behind(self, name: str, effect: Effect) -> Any:
        def behind(arguments: dict[str, Any]) -> Any:
            item = arguments["item"]
            if item == "moon":
                raise ToolError("not for sale", status="not_found")
            if effect is not Effect.READ:
                self.done.append((name, item))
            if item == "fog":
                raise RuntimeError("lost the connection")
            return {"number": len(self.done)}

        return behind


@pytest.mark.parametrize("strategy", ["layered-calls", "dfsdt", "react"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(reply, max_size=8), st.lists(reply, max_size=8))
def test_nothing_is_written_twice(strategy: str, before: list[str], after: list[str]) -> None:
    world = World()
    gone = ModelError("the endpoint is gone")
    made = agent(*before, gone, gone, strategy=strategy, tools=world.tools)
    begun = made.run("go")
    assert begun.status in ("answered", "unsolved", "failed", "in_doubt", "tool_broken")
    if begun.status == "failed":
        agent(*after, gone, gone, strategy=strategy, tools=world.tools).resume(begun.run_id)
    assert len(world.done) == len(set(world.done))
