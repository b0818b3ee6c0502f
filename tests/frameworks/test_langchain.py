"""Tools of LangChain in, an agent out, with the real packages and a scripted chat model of theirs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from atc import Agent, FakeModel, Result, Toolset, to_langchain
from atc.errors import ToolError, ToolImportError, UsageError
from atc.result import Effect
from tests.frameworks.cases import ASKED, DOUBLE, NO_TASK, SENDS, agent, sent

pytest.importorskip("langchain_core", reason="langchain-core is not installed: `make frameworks` has it")

from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import (
    BaseTool,
    BaseToolkit,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)

pytestmark = pytest.mark.slow


class Stock(TypedDict):
    product: str
    pieces: int


@tool(parse_docstring=True)
def stock(product: str, least: int = 0) -> Stock:
    """How many pieces are left.

    Args:
        product: identifier of the product.
        least: how many are wanted.
    """
    return {"product": product, "pieces": 3}


@tool
async def order(
    product: str, user: Annotated[str, InjectedToolArg], call_id: Annotated[str, InjectedToolCallId]
) -> str:
    """Order a product."""
    return f"{product} for {user} by {call_id[:5]}"


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search documents."""
    return "found 1", [Document(page_content=query, metadata={"page": 1})]


@tool(response_format="content_and_artifact")
def picture(query: str) -> tuple[list[dict[str, Any]], Any]:
    """A picture, as an object that has no JSON form."""
    return [{"type": "text", "text": '{"caption": "a cat"}'}], object()


def refuses(number: int) -> dict[str, int]:
    """Refuse a number."""
    raise ToolException(f"no number {number}")


@tool
def broken(number: int) -> int:
    """Divide."""
    return {}["key"]


class Area(BaseTool):
    name: str = "areaOf"
    description: str = "The area of a square."

    def _run(self, side: float) -> float:
        return side * side


class Slow(BaseTool):
    name: str = "later"
    description: str = "Answers later."

    def _run(self, number: int) -> int:
        raise NotImplementedError

    async def _arun(self, number: int) -> int:
        await asyncio.sleep(0)
        return number


class Kit(BaseToolkit):
    def get_tools(self) -> list[BaseTool]:
        return [Area(), Tool(name="shout", description="Louder.", func=lambda text: text.upper())]


HANDLED = StructuredTool.from_function(refuses, handle_tool_error=True)


@pytest.fixture(scope="module")
def tools() -> Toolset:
    given = [stock, order, search, picture, HANDLED, broken, Kit(), Slow()]
    return Toolset.from_langchain(given, injected={"user": "ann"}, effects={"stock": "read", "area*": "read"})


def call(tools: Toolset, name: str, **arguments: Any) -> Any:
    async def made() -> Any:
        async with tools.opened():
            return await tools[name].transport(arguments)

    return asyncio.run(made())


def test_schemas_and_effects_are_taken_over(tools: Toolset) -> None:
    assert list(tools) == ["stock", "order", "search", "picture", "refuses", "broken", "area_of", "shout", "later"]
    protocol = tools["stock"].protocol
    assert protocol.description == "How many pieces are left."
    assert protocol.parameters["properties"]["product"] == {
        "type": "string",
        "description": "identifier of the product.",
    }
    assert protocol.parameters["required"] == ["product"]
    assert protocol.returns["properties"]["pieces"]["type"] == "integer"
    assert [tools[name].protocol.effect for name in ("stock", "order", "area_of")] == [
        Effect.READ,
        Effect.UNKNOWN,
        Effect.READ,
    ]
    assert list(tools["order"].protocol.parameters["properties"]) == ["product"]  # nothing that is injected
    assert tools["search"].protocol.returns["type"] == "array"  # of the artifact
    assert tools["area_of"].protocol.source.kind == "langchain"
    assert tools["area_of"].protocol.source.operation == "areaOf"


def test_calls_go_as_langchain_makes_them(tools: Toolset) -> None:
    assert call(tools, "stock", product="p1") == {"product": "p1", "pieces": 3}
    assert call(tools, "order", product="p1") == "p1 for ann by call_"
    assert call(tools, "search", query="hi")[0]["page_content"] == "hi"
    assert call(tools, "picture", query="cat") == {"caption": "a cat"}  # its content, where the artifact is no value
    assert call(tools, "area_of", side=3) == 9
    assert call(tools, "shout", tool_input="hey") == "HEY"
    assert call(tools, "later", number=4) == 4


