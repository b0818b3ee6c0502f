"""Ways to make one ranking of several that :mod:`atc.retrieval.planner` is compared with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from atc.retrieval.index import Hit
from atc.retrieval.planner import Fusion, anchored_similarity, peak_rank


def reciprocal_rank(rankings: Sequence[Sequence[Hit]], k: int = 60) -> list[str]:
    """Each tool by the sum of 1 / (k + place) over all queries (Cormack et al. 2009)."""
    scores: dict[str, float] = defaultdict(float)
    for ranking in rankings:
        for place, hit in enumerate(ranking):
            scores[hit.id] += 1 / (k + place + 1)
    return sorted(scores, key=lambda tool: (-scores[tool], tool))


def multi_view(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Each tool by its best place, and at the same place by its score (after Re-Invoke, Chen et al. 2024, §3.3)."""
    best: dict[str, tuple[int, float]] = {}
    for ranking in rankings:
        for place, hit in enumerate(ranking):
            best[hit.id] = min(best.get(hit.id, (place, -hit.score)), (place, -hit.score))
    return sorted(best, key=lambda tool: (best[tool], tool))


FUSIONS: Mapping[str, Fusion] = {
    "peak": peak_rank,
    "similarity": anchored_similarity,
    "rrf": reciprocal_rank,
    "multi_view": multi_view,
}
