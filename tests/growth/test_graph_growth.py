"""What the tools that a stranger lists cost the host: the graph of what feeds what, and their stubs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from atc.catalogue.graph.substitutes import may_repeat
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.stubs import render_stubs
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

_TEXT = {"type": "string"}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _tool(name: str, parameters: dict[str, Any], returns: Any = None) -> Protocol:
    schema = {**_object(parameters), "required": list(parameters)}
    return Protocol(name=name, parameters=schema, returns=returns, source=Source(kind="openapi", location="https://x"))


def _shared(n: int) -> list[Protocol]:
    """Tools with one field of one name."""
    return [_tool(f"t{i}", {"user_id": _TEXT}, _object({"user_id": _TEXT})) for i in range(n)]


def _mentioned(n: int) -> list[Protocol]:
    about = {"type": "string", "description": "returned by `t0`, `t1`, `t2`"}
    return [_tool(f"t{i}", {"user_id": about}, _object({"user_id": _TEXT})) for i in range(n)]


def _wide(n: int) -> list[Protocol]:
    many = {f"p{i}_id": _TEXT for i in range(n)}
    return [_tool(name, many, _object(many)) for name in ("a", "b")]


def _within(n: int) -> list[Protocol]:
    """Tools with an id within a body, which all of them give."""
    return [_tool(f"t{i}", {"order": _object({"user_id": _TEXT})}, _object({"user_id": _TEXT})) for i in range(n)]


def _choices(n: int) -> list[Protocol]:
    return [_tool("a", {"x_id": _TEXT}, {"anyOf": [_object({"x_id": _TEXT}) for _ in range(n)]})]


def _inherited(n: int) -> list[Protocol]:
    return [_tool("a", {}, {"allOf": [{**_object({f"p{i}": _TEXT}), "required": [f"p{i}"]} for i in range(n)]})]


def _apart(n: int) -> list[Protocol]:
    """Tools no two of which have a field whose name ends with the same word."""
    return [_tool(f"t{i}", {f"a{i}_k{i}": _TEXT}, _object({f"a{i + 1}_k{i + 1}": _TEXT})) for i in range(n)]


def _long_names(n: int) -> ToolGraph:
    """Two writes whose arguments and fields have names of ``n`` words."""
    fields = {tool: {"_".join(f"{tool}{i}w{k}" for k in range(n)): _TEXT for i in range(30)} for tool in "ab"}
    tools = [_tool(tool, {"x": _TEXT}, _object(fields[tool])) for tool in "ab"]
    return ToolGraph([each.model_copy(update={"effect": Effect.WRITE}) for each in tools])


def _hints(tools: Sequence[Protocol]) -> object:
    return ToolGraph(tools).hints


def _layers(tools: Sequence[Protocol]) -> object:
    return ToolGraph(tools).layers([tool.name for tool in tools])


@pytest.mark.parametrize(
    ("make", "least", "most"),
    [(_shared, 100, 400), (_mentioned, 100, 400), (_wide, 400, 1_600), (_within, 100, 400), (_apart, 100, 400)],
)
@pytest.mark.parametrize("run", [_hints, _layers])
def test_the_graph(
    make: Callable[[int], list[Protocol]], least: int, most: int, run: Callable[[Sequence[Protocol]], object]
) -> None:
    assert_linear(make, run, n=least, most=most)


@pytest.mark.parametrize("make", [_choices, _inherited])
def test_the_stubs(make: Callable[[int], list[Protocol]]) -> None:
    assert_linear(make, render_stubs, n=100, most=1_600)


def test_two_writes_are_compared() -> None:
    assert_linear(_long_names, lambda graph: may_repeat(graph, "a", "b"), n=10, most=1_000)