@pytest.mark.parametrize(
    ("name", "arguments", "status", "outcome", "cause"),
    [
        ("stock", {"product": 3}, "invalid_arguments", "refused", None),
        ("order", {"product": "p1", "user": "eve"}, "invalid_arguments", "refused", None),  # it is injected
        ("refuses", {"number": 3}, "error", "unknown", None),
        ("broken", {"number": 3}, "KeyError", "unknown", "broken"),
    ],
)
def test_failures_are_errors_of_the_tool(
    tools: Toolset, name: str, arguments: dict[str, Any], status: str, outcome: str, cause: str | None
) -> None:
    with pytest.raises(ToolError) as failed:
        call(tools, name, **arguments)
    assert (failed.value.status, failed.value.outcome, failed.value.cause) == (status, outcome, cause)


def test_a_program_calls_them(tools: Toolset) -> None:
    program = "```python\nleft = stock(product='p1')\nanswer = left['pieces'] * area_of(side=2)\n```"
    result = Agent(tools, model=FakeModel([program]), sentence=False).run("Multiply what is left of p1 by 2 squared")
    assert (result.status, result.value) == ("answered", 12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([order], "'order': LangChain injects its argument 'user'"),
        ([{"type": "web_search"}], "'web_search': it is a description for a provider"),
        ([len], "'len': it is a builtin_function_or_method.*from_functions"),
        ("stock", "'str': it is a str"),
        ([], "there are no langchain tools"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name_and_reason(given: Any, words: str) -> None:
    with pytest.raises(ToolImportError, match=words):
        Toolset.from_langchain(given)


def test_others_are_left_out_by_name() -> None:
    assert list(Toolset.from_langchain([stock, order], only=["st*"])) == ["stock"]
    with pytest.raises(UsageError, match="'nothing', which fits no langchain tool"):
        Toolset.from_langchain([stock], effects={"nothing": "read"})


def test_hints_of_an_mcp_adapter_count() -> None:
    reads = StructuredTool.from_function(refuses, metadata={"readOnlyHint": True})
    assert Toolset.from_langchain([reads])["refuses"].protocol.effect is Effect.READ


def test_a_structured_answer_of_an_mcp_adapter_is_the_value() -> None:
    async def call_tool(runtime: Annotated[object | None, InjectedToolArg()] = None, **arguments: Any) -> Any:
        return [{"type": "text", "text": "x"}], {"structured_content": {"n": arguments["n"]}}

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    adapted = StructuredTool(
        name="adapted",
        description="d",
        args_schema=schema,
        coroutine=call_tool,
        response_format="content_and_artifact",
        handle_tool_error=lambda error: [{"type": "text", "text": str(error)}],
    )
    assert call(Toolset.from_langchain(adapted), "adapted", n=3) == {"n": 3}


# Out


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def asked(solver: Agent, task: str = ASKED) -> ToolMessage:
    """What a LangChain agent gets that gives the task on."""
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed: `make frameworks` has it")
    request = AIMessage(content="", tool_calls=[{"name": "solve_task", "args": {"task": task}, "id": "c1"}])
    replies: Iterator[AIMessage] = iter([request, AIMessage(content="done")])
    graph = agents.create_agent(Scripted(messages=replies), tools=[to_langchain(solver)])
    messages = graph.invoke({"messages": [("user", "Please.")]})["messages"]
    assert messages[-1].content == "done"
    return next(each for each in messages if isinstance(each, ToolMessage))


def test_an_agent_of_langchain_gives_a_task_on(tmp_path: Path) -> None:
    message = asked(agent(DOUBLE))
    assert (message.status, json.loads(message.content)) == ("success", {"n": 42})
    assert isinstance(message.artifact, Result)
    assert message.artifact.calls[0].tool == "double"


def test_a_task_without_an_answer_is_an_error_that_says_why() -> None:
    message = asked(agent(SENDS, SENDS))
    assert message.status == "error"
    assert "not approved" in message.content
    assert sent() == []


def test_approval_is_the_agents_own() -> None:
    assert asked(agent(SENDS, approve="always")).content == "ok"
    assert sent() == ["ann"]


def test_a_task_that_is_none_is_refused() -> None:
    message = asked(agent(DOUBLE), task=" ")
    assert (message.status, message.content) == ("error", NO_TASK)


def test_it_is_called_from_asynchronous_code_too() -> None:
    assert asyncio.run(to_langchain(agent(DOUBLE)).ainvoke({"task": ASKED})) == '{"n": 42}'
    with pytest.raises(UsageError, match="cannot be a tool's name"):
        to_langchain(agent(), name="solve it")
