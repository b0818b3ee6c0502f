"""A run reads the keys of arguments as it did when it began, whatever is learnt meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc import Agent, Toolset
from atc.catalogue.graph.edges import Learnt
from atc.result import Effect
from tests.support.agent import agent
from tests.support.tools import make_tool


def stopped(tools: Toolset, second: asyncio.Event, program: str, table: dict[str, dict[str, str]]) -> str:
    """The id of a run with this table of key aliases, which was stopped in its second call."""
    made = agent(program, tools=tools)
    knows(made, table)

    async def go() -> None:
        work = asyncio.create_task(made.arun("the task"))
        await asyncio.wait([work, asyncio.create_task(second.wait())], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    return made.store.find("last").run_id


def knows(made: Agent, table: dict[str, dict[str, str]]) -> None:
    """Let an agent know these key aliases, and nothing else."""
    made.catalogue._learnt = Learnt(key_aliases=table)
    made.catalogue._refresh = lambda: None  # type: ignore[method-assign]
    made.catalogue._is_current = lambda: True  # type: ignore[method-assign]


@pytest.mark.parametrize("now", [{}, {"find": {"whom": "note"}}])
def test_a_resumed_run_reads_keys_as_it_did_whatever_was_learnt_meanwhile(now: dict[str, dict[str, str]]) -> None:
    found: list[Any] = []
    paid: list[Any] = []
    second = asyncio.Event()

    def find(arguments: dict[str, Any]) -> Any:
        found.append(arguments)
        return "found"

    async def pay(arguments: dict[str, Any]) -> Any:
        paid.append(arguments)
        second.set()
        await asyncio.sleep(60)
        return "paid"

    text = {"type": "string"}
    tools = Toolset([
        make_tool("find", find, required=("person",), person=text, note=text),
        make_tool("pay", pay, Effect.WRITE, required=("to",), to=text),
    ])  # fmt: skip
    program = """```python
done = [find(**dict(whom="Ada"))]
try:
    pay(to="Bob")
except ToolError as error:
    done.append(error.status)
answer = done
```"""
    run_id = stopped(tools, second, program, {"find": {"whom": "person"}})
    assert (found, paid) == ([{"person": "Ada"}], [{"to": "Bob"}])
    again = agent(tools=tools)
    knows(again, now)
    assert again.resume(run_id).value == ["found", "in_doubt"]
    assert (len(found), len(paid)) == (1, 1)
    assert again._resources.model().prompts == []  # type: ignore[attr-defined]
