"""The seam by which the agent finds the tools for a task; by default an index is searched."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, runtime_checkable
from typing import Protocol as Interface

from atc._records.choices import SCORERS, WITHOUT_VECTORS, PlannedRanking
from atc.catalogue.sketch import Sketch, all_of
from atc.errors import EncoderUnavailable, UsageError
from atc.models.messages import Ask
from atc.settings import Settings
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from atc.catalogue.graph.tool_graph import ToolGraph
    from atc.catalogue.index.adapter import OwnAdapters
    from atc.catalogue.index.dialogue import Turns
    from atc.catalogue.index.index import ToolIndex
    from atc.catalogue.index.planner import Trajectory
    from atc.catalogue.index.scorers import Column
    from atc.catalogue.index.snapshot import Progress
    from atc.catalogue.index.together import RunsTogether
    from atc.catalogue.index.vectors import Encoder

Columns = Callable[["ToolIndex"], tuple[Sequence["Column"], Sequence[str]]]
"""Gives what was learnt for an index (:mod:`atc.catalogue.index.scorers`), and what to tell the user of it."""
Way = Literal["auto", "lexical", "hybrid", "planned"]
"""The ways to search an index; beside these, a setting may name a retriever of another package."""
_OTHERS = 2_000
"""Tools of an index that are passed over because the agent does not have them."""
MAX_EMBEDDED = 5_000
"""Tools that ``auto`` reads for their meaning at the first search; it takes the encoder some ten seconds a thousand."""


@runtime_checkable
class Retriever(Interface):
    """Finds the tools for a task."""

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return ``limit`` of ``tools`` at most, the likeliest first; what is empty in the sketch is filled in.

        Args:
            ask: asks the language model of the run, within its budget.
        """
        ...


def as_sketch(found: object, retriever: object) -> Sketch:
    """Return what a retriever gave.

    Raises:
        UsageError: it is no sketch.
    """
    if isinstance(found, Sketch):
        return found
    name, given = type(retriever).__name__, type(found).__name__
    raise UsageError(f"{name}.retrieve must return an atc.Sketch of tools, not {given}: Sketch(tools.only(*names))")


class IndexRetriever:
    """Searches an index: by words, by meaning too where there is an encoder, or by a plan of the model.

    Args:
        index: of the tools, its ids being their names, or the folder of one that was saved; made of the tools that are
            given when not given.
        way: ``auto`` (words, and meaning where an encoder is there), ``lexical``, ``hybrid`` (as the index can),
            or ``planned``: as ``auto``, with queries that a model plans.
        prerequisites: add what found tools need and others supply.
        consumers: so many tools are added at most that take what found tools hand out
            (:mod:`atc.catalogue.index.consumers`).
        services: let tools behind the first ones gain by the services of these (:mod:`atc.catalogue.index.services`);
            a plan's ranking has none of it.
        together: let tools gain by those that runs have used with them.
        folder: where the indexes that are made here are kept; nowhere when not given.
        encoder: of the vectors of such an index; the one of this machine for ``auto`` when not given.
        scorers: what ranks, where it is there (:mod:`atc.catalogue.index.scorers`).
        columns: what was learnt for an index; asked before each search.
        turns: how a planner is spoken to; one that was trained is given the turns of its training data.
        ranking: how the rankings of planned queries become one.
        notices: what to tell the user of each search.
    """

    def __init__(
        self,
        index: ToolIndex | str | Path | None = None,
        way: Way = "hybrid",
        *,
        prerequisites: bool = True,
        consumers: int = 2,
        services: bool = True,
        together: bool = True,
        folder: Path | None = None,
        encoder: Encoder | None = None,
        scorers: Collection[str] = SCORERS,
        columns: Columns | None = None,
        turns: Turns | None = None,
        ranking: PlannedRanking = "similarity",
        notices: Sequence[str] = (),
    ) -> None:
        if isinstance(index, str | Path):
            from atc.catalogue.index.index import ToolIndex

            index = ToolIndex.load(index)
        self._index = index
        self._own: tuple[Toolset, ToolIndex] | None = None
        self._way, self._prerequisites = way, prerequisites
        self._consumers, self._services, self._together = consumers, services, together
        self._folder, self._encoder = folder, encoder
        self._scorers, self._given_columns = scorers, columns
        self._turns, self._ranking, self._always = turns, ranking, tuple(notices)
        self._runs: RunsTogether | None = None
        self._lock = threading.Lock()
        self.notices: tuple[str, ...] = ()
        """What the user may want to know of the index that was made last."""

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Sketch:
        """Return all tools where they fit the limit anyway; no index is asked then."""
        return await self.search(task, tools, limit, ask)

    async def search(
        self,
        task: str,
        tools: Toolset,
        limit: int,
        ask: Ask,
        report: Progress | None = None,
        graph: ToolGraph | None = None,
    ) -> Sketch:
        """Retrieve as :meth:`retrieve` does.

        Args:
            report: told, in another thread, how far an index is that has to be made.
            graph: what was learnt of the tools.
        """
        if len(tools) <= limit:
            return all_of(tools)
        from atc.catalogue.index.dialogue import PRODUCT
        from atc.catalogue.index.planner import FUSIONS, QueryPlanner, search_without_plan
        from atc.catalogue.index.reasons import sketch_of
        from atc.catalogue.index.services import DEPTH, by_services

        made = await self._of(tools, report)
        columns, notices = self._given_columns(made) if self._given_columns is not None else ((), ())
        index = made.with_scorers((*columns, *self._runs_of(graph)), self._on)
        more = limit + min(max(0, len(index) - len(tools)), _OTHERS)  # an index may be of more tools than these
        if self._way == "planned":
            planner = QueryPlanner(
                index,
                ask,
                prerequisites=self._prerequisites,
                graph=graph,
                turns=self._turns or PRODUCT,
                fusion=FUSIONS[self._ranking],
            )
            found = await planner.search(task)
            if found.stopped and not found.skipped:
                notices = (*notices, f"{_cut_short(found)}: {found.stopped}")
        else:
            found = search_without_plan(
                index,
                task,
                more,
                prerequisites=self._prerequisites,
                offered=tools.keys(),
                graph=graph,
                depth=DEPTH if self._services else 0,
            )
        most = more + len(found.prerequisites)
        if self._services and self._way != "planned":
            ranked = found.ranked(most, lambda rankings: by_services(rankings[0], index.services_of, tools))
        else:
            ranked = found.ranked(most)
        names = [name for name in ranked if name in tools]
        if ranked and not names:
            raise UsageError(
                f"the index has no tool of these, but {ranked[0]!r} and the like: build it of the same tools"
            )
        # where no tool has a word in common with the task, the first ones are offered
        chosen = (names or list(tools))[:limit]
        room = min(self._consumers, limit - len(chosen))  # what words and meaning find stays
        if names and room > 0:
            from atc.catalogue.index.consumers import Consumers

            near = [hit.id for turn in found.counted for hit in turn.hits]
            taking = Consumers(index, graph).of(chosen, task, near)
            found.consumers = [each for each in taking if each.tool in tools][:room]
            chosen += [each.tool for each in found.consumers]
        offered = tools.only(*chosen)
        return sketch_of(offered, len(tools), found, (*self._always, *self.notices, *notices))

    @property
    def _on(self) -> Collection[str]:
        return [name for name in self._scorers if name in WITHOUT_VECTORS] if self._way == "lexical" else self._scorers

    def _runs_of(self, graph: ToolGraph | None) -> Sequence[Column]:
        if not self._together or graph is None or not (graph.learnt.follows or graph.learnt.feeds):
            return ()
        if self._runs is None or self._runs.learnt is not graph.learnt:
            from atc.catalogue.index.together import RunsTogether

            self._runs = RunsTogether(graph.learnt)
        return (self._runs,)

    async def _of(self, tools: Toolset, report: Progress | None) -> ToolIndex:
        if self._index is not None:
            return self._index
        if self._own is None or self._own[0] is not tools:
            stopped = threading.Event()
            try:
                await asyncio.to_thread(self._make, tools, report, stopped)
            except asyncio.CancelledError:
                stopped.set()  # the thread ends at its next step; what it has embedded is kept
                raise
        assert self._own is not None
        return self._own[1]

    def _make(self, tools: Toolset, report: Progress | None, stopped: threading.Event) -> None:
        from atc.catalogue.index.index_cache import kept_index

        def told(stage: str, done: int, total: int) -> None:
            if stopped.is_set():
                raise _Stopped
            if report is not None:
                report(stage, done, total)

        with self._lock:  # another run of this agent may be making it
            if self._own is None or self._own[0] is not tools:
                encoder, notices = self._encoder, list[str]()
                if self._way in ("auto", "planned") and encoder is None:
                    encoder, notices = encoder_for(len(tools))
                index, problem = kept_index(tools, encoder, self._folder, told)
                self.notices = (*notices, *([problem] if problem else []))
                self._own = (tools, index)


