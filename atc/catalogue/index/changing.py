"""Changes an index when its tools change: only new text is embedded. An interruption loses little."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.index_store import BLOCKS
from atc.catalogue.index.snapshot import DIGEST, Progress, Snapshot, Tools, assembled, read, text_of
from atc.catalogue.index.vectors import Encoder, Vectors
from atc.errors import ToolIndexError, UsageError

# -- vectors -----------------------------------------------------------------------------------------------------------
# Vectors for the documents of an index: only for texts that have none yet; an interruption loses little.

BLOCK = 256
"""Texts that are embedded, and kept, at a time."""


class BlockStore:
    """Vectors that a build has made so far, in a folder, a file a block.

    Args:
        folder: where they are kept; nowhere when ``None``.
        encoder: whose vectors they are.
    """

    def __init__(self, folder: Path | None, encoder: Encoder) -> None:
        self._folder = folder / encoder.digest[:32] if folder else None
        self._dtype = np.dtype([("text", "u1", DIGEST), ("scale", "<f4"), ("values", "i1", encoder.dimensions)])

    def read(self) -> Iterable[NDArray[Any]]:
        """Yield the blocks that are there; one that cannot be read is as good as none."""
        for path in sorted(self._folder.glob("*.npy")) if self._folder else ():
            try:
                block = np.load(path, allow_pickle=False)
            except (OSError, ValueError, EOFError):
                continue
            if block.dtype == self._dtype:
                yield block

    def add(self, digests: list[bytes], vectors: Vectors) -> None:
        """Keep one more block."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        block = np.zeros(len(digests), self._dtype)
        block["text"] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)
        block["scale"], block["values"] = vectors.scales, vectors.values
        path = self._folder / f"{digests[0].hex()}.npy"
        scratch = path.with_suffix(".part")
        with scratch.open("wb") as out:
            np.save(out, block, allow_pickle=False)
        os.replace(scratch, path)


def embedded(
    snapshot: Snapshot,
    old: Snapshot | None,
    encoder: Encoder,
    progress: Progress,
    folder: Path | None = None,
) -> Vectors:
    """Return the vectors of documents, in their order.

    Args:
        snapshot: the documents.
        old: a snapshot of this encoder, whose vectors may be taken over.
        encoder: makes what is missing.
        progress: called with the numbers of embedded texts and of all that must be.
        folder: where blocks are kept until :func:`forget`.

    Raises:
        EncoderUnavailable: the encoder cannot be used.
        ModelError: it failed in the middle; what is done is kept in the folder.
        ToolIndexError: a document is damaged.
    """
    rows = _Rows(snapshot.digests, encoder.dimensions)
    if old is not None and old.vectors is not None:
        rows.take(np.asarray(old.digests), old.vectors)
    store = BlockStore(folder, encoder)
    for block in store.read():
        rows.take(block["text"], Vectors(block["values"], block["scale"]))
    # In the order of the texts' digests, so that an interrupted build goes on with the same blocks.
    missing = rows.missing()
    for at in range(0, len(missing), BLOCK):
        progress("embedding", at, len(missing))
        some = missing[at : at + BLOCK]
        made = Vectors.of(encoder.encode([text_of(snapshot, int(row)) for row in some]))
        store.add([snapshot.digests[row].tobytes() for row in some], made)
        rows.take(snapshot.digests[some], made)
    progress("embedding", len(missing), len(missing))
    return rows.vectors


class _Rows:
    """The vectors of documents while they are gathered; a text that several documents have is there for all of them."""

    def __init__(self, digests: NDArray[np.uint8], dimensions: int) -> None:
        texts = _as_one(digests)
        self._order = np.argsort(texts, kind="stable")
        self._texts = texts[self._order]
        self._filled = np.zeros(len(texts), bool)
        self.vectors = Vectors(np.zeros((len(texts), dimensions), np.int8), np.zeros(len(texts), np.float32))

    def take(self, digests: NDArray[np.uint8], vectors: Vectors) -> None:
        """Fill in what there are vectors for."""
        texts = _as_one(digests)
        begins, ends = (np.searchsorted(self._texts, texts, side) for side in ("left", "right"))
        for place in np.flatnonzero(ends > begins):
            rows = self._order[begins[place] : ends[place]]
            self.vectors.values[rows], self.vectors.scales[rows] = vectors.values[place], vectors.scales[place]
            self._filled[rows] = True

    def missing(self) -> NDArray[np.int64]:
        """Return a row for each text that has no vector yet, in the order of the texts' digests."""
        first = np.ones(len(self._texts), bool)
        first[1:] = self._texts[1:] != self._texts[:-1]
        rows = self._order[first]
        return rows[~self._filled[rows]]


def _as_one(digests: NDArray[np.uint8]) -> NDArray[Any]:
    """Digests as values that can be sorted, of shape ``(digests,)``."""
    return np.ascontiguousarray(digests).view(f"V{DIGEST}").reshape(-1)


def forget(folder: Path) -> None:
    """Delete the blocks of a build that is done."""
    shutil.rmtree(folder, ignore_errors=True)


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
    """Return an index with some tools out, and others added or replaced.

    Args:
        old: the index before.
        gone: ids that it has.
        tools: as for :meth:`atc.catalogue.index.index.ToolIndex.build`.
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
    """Return a changed index with what was used together by the one before."""
    if old.co_usage is None:
        return replace(made, notices=old.notices)
    rows = np.array([old.rows.get(id, -1) for id in made.ids], np.int64)
    return replace(made, co_usage=old.co_usage.moved(rows), notices=old.notices)
