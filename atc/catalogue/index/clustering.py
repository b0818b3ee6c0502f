"""Groups of near documents: a page of a menu has few entries, and thousands of tools lie below it.

Spherical k-means over the vectors of the index (NumPy, in blocks of rows). An index by words alone gets vectors from
its counts: their first singular vectors (latent semantic analysis), found by a few power iterations in a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.catalogue.index.lexical import Counts, entries_of
from atc.catalogue.index.vectors import Floats, Rows
from atc.catalogue.index.words import STOP_WORDS, words

if TYPE_CHECKING:
    from atc.catalogue.index.snapshot import Snapshot

_ROUNDS, _TRIES = 25, 3
"""Rounds of k-means, and how often it begins anew; the best try counts."""
_SAMPLE = 8_192
"""Documents of which centres and singular vectors are learnt; the others only go to the nearest."""
_AT_ONCE = 16_384
_DIMENSIONS, _POWERS = 64, 3
_SEED = 7
_ROWS_A_CENTRE, _START_ROWS_A_CENTRE = 32, 8
"""Rows of a sample that the centres are fitted to, and that they start from, for each centre."""
_ENOUGH = 5e-4
"""Part of the error that a round must take off for another one to follow."""
_BLOCK = 4_096
_MOST_HAVE = 0.5
"""The part of all documents from which a word of theirs tells nothing."""
_MAX_WORD = 24
_NEVER = STOP_WORDS | set(words("api apis endpoint get return returns data list information info value string object"))
"""Stop words, and words of tools of all kinds: they tell no group from another, however often they occur in it."""


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
        """Return those of a snapshot: of its encoder, or of its words where it has none."""
        vectors = snapshot.vectors
        if vectors is not None and vectors.values.shape[1]:
            return cls(vectors.values, np.asarray(vectors.scales))
        values = _by_words(snapshot.counts)
        return cls(values, np.ones(len(values), np.float32))

    def take(self, rows: Rows) -> Floats:
        """Return the vectors of rows, of shape ``(rows, dimensions)``."""
        found: Floats = np.asarray(self.values[rows], np.float32) * self.scales[rows][:, None]
        return found


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
    blocks = (np.arange(at, min(at + _AT_ONCE, units)) for at in range(0, units, _AT_ONCE))
    codes = np.concatenate([nearest(_normal(vectors(block)), centres)[0] for block in blocks])
    found = [np.flatnonzero(codes == group) for group in np.unique(codes)]
    return found if len(found) > 1 else list(np.array_split(np.arange(units), size))


def _normal(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.maximum(length, 1e-9)).astype(np.float32)
    return found


def _by_words(counts: Counts) -> Floats:
    """Return each document in the space of the first singular vectors of its weighed words."""
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


def telling(counts: Counts) -> NDArray[np.bool_]:
    """Return for each word of the vocabulary whether it tells documents apart: not one that over half of them have."""
    often = np.bincount(counts.words, minlength=len(counts.vocabulary)) > _MOST_HAVE * len(counts)
    return np.array([_telling(word) for word in counts.vocabulary], np.bool_) & ~often


def _telling(word: str) -> bool:
    """Return whether it is no stop word, number, version or key."""
    letters = sum(map(str.isalpha, word))
    return letters >= 2 and 2 * letters > len(word) <= _MAX_WORD and word not in _NEVER and word.isprintable()


def _times(rows: Rows, pointers: Rows, words: Rows, values: Floats, basis: Floats) -> Floats:
    """Return the rows of the sparse matrix times a dense one."""
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
    """Return the transposed rows of the sparse matrix times a dense one."""
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


# -- k-means -----------------------------------------------------------------------------------------------------------

Rounds = Callable[[int, int], None]
"""Called with the rounds that are done, and their greatest number."""


def k_means(
    vectors: Floats,
    size: int,
    random: np.random.Generator,
    rounds: int = 100,
    progress: Rounds | None = None,
    rows_a_centre: int = _ROWS_A_CENTRE,
) -> Floats:
    """Centres of vectors, started by k-means++.

    Args:
        vectors: of shape ``(rows, dimensions)``, one row or more.
        size: centres; some are the same where there are fewer different rows.
        random: gives the start.
        rounds: at most.
        progress: told of each round.
        rows_a_centre: of a sample that the centres are fitted to, for each centre.

    Returns:
        Of shape ``(size, dimensions)``.
    """
    sample = _sample(vectors, rows_a_centre * size, random)
    centres = _start(_sample(sample, _START_ROWS_A_CENTRE * size, random), size, random)
    before = np.inf
    for done in range(rounds):
        if progress is not None:
            progress(done, rounds)
        codes, distances = nearest(sample, centres)
        error = float(distances.sum(dtype=np.float64))
        if error >= before * (1 - _ENOUGH):
            break
        before = error
        centres = _means(sample, codes, distances, centres)
    if progress is not None:
        progress(rounds, rounds)
    return centres


def squared_distances(vectors: Floats, centres: Floats) -> Floats:
    """Squared distances, of shape ``(rows, centres)``."""
    products: Floats = vectors @ centres.T
    products *= -2.0
    products += np.einsum("kd,kd->k", centres, centres)
    products += np.einsum("nd,nd->n", vectors, vectors)[:, None]
    np.maximum(products, 0.0, out=products)
    return products


def nearest(vectors: Floats, centres: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest centre of each row, and the squared distance to it; the lesser centre of equal ones."""
    codes = np.zeros(len(vectors), np.int64)
    distances = np.zeros(len(vectors), np.float32)
    for at in range(0, len(vectors), _BLOCK):
        block = squared_distances(vectors[at : at + _BLOCK], centres)
        codes[at : at + _BLOCK] = found = block.argmin(axis=1)
        distances[at : at + _BLOCK] = np.take_along_axis(block, found[:, None], axis=1)[:, 0]
    return codes, distances


def _sample(vectors: Floats, count: int, random: np.random.Generator) -> Floats:
    if len(vectors) <= count:
        return vectors
    return vectors[np.sort(random.choice(len(vectors), count, replace=False))]


def _start(vectors: Floats, size: int, random: np.random.Generator) -> Floats:
    """k-means++: each centre is a row, the likelier the farther it is from those before."""
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    centres = np.empty((size, vectors.shape[1]), np.float32)
    chosen = int(random.integers(len(vectors)))
    distances = np.full(len(vectors), np.inf, np.float32)
    for place in range(size):
        centre = centres[place] = vectors[chosen]
        np.minimum(distances, np.maximum(lengths - 2.0 * (vectors @ centre) + lengths[chosen], 0.0), out=distances)
        distances[chosen] = 0.0
        reached = np.cumsum(distances, dtype=np.float64)
        chosen = int(np.searchsorted(reached, random.random() * reached[-1], side="right")) if reached[-1] > 0 else 0
        chosen = min(chosen, len(vectors) - 1)
    return centres


def _means(vectors: Floats, codes: NDArray[np.int64], distances: Floats, centres: Floats) -> Floats:
    """Return the mean of the rows of each centre; a centre without rows goes to a row that is far from its own."""
    order = np.argsort(codes, kind="stable")
    found, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    made = centres.copy()
    made[found] = np.add.reduceat(vectors[order], starts, axis=0) / counts[:, None].astype(np.float32)
    empty = np.setdiff1d(np.arange(len(centres)), found)
    far = np.argsort(-distances, kind="stable")[: len(empty)]
    made[empty[: len(far)]] = vectors[far]
    return made
