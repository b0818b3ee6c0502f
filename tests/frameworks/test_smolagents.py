"""Tools of smolagents in, an agent out, with the real package and a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from atc import Agent, FakeModel, Toolset, to_smolagents
from atc.errors import ToolError, ToolImportError
from atc.result import Effect
from tests.frameworks.cases import ASKED, DOUBLE, SENDS, agent, sent

pytest.importorskip("smolagents", reason="smolagents is not installed: `make frameworks` has it")

from smolagents import ChatMessage, CodeAgent, FinalAnswerTool, Model, Tool, ToolCallingAgent, ToolCollection, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

pytestmark = pytest.mark.slow


@tool
def weather(city: str, unit: str | None = None) -> dict:
    """The weather.

    Args:
        city: name of the city
        unit: c or f
    """
    if city == "nowhere":
        raise ValueError("no such city")
    return {"degrees": 3, "unit": unit}


class Counter(Tool):
    name = "counter"
    description = "How often it was set up."
    inputs = {"about": {"type": "any", "description": "anything"}}  # noqa: RUF012
    output_type = "object"
    output_schema = {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]}  # noqa: RUF012
    times = 0

    def setup(self) -> None:
        self.times += 1
        self.is_initialized = True

    def forward(self, about: Any) -> dict[str, int]:
        return {"times": self.times}


class Sees(Tool):
    name = "sees"
    description = "Looks at a picture."
    inputs = {"picture": {"type": "image", "description": "what to look at"}}  # noqa: RUF012
    output_type = "string"

    def forward(self, picture: Any) -> str:
        return "a cat"


def call(tools: Toolset, name: str, **arguments: Any) -> Any:
    return asyncio.run(tools[name].transport(arguments))


def test_tools_come_in() -> None:
    tools = Toolset.from_smolagents(ToolCollection([weather, Counter()]), effects={"weather": "read"})
    protocol = tools["weather"].protocol
    assert protocol.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "name of the city"},
            "unit": {"type": ["string", "null"], "description": "c or f"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert (protocol.effect, tools["counter"].protocol.effect) == (Effect.READ, Effect.UNKNOWN)
    assert protocol.returns["type"] == "object"
    assert tools["counter"].protocol.returns["properties"] == {"times": {"type": "integer"}}
    assert call(tools, "weather", city="Oslo") == {"degrees": 3, "unit": None}
    assert [call(tools, "counter", about=[1]) for _ in range(2)] == [{"times": 1}] * 2
    with pytest.raises(ToolError, match="no such city") as failed:
        call(tools, "weather", city="nowhere")
    assert (failed.value.status, failed.value.cause) == ("ValueError", None)


def test_a_program_calls_them() -> None:
    program = "```python\nanswer = weather(city='Oslo')['degrees']\n```"
    tools = Toolset.from_smolagents([weather], effects={"weather": "read"})
    assert Agent(tools, model=FakeModel([program]), sentence=False).run("How warm is Oslo?").value == 3


def test_what_cannot_be_a_tool_is_refused_by_name_and_reason() -> None:
    with pytest.raises(ToolImportError) as refused:
        Toolset.from_smolagents([Sees(), FinalAnswerTool(), len])
    for words in ("'sees': its input 'picture' is an image", "'final_answer': it ends the agent", "'len': it is a"):
        assert words in str(refused.value)


# Out


class Scripted(Model):
    def __init__(self, replies: Iterable[ChatMessage]) -> None:
        super().__init__()
        self.replies = [*replies]

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        return self.replies.pop(0)


def ran(solver: Agent, program: str) -> Any:
    reply = ChatMessage(role="assistant", content=f"<code>\n{program}\n</code>")
    return CodeAgent(tools=[to_smolagents(solver)], model=Scripted([reply]), verbosity_level=0).run("Please.")


def test_a_code_agent_goes_on_with_the_value() -> None:
    assert ran(agent(DOUBLE), f"got = solve_task(task={ASKED!r})\nfinal_answer(got['n'] + 1)") == 43


def test_a_task_without_an_answer_raises_and_says_why() -> None:
    program = f"try:\n    got = solve_task({ASKED!r})\nexcept Exception as e:\n    got = str(e)\nfinal_answer(got)"
    said = ran(agent(SENDS, SENDS), program)
    assert "not approved" in said
    assert sent() == []


def test_a_tool_calling_agent_calls_it() -> None:
    def calling(name: str, arguments: dict[str, Any]) -> ChatMessage:
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessage(
            role="assistant", content="", tool_calls=[ChatMessageToolCall(function, id="c1", type="function")]
        )

    replies = [calling("solve_task", {"task": ASKED}), calling("final_answer", {"answer": "done"})]
    them = ToolCallingAgent(tools=[to_smolagents(agent(DOUBLE))], model=Scripted(replies), verbosity_level=0)
    assert them.run("Please.") == "done"
    assert "{'n': 42}" in str([step.observations for step in them.memory.steps if hasattr(step, "observations")])
