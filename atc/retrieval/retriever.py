"""Which tools a task needs, of more than a model can be shown: the way from a task to the tools that are offered.

The seam: anything with :meth:`Retriever.retrieve` can take its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from typing import Protocol as Interface

from atc.errors import UsageError
from atc.retrieval.index import Mode, ToolIndex
from atc.retrieval.planner import Ask, QueryPlanner, Trajectory, search_without_plan
from atc.tools.tool import Toolset

Way = Literal["lexical", "hybrid", "planned"]
_OTHERS = 2_000
"""Tools of an index that are passed over because the agent does not have them."""


@dataclass(frozen=True)
class Retrieved:
    """What is offered for a task.

    Attributes:
        tools: the likeliest first.
        trajectory: how they were found; ``None`` where all were offered.
    """

    tools: Toolset
    trajectory: Trajectory | None = None


class Retriever(Interface):
    """Finds the tools for a task."""

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Retrieved:
        """At most ``limit`` of ``tools``, the likeliest first.

        Args:
            ask: asks the language model of the run, within its budget.
        """
        ...


class IndexRetriever:
    """Searches an index: by words, by meaning too where there is an encoder, or by a plan of the model.

    Args:
        index: of the tools, its ids being their names, or the folder of one that was saved; made of the tools that are
            given, by words alone, when not given.
        way: ``lexical``, ``hybrid`` (words and meaning), or ``planned``: hybrid, with queries that the model plans.
        prerequisites: add what found tools need and others supply.
    """

    def __init__(
        self, index: ToolIndex | str | Path | None = None, way: Way = "hybrid", *, prerequisites: bool = True
    ) -> None:
        self._index = ToolIndex.load(index) if isinstance(index, str | Path) else index
        self._own: tuple[Toolset, ToolIndex] | None = None
        self._way, self._prerequisites = way, prerequisites

    async def retrieve(self, task: str, tools: Toolset, limit: int, ask: Ask) -> Retrieved:
        """All tools where they fit the limit anyway; no index is asked then."""
        if len(tools) <= limit:
            return Retrieved(tools)
        index = self._of(tools)
        more = limit + min(max(0, len(index) - len(tools)), _OTHERS)  # an index may be of more tools than these
        if self._way == "planned":
            found = await QueryPlanner(index, ask, prerequisites=self._prerequisites).search(task)
        else:
            mode: Mode | None = "lexical" if self._way == "lexical" else None
            found = search_without_plan(
                index, task, more, mode, prerequisites=self._prerequisites, offered=tools.keys()
            )
        ranked = found.ranked(more + len(found.prerequisites))
        names = [name for name in ranked if name in tools][:limit]
        if ranked and not names:
            raise UsageError(
                f"the index has no tool of these, but {ranked[0]!r} and the like: build it of the same tools"
            )
        # where no tool has a word in common with the task, the first ones are offered
        return Retrieved(tools.only(*names or list(tools)[:limit]), found)

    def _of(self, tools: Toolset) -> ToolIndex:
        if self._index is not None:
            return self._index
        if self._own is None or self._own[0] is not tools:
            self._own = (tools, ToolIndex.build(tools))
        return self._own[1]
