"""The training of an adapter of queries: softmax over tools, Adam, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.scorers import Rows
from atc.retrieval.vectors import Floats, normalised

SHARPNESS = 20.0
"""What cosines are multiplied with before the softmax."""
PULL = 0.01
"""Of each component of the matrix to 0: what queries do not ask for stays as it is."""
STEP = 1e-3
MAX_ROUNDS = 20
PATIENCE = 2
"""Rounds without a lesser loss on what is held out after which training stops."""
MAX_BESIDE = 1_024
"""Tools that a query is compared with at once, beside those of its batch; of more so many are drawn."""
_BATCH, _BATCHES = 128, 20
_MOMENTUM, _SQUARES, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Asked:
    """Queries as vectors.

    Attributes:
        vectors: of length one, of shape ``(queries, dimensions)``.
        gold: of each query the rows of its tools, at least one.
    """

    vectors: Floats
    gold: Sequence[Rows]

    def __len__(self) -> int:
        return len(self.gold)

    def only(self, places: Rows) -> Asked:
        """Some of them."""
        return Asked(self.vectors[places], [self.gold[place] for place in places])


@dataclass(frozen=True)
class Fitted:
    """A matrix, and the rounds after which it was best."""

    matrix: Floats
    rounds: int


def fit(
    asked: Asked, tools: Floats, *, held_out: Asked | None = None, rounds: int = MAX_ROUNDS, seed: int = 0
) -> Fitted:
    """Train a matrix A so that q + qA is near the tools of q, and far from the others that queries were for.

    Only tools that some query is for are set against each other: of the rest nothing is known, so that they are left
    alone. The same seed gives the same matrix.

    Args:
        asked: what is learnt from.
        tools: vectors of all tools, of shape ``(tools, dimensions)``.
        held_out: stops the training where the loss on these no longer falls; their other tools count for nothing.
        rounds: over all queries, at most.
        seed: of all random choices.
    """
    rng = np.random.default_rng(seed)
    size = tools.shape[1]
    matrix: Floats = np.zeros((size, size), np.float32)
    first, second = matrix, matrix
    known = np.unique(np.concatenate(asked.gold))
    check = _Check(held_out, tools, known)
    best = Fitted(matrix.copy(), 0)
    least, step = check.loss(matrix), 0
    batch = max(1, min(_BATCH, len(asked) // _BATCHES))
    for number in range(1, rounds + 1):
        order = rng.permutation(len(asked))
        for at in range(0, len(order), batch):
            part = asked.only(order[at : at + batch])
            slope = _slope(part, matrix, tools, _beside(part, known, rng)) + PULL * matrix
            step += 1
            first = (_MOMENTUM * first + (1 - _MOMENTUM) * slope).astype(np.float32)
            second = (_SQUARES * second + (1 - _SQUARES) * slope * slope).astype(np.float32)
            scale = np.sqrt(second / (1 - _SQUARES**step)) + _TINY
            matrix = (matrix - STEP * (first / (1 - _MOMENTUM**step)) / scale).astype(np.float32)
        loss = check.loss(matrix)
        if loss is None or least is None or loss < least:
            best, least = Fitted(matrix.copy(), number), loss
        elif number - best.rounds >= PATIENCE:
            break
    return best


def _beside(part: Asked, known: Rows, rng: np.random.Generator) -> Rows:
    if len(known) <= MAX_BESIDE:
        return known
    return np.union1d(np.concatenate(part.gold), rng.choice(known, MAX_BESIDE, replace=False))


def _wanted(gold: Sequence[Rows], rows: Rows) -> Floats:
    """Of each query, how much of its softmax each tool should have, of shape ``(queries, rows)``."""
    wanted = np.zeros((len(gold), len(rows)), np.float32)
    for place, own in enumerate(gold):
        wanted[place, np.searchsorted(rows, own)] = 1 / len(own)
    return wanted


def _chances(adapted: Floats, tools: Floats) -> Floats:
    scores = SHARPNESS * (adapted @ tools.T)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Floats = raised / raised.sum(axis=1, keepdims=True)
    return chances


def _slope(part: Asked, matrix: Floats, tools: Floats, rows: Rows) -> Floats:
    """The gradient of the mean cross-entropy by the matrix, through the scaling to length one."""
    moved = part.vectors + part.vectors @ matrix
    lengths = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6)
    adapted = moved / lengths
    near = tools[rows]
    error = (_chances(adapted, near) - _wanted(part.gold, rows)) * (SHARPNESS / len(part))
    pulled = error @ near
    slope: Floats = part.vectors.T @ ((pulled - adapted * (pulled * adapted).sum(axis=1, keepdims=True)) / lengths)
    return slope


class _Check:
    """The loss on held-out queries whose tools are all known to the training."""

    def __init__(self, held_out: Asked | None, tools: Floats, known: Rows) -> None:
        self._asked: Asked | None = None
        if held_out is not None:
            there = [place for place, own in enumerate(held_out.gold) if np.isin(own, known).all()]
            self._asked = held_out.only(np.array(there, np.int64)) if there else None
        rows: NDArray[np.int64] = known
        if self._asked is not None and len(known) > 4 * MAX_BESIDE:
            rows = np.union1d(known[:: len(known) // (4 * MAX_BESIDE) + 1], np.concatenate(self._asked.gold))
        self._near, self._rows = tools[rows], rows

    def loss(self, matrix: Floats) -> float | None:
        if self._asked is None:
            return None
        vectors = self._asked.vectors
        chances = _chances(normalised(vectors + vectors @ matrix), self._near)
        wanted = _wanted(self._asked.gold, self._rows)
        return float(-(wanted * np.log(np.maximum(chances, 1e-12))).sum() / len(self._asked))
