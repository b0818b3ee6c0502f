"""What a picture of the tool graph shows, bounded: its tools, an edge for each two of which one feeds the other, and
where each tool stands: what supplies is left of what it supplies."""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atc.catalogue.graph.edges import Evidence, Feed, Substitute
from atc.catalogue.graph.tool_graph import ToolGraph
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


WIDTH, HEIGHT = 180, 26
_BETWEEN_COLUMNS, _WITHIN_COLUMN, _BETWEEN_ROWS, _MARGIN = 120, 44, 12, 20
_LEAST_ROWS, _MOST_COLUMNS = 12, 40
_SWEEPS = 8


@dataclass(frozen=True)
class Layout:
    """The left upper corner of each tool's box, by key, and the size of the whole; in pixels.

    Attributes:
        column: of each tool that has an edge, from 0.
    """

    places: Mapping[str, tuple[float, float]]
    column: Mapping[str, int]
    width: float
    height: float


def layout_of(drawing: Drawing) -> Layout:
    """Place all tools of a drawing; those without an edge stand below the others. Deterministic, and near-linear.

    A column is how many tools must have answered before: a tool stands right of the first supplier of each of its
    parameters, not of the last one, so that alternatives do not push it on. Within a column, tools are ordered by the
    mean place of their neighbours (Sugiyama's barycentre), and moved as near to them as their order allows.
    """
    linked = {end for edge in drawing.edges for end in (edge.supplier, edge.consumer)}
    linked |= {end for each in drawing.substitutes for end in (each.tool, each.by)}
    column = _folded(columns_of([tool for tool in drawing.tools if tool in linked], drawing.edges))
    rows = max(_LEAST_ROWS, round(2 * math.sqrt(len(drawing.tools))))
    places = _placed(_ordered(column, drawing), rows, drawing)
    right = max((x for x, _ in places.values()), default=0.0) + WIDTH
    bottom = max((y for _, y in places.values()), default=0.0) + HEIGHT
    alone = sorted((tool for tool in drawing.tools if tool not in linked), key=lambda tool: _name(drawing, tool))
    across = max(int((right + _WITHIN_COLUMN) // (WIDTH + _WITHIN_COLUMN)), math.isqrt(len(alone)) // 3, 1)
    top = bottom + 2 * HEIGHT if places else 0.0
    for number, tool in enumerate(alone):
        x, y = number % across * (WIDTH + _WITHIN_COLUMN), number // across * (HEIGHT + _BETWEEN_ROWS)
        places[tool] = (float(x), top + y)
    moved = {tool: (x + _MARGIN, y + _MARGIN) for tool, (x, y) in places.items()}
    width = max((x for x, _ in moved.values()), default=0.0) + WIDTH + _MARGIN
    height = max((y for _, y in moved.values()), default=0.0) + HEIGHT + _MARGIN
    return Layout(moved, column, width, height)


def columns_of(tools: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """The column of each tool: one more than that of the first supplier of each of its parameters.

    Where tools wait for each other, the one that lacks least stands as if it had what it lacks.
    """
    gives: dict[str, list[tuple[str, str]]] = {tool: [] for tool in tools}
    for edge in edges:
        gives[edge.supplier] += [
            (edge.consumer, parameter) for parameter in {feed.parameter: None for feed in edge.feeds}
        ]
    lacks: dict[str, set[str]] = {tool: set() for tool in tools}
    for given in gives.values():
        for consumer, parameter in given:
            lacks[consumer].add(parameter)
    place = {tool: number for number, tool in enumerate(tools)}
    least = dict.fromkeys(tools, 0)

    def entry(tool: str) -> tuple[int, int, int, int, str]:
        return len(lacks[tool]), least[tool], -len(gives[tool]), place[tool], tool

    waiting = [entry(tool) for tool in tools]
    heapq.heapify(waiting)
    column: dict[str, int] = {}
    while waiting:
        lacking, *_, tool = heapq.heappop(waiting)
        if tool in column or lacking != len(lacks[tool]):
            continue  # an entry from when it lacked more
        column[tool] = least[tool]
        for consumer, parameter in gives[tool]:
            if parameter in lacks[consumer] and consumer not in column:
                lacks[consumer].discard(parameter)
                least[consumer] = max(least[consumer], column[tool] + 1)
                heapq.heappush(waiting, entry(consumer))
    return column


def _folded(column: dict[str, int]) -> dict[str, int]:
    most = max(column.values(), default=0) + 1
    return column if most <= _MOST_COLUMNS else {tool: at * _MOST_COLUMNS // most for tool, at in column.items()}


def _ordered(column: Mapping[str, int], drawing: Drawing) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for tool in sorted(column, key=lambda tool: _name(drawing, tool)):
        columns[column[tool]].append(tool)
    neighbours = _neighbours(column, drawing)
    at = {tool: place for tools in columns for tool, place in _spread(tools)}
    for sweep in range(_SWEEPS):
        for tools in columns if sweep % 2 == 0 else reversed(columns):
            wish = {tool: _mean([at[near] for near in neighbours[tool]], at[tool]) for tool in tools}
            tools.sort(key=lambda tool: wish[tool])
            at.update(_spread(tools))
    return columns


def _spread(tools: Sequence[str]) -> list[tuple[str, float]]:
    return [(tool, (number + 0.5) / len(tools)) for number, tool in enumerate(tools)]


def _neighbours(column: Mapping[str, int], drawing: Drawing) -> dict[str, list[str]]:
    """Of each tool those in other columns that it has an edge with; where there are none, all that it has one with."""
    near: dict[str, list[str]] = {tool: [] for tool in column}
    beside: dict[str, list[str]] = {tool: [] for tool in column}
    ends = [(edge.supplier, edge.consumer) for edge in drawing.edges]
    for one, other in ends + [(each.tool, each.by) for each in drawing.substitutes]:
        kept = beside if column[one] == column[other] else near
        kept[one].append(other)
        kept[other].append(one)
    return {tool: near[tool] or beside[tool] for tool in column}


def _placed(columns: Sequence[Sequence[str]], rows: int, drawing: Drawing) -> dict[str, tuple[float, float]]:
    places: dict[str, tuple[float, float]] = {}
    left, step = 0.0, float(HEIGHT + _BETWEEN_ROWS)
    across: list[list[list[str]]] = []
    for tools in columns:
        wide = max(1, math.ceil(len(tools) / rows))
        across.append([list(tools[part::wide]) for part in range(wide)])
    tallest = max((len(part) for parts in across for part in parts), default=0)
    for parts in across:
        for part in parts:
            top = (tallest - len(part)) * step / 2
            places.update({tool: (left, top + number * step) for number, tool in enumerate(part)})
            left += WIDTH + _WITHIN_COLUMN
        left += _BETWEEN_COLUMNS - _WITHIN_COLUMN
    neighbours = _neighbours({tool: number for number, tools in enumerate(columns) for tool in tools}, drawing)
    for parts in across:
        for part in parts:
            wishes = [_mean([places[near][1] for near in neighbours[tool]], places[tool][1]) for tool in part]
            for tool, y in zip(part, _apart(wishes, step), strict=True):
                places[tool] = (places[tool][0], y)
    highest = min((y for _, y in places.values()), default=0.0)
    return {tool: (x, round(y - highest, 1)) for tool, (x, y) in places.items()}


def _apart(wishes: Sequence[float], step: float) -> list[float]:
    """Places in this order, a step apart at least, and as near to the wishes as that allows (isotonic regression)."""
    blocks: list[tuple[float, int]] = []  # the sum of what its members wish for, and how many they are
    for number, wish in enumerate(wishes):
        total, count = wish - number * step, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            above, many = blocks.pop()
            total, count = total + above, count + many
        blocks.append((total, count))
    levels = [total / count for total, count in blocks for _ in range(count)]
    return [level + number * step for number, level in enumerate(levels)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _name(drawing: Drawing, tool: str) -> tuple[str, str, str]:
    protocol = drawing.graph.protocols[tool]
    return protocol.source.service, protocol.name, tool
