"""Dense search: eight-bit vectors on disk, all of them compared with the query by SIMD code (``numkong``).

Each vector is scaled so that its largest component is 127; products of whole numbers are exact, so that they are the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc._host.extras import install_command
from atc.errors import EncoderUnavailable

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
"""Numbers of the documents of an index: their places in the order of the ids."""


class Encoder(Interface):
    """Texts in, vectors of length one out."""

    @property
    def name(self) -> str:
        """Return the encoder's name in messages."""
        ...

    @property
    def digest(self) -> str:
        """Hexadecimal; differs between encoders whose vectors do not compare. Made of the model's files or its name."""
        ...

    @property
    def dimensions(self) -> int:
        """Return the number of components of a vector."""
        ...

    def check(self) -> None:
        """Check that it can be used.

        Raises:
            EncoderUnavailable: it cannot; the message says how to get it.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """Embed texts.

        Returns:
            An array of shape ``(len(texts), dimensions)``; each row has length one.

        Raises:
            EncoderUnavailable: it cannot be used.
            ModelError: it failed in the middle of work.
        """
        ...


def normalised(vectors: Floats) -> Floats:
    """Return vectors of shape ``(n, dimensions)`` scaled to length one; one without a direction stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return scaled


def readable(text: str) -> str:
    """Return a text that every tokeniser takes: half a surrogate pair and control characters are none."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else " " for c in whole) or " "


# -- eight bits --------------------------------------------------------------------------------------------------------

Bytes = NDArray[np.int8]

numkong: Any
try:
    import numkong
except ImportError:  # only the extra `embed` brings it
    numkong = None

_BLOCK = 8_192


@dataclass(frozen=True)
class Vectors:
    """The vectors of documents, in their order.

    Attributes:
        values: whole numbers, of shape ``(documents, dimensions)``.
        scales: the factor of each row, of shape ``(documents,)``.
    """

    values: Bytes
    scales: Floats

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, vectors: Floats) -> Vectors:
        """Round vectors of length one, of shape ``(documents, dimensions)``, to eight bits a component."""
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        scales = (np.where(largest > 0, largest, 1.0) / 127.0).astype(np.float32)
        return cls(np.rint(vectors / scales[:, None]).astype(np.int8), scales)

    @classmethod
    def empty(cls, dimensions: int) -> Vectors:
        """Return no vectors yet."""
        return cls(np.zeros((0, dimensions), np.int8), np.zeros(0, np.float32))

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """Return some of the rows, copied."""
        return Vectors(np.asarray(self.values[rows]), np.asarray(self.scales[rows]))

    def floats(self) -> Floats:
        """Return the vectors, nearly of length one, of shape ``(documents, dimensions)``: four times the memory."""
        made: Floats = np.asarray(self.values, np.float32) * np.asarray(self.scales, np.float32)[:, None]
        return made

    def scores(self, query: Floats) -> Floats:
        """Return the cosine of each document's vector with a query's.

        Args:
            query: a vector of length one, of shape ``(dimensions,)``.

        Returns:
            Cosines of shape ``(documents,)``, in the order of the rows.
        """
        asked = Vectors.of(query.reshape(1, -1))
        products = _products(asked.values, self.values)
        found: Floats = products.astype(np.float32) * (self.scales * asked.scales[0])
        return found


def _products(asked: Bytes, values: Bytes) -> NDArray[np.int32]:
    if not len(values):
        return np.zeros(0, np.int32)
    if numkong is not None:
        return np.asarray(numkong.cdist(asked, values, "dot")).reshape(-1).astype(np.int32)
    wide = asked[0].astype(np.float32)  # whole numbers below 2**24: as exact in floating point
    blocks = [values[at : at + _BLOCK].astype(np.float32) @ wide for at in range(0, len(values), _BLOCK)]
    return np.concatenate(blocks).astype(np.int32)


# -- a graph of near neighbours ----------------------------------------------------------------------------------------
# Approximate dense search, for indexes too large to compare every vector: a graph of near neighbours (``usearch``).
#
# Comparing all takes 2.5 ms of processor time at 47,000 documents of 384 components, 11 at 200,000 and 25 at 500,000;
# the graph under 1 ms, for 0.13 ms a document when it is built. It only proposes rows, whose scores are then exact.

EXACT = 200_000
"""Documents up to which all vectors are compared."""

_NEIGHBOURS, _EFFORT_BUILD, _EFFORT_SEARCH = 16, 64, 256
_CONNECTED = 4_096
"""Vectors that are put into the graph at once."""
PROPOSED = 200
"""Rows that are proposed for ten results, at least."""


class Nearest:
    """A graph over the vectors of an index.

    Args:
        graph: of ``usearch``.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    @staticmethod
    def write(vectors: Vectors, path: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Build the graph and write it; by one thread, so that the same vectors give the same file.

        Args:
            vectors: of the documents.
            path: of the file.
            progress: told how many vectors are in the graph, and of how many.

        Raises:
            EncoderUnavailable: the library is missing.
        """
        from_library = _library()
        graph = from_library.Index(
            ndim=vectors.values.shape[1],
            metric=from_library.MetricKind.Cos,
            dtype=from_library.ScalarKind.I8,
            connectivity=_NEIGHBOURS,
            expansion_add=_EFFORT_BUILD,
            expansion_search=_EFFORT_SEARCH,
        )
        for at in range(0, len(vectors), _CONNECTED):  # a step at a time: it is told of, and Ctrl-C ends it
            some = np.asarray(vectors.values[at : at + _CONNECTED])
            graph.add(np.arange(at, at + len(some), dtype=np.uint64), some, threads=1)
            if progress is not None:
                progress(at + len(some), len(vectors))
        graph.save(str(path))

    @classmethod
    def open(cls, path: Path) -> Nearest | None:
        """Map a graph that was written; ``None`` without the library, for all vectors can still be compared.

        Raises:
            ValueError: the file is no graph.
        """
        try:
            graph = _library().Index.restore(str(path), view=True)
        except EncoderUnavailable:
            return None
        except RuntimeError as error:
            raise ValueError(f"{path.name} is no graph: {error}") from None
        if graph is None:
            raise ValueError(f"{path.name} is no graph")
        return cls(graph)

    def rows(self, query: Floats, count: int) -> NDArray[np.int64]:
        """Return rows near a query, nearly all of the nearest ``count`` among them.

        Args:
            query: a vector of shape ``(dimensions,)``.
            count: rows that are wanted.
        """
        asked = Vectors.of(query.reshape(1, -1)).values[0]
        found = self._graph.search(asked, max(count, PROPOSED), threads=1)
        return np.asarray(found.keys).astype(np.int64)


def _library() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise EncoderUnavailable(
            f"an index of more than {EXACT:,} vectors needs the package usearch: {install_command('embed')}"
        ) from None
    return usearch.index
