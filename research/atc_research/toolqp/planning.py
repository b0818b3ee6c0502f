"""Search by planning: a plan with sub-goals, then one query after another, each seeing what the last ones found.

After ToolQP (§3.1): turn 1 is a plan, every later turn one functional query, whose first results are shown back, until
the model says that it has what it needs. Three things are ours. The sub-goals are searched for at once, as they are: a
plan already says what is sought, and a small model's queries seldom say it better. Prerequisites of found tools stand
beside the results (:mod:`atc_research.toolqp.prerequisites`). And a task that one tool fits clearly is not planned
(:mod:`atc_research.toolqp.planning`). Turns that are not ``eager`` leave out the first two.

A :class:`Conversation` is held with any planner: with a model, which :class:`QueryPlanner` asks, or with replies that
were verified, as training data has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atc import BudgetExceeded, Message, ModelError, ModelUnavailable
from atc.plugins.learning import PARTS_DEPTH, Ask, Hit, Mode, ToolGraph, ToolIndex, one_ranking, parts_of
from atc_research.toolqp.consumers import Consumer
from atc_research.toolqp.dialogue import MAX_QUERIES, PRODUCT, TOP, Turns, parse_plan, parse_query
from atc_research.toolqp.prerequisites import SURE, Prerequisite, Prerequisites

# -- one ranking out of several ----------------------------------------------------------------------------------------
# One ranking out of those of several queries (ToolQP §3.1 "Retrieval Aggregation", and what it is compared with).

LIKENESS = 0.7
"""Weight of the bare cosine in a query's score of a tool; the rest is the tool's place in the ranking."""
QUERIES_SHARE = 0.75
"""Weight of the best query's score of a tool, beside 1 for the task's own words."""

Fusion = Callable[[Sequence[Sequence[Hit]]], list[str]]


def peak_rank(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Return each tool at the best place that any query gave it (ToolQP §3.1); at one place the earlier query's first.

    So a sub-task that took many queries gets no more room than one that took a single one. What is put first, say the
    user's own words, is the anchor: its first tool stays the first.
    """
    best: dict[str, tuple[int, int]] = {}
    for turn, ranking in enumerate(rankings):
        for place, hit in enumerate(ranking):
            best[hit.id] = min(best.get(hit.id, (place, turn)), (place, turn))
    return sorted(best, key=lambda tool: (best[tool], tool))


