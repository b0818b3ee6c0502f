"""What the tools that a stranger lists cost the host: the graph of what feeds what, and their stubs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from atc.graph.tool_graph import ToolGraph
from atc.tools.protocol import Protocol, Source
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


def _hints(tools: Sequence[Protocol]) -> object:
    return ToolGraph(tools).hints


def _layers(tools: Sequence[Protocol]) -> object:
    return ToolGraph(tools).layers([tool.name for tool in tools])


@pytest.mark.parametrize(
    ("make", "least", "most"), [(_shared, 100, 400), (_mentioned, 100, 400), (_wide, 400, 1_600), (_within, 100, 400)]
)
@pytest.mark.parametrize("run", [_hints, _layers])
def test_the_graph(
    make: Callable[[int], list[Protocol]], least: int, most: int, run: Callable[[Sequence[Protocol]], object]
) -> None:
    assert_linear(make, run, n=least, most=most)


@pytest.mark.parametrize("make", [_choices, _inherited])
def test_the_stubs(make: Callable[[int], list[Protocol]]) -> None:
    assert_linear(make, render_stubs, n=100, most=1_600)
