"""Metrics say how good a ranking of tools is, as a share from 0 to 1 (ToolQP §4.1)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain of the first ``k``; 1 is the best that can be.

    A tool is wanted or not, and one that is named twice counts once.

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    if not gold or k < 1:
        raise ValueError("a ranking is judged by at least one wanted tool and one place")
    wanted, first = frozenset(gold), list(dict.fromkeys(ranked))[:k]
    gain = sum(1 / math.log2(place + 2) for place, tool in enumerate(first) if tool in wanted)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(wanted))))