def by_index(settings: Settings) -> IndexRetriever:
    """Return the retriever of the ways that search an index (:data:`Way`).

    Raises:
        UsageError: a scorer cannot be had.
        ToolIndexError: the setting ``tool_index`` names an index that cannot be read.
    """
    others: Sequence[Column] = ()
    if set(settings.scorers) - set(SCORERS):
        from atc.catalogue.index.scorers import added

        others = added(settings.scorers)
    adapters: OwnAdapters | None = None

    def columns(index: ToolIndex) -> tuple[Sequence[Column], Sequence[str]]:
        """Return what `atc tools learn` left for an index, and what other packages add."""
        nonlocal adapters
        if not settings.learn or "adapter" not in settings.scorers:
            return others, ()
        if adapters is None:
            from atc.catalogue.index.adapter import OwnAdapters

            adapters = OwnAdapters(settings.catalogue)
        return (*adapters.columns(index), *others), adapters.notices

    return IndexRetriever(
        settings.tool_index,
        cast(Way, settings.retrieval),
        folder=settings.catalogue / "indexes",
        scorers=settings.scorers,
        columns=columns,
        ranking=settings.planned_ranking,
        notices=[IDLE_PLANNER] if settings.planner_model and settings.retrieval != "planned" else [],
    )


IDLE_PLANNER = "planner_model plans nothing, because retrieval is not `planned`: --set retrieval=planned"
"""Told where a planner is named and the search does not plan."""


def _cut_short(found: Trajectory) -> str:
    return "the plan's queries were cut short" if found.plan else "tools were searched for without a plan"


_QUIET = "`ATC_RETRIEVAL=lexical` keeps to words, without this line"


def encoder_for(count: int) -> tuple[Encoder | None, list[str]]:
    """Return the encoder of this machine, where it is there and the tools are not too many; else what to tell the user.

    Args:
        count: of the tools.
    """
    from atc.catalogue.index.minilm import MiniLM

    encoder = MiniLM()
    try:
        encoder.check()
    except EncoderUnavailable as problem:
        how = f": {problem.fix}" if problem.fix else ""
        return None, [f"tools are found by words only; an embedding model finds them by meaning too{how}; {_QUIET}"]
    if count > MAX_EMBEDDED:
        return None, [
            f"{count:,} tools are found by words only, because embedding them takes minutes: `atc tools index` makes "
            "an index by meaning too, and `--index` names it"
        ]
    return encoder, []


class _Stopped(BaseException):
    """The run that an index was made for has been stopped."""
