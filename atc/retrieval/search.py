"""One query over a snapshot of an index: scores, one order, hits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.encoder import Floats
from atc.retrieval.fusion import fused, top
from atc.retrieval.nearest import PROPOSED
from atc.retrieval.snapshot import Snapshot

Mode = Literal["hybrid", "lexical", "dense"]


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


def search_snapshot(snapshot: Snapshot, query: str, vector: Floats | None, limit: int, mode: Mode) -> list[Hit]:
    """The best documents for one query, best first.

    Args:
        snapshot: what is searched.
        query: its words.
        vector: the query's vector, of shape ``(dimensions,)``; ``None`` where vectors are not compared.
        limit: how many at most.
        mode: ``"dense"`` compares no words.
    """
    lexical = snapshot.lexical.scores(query) if mode != "dense" else None
    vectors, rows = snapshot.vectors, None
    if vector is not None and vectors is not None and snapshot.nearest is not None:
        rows = np.sort(snapshot.nearest.rows(vector, 2 * limit))
        if lexical is not None:
            rows = np.union1d(rows, top(lexical, max(2 * limit, PROPOSED)))
            lexical = lexical[rows]
        vectors = vectors.take(rows)
    dense = vectors.scores(vector) if vector is not None and vectors is not None else None
    if lexical is not None and dense is not None:
        scores = fused(lexical, dense)
    else:
        scores = lexical if lexical is not None else dense if dense is not None else np.zeros(0, np.float32)
    return [
        Hit(
            snapshot.ids[place if rows is None else rows[place]],
            float(scores[place]),
            rank,
            None if lexical is None else float(lexical[place]),
            None if dense is None else float(dense[place]),
        )
        for rank, place in enumerate(top(scores, limit), 1)
    ]


def search_rows(snapshot: Snapshot, query: str, rows: NDArray[np.int64], limit: int) -> list[Hit]:
    """As :func:`search_snapshot`, by words alone and of some rows alone."""
    scores = snapshot.lexical.scores(query)[rows]
    return [
        Hit(snapshot.ids[rows[place]], float(scores[place]), rank, float(scores[place]))
        for rank, place in enumerate(top(scores, limit), 1)
    ]
