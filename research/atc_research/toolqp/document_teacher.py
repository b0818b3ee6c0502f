"""A teacher without a model: plans and queries are made from the documents of the tools that a task takes.

It does what a model does in Alg. 1 of ToolQP (§3.2) with the words of descriptions, and is held to the same: no query
names its tool, each is verified against the index, failed ones stay with the same chance. Its plans sound like
catalogues, not like users: that is what they teach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from atc import Model, ModelError, ModelRequest, Protocol, Reply
from atc.plugins.learning import STOP_WORDS, ToolIndex, document_fields
from atc_research.toolqp.dialogue import MAX_GOALS, PRODUCT, Plan, Turns, first_sentence, harmless
from atc_research.toolqp.hints import names_tool, without_name
from atc_research.toolqp.trajectories import KEEP_FAILED, Attempt, Synthesiser, _Work

NAME = "documents"
"""The teacher's name, in trajectories and on the command line."""
_GOAL_WORDS, _SENTENCE, _PARAMETERS, _KEYWORDS = 12, 160, 4, 10


class _Silent(Model):
    """Stands where a model would."""

    name = NAME
    context_tokens = 0

    async def generate(self, request: ModelRequest) -> Reply:
        raise ModelError("the teacher `documents` is no model: it answers no request")


class DocumentSynthesiser(Synthesiser):
    """Makes trajectories from documents alone: one sub-goal a tool, in the order of ``gold``.

    The attempts at a sub-goal are told as much as a model would be (:data:`~.hints.LEVELS`): the goal alone,
    and with the parameters' names; the first sentence of the description; its telling words with the category; the
    query that failed, longer by these; all but the name.

    Args:
        index: the tools.
        seed: the same seed and index give the same trajectories.
        keep_failed: see :data:`~.trajectories.KEEP_FAILED`.
        turns: how conversations are written.
    """

    def __init__(
        self, index: ToolIndex, *, seed: int = 0, keep_failed: float = KEEP_FAILED, turns: Turns = PRODUCT
    ) -> None:
        super().__init__(index, _Silent(), seed=seed, keep_failed=keep_failed, turns=turns)

    async def _plan(self, work: _Work) -> Plan:
        goals = [_goal(id, tool) for id, tool in work.tools.items()]
        if not all(goals) or len(set(goals)) > MAX_GOALS:
            return Plan("")  # a document that says nothing, or more sub-goals than a plan may have
        unique = tuple(dict.fromkeys(goals))
        return Plan(work.example.plan or "; ".join(unique), unique)

    async def _align(self, work: _Work, goals: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        return [(goal, tuple(id for id, tool in work.tools.items() if _goal(id, tool) == goal)) for goal in goals]

    async def _generate(
        self, work: _Work, number: int, tools: Sequence[str], level: int, failed: Attempt | None
    ) -> list[str]:
        goal, tool = work.plan.goals[number], work.tools[tools[0]]
        made = (harmless(query) for query in _queries(goal, tools[0], tool, level, failed.query if failed else goal))
        queries = dict.fromkeys(filter(None, made))
        return [q for q in queries if not any(names_tool(q, other, work.task) for other in work.tools.values())]


def _goal(id: str, protocol: Protocol) -> str:
    said = _told(protocol)
    if not said:
        found = document_fields(id, protocol)
        said = " ".join(without_name(f"{found.details} {found.parameters}", protocol).split())
    kept = said.split()[:_GOAL_WORDS]
    while kept and kept[-1].casefold().strip(",;:") in STOP_WORDS:
        kept.pop()
    return harmless(" ".join(kept).rstrip(" .,;:"), _SENTENCE)


def _told(protocol: Protocol) -> str:
    text = without_name(first_sentence(protocol.description), protocol)
    text = re.sub(r"^\W*this tool\b\W*(?:is used to|allows you to|can be used to|is|will)?\s*", "", text, flags=re.I)
    return harmless(text.replace("this tool", "it"), _SENTENCE)


def _queries(goal: str, id: str, protocol: Protocol, level: int, failed: str) -> Iterator[str]:
    found = document_fields(id, protocol)
    parameters = ", ".join(found.parameters.split()[:_PARAMETERS])
    service = without_name(found.service, protocol)
    whole = without_name(protocol.description, protocol)
    telling = " ".join(_keywords(whole))
    if level == 0:
        yield from (f"{goal}; {parameters}" if parameters else goal, goal)
    elif level == 1:
        yield from (_told(protocol), f"{_told(protocol)}; {parameters}")
    elif level == 2:
        yield from (f"{telling}; {service}", f"{telling}; {parameters}; {service}")
    elif level == 3:
        yield from (f"{failed} {telling}", f"{failed} {service}")
    else:
        yield from (f"{whole} {parameters} {service}", f"{whole} {found.details} {found.returns}")


def _keywords(text: str) -> list[str]:
    found = (word.casefold() for word in re.findall(r"[^\W_]+", text))
    return list(dict.fromkeys(word for word in found if len(word) > 2 and word not in STOP_WORDS))[:_KEYWORDS]
