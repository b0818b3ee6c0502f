"""Toolsets of pydantic-ai in, an agent out, with the real package and its scripted model."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from atc import Agent, FakeModel, Result, Toolset, to_pydantic_ai
from atc.errors import ToolError, ToolImportError, UsageError
from atc.result import Effect
from tests.frameworks.cases import ASKED, DOUBLE, NO_TASK, SENDS, agent, sent

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed: `make frameworks` has it")

from pydantic_ai import Agent as Theirs
from pydantic_ai import BinaryContent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, ToolReturn
from pydantic_ai import Tool as TheirTool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset, FunctionToolset, WrapperToolset

pytestmark = pytest.mark.slow


class Stock(BaseModel):
    product: str
    pieces: int


SHOP: FunctionToolset[Any] = FunctionToolset()


@SHOP.tool
def stock(ctx: RunContext[str], product: str, day: datetime.date | None = None) -> Stock:
    """How many pieces are left.

    Args:
        product: identifier of the product.
    """
    return Stock(product=f"{product} of {ctx.deps} {type(day).__name__}", pieces=3)


@SHOP.tool_plain
async def order(product: str) -> str:
    """Order a product."""
    if product == "none":
        raise ModelRetry("no such product")
    return "o1"


@SHOP.tool_plain(requires_approval=True)
def pay(amount: float) -> ToolReturn:
    """Pay."""
    return ToolReturn({"paid": amount}, metadata={"for": "us alone"})


@SHOP.tool_plain
def picture() -> BinaryContent:
    """A picture."""
    return BinaryContent(b"abc", media_type="image/png")


@SHOP.tool_plain
def broken(n: int) -> int:
    """Divide."""
    return {}["key"]


def total(prices: list[float]) -> float:
    """The sum of prices."""
    return sum(prices)


@pytest.fixture(scope="module")
def tools() -> Toolset:
    both = CombinedToolset([SHOP.prefixed("shop"), FunctionToolset([TheirTool(total)])])
    return Toolset.from_pydantic_ai(both, deps="ann", effects={"*stock": "read", "total": "read"})


def call(tools: Toolset, name: str, **arguments: Any) -> Any:
    async def made() -> Any:
        async with tools.opened():
            return await tools[name].transport(arguments)

    return asyncio.run(made())


def test_schemas_and_effects_are_taken_over(tools: Toolset) -> None:
    assert list(tools) == ["shop_stock", "shop_order", "shop_pay", "shop_picture", "shop_broken", "total"]
    protocol = tools["shop_stock"].protocol
    assert protocol.description == "How many pieces are left."
    assert list(protocol.parameters["properties"]) == ["product", "day"]  # no context
    assert protocol.returns["properties"]["pieces"] == {"type": "integer"}
    assert tools["shop_picture"].protocol.returns == {"type": "string", "format": "binary"}
    effects = {name: tools[name].protocol.effect for name in ("shop_stock", "shop_order", "shop_pay")}
    assert effects == {"shop_stock": Effect.READ, "shop_order": Effect.UNKNOWN, "shop_pay": Effect.WRITE}


def test_calls_go_as_pydantic_ai_makes_them(tools: Toolset) -> None:
    assert call(tools, "shop_stock", product="p1", day="2026-01-31") == {"product": "p1 of ann date", "pieces": 3}
    assert call(tools, "shop_order", product="p1") == "o1"
    assert call(tools, "shop_pay", amount=2) == {"paid": 2.0}  # approved by whoever approves our calls
    assert call(tools, "shop_picture") == b"abc"
    assert asyncio.run(tools["total"].transport({"prices": [1, 2.5]})) == 3.5  # also where nobody has opened it


@pytest.mark.parametrize(
    ("name", "arguments", "status", "outcome", "cause"),
    [
        ("shop_stock", {"product": 3}, "invalid_arguments", "refused", None),
        ("shop_order", {"product": "none"}, "error", "unknown", None),
        ("shop_broken", {"n": 3}, "KeyError", "unknown", "broken"),
    ],
)
def test_failures_are_errors_of_the_tool(
    tools: Toolset, name: str, arguments: dict[str, Any], status: str, outcome: str, cause: str | None
) -> None:
    with pytest.raises(ToolError) as failed:
        call(tools, name, **arguments)
    assert (failed.value.status, failed.value.outcome, failed.value.cause) == (status, outcome, cause)


class Counted(WrapperToolset[Any]):
    """Counts how often it is entered and left."""

    entered = left = 0

    async def __aenter__(self) -> Any:
        Counted.entered += 1
        return self

    async def __aexit__(self, *args: Any) -> None:
        Counted.left += 1


def test_a_program_calls_them_and_the_toolset_is_entered_once() -> None:
    tools = Toolset.from_pydantic_ai(Counted(SHOP), deps="ann", effects={"stock": "read"})
    assert (Counted.entered, Counted.left) == (1, 1)  # to list them
    program = "```python\nanswer = [stock(product=name)['pieces'] for name in ['p1', 'p2']]\n```"
    result = Agent(tools, model=FakeModel([program]), sentence=False).run("How many are left of p1 and p2?")
    assert (result.status, result.value) == ("answered", [3, 3])
    assert (Counted.entered, Counted.left) == (2, 2)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (lambda: ExternalToolset([ToolDefinition(name="ext")]), {}, "'ext': its result is made outside"),
        (lambda: [len], {}, "'len' is neither a toolset nor a tool.*from_functions"),
        (list, {}, "there are no pydantic-ai tools"),
        (lambda: SHOP, {"effects": {"pay": "read"}}, "'pay': it asks for approval"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_by_name_and_reason(
    given: Callable[[], Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ToolImportError, match=words):
        Toolset.from_pydantic_ai(given(), **options)


# Out


def asking(messages: list[ModelMessage], _: Any) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"{last.outcome}: {last.content}")])
    return ModelResponse(parts=[ToolCallPart("solve_task", {"task": ASKED}, tool_call_id="c1")])


def theirs(solver: Agent, **options: Any) -> Theirs[None, Any]:
    output: Any = [str, DeferredToolRequests] if options else str
    return Theirs(FunctionModel(asking), tools=[to_pydantic_ai(solver, **options)], output_type=output)


def test_an_agent_of_pydantic_ai_gives_a_task_on() -> None:
    run = theirs(agent(DOUBLE)).run_sync("Please.")
    assert run.output == "success: {'n': 42}"
    parts = [part for message in run.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    assert isinstance(parts[0].metadata, Result)


def test_a_task_without_an_answer_is_a_failed_call_that_says_why() -> None:
    said = theirs(agent(SENDS, SENDS)).run_sync("Please.").output
    assert said.startswith("failed: No answer:")
    assert "not approved" in said
    assert sent() == []


def test_its_approval_is_asked_and_the_same_run_goes_on() -> None:
    them = theirs(agent(SENDS), approval="deferred")
    waiting = them.run_sync("Please.")
    assert sent() == []
    about = waiting.output.metadata["c1"]
    assert [(each["tool"], each["arguments"], each["effect"]) for each in about["calls"]] == [
        ("send", {"to": "ann"}, "write")
    ]
    yes = DeferredToolResults(approvals={"c1": True})
    after = them.run_sync(message_history=waiting.all_messages(), deferred_tool_results=yes)
    assert after.output == "success: ok"
    assert sent() == ["ann"]


def test_a_call_that_is_not_approved_is_not_made() -> None:
    them = theirs(agent(SENDS), approval="deferred")
    waiting = them.run_sync("Please.")
    no = DeferredToolResults(approvals={"c1": False})
    after = them.run_sync(message_history=waiting.all_messages(), deferred_tool_results=no)
    assert after.output.startswith("denied")
    assert sent() == []


def test_approval_of_one_call_is_none_of_another() -> None:
    other = SENDS.replace("'ann'", "'bob'")
    them = theirs(agent(SENDS, other, other), approval="deferred")
    waiting = them.run_sync("Please.")
    changed = DeferredToolResults(approvals={"c1": True})
    history = waiting.all_messages()
    history[-1].parts[0].args = {"task": "Send it to bob"}  # another task in the place of the one that was asked about
    after = them.run_sync(message_history=history, deferred_tool_results=changed)
    assert isinstance(after.output, DeferredToolRequests)
    assert after.output.metadata["c1"]["calls"][0]["arguments"] == {"to": "bob"}
    assert sent() == []


def test_approval_in_one_conversation_is_none_in_another_with_the_same_ids() -> None:
    other = SENDS.replace("'ann'", "'ann '")
    them = theirs(agent(SENDS, other, other), approval="deferred")
    first = them.run_sync("Please.")
    them.run_sync("Please.")  # it waits for its own call, under the same id
    yes = DeferredToolResults(approvals={"c1": True})
    after = them.run_sync(message_history=first.all_messages(), deferred_tool_results=yes)
    assert after.output == "success: ok"
    assert sent() == ["ann"]


def test_a_task_that_is_none_is_refused() -> None:
    async def tried() -> None:
        made = to_pydantic_ai(agent(DOUBLE))
        from pydantic_ai.models.test import TestModel
        from pydantic_ai.usage import RunUsage

        await made.function_schema.call({"task": " "}, RunContext(deps=None, model=TestModel(), usage=RunUsage()))

    with pytest.raises(Exception, match=NO_TASK):
        asyncio.run(tried())
    with pytest.raises(UsageError, match="the agent must keep runs"):
        to_pydantic_ai(agent(keep_runs=False), approval="deferred")
    with pytest.raises(UsageError, match="approval takes"):
        to_pydantic_ai(agent(), approval="yes")  # type: ignore[arg-type]
