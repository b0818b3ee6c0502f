"""How good a ranking of tools is. Relevance is binary: a tool is one of the wanted ones or not.

Shares from 0 to 1, as in ToolQP §4.1: nDCG@k and Recall@k.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first ``k``; 1 where all that can stand there are wanted ones.

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    wanted = _wanted(gold, k)
    gain = sum(1 / math.log2(place + 2) for place, tool in enumerate(_first(ranked, k)) if tool in wanted)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(wanted))))


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the wanted tools that is among the first ``k``.

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    wanted = _wanted(gold, k)
    return len(wanted & set(_first(ranked, k))) / len(wanted)


def _first(ranked: Sequence[str], k: int) -> list[str]:
    """The first ``k`` different tools: one that is named twice counts once."""
    return list(dict.fromkeys(ranked))[:k]


def _wanted(gold: Collection[str], k: int) -> frozenset[str]:
    if not gold or k < 1:
        raise ValueError("a ranking is judged by at least one wanted tool and one place")
    return frozenset(gold)
