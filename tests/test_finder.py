"""A program may look for tools that it was not offered; the next program can call what it found."""

from __future__ import annotations

from typing import Any

from support_tools import make_tool

from atc import Agent, Toolset
from atc.models.fake import FakeModel
from atc.result import Result
from atc.tools.protocol import Effect, Protocol
from atc.tools.tool import Tool

LOOK = '```python\nfind_tools(query="rate of exchange between currencies")\n```'
USE = "```python\nanswer = exchange_rate(n=3)\n```"


def tools(count: int = 30, effect: Effect = Effect.READ) -> Toolset:
    many = [make_tool(f"weather_{n}", lambda _, k=n: k) for n in range(count)]
    rate = make_tool("exchange_rate", lambda arguments: 2 * arguments["n"])
    said = Protocol(
        **rate.protocol.model_dump() | {"description": "The rate of exchange of two currencies.", "effect": effect}
    )
    return Toolset([*many, Tool(said, rate.transport)])


def ran(*replies: str, given: Toolset | None = None, **settings: Any) -> tuple[Result, FakeModel]:
    model = FakeModel(replies)
    agent = Agent(given or tools(), model=model, answer=False, max_tools=4, **settings)
    return agent.run("what is the weather?"), model


def test_what_a_program_finds_the_next_one_calls() -> None:
    result, model = ran(LOOK, USE)
    assert (result.value, len(result.revisions)) == (6, 2)
    assert [call.tool for call in result.calls] == ["find_tools", "exchange_rate"]
    first, second = (prompts[-1].content for prompts in model.prompts)
    assert "def find_tools(query: str)" in first
    assert "def exchange_rate(" not in first
    assert "def exchange_rate(" in second
    assert "find_tools found exchange_rate: they can be called now" in second


def test_what_was_not_found_cannot_be_called() -> None:
    result, _ = ran(*[USE] * 6, max_revisions=1)
    assert result.status == "unsolved"
    assert [call for call in result.calls if call.succeeded] == []


def test_looking_is_no_answer() -> None:
    result, _ = ran('```python\nanswer = find_tools(query="rate of exchange")\n```', USE)
    assert (result.status, len(result.revisions)) == ("answered", 2)


def test_what_is_found_needs_leave_like_any_other() -> None:
    asked = []
    model = FakeModel([LOOK, *[USE] * 6])
    agent = Agent(
        tools(effect=Effect.WRITE), model=model, answer=False, max_tools=4, max_revisions=2,
        approve=lambda request: bool(asked.append(request.tool)),
    )  # fmt: skip
    result = agent.run("what is the weather?")
    assert asked == ["exchange_rate"]
    assert result.status == "denied"


def test_a_run_adds_no_more_tools_than_it_may() -> None:
    many = [f'```python\nfor n in range(9):\n    find_tools(query=f"weather {{{k} + n}}")\n```' for k in range(3)]
    given = Toolset([make_tool(f"weather_{n}", lambda _: 1) for n in range(200)])
    result, model = ran(*many, "```python\nanswer = 1\n```", given=given, max_revisions=3)
    assert model.prompts[-1][-1].content.count("def weather_") <= 4 + 20
    assert any(call.error_status == "too_many_tools" for call in result.calls) or len(result.calls) < 20


def test_it_is_there_only_where_tools_are_left_out_and_only_if_wanted() -> None:
    for settings in ({"max_tools": 40}, {"find_tools": False}):
        model = FakeModel(["```python\nanswer = weather_1(n=1)\n```"])
        Agent(tools(), model=model, answer=False, **{"max_tools": 4} | settings).run("which weather?")
        assert "find_tools" not in model.prompts[0][-1].content


def test_a_tool_of_that_name_stays_the_users() -> None:
    own = tools() + Toolset([make_tool("find_tools", lambda _: 42)])
    model = FakeModel(["```python\nanswer = find_tools(n=1)\n```"])
    result = Agent(own, model=model, answer=False, max_tools=4).run("find tools")
    assert result.value == 42
