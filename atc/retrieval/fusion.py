"""One order out of the scores of several scorers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

DENSE_SHARE = 0.45
"""The weight of a vector's score beside a word's; by ``python -m benchmarks.retrieval`` (docs/benchmarks/search.md)."""
ADAPTER_SHARE = 1.0
"""The weight of an adapted query where nothing else was found; chosen by ``python -m benchmarks.codes adapter``."""
SHARES: Mapping[str, float] = {
    "words": 1 - DENSE_SHARE,
    "vectors": DENSE_SHARE,
    "adapter": ADAPTER_SHARE,
}
"""The weight of each scorer, by name."""
ADDED: frozenset[str] = frozenset({"co-usage"})
"""Scorers that give parts of the best score of the others, to be added to them as they are."""


def fused(parts: Mapping[Any, Floats], count: int, shares: Mapping[Any, float] = SHARES) -> Floats:
    """Scores of several kinds as one: each as a part of the best of its kind, weighed and added.

    Ranks would lose how far ahead a tool is that has the very words of the query. This needs no scores of the worst
    documents, so that it also works on a part of them. docs/benchmarks/search.md compares it with four other ways.

    Args:
        parts: by the name of a scorer, a score for each document; those below 0 count as 0. One alone is taken as it
            is, so that its own order stands; those of :data:`ADDED` come on top.
        count: documents.
        shares: the weight of each scorer, by name.
    """
    total = _weighed({name: scores for name, scores in parts.items() if name not in ADDED}, count, shares)
    best = total.max(initial=0.0)
    for name, scores in parts.items():
        if name in ADDED and best > 0:
            total = np.maximum(total, 0.0) + best * scores
    return total


def _weighed(parts: Mapping[Any, Floats], count: int, shares: Mapping[Any, float]) -> Floats:
    if len(parts) == 1:
        return next(iter(parts.values()))
    total = np.zeros(count, np.float32)
    weight = 0.0
    for name, scores in parts.items():
        best = scores.max(initial=0.0)
        if best > 0:
            total += np.float32(shares[name]) * np.maximum(scores, 0.0) / best
            weight += shares[name]
    # what was learnt comes on top of words and vectors: what is the best by all of them still has 1
    return total if weight <= 1.0 else total / np.float32(weight)


def top(scores: Floats, limit: int, least: float | None = 0.0) -> NDArray[np.int64]:
    """The rows of the best scores, best first; equal ones in the order of their rows.

    Args:
        scores: a score a row.
        limit: how many at most.
        least: only rows with a higher score; all when ``None``.
    """
    rows = np.arange(len(scores)) if least is None else np.flatnonzero(scores > least)
    if len(rows) > limit:
        found = scores[rows]
        rows = rows[found >= np.partition(found, len(rows) - limit)[len(rows) - limit]]  # all that equal the last
    order = np.lexsort((rows, -scores[rows]))
    best: NDArray[np.int64] = rows[order][:limit].astype(np.int64)
    return best
