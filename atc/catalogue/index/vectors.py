"""Dense search: eight-bit vectors, all of them compared with the query: 4 ms at 47,000 tools of 384 components.

Each vector is scaled so that its largest component is 127; products of whole numbers are exact, so that they are the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
"""Numbers of the documents of an index: their places in the order of the ids."""


class Encoder(Interface):
    """Texts in, vectors of length one out: any encoder can be the base of retrieval (ToolQP §4.2)."""

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

_BLOCK = 1_024
"""Vectors that are widened at once, so that they stay in a processor's cache."""


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

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """Return some of the rows, copied."""
        return Vectors(np.asarray(self.values[rows]), np.asarray(self.scales[rows]))

    def put(self, rows: Sequence[int], others: Vectors, place: int) -> None:
        """Set rows to one vector of others."""
        self.values[rows], self.scales[rows] = others.values[place], others.scales[place]

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
    wide = asked[0].astype(np.float32)  # whole numbers below 2**24: as exact in floating point
    blocks = (values[at : at + _BLOCK].astype(np.float32) for at in range(0, len(values), _BLOCK))
    # not `@`: the threads of BLAS wait for each other, and on a busy machine for tens of milliseconds
    return np.concatenate([np.einsum("ij,j->i", block, wide) for block in blocks]).astype(np.int32)
