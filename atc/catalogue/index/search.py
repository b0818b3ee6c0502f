"""One query over a snapshot of an index: scores of words and of meaning, one order, hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.snapshot import Snapshot
from atc.catalogue.index.vectors import Floats

Mode = Literal["hybrid", "lexical", "dense"]
DENSE_SHARE = 0.45
"""The weight of a vector's score beside a word's; by ``python -m benchmarks.retrieval`` (docs/benchmarks/search.md)."""


@dataclass(frozen=True)
class Hit:
    """A tool that was found.

    Attributes:
        id: its id in the index.
        score: comparable within one answer only.
        rank: 1 for the best.
        lexical: its BM25 score; ``None`` where words were not compared.
        dense: the cosine of its vector with the query's; ``None`` where vectors were not compared.
    """

    id: str
    score: float
    rank: int
    lexical: float | None = None
    dense: float | None = None


def search_snapshot(
    snapshot: Snapshot, query: str, limit: int, vector: Floats | None = None, *, words: bool = True
) -> list[Hit]:
    """Return the best documents for one query, best first; of equal ones the lesser id first.

    Args:
        snapshot: what is searched.
        query: what is asked.
        limit: how many at most.
        vector: of the query; without one vectors are not compared.
        words: compare words.
    """
    lexical = snapshot.lexical.scores(query) if words or vector is None else None
    dense = snapshot.vectors.scores(vector) if vector is not None and snapshot.vectors is not None else None
    total = fused(lexical, dense)
    return [
        Hit(
            snapshot.ids[place],
            float(total[place]),
            rank,
            None if lexical is None else float(lexical[place]),
            None if dense is None else float(dense[place]),
        )
        for rank, place in enumerate(top(total, limit), 1)
    ]


def fused(lexical: Floats | None, dense: Floats | None) -> Floats:
    """Scores of words and of vectors as one: each as a part of the best of its kind, weighed and added.

    Ranks would lose how far ahead a tool is that has the very words of the query. This needs no scores of the worst
    documents, so that it also works on a part of them. One kind alone is taken as it is.
    """
    if lexical is None or dense is None:
        alone = dense if lexical is None else lexical
        return np.zeros(0, np.float32) if alone is None else alone
    total = np.zeros(len(lexical), np.float32)
    for scores, share in ((lexical, 1 - DENSE_SHARE), (dense, DENSE_SHARE)):
        if (best := scores.max(initial=0.0)) > 0:
            total += np.float32(share) * np.maximum(scores, 0.0) / best
    return total


def top(scores: Floats, limit: int) -> NDArray[np.int64]:
    """Return the rows of the best scores above 0, best first; equal ones in the order of their rows."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > limit:
        found = scores[rows]
        rows = rows[found >= np.partition(found, len(rows) - limit)[len(rows) - limit]]  # all that equal the last
    order = np.lexsort((rows, -scores[rows]))
    best: NDArray[np.int64] = rows[order][:limit].astype(np.int64)
    return best
