"""Ways to find tools beside ATC's own sieve: ``planned`` (ToolQP §3.1), and ``related``, by the tool graph.

Each is a retriever of ATC, by the entry points ``atc.retrieval``: ``Agent(tools, retrieval="planned")``. The model of
the run plans, within its budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from atc import Message, Model, Reply, Settings, Sketch, Toolset, UsageError
from atc.plugins.learning import Ask, Feed, IndexRetriever, Supplier, ToolIndex, Why, service_of
from atc_research.toolqp.consumers import Consumers
from atc_research.toolqp.planning import (
    Fusion,
    QueryPlanner,
    Trajectory,
    anchored_similarity,
    one_tool_suffices,
    peak_rank,
    search_without_plan,
)
from atc_research.toolqp.prerequisites import SURE, Prerequisite
from atc_research.toolqp.services import DEPTH, by_services

MAX_CONSUMERS = 2
"""Tools that are added at most that take what found tools hand out, where places are free."""


class Planned:
    """Searches by the queries that a model plans.

    Args:
        settings: name the index, or where indexes are kept.
        fusion: makes one ranking of those of the queries.
        model: plans in place of the run's own, beside the run's budget; whoever opened it closes it.
    """

    def __init__(self, settings: Settings, fusion: Fusion = anchored_similarity, model: Model | None = None) -> None:
        self._indexes = IndexRetriever(settings.tool_index, "auto", folder=settings.catalogue / "indexes")
        self._fusion, self._model = fusion, model

    @property
    def _ask(self) -> Ask | None:
        if (model := self._model) is None:
            return None

        async def ask(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
            return await model.complete(messages, max_tokens=max_tokens, **form)

        return ask

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return the tools that the planned queries find, the likeliest first, with those that supply their needs."""
        index = await self._indexes.index_of(tools)
        found = await QueryPlanner(index, self._ask or ask, fusion=self._fusion).search(task)
        notices = list(self._indexes.notices)
        if found.stopped and not found.skipped:
            how = "the plan's queries were cut short" if found.plan else "tools were searched for without a plan"
            notices.append(f"{how}: {found.stopped}")
        ranked = found.ranked(limit + len(found.prerequisites))
        return sketch_of(_known(ranked, tools, limit), len(tools), found, notices)


class Related:
    """Searches by words and meaning, and adds what the tool graph says: prerequisites, services and consumers.

    Args:
        settings: name the index, or where indexes are kept.
    """

    def __init__(self, settings: Settings) -> None:
        self._indexes = IndexRetriever(settings.tool_index, "auto", folder=settings.catalogue / "indexes")

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return the likeliest tools; tools of the first ones' services move up, and neighbours are added."""
        index = await self._indexes.index_of(tools)
        found = search_without_plan(index, task, limit, offered=tools.keys(), depth=DEPTH)
        ranked = found.ranked(
            limit + len(found.prerequisites),
            lambda rankings: by_services(rankings[0], lambda ids: services_of(index, ids), tools),
        )
        chosen = [*_known(ranked, tools, limit)]
        near = [hit.id for turn in found.counted for hit in turn.hits]
        taking = Consumers(index).of(chosen, task, near) if len(chosen) < limit else []
        found.consumers = [each for each in taking if each.tool in tools][: min(MAX_CONSUMERS, limit - len(chosen))]
        chosen += [each.tool for each in found.consumers]
        return sketch_of(tools.only(*chosen), len(tools), found, self._indexes.notices)


def planned_peak(settings: Settings) -> Planned:
    """Return the planned search whose rankings are joined by the best place of a tool in any (ToolQP §3.1)."""
    return Planned(settings, peak_rank)


def services_of(index: ToolIndex, ids: Sequence[str]) -> list[str | None]:
    """Return the service of each tool; ``None`` where it is not known."""
    return [service_of(id, index.protocol(id)) or None for id in ids]


def _known(ranked: Sequence[str], tools: Toolset, limit: int) -> Toolset:
    names = [name for name in ranked if name in tools]
    if ranked and not names:
        raise UsageError(f"the index has no tool of these, but {ranked[0]!r} and the like: build it of the same tools")
    return tools.only(*(names or list(tools))[:limit])


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
    taking = {each.tool: each for each in reversed(found.consumers)}
    goals = len(found.goals)
    for name in tools:
        place, number = best.get(name, (_NOWHERE, 0))
        if name in needed and place > SURE:
            yield name, Why(kind="supplies", tool=needed[name].tool, parameter=needed[name].parameter)
        elif name in taking:
            yield name, Why(kind="takes", tool=taking[name].supplier, parameter=taking[name].parameter)
        elif place == _NOWHERE:
            yield name, Why(kind="first")
        elif number == 0:
            yield name, Why(kind="words")
        else:
            yield (
                name,
                Why(kind="planned", number=number) if number <= goals else Why(kind="asked", number=number - goals),
            )
