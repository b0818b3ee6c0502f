"""What an engine holds follows what an index holds: only what is missing is embedded and sent, what went is dropped.

A change begins and ends with :class:`~atc.retrieval.engines.base.Facts`. One that is cut off between leaves a
collection that is not searched, and the next one goes on with the points that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atc.errors import ToolIndexError, UsageError
from atc.retrieval.embedding import BLOCK
from atc.retrieval.encoder import Encoder, Floats
from atc.retrieval.engines.base import MARKER, Engine, Facts, Keys, tools_digest
from atc.retrieval.engines.rows import EngineVectors
from atc.retrieval.snapshot import Progress, Snapshot, text_of


def kept(
    snapshot: Snapshot,
    old: Snapshot,
    encoder: Encoder,
    engine: Engine,
    progress: Progress,
) -> EngineVectors:
    """Make an engine hold the vectors of documents.

    Args:
        snapshot: the documents.
        old: those before; vectors of this encoder that it has in its own files are taken over.
        encoder: makes what is missing.
        engine: that is to hold them.
        progress: told of each stage.

    Raises:
        UsageError: the collection is of another index.
        VectorsUnavailable: the engine cannot be had.
        ToolIndexError: another process is changing the collection.
        ModelError: the encoder failed in the middle; what is done stays in the engine.
    """
    keys = snapshot.id_digests
    if len(np.unique(keys)) < len(keys) or (keys == MARKER).any():
        raise ToolIndexError("two ids of tools have the same digest: rename one of them")
    facts = Facts(encoder.digest, encoder.dimensions, tools_digest(keys, snapshot.digests))
    vectors = EngineVectors(engine, engine.place, keys, facts)
    said = engine.facts()
    if said == facts:
        return vectors
    before = _before(said, facts, old, engine)
    try:
        engine.begin(Facts(facts.encoder, facts.dimensions, before, facts.tools))
        missing = _drop_others(engine, keys, snapshot)
        _put(engine, keys, snapshot, old, encoder, missing, progress)
        progress("connecting", 0, len(keys))
        engine.finish(facts, lambda: progress("connecting", 0, len(keys)))
        progress("connecting", len(keys), len(keys))
    finally:
        engine.close()
    return vectors


def _before(said: Facts | None, facts: Facts, old: Snapshot, engine: Engine) -> str:
    """The digest of the tools that a collection held before.

    Raises:
        UsageError: they are of another index, or of another encoder; nobody's vectors are deleted.
    """
    if said is None:
        return ""
    if (said.encoder, said.dimensions) != (facts.encoder, facts.dimensions):
        if engine.home is None:
            raise UsageError(
                f"the collection {engine.place} holds vectors of another encoder: name another collection, or delete "
                "that one"
            )
        engine.clear()
        return ""
    ours = {facts.tools, old.engine.facts.tools if old.engine is not None else facts.tools}
    if engine.home is None and not ours & {said.tools, said.becomes}:
        raise UsageError(
            f"the collection {engine.place} holds the tools of another index: name another collection, or delete that "
            "one"
        )
    return said.tools


def _drop_others(engine: Engine, keys: Keys, snapshot: Snapshot) -> np.ndarray:
    """Take out what the index does not have, and find what the engine lacks.

    Returns:
        The rows that are not there, or with another text.
    """
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    present = np.zeros(len(keys), bool)
    gone: list[Keys] = []
    for found, digests in engine.held():
        places = np.searchsorted(in_order, found)
        ours = places < len(in_order)
        ours[ours] = in_order[places[ours]] == found[ours]
        gone.append(found[~ours])
        rows = order[places[ours]]
        present[rows] = (snapshot.digests[rows] == digests[ours]).all(axis=1)
    for some in gone:
        if len(some):
            engine.drop(some)
    return np.flatnonzero(~present)


def _put(
    engine: Engine,
    keys: Keys,
    snapshot: Snapshot,
    old: Snapshot,
    encoder: Encoder,
    missing: np.ndarray,
    progress: Progress,
) -> None:
    """Embed rows and put them into the engine, a block at a time; a text that several tools have is embedded once."""
    wanted = np.ascontiguousarray(snapshot.digests[missing]).view(f"V{snapshot.digests.shape[1]}").reshape(-1)
    missing = missing[np.argsort(wanted, kind="stable")]
    made = _Made(old, encoder)
    for at in range(0, len(missing), BLOCK):
        progress("embedding", at, len(missing))
        rows = missing[at : at + BLOCK]
        digests = [snapshot.digests[row].tobytes() for row in rows]
        new = {digest: row for digest, row in zip(digests, rows, strict=True) if digest not in made}
        made.add(list(new), [text_of(snapshot, row) for row in new.values()])
        engine.put(keys[rows], snapshot.digests[rows], made.take(digests))
    progress("embedding", len(missing), len(missing))


class _Made:
    """Vectors that are there: of the index's own files before, and of the last block."""

    def __init__(self, old: Snapshot, encoder: Encoder) -> None:
        self._encoder = encoder
        self._old = old.vectors
        self._rows = {row.tobytes(): place for place, row in enumerate(old.digests)} if old.vectors is not None else {}
        self._last: dict[bytes, Floats] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._last or digest in self._rows

    def add(self, digests: Sequence[bytes], texts: Sequence[str]) -> None:
        last = list(self._last.items())[-1:]  # the next block may begin with the text that this one ended with
        made = self._encoder.encode(texts) if texts else ()
        self._last = {**dict(last), **dict(zip(digests, made, strict=True))}

    def take(self, digests: Sequence[bytes]) -> Floats:
        return np.stack([self._last[digest] if digest in self._last else self._kept(digest) for digest in digests])

    def _kept(self, digest: bytes) -> Floats:
        assert self._old is not None
        found: Floats = self._old.take(np.array([self._rows[digest]])).floats()[0]
        return found / np.float32(max(float(np.linalg.norm(found)), 1e-9))
