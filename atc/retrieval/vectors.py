"""Dense search: eight-bit vectors on disk, all of them compared with the query by SIMD code (``numkong``).

Each vector is scaled so that its largest component is 127; products of whole numbers are exact, so that they are the
same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
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
        """No vectors yet."""
        return cls(np.zeros((0, dimensions), np.int8), np.zeros(0, np.float32))

    def take(self, rows: NDArray[np.int64]) -> Vectors:
        """Some of the rows, copied."""
        return Vectors(np.asarray(self.values[rows]), np.asarray(self.scales[rows]))

    def floats(self) -> Floats:
        """The vectors, nearly of length one, of shape ``(documents, dimensions)``: four times the memory."""
        made: Floats = np.asarray(self.values, np.float32) * np.asarray(self.scales, np.float32)[:, None]
        return made

    def scores(self, query: Floats) -> Floats:
        """The cosine of each document's vector with a query's.

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
