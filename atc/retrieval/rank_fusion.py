"""One ranking out of those of several queries (ToolQP §3.1 "Retrieval Aggregation", and what it is compared with)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from atc.retrieval.index import Hit

ANCHOR = 3
"""Places of the user's own words for each one of a query, in :func:`anchored_peak_rank`."""

Fusion = Callable[[Sequence[Sequence[Hit]]], list[str]]


def peak_rank(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Each tool at the best place that any query gave it (ToolQP §3.1); at the same place the earlier query's first.

    So a sub-task that took many queries gets no more room than one that took a single one. What is put first, say the
    user's own words, is the anchor: its first tool stays the first.
    """
    return _peak(rankings, 1)


def anchored_peak_rank(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """:func:`peak_rank`, but the first ranking has :data:`ANCHOR` places for each one of the others.

    A small model's queries are worse than the user's own words, and five of them leave these the first two places of
    ten.
    """
    return _peak(rankings, ANCHOR)


def reciprocal_rank(rankings: Sequence[Sequence[Hit]], k: int = 60) -> list[str]:
    """Each tool by the sum of 1 / (k + place) over all queries (Cormack et al. 2009)."""
    scores: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, hit in enumerate(ranking):
            scores[hit.id] += 1 / (k + place + 1)
    return _by(scores)


def multi_view(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Each tool by its best place, and at the same place by its score (after Re-Invoke, Chen et al. 2024, §3.3)."""
    best: dict[str, tuple[int, float]] = {}
    for ranking in rankings:
        for place, hit in enumerate(ranking):
            best[hit.id] = min(best.get(hit.id, (place, -hit.score)), (place, -hit.score))
    return sorted(best, key=lambda tool: (best[tool], tool))


FUSIONS: Mapping[str, Fusion] = {
    "peak": peak_rank,
    "anchored": anchored_peak_rank,
    "rrf": reciprocal_rank,
    "multi_view": multi_view,
}


def _peak(rankings: Sequence[Sequence[Hit]], anchor: int) -> list[str]:
    best: dict[str, tuple[float, int]] = {}
    for turn, ranking in enumerate(rankings):
        for at, hit in enumerate(ranking):
            place = at / anchor if turn == 0 else at
            best[hit.id] = min(best.get(hit.id, (place, turn)), (place, turn))
    return sorted(best, key=lambda tool: (best[tool], tool))


def _by(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda tool: (-scores[tool], tool))
