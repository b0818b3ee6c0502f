"""The column of codes of an index: what makes one sound, and which codes tools get that come later."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.clustering import squared_distances
from atc.retrieval.code_space import dimensions_of, into_space
from atc.retrieval.codes import Codes
from atc.retrieval.vectors import Floats

_LARGEST_BOOK = 2**15
"""Codes of a level that 16 bits hold."""
_LARGEST = np.float64(1e5)
"""No number of a codebook or of a network that was learnt comes near; larger ones would overflow in a product."""


def fault_of(codes: Codes, documents: int, encoder: str, dimensions: int) -> str:
    """What is wrong with codes for an index; empty if nothing is.

    Args:
        documents: of the index.
        encoder: the digest of the encoder of its vectors; empty where it has none.
        dimensions: of its vectors.
    """
    values, books = codes.values, codes.books
    if not encoder:
        return "the index has no vectors"
    if codes.facts.encoder and codes.facts.encoder != encoder:
        return "they are of another encoder than the vectors"
    if values.dtype != np.int16 or values.ndim != 2 or not 1 <= values.shape[1] == len(books):
        return "they are no rows of whole numbers, one for each level"
    if len(values) != documents:
        return f"they are of {len(values)} tools, and the index has {documents}"
    for book in books:
        if book.ndim != 2 or not 1 <= len(book) <= _LARGEST_BOOK or book.shape[1:] != books[0].shape[1:]:
            return "a codebook has no shape that fits"
    for array in (*books, *codes.arrays.values()):
        if (
            not np.issubdtype(array.dtype, np.floating) or not (np.abs(array) <= np.float64(_LARGEST)).all()
        ):  # NaN is not
            return "an array holds something that is no number, or far too large"
    try:
        wide = dimensions_of(codes, dimensions)
    except ValueError as problem:
        return str(problem)
    if books[0].shape[1] != wide:
        return f"the codebooks have {books[0].shape[1]} dimensions, and the tools' vectors {wide} there"
    if documents and ((values < 0).any() or (values >= [len(book) for book in books]).any()):
        return "a code is not in its codebook"
    if len(np.unique(values, axis=0)) < documents:
        return "two tools have the same"
    return ""


def carried(codes: Codes, rows: NDArray[np.int64], vectors: Floats) -> Codes | None:
    """Codes for the tools of a changed index: the old ones stay, new tools get the nearest that are free.

    Args:
        codes: of the index before.
        rows: for each tool its row before, or -1 if it is new.
        vectors: of the new tools, in the order of their rows, of shape ``(new, dimensions)``.

    Returns:
        ``None`` where the codebooks have no room for so many tools.
    """
    if len(rows) > _room(codes, 0):
        return None
    new = rows < 0
    values = np.zeros((len(rows), codes.levels), np.int16)
    values[~new] = codes.values[rows[~new]]
    if new.any():
        values[new] = _free(codes, values[~new], into_space(codes, vectors))
    return Codes(values, codes.books, codes.facts, codes.arrays)


def _room(codes: Codes, level: int) -> int:
    """How many tools the levels from one on tell apart."""
    return math.prod(len(book) for book in codes.books[level:])


def _free(codes: Codes, taken: NDArray[np.int16], vectors: Floats) -> NDArray[np.int16]:
    """A free sequence of codes for each vector, in their order.

    At each level that is the nearest code with room: below a full one, no level could tell one more tool apart.
    """
    below: Counter[tuple[int, ...]] = Counter()
    full: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for level in range(codes.levels):
        prefixes, counts = np.unique(taken[:, : level + 1], axis=0, return_counts=True)
        room = _room(codes, level + 1)
        for prefix, count in zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True):
            below[prefix] = count
            if count >= room:
                full[prefix[:-1]].append(prefix[-1])
    made = np.zeros((len(vectors), codes.levels), np.int16)
    for row, vector in enumerate(np.asarray(vectors, np.float32)):
        said: tuple[int, ...] = ()
        for level, book in enumerate(codes.books):
            distances = squared_distances(vector[None], book)[0]
            distances[full[said]] = np.inf
            code = int(distances.argmin())
            vector = vector - book[code]
            said += (code,)
            below[said] += 1
            if below[said] >= _room(codes, level + 1):
                full[said[:-1]].append(code)
        made[row] = said
    return made
