"""One ranking out of those of several queries (ToolQP §3.1 "Retrieval Aggregation", and what it is compared with)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from atc.retrieval.index import Hit

LIKENESS = 0.7
"""Weight of the bare cosine in a query's score of a tool; the rest is the tool's place in the ranking."""
QUERIES = 0.75
"""Weight of the best query's score of a tool, beside 1 for the task's own words."""

Fusion = Callable[[Sequence[Sequence[Hit]]], list[str]]


def peak_rank(rankings: Sequence[Sequence[Hit]]) -> list[str]:
    """Each tool at the best place that any query gave it (ToolQP §3.1); at the same place the earlier query's first.

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
    return _by({tool: own.get(tool, 0.0) + QUERIES * by_query.get(tool, 0.0) for tool in own | by_query})


def _sure(ranking: Sequence[Hit]) -> Iterator[tuple[str, float]]:
    """Scores, the best of which is the ranking's best cosine."""
    best = max((hit.score for hit in ranking), default=0.0)
    cosine = max((hit.dense or 0.0 for hit in ranking), default=0.0)
    for hit in ranking:
        yield hit.id, hit.score / best * max(0.0, cosine) if best > 0 else 0.0


def _by(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda tool: (-scores[tool], tool))
