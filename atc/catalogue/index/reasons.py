"""A search as data: why each tool was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import Supplier
from atc.catalogue.index.planner import Trajectory, one_tool_suffices
from atc.catalogue.index.prerequisites import SURE, Prerequisite
from atc.catalogue.index.scorers import DENSE_SHARE
from atc.catalogue.index.search import Hit
from atc.catalogue.sketch import Sketch, Why
from atc.tools.tool import Toolset

_BY_NAME, _BY_FIELD = 0.3, 0.6
"""Weights of the edges of prerequisites: by a tool's name alone, and by a field of its response."""
_NOWHERE = 1_000_000_000


def sketch_of(tools: Toolset, of: int, found: Trajectory, notices: Sequence[str] = ()) -> Sketch:
    """Return the sketch of what a search found: its plan, and why each tool is offered.

    Args:
        tools: that are offered.
        of: the number of tools that were searched.
        found: the search.
        notices: about the index.
    """
    return Sketch(
        tools,
        of,
        subgoals=found.goals,
        plan=found.plan,
        feeds=tuple(feed_of(each) for each in found.prerequisites if each.provider in tools and each.tool in tools),
        why=dict(_reasons(tools, found)),
        sure=not found.prerequisites and bool(found.turns) and one_tool_suffices(found.task, found.turns[0].hits),
        queries=tuple(turn.query for turn in found.turns[1:]),
        stopped=found.stopped,
        notices=tuple(notices),
    )


def feed_of(needed: Prerequisite) -> Feed:
    """Return the edge from a prerequisite to the tool that needs it."""
    supplier = needed.supplier or Supplier(needed.provider)
    weight = _BY_FIELD if supplier.known else _BY_NAME
    return Feed(supplier, needed.tool, needed.parameter, "names", weight)


def _reasons(tools: Collection[str], found: Trajectory) -> Iterator[tuple[str, Why]]:
    best: dict[str, tuple[int, int]] = {}  # the best place in any ranking, and whose ranking that is; the task's first
    for number, turn in enumerate(found.turns):
        for hit in turn.hits:
            best[hit.id] = min(best.get(hit.id, (hit.rank, number)), (hit.rank, number))
    needed: dict[str, Prerequisite] = {}
    for each in found.prerequisites:
        needed.setdefault(each.provider, each)
    by_meaning = _by_meaning(found.turns[0].hits) if found.turns else set()
    by_use = _by_use(found.turns[0].hits, len(tools)) if found.turns else {}
    taking = {each.tool: each for each in reversed(found.consumers)}
    goals = len(found.goals)
    for name in tools:
        place, number = best.get(name, (_NOWHERE, 0))
        if name in needed and (place > SURE or name in by_use):
            yield name, Why(kind="supplies", tool=needed[name].tool, parameter=needed[name].parameter)
        elif name in taking:
            yield name, Why(kind="takes", tool=taking[name].supplier, parameter=taking[name].parameter)
        elif place == _NOWHERE:
            yield name, Why(kind="first")
        elif name in by_use and place == by_use[name].rank:
            yield name, Why(kind="used_with", tool=by_use[name].used_with)
        elif number == 0:
            yield name, Why(kind="meaning" if name in by_meaning else "words")
        else:
            yield (
                name,
                Why(kind="planned", number=number) if number <= goals else Why(kind="asked", number=number - goals),
            )


def _by_use(hits: Sequence[Hit], offered: int) -> dict[str, Hit]:
    """Return the tools that would not be among so many but for what tasks used together."""
    return {hit.id: hit for hit in hits if hit.used_with and (hit.before is None or hit.before > offered)}


def _by_meaning(hits: Sequence[Hit]) -> set[str]:
    """Return the tools whose vectors counted for more than their words, each as a part of the best of its kind."""
    words = max((hit.lexical or 0.0 for hit in hits), default=0.0) or 1.0
    vectors = max((hit.dense or 0.0 for hit in hits), default=0.0) or 1.0
    return {
        hit.id
        for hit in hits
        if DENSE_SHARE * (hit.dense or 0.0) / vectors > (1 - DENSE_SHARE) * (hit.lexical or 0.0) / words
    }
