"""How good codes are, by pairs of tools that were used together and that the codes were not made from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atc.plugins.learning import Floats
from atc_research.toolweaver.co_usage import CoUsage

LEAST = 20
"""Pairs that must be held out: of fewer nothing can be said."""
WORSE = 0.01
"""How much less first codes may say of the vectors, where they say more of what is used together."""


@dataclass(frozen=True)
class CodeFigures:
    """What first codes say.

    Attributes:
        together: for each pair that was held out whether its tools share the first code.
        chance: how often any two tools share it.
        explained: the part of the variance of the tools' vectors that their first codes explain, at most 1.
    """

    together: NDArray[np.bool_]
    chance: float
    explained: float

    @property
    def shared(self) -> float:
        """The part of the pairs that share the first code."""
        return float(self.together.mean()) if len(self.together) else 0.0

    def summary(self) -> dict[str, float]:
        """The figures, rounded."""
        return {
            "shared": round(self.shared, 4),
            "chance": round(self.chance, 4),
            "explained": round(self.explained, 4),
        }


def measured(values: NDArray[np.int16], vectors: Floats, pairs: NDArray[np.int32]) -> CodeFigures:
    """Measure codes.

    Args:
        values: the codes, of shape ``(tools, levels)``.
        vectors: of the tools, of shape ``(tools, dimensions)``.
        pairs: rows of tools that were used together, of shape ``(pairs, 2)``.
    """
    first = values[:, 0].astype(np.int64)
    counts = np.bincount(first, minlength=1)
    sums = np.zeros((len(counts), vectors.shape[1]), np.float64)
    np.add.at(sums, first, vectors)
    # the variance between the codes, and in all: the sums of squares of means that the tools' number weighs
    mean = vectors.mean(axis=0, dtype=np.float64)
    between = float((sums**2 / np.maximum(counts, 1)[:, None]).sum() - len(vectors) * (mean**2).sum())
    whole = float((vectors.astype(np.float64) ** 2).sum() - len(vectors) * (mean**2).sum())
    return CodeFigures(
        together=first[pairs[:, 0]] == first[pairs[:, 1]],
        chance=float(((counts / len(first)) ** 2).sum()),
        explained=between / whole if whole > 1e-9 else 1.0,
    )


def better(new: CodeFigures, old: CodeFigures) -> bool:
    """Whether codes are better than others, measured on the same pairs.

    More pairs share the first code, by more than twice what chance alone would make (McNemar's test, about 95 %), also
    beyond the share of any two tools; and first codes say no less of the vectors, by :data:`WORSE` at most.
    """
    won, lost = int((new.together & ~old.together).sum()), int((old.together & ~new.together).sum())
    clear = won - lost > 2 * math.sqrt(won + lost)
    lifted = new.shared - new.chance > old.shared - old.chance
    return clear and lifted and new.explained >= old.explained - WORSE


def held_out(co_usage: CoUsage, ids: Sequence[str]) -> tuple[CoUsage, NDArray[np.int32]]:
    """Keep one pair of five out, by a hash of its tools' ids.

    Args:
        co_usage: what was used together.
        ids: of the rows.

    Returns:
        What is left, and the pairs that were kept out.
    """
    out = np.array([_is_out(ids[u], ids[v]) for u, v in co_usage.pairs.tolist()], bool).reshape(-1)
    return replace(co_usage, pairs=co_usage.pairs[~out], counts=co_usage.counts[~out]), co_usage.pairs[out]


def _is_out(one: str, other: str) -> bool:
    name = "\0".join(sorted((one, other)))
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[0] % 5 == 0
