"""The seam: what a vector engine does for an index of tools, and what it says of what it holds.

An engine holds a *point* a tool: a key (:func:`~atc.retrieval.snapshot.id_digest` of the tool's id), the digest of the
text that was embedded, and the vector. Names, descriptions and schemas stay in the index. Beside its points it keeps
:class:`Facts`, so that a collection that is stale, half made or somebody else's is seen before it is searched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.vectors import Floats

Keys = NDArray[np.uint64]
Digests = NDArray[np.uint8]
"""Of the texts that were embedded, of shape ``(points, 16)``."""

FORMAT, VERSION = "atc-tool-vectors", 1
MARKER = 0
"""The key of no tool: a collection's facts stand there."""


@dataclass(frozen=True)
class Facts:
    """What a collection says that it holds.

    Attributes:
        encoder: the digest of the encoder of its vectors.
        dimensions: of a vector.
        tools: the digest of the tools (:func:`tools_digest`); where ``becomes`` is set, those it had before.
        becomes: the digest of the tools that a change leads to, from its first step to its last; empty: it is whole.
    """

    encoder: str
    dimensions: int
    tools: str
    becomes: str = ""

    @property
    def whole(self) -> bool:
        """Whether no change was cut off."""
        return not self.becomes

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"format": FORMAT, "version": VERSION, **vars(self)}

    @classmethod
    def of_record(cls, record: object) -> Facts | None:
        """Read :meth:`record`; ``None`` where it is anything else."""
        if not isinstance(record, dict) or (record.get("format"), record.get("version")) != (FORMAT, VERSION):
            return None
        texts = [record.get(name) for name in ("encoder", "tools", "becomes")]
        dimensions = record.get("dimensions")
        if not all(isinstance(text, str) for text in texts) or type(dimensions) is not int or dimensions < 1:
            return None
        return cls(texts[0], dimensions, texts[1], texts[2])  # type: ignore[arg-type]


def tools_digest(keys: Keys, digests: Digests) -> str:
    """A digest of which tools there are and of their texts, whatever their order. Hexadecimal."""
    order = np.argsort(keys, kind="stable")
    found = hashlib.sha256(np.ascontiguousarray(keys[order], "<u8").tobytes())
    found.update(np.ascontiguousarray(digests[order]).tobytes())
    return found.hexdigest()


class Beat(Interface):
    """Called while an engine works."""

    def __call__(self) -> None: ...


class Engine(Interface):
    """One collection of one engine. Opened when it is first used; safe to ask from several threads.

    Every method raises :class:`~atc.errors.VectorsUnavailable` where the engine cannot be had, is damaged, or answers
    with something else than is asked.
    """

    @property
    def place(self) -> str:
        """How an index names it: ``qdrant-edge``, or the address of a collection, without a key."""
        ...

    @property
    def home(self) -> Path | None:
        """The folder of the index that it lies in, so that nobody else's vectors can be in it; ``None``: elsewhere."""
        ...

    def facts(self) -> Facts | None:
        """What it says that it holds; ``None``: there is no collection.

        Raises:
            VectorsUnavailable: also where there is one that no index made.
        """
        ...

    def begin(self, facts: Facts) -> None:
        """Make a collection where there is none, and write down that a change has begun.

        Args:
            facts: with ``becomes``.

        Raises:
            ToolIndexError: another process is changing it.
        """
        ...

    def held(self) -> Iterator[tuple[Keys, Digests]]:
        """The points that are there, in pages."""
        ...

    def put(self, keys: Keys, digests: Digests, vectors: Floats) -> None:
        """Add points, or replace those of the same key; ``vectors`` has shape ``(points, dimensions)``."""
        ...

    def drop(self, keys: Keys) -> None:
        """Take points out."""
        ...

    def finish(self, facts: Facts, beat: Beat) -> None:
        """Make what was put durable and quick to search, then write down that the collection is whole.

        Args:
            facts: without ``becomes``.
            beat: called now and then while it works; it may raise, which ends the work.
        """
        ...

    def clear(self) -> None:
        """Delete the collection; only where it has a home."""
        ...

    def nearest(self, vector: Floats, count: int, among: Keys | None = None) -> tuple[Keys, Floats]:
        """The nearest points of a vector and their cosines, best first.

        Args:
            vector: of length one, of shape ``(dimensions,)``.
            count: how many at most.
            among: the keys that are compared; all when ``None``.
        """
        ...

    def close(self) -> None:
        """Give up files, connections and locks."""
        ...
