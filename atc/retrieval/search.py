"""One query over a snapshot of an index: scores, one order, hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.fusion import Floats, fused, top
from atc.retrieval.nearest import PROPOSED
from atc.retrieval.scorers import Query, Rows, Scorer, shares_of
from atc.retrieval.snapshot import Snapshot
from atc.retrieval.together import UsedTogether
from atc.scorer_names import ScorerName

Mode = Literal["hybrid", "lexical", "dense"]
LIKELY = 10
"""Documents of the best places from which a second scorer starts (ToolWeaver's co-usage, Eq. 5, at ranking)."""


@dataclass(frozen=True)
class Hit:
    """A tool that was found.

    Attributes:
        id: its id in the index.
        score: comparable within one answer only.
        rank: 1 for the best.
        lexical: its BM25 score; ``None`` where words were not compared.
        dense: the cosine of its vector with the query's; ``None`` where vectors were not compared.
        parts: what each scorer gave it, by the scorer's name.
        used_with: the likely tool by which it gained most, for what tasks used together; empty where it gained nothing.
        before: its place without that gain; ``None`` where it had none among so many.
    """

    id: str
    score: float
    rank: int
    lexical: float | None = None
    dense: float | None = None
    parts: Mapping[ScorerName, float] = field(default_factory=dict, compare=False)
    used_with: str = ""
    before: int | None = field(default=None, compare=False)


def search_snapshot(snapshot: Snapshot, query: Query, limit: int, scorers: Sequence[Scorer]) -> list[Hit]:
    """The best documents for one query, best first.

    Args:
        snapshot: what is searched.
        query: what is asked.
        limit: how many at most.
        scorers: of this snapshot, those that start from what the others found at the end.
    """
    first = [scorer for scorer in scorers if not scorer.second]
    rows = _proposed(snapshot, query, limit, first)
    parts = _scores(first, query, rows)
    shares = shares_of(scorers)
    total = fused(parts, len(snapshot) if rows is None else len(rows), shares)
    second = [scorer for scorer in scorers if scorer.second]
    before: dict[int, int] = {}
    gained_by: Rows = np.zeros(0, np.int64)
    if second and len(places := top(total, max(limit, LIKELY))):
        query = _with_likely(query, places, total, rows, len(snapshot))
        if rows is not None and len(more := _union(second, query, limit, rows)) > len(rows):
            rows = more
            parts = _scores(first, query, rows)
            total = fused(parts, len(rows), shares)
            places = top(total, max(limit, LIKELY))
            query = _with_likely(query, places, total, rows, len(snapshot))
        if added := _scores(second, query, rows):
            before = {int(place): rank for rank, place in enumerate(places[:limit], 1)}
            parts |= added
            total = fused(parts, len(total), shares)
            gained_by = next((each.likely(query) for each in second if isinstance(each, UsedTogether)), gained_by)
    words, vectors = parts.get("words"), parts.get("vectors")
    return [
        Hit(
            snapshot.ids[place if rows is None else rows[place]],
            float(total[place]),
            rank,
            None if words is None else float(words[place]),
            None if vectors is None else float(vectors[place]),
            {name: float(scores[place]) for name, scores in parts.items()},
            _id(snapshot, gained_by, place if rows is None else rows[place]),
            before.get(int(place), None if before else rank),
        )
        for rank, place in enumerate(top(total, limit), 1)
    ]


def search_rows(snapshot: Snapshot, query: str, rows: NDArray[np.int64], limit: int) -> list[Hit]:
    """As :func:`search_snapshot`, by words alone and of some rows alone."""
    scores = snapshot.lexical.scores(query)[rows]
    return [
        Hit(snapshot.ids[rows[place]], float(scores[place]), rank, float(scores[place]))
        for rank, place in enumerate(top(scores, limit), 1)
    ]


def _with_likely(query: Query, places: Rows, total: Floats, rows: Rows | None, documents: int) -> Query:
    """The query with what the first scorers found, so that the others can start from it."""
    places, best = places[:LIKELY], total[places[0]]
    found = np.zeros(documents, np.float32)
    found[slice(None) if rows is None else rows] = np.maximum(total, 0.0) / best
    return replace(query, likely=(places if rows is None else rows[places], total[places] / best), found=found)


def _id(snapshot: Snapshot, gained_by: Rows, row: int) -> str:
    """The id of the likely tool by which a row gained most; empty for none."""
    return snapshot.ids[gained_by[row]] if len(gained_by) and gained_by[row] >= 0 else ""


def _proposed(snapshot: Snapshot, query: Query, limit: int, scorers: Sequence[Scorer]) -> Rows | None:
    """The rows that are scored, of an index that is too large to compare all vectors."""
    if snapshot.nearest is None or query.vector is None:
        return None
    return _union(scorers, query, limit, np.zeros(0, np.int64))


def _union(scorers: Sequence[Scorer], query: Query, limit: int, rows: Rows) -> Rows:
    count = max(2 * limit, PROPOSED)
    return np.unique(np.concatenate([rows, *(scorer.proposed(query, count) for scorer in scorers)]))


def _scores(scorers: Sequence[Scorer], query: Query, rows: Rows | None) -> dict[ScorerName, Floats]:
    given = ((scorer.name, scorer.scores(query, rows)) for scorer in scorers)
    return {name: scores for name, scores in given if scores is not None}
