"""Vectors for the documents of an index: only for texts that have none yet; an interruption loses little."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.encoder import Encoder
from atc.retrieval.snapshot import DIGEST, Progress, Snapshot, text_of
from atc.retrieval.vectors import Vectors

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
        """The blocks that are there; one that cannot be read is as good as none."""
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
    texts: Mapping[bytes, str],
    encoder: Encoder,
    progress: Progress,
    folder: Path | None = None,
) -> Vectors:
    """The vectors of documents, in their order.

    Args:
        snapshot: the documents.
        old: a snapshot of this encoder, whose vectors may be taken over.
        texts: by digest, for documents that are not in ``old``; one that is not there is read from its document.
        encoder: makes what is missing.
        progress: called with the numbers of embedded texts and of all that must be.
        folder: where blocks are kept until :func:`forget`.

    Raises:
        EncoderUnavailable: the encoder cannot be used.
        ModelError: it failed in the middle; what is done is kept in the folder.
    """
    wanted = [row.tobytes() for row in snapshot.digests]
    places: dict[bytes, int] = {}
    parts: list[Vectors] = []

    count = 0

    def take(digests: Iterable[bytes], vectors: Vectors) -> None:
        nonlocal count
        parts.append(vectors)
        for row, digest in enumerate(digests, count):
            places.setdefault(digest, row)
        count += len(vectors)

    if old is not None and old.vectors is not None:
        take((row.tobytes() for row in old.digests), old.vectors)
    store = BlockStore(folder, encoder)
    for block in store.read():
        take((row.tobytes() for row in block["text"]), Vectors(block["values"], block["scale"]))
    # In the order of the texts' digests, so that an interrupted build goes on with the same blocks.
    missing = sorted(set(wanted) - places.keys())
    rows = {} if texts.keys() >= set(missing) else {digest: row for row, digest in enumerate(wanted)}
    for at in range(0, len(missing), BLOCK):
        progress("embedding", at, len(missing))
        digests = missing[at : at + BLOCK]
        made = Vectors.of(encoder.encode([texts.get(digest) or text_of(snapshot, rows[digest]) for digest in digests]))
        store.add(digests, made)
        take(digests, made)
    progress("embedding", len(missing), len(missing))
    if not wanted:
        return Vectors.empty(encoder.dimensions)
    together = Vectors(np.concatenate([part.values for part in parts]), np.concatenate([part.scales for part in parts]))
    return together.take(np.array([places[digest] for digest in wanted], np.int64))


def forget(folder: Path) -> None:
    """Delete the blocks of a build that is done."""
    shutil.rmtree(folder, ignore_errors=True)
