"""What an index keeps of its columns when its tools change: codes by id and text, what was used together by id."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atc.retrieval.code_column import carried
from atc.retrieval.snapshot import Snapshot
from atc.retrieval.vectors import Floats

_NO_ROOM = (
    "the codes of this index are left out: their codebooks have no room for all its tools; "
    "`atc tools index --codes` makes them anew"
)


def with_columns_of(old: Snapshot, made: Snapshot) -> Snapshot:
    """A changed index with the columns of the one before.

    A tool keeps its codes while its text stays the same; another one gets the nearest that are free.

    Args:
        old: the index before.
        made: the changed one, with its vectors.
    """
    if old.codes is None and old.co_usage is None:
        return replace(made, notices=old.notices)
    rows = np.array([old.rows.get(id, -1) for id in made.ids], np.int64)
    together = old.co_usage.moved(rows) if old.co_usage is not None else None
    if old.codes is None or made.vectors is None:
        return replace(made, co_usage=together, notices=old.notices)
    there = np.flatnonzero(rows >= 0)
    other = (made.digests[there] != old.digests[rows[there]]).any(axis=1)
    rows[there[other]] = -1
    codes = carried(old.codes, rows, _floats(made, np.flatnonzero(rows < 0)))
    return replace(made, co_usage=together, codes=codes, notices=(*old.notices, *([_NO_ROOM] if codes is None else [])))


def _floats(snapshot: Snapshot, rows: np.ndarray) -> Floats:
    assert snapshot.vectors is not None
    return snapshot.vectors.take(rows).floats()
