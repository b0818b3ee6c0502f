"""What becomes of an index when its tools change: only new text is embedded, and its columns are carried over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from atc.errors import ToolIndexError, UsageError
from atc.retrieval.code_column import carried
from atc.retrieval.embedding import embedded
from atc.retrieval.encoder import Encoder
from atc.retrieval.index_store import BLOCKS
from atc.retrieval.snapshot import Progress, Snapshot, Tools, assembled, read
from atc.retrieval.vectors import Floats

_NO_ROOM = (
    "the codes of this index are left out: their codebooks have no room for all its tools; "
    "`atc tools index --codes` makes them anew"
)


def changed(
    old: Snapshot,
    gone: set[str],
    tools: Tools,
    encoder: Encoder | None,
    progress: Progress | None = None,
    folder: Path | None = None,
    *,
    only_new: bool = False,
) -> Snapshot:
    """An index with some tools out, and others added or replaced.

    Args:
        old: the index before.
        gone: ids that it has.
        tools: as for :meth:`atc.retrieval.index.ToolIndex.build`.
        encoder: of the vectors; ``None`` where the index has none.
        progress: told of each stage.
        folder: where vectors are kept while the others are made, and the documents of a long stream.
        only_new: refuse tools that are there.

    Raises:
        UsageError: two tools have the same id, something is no protocol, or a tool is there.
        ToolIndexError: the folder cannot be written.
        ModelError: the encoder failed in the middle of work.
    """
    report = progress or (lambda stage, done, total: None)
    batch = read(tools, report, folder)
    taken = [id for id in batch.ids if id in old.rows] if only_new else []
    if taken:
        raise UsageError(f"the index has a tool {taken[0]!r} already: update it, or give another id")
    report("ordering", 0, len(batch.ids))
    made = assembled(old, gone, batch)
    report("ordering", len(batch.ids), len(batch.ids))
    if encoder is not None:
        before = old if old.vectors is not None else None
        try:
            vectors = embedded(made, before, encoder, report, folder / BLOCKS if folder else None)
        except OSError as error:
            raise ToolIndexError(
                f"vectors cannot be kept in {folder}: {error.strerror or error}. "
                "Check that (a full disk, or rights); an index that was there before is untouched"
            ) from None
        made = replace(made, vectors=vectors)
    return _with_columns_of(old, made)


def _with_columns_of(old: Snapshot, made: Snapshot) -> Snapshot:
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
