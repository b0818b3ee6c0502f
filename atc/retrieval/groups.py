"""Groups of near documents: a page of a menu has few entries, and thousands of tools, or of codes, lie below it.

Spherical k-means over the vectors of the index. An index by words alone gets vectors from its counts: their first
singular vectors (latent semantic analysis), found by a few power iterations in a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.clustering import k_means, nearest
from atc.retrieval.counts import Counts, entries_of
from atc.retrieval.telling_words import telling
from atc.retrieval.vectors import Floats

if TYPE_CHECKING:
    from atc.retrieval.snapshot import Snapshot

Rows = NDArray[np.int64]

_ROUNDS, _TRIES = 25, 3
"""Rounds of k-means, and how often it begins anew; the best try counts."""
_SAMPLE = 8_192
"""Documents of which centres and singular vectors are learnt; the others only go to the nearest."""
_BLOCK = 16_384
_DIMENSIONS, _POWERS = 64, 3
_SEED = 7


@dataclass(frozen=True)
class Places:
    """A vector for each document, whatever the index has.

    Attributes:
        values: of shape ``(documents, dimensions)``, whole numbers or floats.
        scales: the factor of each row, of shape ``(documents,)``.
    """

    values: NDArray[np.int8] | Floats
    scales: Floats

    @classmethod
    def of(cls, snapshot: Snapshot) -> Places:
        """Those of a snapshot: of its encoder, or of its words where it has none."""
        vectors = snapshot.vectors
        if vectors is not None and vectors.values.shape[1]:
            return cls(vectors.values, np.asarray(vectors.scales))
        values = _by_words(snapshot.counts)
        return cls(values, np.ones(len(values), np.float32))

    def take(self, rows: Rows) -> Floats:
        """The vectors of rows, of shape ``(rows, dimensions)``."""
        found: Floats = np.asarray(self.values[rows], np.float32) * self.scales[rows][:, None]
        return found

    def means(self, parts: Sequence[Rows]) -> Floats:
        """The mean of each part's vectors, of shape ``(parts, dimensions)``; one row is its own mean."""
        if all(len(part) == 1 for part in parts):
            return self.take(np.concatenate(parts))
        return np.stack([self.take(part[:_SAMPLE]).mean(axis=0) for part in parts])


def grouped(vectors: Callable[[Rows], Floats], units: int, count: int) -> list[Rows]:
    """Near units together.

    Args:
        vectors: gives those of some units, of shape ``(units, dimensions)``; of any length, zero too.
        units: how many there are.
        count: groups at most, 2 or more.

    Returns:
        The positions of the members of each group, sorted; at least two groups where there are two units. Units that
        nothing tells apart are cut into equal pieces in their order.
    """
    random, size = np.random.default_rng([_SEED, units]), min(count, units)
    sample = np.arange(units) if units <= _SAMPLE else np.sort(random.choice(units, _SAMPLE, replace=False))
    unit = _normal(vectors(sample))
    tries = [k_means(unit, size, random, _ROUNDS, rows_a_centre=_SAMPLE // size) for _ in range(_TRIES)]
    centres = min(tries, key=lambda centres: float(nearest(unit, centres)[1].sum(dtype=np.float64)))
    blocks = (np.arange(at, min(at + _BLOCK, units)) for at in range(0, units, _BLOCK))
    codes = np.concatenate([nearest(_normal(vectors(block)), centres)[0] for block in blocks])
    found = [np.flatnonzero(codes == group) for group in np.unique(codes)]
    return found if len(found) > 1 else list(np.array_split(np.arange(units), size))


def _normal(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.maximum(length, 1e-9)).astype(np.float32)
    return found


def _by_words(counts: Counts) -> Floats:
    """Each document in the space of the first singular vectors of its weighed words."""
    documents = len(counts)
    frequency = np.bincount(counts.words, minlength=len(counts.vocabulary))
    useful = (frequency > 1) & telling(counts)
    if documents < 3 or not useful.any():
        return np.zeros((documents, 1), np.float32)
    column = np.cumsum(useful) - 1
    kept = useful[counts.words]
    row = np.repeat(np.arange(documents), np.diff(counts.pointers))[kept]
    words = column[counts.words[kept]]
    rarity = np.log(documents / np.maximum(frequency, 1))[counts.words[kept]]
    values = (np.sqrt(counts.weights[kept]) * rarity).astype(np.float32)
    length = np.sqrt(np.bincount(row, values**2, documents))
    values = (values / np.maximum(length, 1e-9)[row]).astype(np.float32)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=documents))])
    random = np.random.default_rng(_SEED)
    basis = random.standard_normal((int(useful.sum()), min(_DIMENSIONS, documents))).astype(np.float32)
    sample = np.sort(random.choice(documents, min(documents, _SAMPLE), replace=False))
    for _ in range(_POWERS):
        image = _times(sample, pointers, words, values, basis)
        image, _ = np.linalg.qr(image)
        basis = _back(sample, pointers, words, values, image.astype(np.float32), len(basis))
    basis, _ = np.linalg.qr(basis)
    return _times(np.arange(documents), pointers, words, values, basis.astype(np.float32))


def _times(rows: Rows, pointers: Rows, words: Rows, values: Floats, basis: Floats) -> Floats:
    """The rows of the sparse matrix times a dense one."""
    made = np.zeros((len(rows), basis.shape[1]), np.float32)
    for at in range(0, len(rows), 2_048):
        block = rows[at : at + 2_048]
        taken, begins = entries_of(block, pointers)
        if not len(taken):
            continue
        filled = np.flatnonzero(np.diff(np.append(begins, len(taken))))
        products = basis[words[taken]] * values[taken][:, None]
        made[at + filled] = np.add.reduceat(products, begins[filled], axis=0)
    return made


def _back(rows: Rows, pointers: Rows, words: Rows, values: Floats, image: Floats, width: int) -> Floats:
    """The transposed rows of the sparse matrix times a dense one."""
    taken, begins = entries_of(rows, pointers)
    owner = np.repeat(np.arange(len(rows)), np.diff(np.append(begins, len(taken))))
    order = np.argsort(words[taken], kind="stable")
    sorted_words = words[taken][order]
    made = np.zeros((width, image.shape[1]), np.float32)
    starts = np.flatnonzero(np.diff(sorted_words, prepend=-1))
    step = 4_096  # words at once
    for at in range(0, len(starts), step):
        ends = starts[at + step] if at + step < len(starts) else len(order)
        part = order[starts[at] : ends]
        products = image[owner[part]] * values[taken[part]][:, None]
        some = starts[at : at + step]
        made[sorted_words[some]] = np.add.reduceat(products, some - some[0], axis=0)
    return made
