"""Vectors that know what is used together: near where their tools were used in one task (ToolWeaver §3.2, closed form).

ToolWeaver trains its codes against ``λ Σ A_uv ‖z_u - z_v‖²`` (Eq. 6 and 7). The vectors that minimise
``Σ ‖x_u - z_u‖² + λ Σ A_uv ‖x_u - x_v‖²`` (each pair once) solve ``(I + λL) X = Z``, L being the Laplacian of A: no
training is needed. Tools that were never used with others keep their vectors.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from atc import UsageError
from atc.plugins.learning import Floats
from atc_research.toolweaver.co_usage import CoUsage

MOST_PAIRS = 300_000
"""Pairs that count, the surest: a file of a megabyte can name millions, and each step looks at all."""
_AT_ONCE = 65_536  # neighbours: all of them at once would fill the memory
_STEPS, _ACCURACY = 100, 1e-4
"""Of the conjugate gradient: steps at most, and the length of the residual that is enough, of that at the start."""


def smoothed(vectors: Floats, co_usage: CoUsage | None, smoothing: float) -> Floats:
    """Solve ``(I + λL) X = Z``.

    Args:
        vectors: Z, of shape ``(tools, dimensions)``; not changed.
        co_usage: gives A (Eq. 5); pairs whose counts are no positive numbers count for nothing.
        smoothing: λ, 0 or more.

    Returns:
        X, of the same shape: a copy.

    Raises:
        UsageError: λ is negative or no number, or the counts are of another number of tools.
    """
    if not 0 <= smoothing < float("inf"):
        raise UsageError(f"smoothing by {smoothing} is not possible: give a number from 0 on")
    made = np.array(vectors, np.float32)
    if co_usage is None or not smoothing or not len(co_usage.pairs):
        return made
    if len(co_usage.totals) != len(vectors):
        raise UsageError(
            f"what was used together is of {len(co_usage.totals)} tools, and there are {len(vectors)} vectors"
        )
    with np.errstate(all="ignore"):
        similar = similarity(co_usage)
    sound = np.isfinite(similar) & (similar > 0) & (co_usage.pairs >= 0).all(axis=1)
    sound &= (co_usage.pairs < len(vectors)).all(axis=1) & (co_usage.pairs[:, 0] != co_usage.pairs[:, 1])
    kept = np.flatnonzero(sound)
    if len(kept) > MOST_PAIRS:
        kept = np.sort(kept[np.argsort(-similar[kept], kind="stable")[:MOST_PAIRS]])
    touched, places = np.unique(co_usage.pairs[kept], return_inverse=True)
    if len(touched):
        edges = places.reshape(-1, 2)
        weights = smoothing * similar[kept].astype(np.float64)
        made[touched] = _solved(made[touched].astype(np.float64), edges, weights)
    return made


def similarity(used: CoUsage) -> Floats:
    """A_uv of each pair (Eq. 5), from 0 to 1: C_uv / √(C_uu · C_vv)."""
    totals = used.totals.astype(np.float64)  # the product of two large ones is beyond 32 bits
    expected = np.sqrt(totals[used.pairs[:, 0]] * totals[used.pairs[:, 1]])
    similar: Floats = np.minimum(1.0, used.counts / np.maximum(expected, 1e-9)).astype(np.float32)
    return similar


def _solved(wanted: NDArray[np.float64], edges: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve by the conjugate gradient, preconditioned by the diagonal; all dimensions at once."""
    count = len(wanted)
    both = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    heads, tails, pull = both[order, 0], both[order, 1], np.tile(weights, 2)[order, None]
    starts = np.searchsorted(heads, np.arange(count))  # each row has an edge, so that no segment is empty
    diagonal = 1.0 + np.add.reduceat(pull, starts, axis=0)

    begins = np.unique(np.searchsorted(starts, np.arange(0, len(heads), _AT_ONCE)))
    blocks = [*begins[begins < count].tolist(), count]

    def applied(x: NDArray[np.float64]) -> NDArray[np.float64]:
        made = diagonal * x
        for first, end in pairwise(blocks):
            here = slice(starts[first], starts[end] if end < count else len(heads))
            made[first:end] -= np.add.reduceat(pull[here] * x[tails[here]], starts[first:end] - here.start, axis=0)
        return made

    x = wanted / diagonal
    residual = wanted - applied(x)
    direction = scaled = residual / diagonal
    product = np.einsum("nd,nd->d", residual, scaled)
    enough = _ACCURACY * np.linalg.norm(wanted)
    for _ in range(_STEPS):
        if np.linalg.norm(residual) <= enough:
            break
        image = applied(direction)
        step = product / np.maximum(np.einsum("nd,nd->d", direction, image), 1e-300)
        x = x + step * direction
        residual = residual - step * image
        scaled = residual / diagonal
        before, product = product, np.einsum("nd,nd->d", residual, scaled)
        direction = scaled + product / np.maximum(before, 1e-300) * direction
    return x
