"""What becomes of an index when its tools change: only new text is embedded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from atc.errors import ToolIndexError, UsageError
from atc.retrieval.embedding import embedded
from atc.retrieval.encoder import Encoder
from atc.retrieval.index_store import BLOCKS
from atc.retrieval.snapshot import Progress, Snapshot, Tools, assembled, read


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
    return _with_co_usage_of(old, made)


def _with_co_usage_of(old: Snapshot, made: Snapshot) -> Snapshot:
    """A changed index with what was used together by the one before."""
    if old.co_usage is None:
        return replace(made, notices=old.notices)
    rows = np.array([old.rows.get(id, -1) for id in made.ids], np.int64)
    return replace(made, co_usage=old.co_usage.moved(rows), notices=old.notices)
