"""Search by planning: a plan with sub-goals, then one query after another, each seeing what the last ones found.

After ToolQP (§3.1): turn 1 is a plan, every later turn one functional query, whose first results are shown back, until
the model says that it has what it needs. Three things are ours. The sub-goals are searched for at once, as they are: a
plan already says what is sought, and a small model's queries seldom say it better. Prerequisites of found tools stand
beside the results (:mod:`atc.retrieval.prerequisites`). And a task that one tool fits clearly is not planned
(:mod:`atc.retrieval.skip_planning`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc.errors import BudgetExceeded, ModelError, ModelUnavailable
from atc.graph.tool_graph import ToolGraph
from atc.models.base import Message
from atc.retrieval.dialogue import MAX_QUERIES, TOP, answer, begin, opening, parse_plan, parse_query
from atc.retrieval.example import worked_example
from atc.retrieval.index import Hit, Mode, ToolIndex
from atc.retrieval.prerequisites import SURE, Prerequisite, Prerequisites
from atc.retrieval.rank_fusion import Fusion, anchored_similarity
from atc.retrieval.retriever import Ask
from atc.retrieval.skip_planning import one_tool_suffices
from atc.retrieval.task_parts import DEPTH as PART_DEPTH
from atc.retrieval.task_parts import one_ranking, parts_of

DEPTH = 20
"""Tools kept of each query, to rank by."""
PLAN_TOKENS, QUERY_TOKENS = 250, 60


@dataclass(frozen=True)
class Turn:
    """One query and what it found, the likeliest first."""

    query: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Said:
    """A tool that the model picked from a menu (:mod:`atc.retrieval.menu_walk`).

    Attributes:
        path: the words of the groups that it is in, the widest first.
    """

    id: str
    path: tuple[str, ...] = ()


@dataclass
class Trajectory:
    """A search for the tools of a task, from plan to stop.

    Attributes:
        turns: the task's own words first, then each sub-goal, then the queries of the model.
        said: the tools that the model picked from a menu, the best first; they stand before all others.
        prerequisites: the tools that supply what found tools require.
        messages: the whole conversation with the model, as any other model would be given it.
        calls: of the model.
        skipped: no plan was asked for: one tool fits clearly.
        stopped: why the model's part ended early, if it did: what was found until then stands.
    """

    task: str
    plan: str = ""
    goals: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    said: tuple[Said, ...] = ()
    prerequisites: list[Prerequisite] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: int = 0
    skipped: bool = False
    stopped: str = ""

    @property
    def shown(self) -> frozenset[str]:
        """The tools that the model has seen."""
        return frozenset(hit.id for turn in self.turns for hit in turn.hits[:TOP])

    def summary(self) -> dict[str, Any]:
        """The trajectory as a trace records it."""
        queries = [turn.query for turn in self.turns[1:]]
        return {
            "plan": self.plan,
            "queries": queries,
            "needs": [str(each) for each in self.prerequisites],
            "stopped": self.stopped,
        } | ({"picked": [{"tool": each.id, "path": each.path} for each in self.said]} if self.said else {})

    def ranked(self, limit: int = 10, fusion: Fusion = anchored_similarity) -> list[str]:
        """The tools of all queries in one ranking, providers right behind those that need them."""
        ranking = [*(each.id for each in self.said), *fusion([turn.hits for turn in self.turns])]
        return with_providers(ranking, self.prerequisites)[:limit]


def search_without_plan(
    index: ToolIndex,
    task: str,
    limit: int,
    mode: Mode | None = None,
    *,
    prerequisites: bool = True,
    offered: Container[str] | None = None,
    graph: ToolGraph | None = None,
) -> Trajectory:
    """Search by the task's own words, and by its parts where it has several; seek what the likeliest tools need.

    Args:
        limit: tools that the search finds at most.
        mode: as :meth:`ToolIndex.search` takes it.
        prerequisites: seek them.
        offered: the ids whose prerequisites count; all when not given.
        graph: what was learnt of the tools, by id.
    """
    parts = parts_of(task)
    if len(parts) > 1:
        hits = tuple(one_ranking(index.search_many([task, *parts], max(limit, PART_DEPTH), mode), limit))
    else:
        hits = tuple(index.search(task, limit, mode))
    by_itself = (hit for hit in hits if not hit.used_with or (hit.before is not None and hit.before <= limit))
    likeliest = [hit.id for hit in by_itself if offered is None or hit.id in offered][:SURE]
    sought = Prerequisites(index, graph).of(likeliest, task) if prerequisites else []
    return Trajectory(task, turns=[Turn(task, hits)], prerequisites=sought)


class QueryPlanner:
    """Searches an index with a model's plan.

    Args:
        index: of the tools.
        ask: asks the model.
        prerequisites: seek what found tools need.
        eager: search for the sub-goals as they are, before the model writes queries.
        adaptive: spend no call of the model where one tool fits clearly and needs nothing.
        queries: that the model may write at most.
        graph: what was learnt of the tools, by id.
    """

    def __init__(
        self,
        index: ToolIndex,
        ask: Ask,
        *,
        prerequisites: bool = True,
        eager: bool = True,
        adaptive: bool = True,
        queries: int = MAX_QUERIES,
        graph: ToolGraph | None = None,
    ) -> None:
        self._index, self._ask, self._queries = index, ask, queries
        self._eager, self._adaptive = eager, adaptive
        self._prerequisites = Prerequisites(index, graph) if prerequisites else None

    async def search(self, task: str) -> Trajectory:
        """Search for the tools of a task. Where the model fails, what was found without it stands."""
        done = Trajectory(task)
        self._look(done, task)
        if self._adaptive and not done.prerequisites and one_tool_suffices(task, done.turns[0].hits):
            done.skipped, done.stopped = True, "one tool fits clearly: nothing was planned"
            return done
        try:
            await self._plan(done)
        except (ModelError, ModelUnavailable, BudgetExceeded) as problem:
            done.stopped = str(problem)
        return done

    async def _plan(self, done: Trajectory) -> None:
        system, task = opening(done.task)
        messages = done.messages = [system, *worked_example(), task]
        plan = parse_plan(await self._next(done, PLAN_TOKENS))
        done.plan, done.goals = plan.text, plan.goals
        for goal in done.goals if self._eager else ():
            self._look(done, goal)
        messages.append(Message("user", self._results(done, done.turns[1:]) if self._eager else begin()))
        for _ in range(self._queries):
            shown = done.shown
            query = parse_query(await self._next(done, QUERY_TOKENS))
            if query is None or query.casefold() in {turn.query.casefold() for turn in done.turns}:
                break
            self._look(done, query)
            if done.shown == shown:
                break  # it finds nothing that was not shown before
            messages.append(Message("user", self._results(done, done.turns[-1:])))

    def _look(self, done: Trajectory, query: str) -> None:
        done.turns.append(Turn(query, tuple(self._index.search(query, limit=DEPTH))))
        if self._prerequisites is not None:
            known = {(each.tool, each.parameter) for each in done.prerequisites}
            found = self._prerequisites.of(done.ranked(SURE + len(done.prerequisites)), done.task)
            done.prerequisites += [each for each in found if (each.tool, each.parameter) not in known]

    async def _next(self, done: Trajectory, tokens: int) -> str:
        """The model's next turn, which joins the conversation."""
        reply = await self._ask(done.messages, tokens)
        done.calls += 1
        done.messages.append(Message("assistant", reply.text))
        return reply.text

    def _results(self, done: Trajectory, turns: Sequence[Turn]) -> str:
        """The message with what the last queries found, and with missing prerequisites."""
        found = dict.fromkeys(hit.id for turn in turns for hit in turn.hits[:TOP])
        missing = dict.fromkeys(each.provider for each in done.prerequisites)
        shown = [*missing, *(tool for tool in found if tool not in missing)]
        return answer([self._index.protocol(tool) for tool in shown], len(shown))


def with_providers(ranking: Sequence[str], prerequisites: Sequence[Prerequisite]) -> list[str]:
    """A ranking with each provider right behind the first tool that needs it, unless it stands before it anyway."""
    found: dict[str, None] = {}

    def add(tool: str) -> None:
        if tool not in found:
            found[tool] = None
            for each in prerequisites:
                if each.tool == tool:
                    add(each.provider)

    for tool in ranking:
        add(tool)
    return list(found)
