"""Query trajectories from queries with known tools, by any teacher model (ToolQP §3.2, Alg. 1).

For each task the teacher writes a plan (the tools' names hidden from it), each sub-goal is matched with the tools that
it needs, and for each sub-goal a query is sought that finds them: several candidates an attempt, none that holds a
tool's name, told more with every attempt, verified against the index. What comes out is a conversation in the chat
format that trainers take: the teacher's replies, held with the :class:`~atc_research.toolqp.planning.Conversation` of a
run.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from atc import Message, Model, Protocol
from atc.plugins.learning import ToolIndex, fenced, words
from atc_research.examples import Example
from atc_research.prompting import prompt
from atc_research.toolqp.dialogue import (
    MAX_QUERIES,
    MAX_TASK,
    MAX_WORDS,
    PRODUCT,
    TOP,
    Plan,
    Turns,
    harmless,
    parse_plan,
    parse_query,
    show_results,
)
from atc_research.toolqp.hints import LEVELS, about, hints, names_tool, without_name
from atc_research.toolqp.planning import DEPTH as SEARCHED
from atc_research.toolqp.planning import Conversation
from atc_research.toolqp.planning import Trajectory as Search
from atc_research.toolqp.rewards import with_plan

RANK_THRESHOLD = 5.0
"""r_τ of App. C.2: the worst mean rank at which a query has found its tools; ranks begin at 1."""
KEEP_FAILED = 0.4
"""p of App. C.2: how likely the failed attempts at a sub-goal stay in the trajectory."""
QUERIES = MAX_QUERIES - 1
"""Queries of a trajectory at most: its stop is a turn that a planner must have left."""
DEPTH = 50
"""Places of a ranking that are looked at; a tool beyond them counts as one place further."""

_ALIGNED = re.compile(r"\bT\s*(\d+)\W{1,4}(?:step|goal|sub-goal)?\s*#?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Attempt:
    """One query of a trajectory.

    Attributes:
        goal: the number of its sub-goal, from 0.
        query: as the planner says it.
        rank: mean rank of the sub-goal's tools among its results, from 1; :data:`DEPTH` + 1 for each not found.
        found: ids of its first results, the best first.
        level: of the attempt, from 0 (:data:`~.hints.LEVELS`).
    """

    goal: int
    query: str
    rank: float
    found: tuple[str, ...]
    level: int

    @property
    def valid(self) -> bool:
        """Whether it found what it was for."""
        return self.rank <= RANK_THRESHOLD


@dataclass(frozen=True)
class Trajectory:
    """The verified replies of a planner to one task.

    Attributes:
        plan: 𝒫, in words: the reference of R_plan.
        goals: the sub-goals, each with the ids of its tools.
        attempts: the queries in order. Where sub-goals are searched for at once, those that find their tools need none.
        messages: the conversation.
        teacher: the model's name. ``seed``: of the run.
        turns: how the conversation is written; a planner that is trained on it must be run with the same.
    """

    example: Example
    plan: str
    goals: tuple[tuple[str, tuple[str, ...]], ...]
    attempts: tuple[Attempt, ...]
    messages: tuple[Message, ...]
    teacher: str
    seed: int
    turns: Turns = PRODUCT

    def to_json(self) -> dict[str, Any]:
        """One line of training data: ``messages`` as trainers take them, and ``metadata`` to filter by.

        The first ``given`` messages are the question with its worked example: what a trainer learns comes after them.
        """
        return {
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "metadata": {
                "id": self.example.id,
                "query": self.example.query,
                "gold": list(self.example.gold),
                "plan": self.plan,
                "goals": [{"goal": goal, "tools": list(tools)} for goal, tools in self.goals],
                "queries": [
                    {
                        "query": a.query,
                        "goal": a.goal,
                        "rank": a.rank,
                        "valid": a.valid,
                        "hints": a.level,
                        "found": list(a.found),
                    }
                    for a in self.attempts
                ],
                "teacher": self.teacher,
                "seed": self.seed,
                "turns": asdict(self.turns),
                "given": len(self.turns.opening(self.example.query)),
            },
        }


@dataclass(frozen=True)
class Skipped:
    """A task that no trajectory was found for, and why."""

    example: Example
    why: str


@dataclass
class _Work:
    """One task in the making. Its random choices depend on the seed and its id alone, not on what came before it."""

    example: Example
    tools: dict[str, Protocol]
    seed: int
    asked: int = 0
    plan: Plan = field(default_factory=lambda: Plan(""))
    done: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._base = zlib.crc32(f"{self.seed}:{self.example.id}".encode())
        self.chance = random.Random(self._base)

    def next_seed(self) -> int:
        """A seed for one request; a request for several replies uses those after it too."""
        self.asked += 1
        return (self._base + 1_000 * self.asked) % 2**31

    @property
    def task(self) -> str:
        return self.example.query[:MAX_TASK]


class Synthesiser:
    """Makes trajectories.

    Args:
        index: the tools; a query is good if it finds its tools here.
        teacher: any model.
        seed: the same seed, index and teacher's replies give the same trajectories.
        candidates: queries that are sampled in one attempt (N of Alg. 1).
        temperature: of that sampling.
        keep_failed: see :data:`KEEP_FAILED`.
        turns: how conversations are written; by default as a run's.
    """

    def __init__(
        self,
        index: ToolIndex,
        teacher: Model,
        *,
        seed: int = 0,
        candidates: int = 4,
        temperature: float = 0.7,
        keep_failed: float = KEEP_FAILED,
        turns: Turns = PRODUCT,
    ) -> None:
        self._index, self.teacher, self._seed, self._turns = index, teacher, seed, turns
        self._candidates, self._temperature, self._keep_failed = candidates, temperature, keep_failed

    async def make(self, example: Example) -> Trajectory | Skipped:
        """The trajectory of one task, or why there is none.

        At most 3 + sub-goals × 5 requests of the teacher.

        Raises:
            ModelError, ModelUnavailable, BudgetExceeded: from the teacher.
            UsageError: a tool is not in the index.
        """
        work = _Work(example, {id: self._index.protocol(id) for id in example.gold}, self._seed)
        plan = await self._plan(work)
        if not plan.goals:
            return Skipped(example, "the teacher wrote no plan")
        aligned = await self._align(work, plan.goals)
        work.plan = Plan(plan.text, tuple(goal for goal, _ in aligned))
        talk = Conversation(self._index, example.query, self._turns, prerequisites=self._turns.providers)
        talk.open()
        talk.planned(self._turns.plan(work.plan))
        history: list[Attempt] = []
        for number, (goal, tools) in enumerate(aligned):
            if self._turns.eager and talk.seen.issuperset(tools):
                work.done.append((goal, goal))
                continue
            attempts = await self._search(work, number, tools)
            if not attempts or not attempts[-1].valid:
                return Skipped(example, f"no query found the tools of {goal!r} in {LEVELS} attempts")
            keep = work.chance.random() < self._keep_failed
            room = QUERIES - len(history) - (len(aligned) - number)
            for attempt in attempts[-1 - room :] if keep and room else attempts[-1:]:
                if self._brings(talk.found, attempt.query):  # what ends the search is no turn to learn
                    talk.queried(self._turns.query(attempt.query))
                    history.append(attempt)
            work.done.append((goal, attempts[-1].query))
        talk.queried(self._turns.stop)
        return Trajectory(
            example,
            work.plan.text,
            tuple(aligned),
            tuple(history),
            tuple(talk.messages),
            self.teacher.name,
            self._seed,
            self._turns,
        )

    def _brings(self, found: Search, query: str) -> bool:
        if self._turns.patient:
            return True
        if query.casefold() in {turn.query.casefold() for turn in found.turns}:
            return False
        return not {hit.id for hit in self._index.search(query, limit=SEARCHED)[:TOP]} <= found.shown

    # -- the plan ----------------------------------------------------------------------------------------------------

    async def _plan(self, work: _Work) -> Plan:
        """𝒫 and sub-goals that lead to the tools; asked for twice at most."""
        given = harmless(work.example.plan, MAX_WORDS)
        tools = [about(tool) for tool in work.tools.values()]
        text = prompt("learn_plan", task=fenced(work.task), tools=tools, plan=given)
        for temperature in (0.0, self._temperature):
            plan = parse_plan(await self._completed(work, text, 400, temperature))
            if plan.goals:
                listed = parse_plan(plan.text).goals == plan.goals  # no words beside the list
                return Plan(given or ("; ".join(plan.goals) if listed else plan.text), plan.goals)
        return Plan("")

    async def _align(self, work: _Work, goals: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        """{(sₙ, 𝒯ₙ)}: which tools each sub-goal needs. A tool that the teacher leaves out goes to the sub-goal that
        shares most words with it; a sub-goal without tools is dropped."""
        tools = list(work.tools)
        chosen = dict.fromkeys(tools, 0)
        if len(goals) > 1:
            lines = [about(tool) for tool in work.tools.values()]
            reply = await self._completed(
                work, prompt("learn_align", goals=goals, tools=lines), 20 + 12 * len(tools), 0.0
            )
            named = {int(tool) - 1: int(goal) - 1 for tool, goal in _ALIGNED.findall(reply)}
            for number, (tool, line) in enumerate(zip(tools, lines, strict=True)):
                goal = named.get(number, -1)
                chosen[tool] = goal if 0 <= goal < len(goals) else _nearest(line, goals)
        sorted_out = [(goal, tuple(t for t in tools if chosen[t] == number)) for number, goal in enumerate(goals)]
        return [(goal, needed) for goal, needed in sorted_out if needed]

    # -- the queries -------------------------------------------------------------------------------------------------

    async def _search(self, work: _Work, number: int, tools: Sequence[str]) -> list[Attempt]:
        """The attempts at one sub-goal, the last one valid unless all failed (lines 5 to 13 of Alg. 1)."""
        attempts: list[Attempt] = []
        for level in range(LEVELS):
            candidates = await self._generate(work, number, tools, level, attempts[-1] if attempts else None)
            tried = [self._verified(number, query, tools, level) for query in candidates]
            if not tried:
                continue
            best = min(tried, key=lambda attempt: attempt.rank)  # of equals the first
            if best.query not in {attempt.query for attempt in attempts}:
                attempts.append(best)
            if best.valid:
                break
        return attempts

    async def _generate(
        self, work: _Work, number: int, tools: Sequence[str], level: int, failed: Attempt | None
    ) -> list[str]:
        """Candidate queries. One that names a wanted tool is no candidate, whatever the prompt said."""
        text = prompt(
            "learn_query",
            task=fenced(work.task),
            plan=harmless(work.plan.text, MAX_WORDS),
            goals=work.plan.goals,
            done=work.done,
            goal=work.plan.goals[number],
            failed=self._found_before(work, failed, level),
            hints=[hint for tool in tools for hint in hints(tool, work.tools[tool], level)],
        )
        asked, first, heat = [Message("user", text)], work.next_seed(), self._temperature
        seeds = range(first, first + self._candidates)
        replies = [await self.teacher.complete(asked, max_tokens=120, temperature=heat, seed=each) for each in seeds]
        queries = dict.fromkeys(filter(None, (parse_query(reply.text) for reply in replies)))
        return [q for q in queries if not any(names_tool(q, work.tools[tool], work.task) for tool in work.tools)]

    def _found_before(self, work: _Work, failed: Attempt | None, level: int) -> list[tuple[str, str]]:
        """What the third attempt is told, the last query with its results; and the fourth, those of query‖𝒫 too."""
        if failed is None or level < 2:
            return []
        told = [(failed.query, failed.found)]
        if level > 2:
            longer = with_plan(failed.query, work.plan.text)
            told.append((longer, tuple(hit.id for hit in self._index.search(longer, limit=TOP))))
        return [(harmless(query, MAX_WORDS), self._nameless(work, found)) for query, found in told]

    def _nameless(self, work: _Work, found: Sequence[str]) -> str:
        shown = []
        for id in found:
            protocol = self._index.protocol(id)
            if id in work.tools:
                described = without_name(protocol.description, protocol)
                protocol = protocol.model_copy(update={"name": "wanted_tool", "description": described})
            shown.append(protocol)
        return show_results(shown)

    def _verified(self, number: int, query: str, tools: Sequence[str], level: int) -> Attempt:
        places = {hit.id: place for place, hit in enumerate(self._index.search(query, limit=DEPTH), 1)}
        rank = sum(places.get(tool, DEPTH + 1) for tool in tools) / len(tools)
        return Attempt(number, query, rank, tuple(places)[:TOP], level)

    async def _completed(self, work: _Work, text: str, tokens: int, temperature: float) -> str:
        reply = await self.teacher.complete(
            [Message("user", text)], max_tokens=tokens, temperature=temperature, seed=work.next_seed()
        )
        return reply.text


def _nearest(text: str, goals: Sequence[str]) -> int:
    has = set(words(text))
    shared = [len(has & set(words(goal))) for goal in goals]
    return shared.index(max(shared))
