"""Layers: tools in an order in which suppliers come before what they supply (RETO §3.2; NaviAgent's rank).

What feeds each other in a circle is one strongly connected part. Within it edges are dropped until an order is left,
the lightest first as the heuristic of Eades, Lin and Smyth (1993) has it: linear, and the same every time.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Weights = Mapping[T, Mapping[T, float]]
"""For a node those that it leads to, with the weight of the edge."""


def layers_of(nodes: Sequence[T], edges: Weights[T]) -> tuple[tuple[T, ...], ...]:
    """The nodes in layers: each stands after all that lead to it, circles aside, and as early as that allows.

    Args:
        nodes: all of them; their order is kept within a layer, and decides where nothing else does.
        edges: among these nodes; those of a node to itself are ignored.
    """
    position = {node: at for at, node in enumerate(nodes)}
    leads = [
        {position[to]: weight for to, weight in edges.get(node, {}).items() if to != node and to in position}
        for node in nodes
    ]
    order: list[int] = []
    for part in _strong_parts(leads):
        order += _unwound(part, leads) if len(part) > 1 else part
    rank = {node: at for at, node in enumerate(order)}
    depth = [0] * len(nodes)
    for node in order:
        for to in leads[node]:
            if rank[to] > rank[node]:
                depth[to] = max(depth[to], depth[node] + 1)
    made: list[list[T]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for at, node_ in enumerate(nodes):
        made[depth[at]].append(node_)
    return tuple(map(tuple, made))


def shifted(nodes: Sequence[T], edges: Weights[T], own: Mapping[T, int]) -> tuple[tuple[T, ...], ...]:
    """Nodes in the layers that they are known or believed to stand in, moved behind those that lead to them.

    The shift of RETO (§3.2, after Eq. 10): what the edges say stays true, whatever the layers of their own are.

    Args:
        nodes, edges: as :func:`layers_of` takes them.
        own: for some nodes the layer, from 0; the others stand as early as the edges allow. Layers without a node are
            left out.
    """
    layers = layers_of(nodes, edges)
    depth = {node: at for at, some in enumerate(layers) for node in some}
    level = {node: max(own.get(node, 0), 0) for node in nodes}
    for some in layers:
        for node in some:
            for to in edges.get(node, {}):
                if to in depth and depth[to] > depth[node]:
                    level[to] = max(level[to], level[node] + 1)
    used = {each: place for place, each in enumerate(sorted(set(level.values())))}
    made: list[list[T]] = [[] for _ in used]
    for node, each in level.items():
        made[used[each]].append(node)
    return tuple(map(tuple, made))


def _strong_parts(leads: Sequence[Mapping[int, float]]) -> Iterator[list[int]]:
    """The strongly connected parts, those that lead to others first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    parts: list[list[int]] = []
    for root in range(len(leads)):
        if root in index:
            continue
        work = [(root, iter(leads[root]))]
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for to in rest:
                if to not in index:
                    work.append((to, iter(leads[to])))
                    break
                if to in on_stack:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part: list[int] = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    parts.append(sorted(part))
    return reversed(parts)


def _unwound(part: Sequence[int], leads: Sequence[Mapping[int, float]]) -> list[int]:
    """An order of a strongly connected part in which little weight leads backwards."""
    inside = set(part)
    out = {node: {to: round(1000 * weight) for to, weight in leads[node].items() if to in inside} for node in part}
    into: dict[int, dict[int, int]] = {node: {} for node in part}
    for node, ways in out.items():
        for to, weight in ways.items():
            into[to][node] = weight
    pull = {node: sum(into[node].values()) - sum(out[node].values()) for node in part}

    def urgency(node: int) -> tuple[bool, int, int]:
        """The smaller, the sooner a node is taken: what nothing leads to or what leads nowhere, what leads to most."""
        inner = bool(into[node] and out[node])
        return inner, pull[node] if inner else 0, node

    first: list[int] = []
    last: list[int] = []
    heap = [urgency(node) for node in part]
    heapq.heapify(heap)
    while heap:
        entry = heapq.heappop(heap)
        node = entry[-1]
        if node not in inside or entry != urgency(node):
            continue  # taken, or no longer so
        inside.discard(node)
        (last if into[node] and not out[node] else first).append(node)
        for to, weight in out[node].items():
            del into[to][node]
            pull[to] -= weight
        for source, weight in into[node].items():
            del out[source][node]
            pull[source] += weight
        for near in {**out[node], **into[node]}:
            heapq.heappush(heap, urgency(near))
    return first + last[::-1]
