"""The layers by which a strategy acts that goes layer by layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from atc.graph.tool_graph import ToolGraph
from atc.sketch import Sketch
from atc.strategies.likely_layers import RULE, likely_layers
from atc.tools.tool import Toolset
from tests.support.tools import make_tool

TEXT = {"type": "string"}
NAMES = ("send_report", "write_report", "get_figures")
TOOLS = Toolset([
    make_tool("send_report", len, required=("report_text",), report_text=TEXT),
    make_tool("write_report", len, required=("figures",), figures=TEXT),
    make_tool("get_figures", len),
])  # fmt: skip


def layers(*known: tuple[str, ...], rules: frozenset[str] = frozenset({RULE})) -> list[list[str]]:
    context: Any = SimpleNamespace(
        sketch=Sketch(TOOLS, layers=known),
        tools=TOOLS,
        task="Write a report about the figures and send it.",
        settings=SimpleNamespace(active_rules=rules),
        graph_of=lambda tools: ToolGraph(tools.protocols),
    )
    return [[*layer] for layer in likely_layers(context)]


def test_where_nothing_orders_the_tools_the_likely_layers_count() -> None:
    assert layers(NAMES)[0] == ["get_figures"]
    assert sorted(name for layer in layers(NAMES) for name in layer) == sorted(NAMES)


def test_where_something_does_or_the_rule_is_off_the_sketch_counts() -> None:
    assert layers(NAMES[:1], NAMES[1:]) == [["send_report"], ["write_report", "get_figures"]]
    assert layers(NAMES, rules=frozenset()) == [[*NAMES]]
