"""k-means over vectors (NumPy, in blocks of rows): the centres that codes of tools are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atc.plugins.learning import Floats

_ROWS_A_CENTRE, _START_ROWS_A_CENTRE = 32, 8
"""Rows of a sample that the centres are fitted to, and that they start from, for each centre."""
_ENOUGH = 5e-4
"""Part of the error that a round must take off for another one to follow."""
_BLOCK = 4_096

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
