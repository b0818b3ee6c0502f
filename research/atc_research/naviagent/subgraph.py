"""The part of the tool graph that leads to a tool, and that part as a tree in words (NaviAgent §3.1, G' of Eq. 2).

The searches are :mod:`atc_research.naviagent.search` (exact) and the paper's own two
(:mod:`atc_research.naviagent.searches`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from atc.plugins.strategies import ToolGraph, parameters_of
from atc_research.naviagent.search import best_paths
from atc_research.naviagent.searches import PaperGraph, alpha_beta, hybrid

SearchName = Literal["exact", "alpha_beta", "heuristic"]
LONGEST = 5
"""Tools in a row, at most, that the paper's searches are given to look at."""
MOST_SEEN = 2_000
"""Tools that they are given at most."""
MAX_LINES, MAX_DEPTH, MAX_SUPPLIERS = 80, 4, 2
"""Of a tree: its lines, its levels of tools, and the suppliers of one parameter."""


def leading_to(graph: ToolGraph, targets: Collection[str], search: SearchName, have: Collection[str] = ()) -> list[str]:
    """The tools that a search keeps for some targets, with these, in a fixed order.

    Args:
        graph: of all tools that may be called.
        targets: keys of tools.
        search: which one.
        have: keys of tools that were called already; only the exact search makes use of that.
    """
    found = {*targets}
    if search == "exact":
        for target in targets:
            for path in best_paths(graph, target, [key for key in have if key != target], 1):
                found.update(path.tools)
    else:
        paper = PaperGraph.of(_supplied(graph, targets))
        if search == "alpha_beta":
            found.update(*(alpha_beta(paper, target) for target in targets))
        else:
            found |= hybrid(paper, list(targets))
    return [*targets, *sorted(found.difference(targets))]


def _supplied(graph: ToolGraph, targets: Collection[str]) -> dict[tuple[str, str], dict[str, float]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    seen, level = {*targets}, [*targets]
    for _ in range(LONGEST):
        following: list[str] = []
        for key in level:
            for feed in graph.feeds(key):
                supplier = feed.supplier.tool
                weights = found.setdefault((key, feed.parameter), {})
                weights[supplier] = max(feed.weight, weights.get(supplier, 0.0))
                if supplier not in seen and len(seen) < MOST_SEEN:
                    seen.add(supplier)
                    following.append(supplier)
        level = following
    return found


def tree_in_words(graph: ToolGraph, targets: Collection[str], kept: Collection[str]) -> str:
    """The tools that lead to some targets as a tree: each tool, its parameters, and below each of these what supplies
    it. Bounded; a tool that stands there already is not opened again.

    Args:
        graph: of all tools that may be called.
        targets: the roots.
        kept: tools that may stand in it, as :func:`leading_to` gives them.
    """
    lines: list[str] = []
    opened: set[str] = set()
    for target in targets:
        for line in _branch(graph, target, frozenset(kept), opened, 0):
            if len(lines) == MAX_LINES:
                return "\n".join([*lines, "…"])
            lines.append(line)
    return "\n".join(lines)


def _branch(graph: ToolGraph, key: str, kept: Collection[str], opened: set[str], depth: int) -> Iterator[str]:
    indent = "    " * depth
    if key in opened:
        yield f"{indent}{key} (as above)"
        return
    yield f"{indent}{key}"
    opened.add(key)
    if depth == MAX_DEPTH:
        return
    feeds = [feed for feed in graph.told_feeds(key) if feed.supplier.tool in kept and feed.supplier.tool != key]
    for parameter in parameters_of(graph.protocols[key]):
        own = {feed.supplier.tool: feed for feed in reversed(feeds) if feed.parameter == parameter.original}
        suppliers = list(reversed(own))[:MAX_SUPPLIERS]
        if not suppliers and not parameter.required:
            continue
        places = [".".join(own[name].supplier.path) or "its response" for name in suppliers]
        ways = [f"{place} of {name}" for name, place in zip(suppliers, places, strict=True)]
        yield f"{indent}  - {parameter.original}: from {' or '.join(ways) or 'the task'}"
        for name in suppliers:
            yield from _branch(graph, name, kept, opened, depth + 1)
