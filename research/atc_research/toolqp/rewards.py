"""The verifiable rewards of a query planner in training (ToolQP §3.3, App. C.4). Plain functions of plain data.

R = β₁·R_retrieval + β₂·R_format + β₃·R_plan, where the first two are sums of two parts with a weight each.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from atc.plugins.learning import ndcg
from atc_research.toolqp.dialogue import MAX_QUERIES, STOP, Form, parse_plan

K = 5
"""Places that count (nDCG@5 and Recall@5 of App. C.4)."""

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts to vectors of one length."""

_LIST = re.compile(r"\s*<plan>\s*\d+\. [^<>]*\S[^<>]*</plan>\s*")
_WORDS = re.compile(
    r"\s*<task_breakdown>[^<>]*\w[^<>]*</task_breakdown>\s*<sub_goals>(\s*\[[^<>]*\]\s*)</sub_goals>\s*"
)
_QUERY = re.compile(r"\s*<query>[^<>]*\w[^<>]*</query>\s*")


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the wanted tools that is among the first ``k`` (ToolQP §4.1); one that is named twice counts once.

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    if not gold or k < 1:
        raise ValueError("a ranking is judged by at least one wanted tool and one place")
    return len({*gold} & {*list(dict.fromkeys(ranked))[:k]}) / len({*gold})


@dataclass(frozen=True)
class Weights:
    """The weights of App. C.4.

    Attributes:
        ndcg: β₁,ₙ, of the gain in nDCG@5.
        recall: β₁,ᵣ, of the gain in Recall@5.
        form: β₂,f, of the share of turns in the right form.
        stop: β₂,s, of ending by a stop.
        plan: β₃, of the plan's likeness to the reference.
    """

    ndcg: float = 5.0
    recall: float = 2.5
    form: float = 1.5
    stop: float = 0.6
    plan: float = 1.0


DEFAULT = Weights()


@dataclass(frozen=True)
class Reward:
    """The three rewards of one rollout, weights included."""

    retrieval: float
    form: float
    plan: float

    @property
    def total(self) -> float:
        """R of §3.3."""
        return self.retrieval + self.form + self.plan


def retrieval_reward(
    ranked: Sequence[str], baseline: Sequence[str], gold: Collection[str], k: int = K, weights: Weights = DEFAULT
) -> float:
    """R_retrieval = β₁,ₙ·ΔN + β₁,ᵣ·ΔR (App. C.4): what planning gained over one search.

    Args:
        ranked: ids of the tools, all queries of the rollout aggregated, the best first.
        baseline: ids found by searching once for the task and the reference plan together (:func:`with_plan`).
        gold: ids of the tools that are wanted.
        k: places that count.
        weights: of the two gains.

    Returns:
        From −7.5 to 7.5 with the paper's weights; 0 where nothing was gained.

    Raises:
        ValueError: ``gold`` is empty or ``k`` below 1.
    """
    gain = ndcg(ranked, gold, k) - ndcg(baseline, gold, k)
    found = recall(ranked, gold, k) - recall(baseline, gold, k)
    return weights.ndcg * gain + weights.recall * found


def with_plan(query: str, plan: str) -> str:
    """Concat(q, 𝒫) of App. C.4: a query and a plan in words as one text to search for.

    Args:
        query: the user's words, or a planner's query.
        plan: in words (:attr:`~atc_research.toolqp.dialogue.Plan.text`).
    """
    return f"{query}\n{plan}" if plan else query


def format_reward(turns: Sequence[str], weights: Weights = DEFAULT, form: Form = "list") -> float:
    """R_format = β₂,f·R_f + β₂,s·R_s (App. C.4).

    Args:
        turns: what the planner said, turn by turn, as it said it.
        weights: of the two parts.
        form: of the plan.

    Returns:
        From 0 to 2.1 with the paper's weights; 0 for a rollout that said nothing.
    """
    return weights.form * well_formed(turns, form) + weights.stop * float(ends_by_stop(turns))


def well_formed(turns: Sequence[str], form: Form = "list") -> float:
    """R_f: the share of turns in the right form, from 0 to 1.

    The first is the plan and nothing else: ``<plan>`` with numbered sub-goals, or, of the form ``paper``,
    ``<task_breakdown>`` with words and ``<sub_goals>`` with a JSON list of texts. Each later one is one ``<query>`` and
    nothing else, or the stop, which is right at the end only. Queries beyond
    :data:`~atc_research.toolqp.dialogue.MAX_QUERIES` are wrong. Unlike the reading of replies at run time this forgives
    nothing.
    """
    if not turns:
        return 0.0
    last = len(turns) - 1
    right = _is_plan(turns[0], form) + sum(
        (number == last) if _is_stop(turn) else (number <= MAX_QUERIES and bool(_QUERY.fullmatch(turn)))
        for number, turn in enumerate(turns)
        if number
    )
    return right / len(turns)


def ends_by_stop(turns: Sequence[str]) -> bool:
    """R_s: whether the planner ended the search itself, after its plan."""
    return len(turns) > 1 and _is_stop(turns[-1])


def plan_reward(plan: str, reference: str, embed: Embed, weights: Weights = DEFAULT) -> float:
    """R_plan = β₃·Sim(P, 𝒫) (App. C.4): the cosine of the two plans' vectors, so that a plan stays with the task.

    Args:
        plan: what the planner wrote in its first turn, in words (:func:`~atc_research.toolqp.dialogue.parse_plan`).
        reference: the plan of the training data, in words.
        embed: turns both into vectors.
        weights: of the likeness.

    Returns:
        From −1 to 1 with the paper's weight; 0 for an empty plan.

    Raises:
        ValueError: the reference is empty, or the vectors differ in length.
    """
    if not reference.strip():
        raise ValueError("a plan is judged by a reference plan, and this one is empty")
    if not plan.strip():
        return 0.0
    one, other = embed([plan, reference])
    return weights.plan * cosine(one, other)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors, from −1 to 1; 0 where one of them is zero.

    Raises:
        ValueError: they differ in length.
    """
    lengths = math.hypot(*one) * math.hypot(*other)
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return max(-1.0, min(1.0, product / lengths)) if lengths else 0.0


def reward(
    turns: Sequence[str],
    ranked: Sequence[str],
    baseline: Sequence[str],
    gold: Collection[str],
    reference: str,
    embed: Embed,
    weights: Weights = DEFAULT,
    form: Form = "list",
) -> Reward:
    """All three rewards of one rollout (§3.3); see each function for its arguments.

    The plan is read from the first turn as forgivingly as at run time; that it has its form is paid for by R_format.

    Raises:
        ValueError: as :func:`retrieval_reward` and :func:`plan_reward`.
    """
    return Reward(
        retrieval_reward(ranked, baseline, gold, weights=weights),
        format_reward(turns, weights, form),
        plan_reward(parse_plan(turns[0]).text if turns else "", reference, embed, weights),
    )


def _is_plan(turn: str, form: Form) -> bool:
    if form == "list":
        return bool(_LIST.fullmatch(turn))
    match = _WORDS.fullmatch(turn)
    try:
        goals = json.loads(match[1]) if match else []
    except (ValueError, RecursionError):
        return False
    return bool(goals) and all(isinstance(goal, str) and goal.strip() for goal in goals)


def _is_stop(turn: str) -> bool:
    return turn.strip() == STOP
