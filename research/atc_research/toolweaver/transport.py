"""Optimal transport of tools to codes, all codes getting an equal share (ToolWeaver Eq. 8-9, App. B.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atc.plugins.learning import Floats
from atc_research.toolweaver.clustering import squared_distances

EPSILON, ITERATIONS, BATCH = 0.01, 50, 5_096
"""As ToolWeaver's: the weight of the entropy, the rounds of Sinkhorn-Knopp (B.6), tools at once (A.3)."""


def prices(costs: Floats, epsilon: float = EPSILON, iterations: int = ITERATIONS) -> Floats:
    """Solve Eq. 8 and 9 with entropy, by Sinkhorn-Knopp in the logarithmic domain.

    The plan gives row d the shares ``softmax_k((prices_k - costs_dk) / epsilon)``: what a code costs more because many
    rows want it is minus its price.

    Args:
        costs: squared distances, of shape ``(rows, columns)``, finite.
        epsilon: the less, the nearer to equal shares that no row splits.
        iterations: rounds.

    Returns:
        Of shape ``(columns,)``. The likeliest column of a row is the cheapest at these prices: the least of
        ``costs - prices``.
    """
    rows, columns = costs.shape
    scores = (costs * (-1.0 / epsilon)).astype(np.float32)
    share = np.float32(np.log(rows / columns))
    of_columns = np.zeros(columns, np.float32)
    for _ in range(iterations):
        of_rows = -_log_sums(scores + of_columns, axis=1)
        of_columns = share - _log_sums(scores + of_rows[:, None], axis=0)
    found: Floats = np.float32(epsilon) * of_columns
    return found


def prices_in_batches(
    vectors: Floats, centres: Floats, random: np.random.Generator, size: int = BATCH
) -> tuple[Floats, NDArray[np.int64]]:
    """The prices of centres for each batch of rows, drawn by chance as in training.

    Returns:
        Prices of shape ``(batches, centres)``, and the batch of each row.
    """
    batches = -(-len(vectors) // size)
    batch_of = np.empty(len(vectors), np.int64)
    batch_of[random.permutation(len(vectors))] = np.arange(len(vectors)) % max(1, batches)
    found = np.zeros((batches, len(centres)), np.float32)
    for batch in range(batches):
        found[batch] = prices(squared_distances(vectors[batch_of == batch], centres))
    return found, batch_of


def _log_sums(scores: Floats, axis: int) -> Floats:
    """``log Σ exp`` along an axis; ``scores`` is overwritten."""
    largest = scores.max(axis=axis, keepdims=True)
    scores -= largest
    np.exp(scores, out=scores)
    found: Floats = np.log(scores.sum(axis=axis)) + largest.squeeze(axis)
    return found
