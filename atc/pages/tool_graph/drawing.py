"""What a picture of the tool graph shows: its tools, and an edge for each two of which one feeds the other. Bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atc.graph.edges import Evidence, Feed, Substitute
from atc.graph.tool_graph import ToolGraph
from atc.wording.sketches import WORDS

MOST_TOOLS, MOST_EDGES = 2_000, 10_000
"""What one picture shows at most: a reader sees nothing in more."""
ORDER: tuple[Evidence, ...] = tuple(WORDS)
"""The kinds of evidence, the surest first."""
_RANK = {evidence: rank for rank, evidence in enumerate(ORDER)}


@dataclass(frozen=True)
class Edge:
    """From a tool to one that it feeds.

    Attributes:
        feeds: each field and parameter, the surest first; the first one gives ``evidence`` and ``weight``.
    """

    supplier: str
    consumer: str
    feeds: tuple[Feed, ...]

    @property
    def evidence(self) -> Evidence:
        """Of the surest feed."""
        return self.feeds[0].evidence

    @property
    def weight(self) -> float:
        """Of the surest feed, from 0 to 1."""
        return self.feeds[0].weight


@dataclass(frozen=True)
class Drawing:
    """What is drawn.

    Attributes:
        tools: keys, in the order of the graph.
        edges: between them, the surest first. ``substitutes``: between them.
        around: the tools that were chosen; empty where none were.
        all_tools, all_edges: how many the graph has; ``all_edges`` counts those between the shown tools alone.
    """

    graph: ToolGraph
    tools: tuple[str, ...]
    edges: tuple[Edge, ...]
    substitutes: tuple[Substitute, ...]
    around: tuple[str, ...]
    all_tools: int
    all_edges: int

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is not shown, a sentence each."""
        lines = []
        if len(self.tools) < self.all_tools:
            chosen = f"what is near {', '.join(self.around[:5])}" if self.around else "those with the most edges"
            lines.append(f"{len(self.tools):,} of {self.all_tools:,} tools are shown: {chosen}.")
        if len(self.edges) < self.all_edges:
            lines.append(f"{len(self.edges):,} of {self.all_edges:,} edges between them are shown: the surest.")
        return tuple(lines)


def drawing_of(
    graph: ToolGraph,
    around: Sequence[str] = (),
    hops: int = 2,
    *,
    most_tools: int = MOST_TOOLS,
    most_edges: int = MOST_EDGES,
) -> Drawing:
    """What a picture of a graph shows.

    Args:
        graph: of all tools.
        around: keys of tools; only what is near them is shown. Without them all are, or those with the most edges.
        hops: edges between a chosen tool and the farthest that is shown.
        most_tools, most_edges: that are shown.
    """
    edges = edges_of(graph)
    tools = _chosen(graph, edges, around, hops, most_tools)
    shown = set(tools)
    inside = [edge for edge in edges if edge.supplier in shown and edge.consumer in shown]
    substitutes = tuple(each for tool in tools for each in graph.substitutes(tool) if each.by in shown)
    return Drawing(
        graph=graph,
        tools=tools,
        edges=tuple(inside[:most_edges]),
        substitutes=substitutes[:most_edges],
        around=tuple(around),
        all_tools=len(graph.protocols),
        all_edges=len(inside),
    )


def edges_of(graph: ToolGraph) -> list[Edge]:
    """All edges between two tools, the surest first, each with what flows along it."""
    between: dict[tuple[str, str], list[Feed]] = {}
    for consumer in graph.protocols:
        for feed in graph.told_feeds(consumer):
            if feed.supplier.tool in graph.protocols:
                between.setdefault((feed.supplier.tool, consumer), []).append(feed)
    edges = [Edge(*ends, tuple(sorted(feeds, key=_sureness))) for ends, feeds in between.items()]
    return sorted(edges, key=lambda edge: (*_sureness(edge.feeds[0]), edge.supplier, edge.consumer))


def _sureness(feed: Feed) -> tuple[int, int, float]:
    return feed.standing, _RANK[feed.evidence], -feed.weight


def _chosen(graph: ToolGraph, edges: Sequence[Edge], around: Sequence[str], hops: int, most: int) -> tuple[str, ...]:
    if around:
        kept = _near(graph, edges, around, hops, most)
    elif len(graph.protocols) > most:
        ends = Counter(end for edge in edges for end in (edge.supplier, edge.consumer))
        kept = set(sorted(graph.protocols, key=lambda tool: (-ends[tool], tool))[:most])
    else:
        kept = set(graph.protocols)
    return tuple(tool for tool in graph.protocols if tool in kept)


def _near(graph: ToolGraph, edges: Iterable[Edge], around: Sequence[str], hops: int, most: int) -> set[str]:
    """Breadth first along edges of both directions, the surest first, and to substitutes."""
    neighbours: Mapping[str, list[str]] = {tool: [] for tool in graph.protocols}
    for edge in edges:
        neighbours[edge.supplier].append(edge.consumer)
        neighbours[edge.consumer].append(edge.supplier)
    distance = dict.fromkeys(around[:most], 0)
    todo = deque(distance)
    while todo:
        tool = todo.popleft()
        if distance[tool] >= hops:
            continue
        for near in (*neighbours[tool], *(each.by for each in graph.substitutes(tool))):
            if near in neighbours and near not in distance and len(distance) < most:
                distance[near] = distance[tool] + 1
                todo.append(near)
    return set(distance)