def anchored_similarity(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Order tools by their score in the first ranking plus their best score in another, on the scale of cosines.

    Places forget how good a ranking is: a query that fits nothing has a first place too, and a small model writes such
    queries ("combine the results"). So a score counts as much as the best cosine of its ranking, and for a query
    mostly the cosine itself. Where words alone were searched nothing tells how good a ranking is: then, and with one
    ranking only, it is :func:`peak_rank`.

    Both shares were chosen by ``python -m benchmarks.retrieval --method plan-only`` (docs/benchmarks/search.md).
    """
    if len(rankings) < 2 or any(hit.dense is None for ranking in rankings for hit in ranking):
        return peak_rank(rankings)
    own = dict(_sure(rankings[0]))
    by_query: dict[str, float] = {}
    for ranking in rankings[1:]:
        for hit, (tool, place) in zip(ranking, _sure(ranking), strict=True):
            by_query[tool] = max(by_query.get(tool, 0.0), LIKENESS * (hit.dense or 0.0) + (1 - LIKENESS) * place)
    return _by({tool: own.get(tool, 0.0) + QUERIES_SHARE * by_query.get(tool, 0.0) for tool in own | by_query})


def _sure(ranking: Sequence[Hit]) -> Iterator[tuple[str, float]]:
    """Scores, the best of which is the ranking's best cosine."""
    best = max((hit.score for hit in ranking), default=0.0)
    cosine = max((hit.dense or 0.0 for hit in ranking), default=0.0)
    for hit in ranking:
        yield hit.id, hit.score / best * max(0.0, cosine) if best > 0 else 0.0


def _by(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda tool: (-scores[tool], tool))


# -- when a search needs no plan ---------------------------------------------------------------------------------------
# When a search needs no plan: a task of a single step that one tool fits clearly (ToolQP, Limitations: left open).
# The benchmark that chose these numbers is gone, so nothing makes their figures again.

MARGIN = 0.1
"""The lead that the first tool needs; the best of both views has 1."""
STEP_WORDS = 30
_BEST = 0.999
_END = re.compile(r"[.?!;。？！]\s+|\n")
_STEPS = re.compile(
    r"(?i)\b(?:and|then|also|after|before|both|each|every|all|as well|finally|next|plus|followed|compare|respectively"
    r"|once|if|additionally)\b"
)


def single_step(task: str) -> bool:
    """Return whether a task's words speak of one step: one short sentence without a word that joins or repeats steps.

    The words are English. In other languages more tasks count as one step, and :func:`one_tool_suffices` still asks for
    a tool that leads by words and by meaning.
    """
    sentences = [part for part in _END.split(task.strip()) if len(part.split()) > 2]
    return len(sentences) <= 1 and len(task.split()) <= STEP_WORDS and not _STEPS.search(task)


def one_tool_suffices(task: str, hits: Sequence[Hit]) -> bool:
    """Return whether a plan would add nothing: a single step, and one tool that leads, first by words and by meaning.

    Args:
        task: the user's words.
        hits: what they find, by words and meaning; where meaning was not searched, no tool suffices.
    """
    if not hits or hits[0].dense is None or not single_step(task):
        return False
    first, second = (hit.score for hit in hits[:2]) if len(hits) > 1 else (hits[0].score, 0.0)
    return first >= _BEST and first - second >= MARGIN


DEPTH = 20
"""Tools kept of each query, to rank by."""
QUERY_TOKENS = 60


@dataclass(frozen=True)
class Turn:
    """One query and what it found, the likeliest first."""

    query: str
    hits: tuple[Hit, ...]


@dataclass
class Trajectory:
    """A search for the tools of a task, from plan to stop.

    Attributes:
        plan: in words. ``goals``: its sub-goals.
        turns: the task's own words first, then each sub-goal, then the queries of the model.
        prerequisites: the tools that supply what found tools require.
        consumers: the tools that take what found tools hand out.
        messages: the whole conversation with the model, as any other model would be given it.
        calls: of the model.
        skipped: no plan was asked for: one tool fits clearly.
        stopped: why the model's part ended early, if it did: what was found until then stands.
        own_words: whether the task's own words have a part in the ranking; they always have where nothing else was
            searched for.
        fusion: makes one ranking of those of the turns.
    """

    task: str
    plan: str = ""
    goals: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    prerequisites: list[Prerequisite] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    calls: int = 0
    skipped: bool = False
    stopped: str = ""
    own_words: bool = True
    fusion: Fusion = anchored_similarity

    @property
    def shown(self) -> frozenset[str]:
        """Return the tools that stand first for any of the turns that count."""
        return frozenset(hit.id for turn in self.counted for hit in turn.hits[:TOP])

    @property
    def counted(self) -> Sequence[Turn]:
        """Return the turns that have a part in the ranking."""
        return self.turns if self.own_words else self.turns[1:] or self.turns

    def summary(self) -> dict[str, Any]:
        """Return the trajectory as a trace records it."""
        queries = [turn.query for turn in self.turns[1:]]
        return {
            "plan": self.plan,
            "queries": queries,
            "needs": [str(each) for each in self.prerequisites],
            "stopped": self.stopped,
        }

    def ranked(self, limit: int = 10, fusion: Fusion | None = None) -> list[str]:
        """Return the tools of all queries in one ranking, providers right behind those that need them.

        Args:
            limit: tools at most.
            fusion: makes one ranking of those of the queries, in place of :attr:`fusion`.
        """
        one = (fusion or self.fusion)([turn.hits for turn in self.counted])
        return with_providers(one, self.prerequisites)[:limit]


def search_without_plan(
    index: ToolIndex,
    task: str,
    limit: int,
    mode: Mode | None = None,
    *,
    prerequisites: bool = True,
    offered: Container[str] | None = None,
    graph: ToolGraph | None = None,
    depth: int = 0,
) -> Trajectory:
    """Search by the task's own words, and by its parts where it has several; seek what the likeliest tools need.

    Args:
        limit: tools that count as found.
        mode: as :meth:`ToolIndex.search` takes it.
        prerequisites: seek them.
        offered: the ids whose prerequisites count; all when not given.
        graph: what was learnt of the tools, by id.
        depth: tools that are found at least, where there are so many, to be ranked anew.
    """
    parts, deep = parts_of(task), max(limit, depth)
    if len(parts) > 1:
        hits = tuple(one_ranking(index.search_many([task, *parts], max(deep, PARTS_DEPTH), mode), deep))
    else:
        hits = tuple(index.search(task, deep, mode))
    likeliest = [hit.id for hit in hits if offered is None or hit.id in offered][:SURE]
    sought = Prerequisites(index, graph).of(likeliest, task) if prerequisites else []
    return Trajectory(task, turns=[Turn(task, hits)], prerequisites=sought)


class Conversation:
    """A search in the making: what the planner says comes in, what it is told next goes out.

    Args:
        index: of the tools.
        task: the user's words; they are searched for at once.
        turns: writes what the planner is told.
        prerequisites: seek what found tools need.
        graph: what was learnt of the tools, by id.
        own_words: as :attr:`Trajectory.own_words`.
        fusion: makes one ranking of those of the turns.
    """

    def __init__(
        self,
        index: ToolIndex,
        task: str,
        turns: Turns = PRODUCT,
        *,
        prerequisites: bool = True,
        graph: ToolGraph | None = None,
        own_words: bool = True,
        fusion: Fusion = anchored_similarity,
    ) -> None:
        self._index, self._turns = index, turns
        self._prerequisites = Prerequisites(index, graph) if prerequisites else None
        self.found = Trajectory(task, own_words=own_words, fusion=fusion)
        """What was found until now."""
        self.seen: set[str] = set()
        """The ids of the tools that the planner was shown."""
        self._look(task)

    @property
    def messages(self) -> list[Message]:
        """Return what was said until now; the last one is the planner's to answer, until the search ends."""
        return self.found.messages

    def open(self) -> None:
        """Put the question for a plan."""
        self.found.messages = self._turns.opening(self.found.task)

    def planned(self, reply: str) -> None:
        """Take the planner's first reply, its plan."""
        self.messages.append(Message("assistant", reply))
        plan = parse_plan(reply)
        self.found.plan, self.found.goals = plan.text, plan.goals
        for goal in plan.goals if self._turns.eager else ():
            self._look(goal)
        self._tell(self._results(self.found.turns[1:]) if self._turns.eager else self._turns.begin())

    def queried(self, reply: str) -> bool:
        """Take a later reply, and search for the query that it holds.

        Returns:
            Whether the planner is to go on: it neither stopped nor, unless the turns are patient, brought nothing new.
        """
        self.messages.append(Message("assistant", reply))
        query = parse_query(reply)
        if query is None:
            return False
        shown, asked = self.found.shown, {turn.query.casefold() for turn in self.found.turns}
        if query.casefold() in asked and not self._turns.patient:
            return False
        self._look(query)
        if self.found.shown == shown and not self._turns.patient:
            return False
        self._tell(self._results(self.found.turns[-1:]))
        return True

    def _tell(self, text: str) -> None:
        self.messages.append(Message("user", text))

    def _look(self, query: str) -> None:
        done = self.found
        done.turns.append(Turn(query, tuple(self._index.search(query, limit=DEPTH))))
        if self._prerequisites is not None:
            known = {(each.tool, each.parameter) for each in done.prerequisites}
            found = self._prerequisites.of(done.ranked(SURE + len(done.prerequisites)), done.task)
            done.prerequisites += [each for each in found if (each.tool, each.parameter) not in known]

    def _results(self, turns: Sequence[Turn]) -> str:
        """Return the message with what the last queries found, and with missing prerequisites."""
        found = dict.fromkeys(hit.id for turn in turns for hit in turn.hits[:TOP])
        seen = self.found.prerequisites if self._turns.providers else ()
        missing = dict.fromkeys(each.provider for each in seen)
        shown = [*missing, *(tool for tool in found if tool not in missing)]
        self.seen.update(shown)
        return self._turns.results(map(self._index.protocol, shown))


class QueryPlanner:
    """Searches an index with a model's plan.

    Args:
        index: of the tools.
        ask: asks the model.
        prerequisites: seek what found tools need.
        eager: in place of ``turns.eager``.
        adaptive: spend no call of the model where one tool fits clearly and needs nothing.
        queries: that the model may write at most.
        graph: what was learnt of the tools, by id.
        turns: how the conversation is written; a planner that was trained is given those of its training data.
        own_words: let the task's own words have a part in the ranking (without them: Tab. 4).
        fusion: makes one ranking of those of all queries.
    """

    def __init__(
        self,
        index: ToolIndex,
        ask: Ask,
        *,
        prerequisites: bool = True,
        eager: bool | None = None,
        adaptive: bool = True,
        queries: int = MAX_QUERIES,
        graph: ToolGraph | None = None,
        turns: Turns = PRODUCT,
        own_words: bool = True,
        fusion: Fusion = anchored_similarity,
    ) -> None:
        self._index, self._queries, self._adaptive = index, queries, adaptive
        self._turns = turns if eager is None else replace(turns, eager=eager)
        self._ask = ask
        self._prerequisites, self._graph = prerequisites, graph
        self._own_words, self._fusion = own_words, fusion

    async def search(self, task: str) -> Trajectory:
        """Search for the tools of a task. Where the model fails, what was found without it stands."""
        talk = Conversation(
            self._index,
            task,
            self._turns,
            prerequisites=self._prerequisites,
            graph=self._graph,
            own_words=self._own_words,
            fusion=self._fusion,
        )
        done = talk.found
        if self._adaptive and not done.prerequisites and one_tool_suffices(task, done.turns[0].hits):
            done.skipped, done.stopped = True, "one tool fits clearly: nothing was planned"
            return done
        for_plan, for_query = self._asks()
        try:
            talk.open()
            talk.planned(await self._next(done, for_plan, self._turns.plan_tokens))
            for _ in range(self._queries):
                if not talk.queried(await self._next(done, for_query, QUERY_TOKENS)):
                    break
        except (ModelError, ModelUnavailable, BudgetExceeded) as problem:
            done.stopped = str(problem)
        return done

    def _asks(self) -> tuple[Ask, Ask]:
        """Return how one search asks for its plan, and for its queries."""
        return self._ask, self._ask

    async def _next(self, done: Trajectory, ask: Ask, tokens: int) -> str:
        reply = await ask(done.messages, tokens)
        done.calls += 1
        return reply.text


def with_providers(ranking: Sequence[str], prerequisites: Sequence[Prerequisite]) -> list[str]:
    """Return a ranking with each provider right behind the first tool that needs it, unless it stands before it."""
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
