"""Tool graphs whose edges are given, for tests of what looks at a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from atc.catalogue.graph.edges import NOTHING_LEARNT, Evidence, Feed, Learnt, Substitute
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.schemas.protocol import Protocol, Source


def a_tool(name: str, *parameters: str, description: str = "", service: str = "shop", **returns: Any) -> Protocol:
    """A tool with parameters that are strings, and fields of a response."""
    return Protocol(
        name=name,
        description=description,
        parameters={"properties": {each: {"type": "string"} for each in parameters}, "required": list(parameters)},
        returns={"type": "object", "properties": returns} if returns else None,
        source=Source(kind="openapi", location=service),
    )


def a_feed(
    supplier: str,
    consumer: str,
    parameter: str = "id",
    evidence: Evidence = "names",
    weight: float = 0.5,
    seen: float = 0,
) -> Feed:
    """An edge from the field ``id`` of a tool."""
    return Feed(Supplier(supplier, ("id",)), consumer, parameter, evidence, weight, seen)


class GivenGraph(ToolGraph):
    """A graph with these edges and no others."""

    def __init__(
        self,
        tools: Iterable[Protocol],
        feeds: Sequence[Feed] = (),
        substitutes: Sequence[Substitute] = (),
        learnt: Learnt = NOTHING_LEARNT,
    ) -> None:
        super().__init__(list(tools), learnt)
        self._given, self._instead = feeds, substitutes

    def feeds(self, consumer: str) -> Sequence[Feed]:
        return [each for each in self._given if each.consumer == consumer]

    def substitutes(self, tool: str) -> Sequence[Substitute]:
        return [each for each in self._instead if each.tool == tool]
