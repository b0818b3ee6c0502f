"""What was used together: how often two tools stood in one task, by the rows of an index (ToolWeaver §3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from atc.errors import UsageError
from atc.retrieval.vectors import Floats

MAX_TOGETHER = 50
"""Tools of a task that counts at most: of more, no pair says anything, and pairs grow with their square."""
MOST = 1e15
"""The largest count: sums and products of larger ones would overflow."""


@dataclass(frozen=True)
class CoUsage:
    """The matrix C of ToolWeaver's Eq. 5, sparse.

    Attributes:
        pairs: rows ``u < v`` of tools that were used together, of shape ``(pairs, 2)``, sorted.
        counts: C_uv, of shape ``(pairs,)``.
        totals: C_uu, of shape ``(documents,)``.
    """

    pairs: NDArray[np.int32]
    counts: Floats
    totals: Floats

    @classmethod
    def of(cls, used: Iterable[tuple[Collection[str], float]], rows: Mapping[str, int], documents: int) -> CoUsage:
        """Count tasks.

        Args:
            used: the ids of the tools of a task, and how often it occurred.
            rows: of the ids; others count for nothing, and so does a task of more than :data:`MAX_TOGETHER` tools.
            documents: of the index.

        Raises:
            UsageError: a count is no number above 0.
        """
        together: Counter[tuple[int, int]] = Counter()
        totals = np.zeros(documents)
        for ids, count in used:
            if not (count > 0 and isfinite(count)):
                raise UsageError(f"tools cannot have been used together {count!r} times: a count is a number above 0")
            found = sorted({rows[id] for id in ids if id in rows})
            if len(found) > MAX_TOGETHER:
                continue
            totals[found] += count
            for pair in combinations(found, 2):
                together[pair] += count  # type: ignore[assignment]
        pairs = sorted(together)
        return cls(
            np.array(pairs, np.int32).reshape(-1, 2),
            np.minimum([together[pair] for pair in pairs], MOST).astype(np.float32),
            np.minimum(totals, MOST).astype(np.float32),
        )

    def moved(self, rows: NDArray[np.int64]) -> CoUsage:
        """The same for other rows.

        Args:
            rows: for each document of the new index its old row, or -1.
        """
        new = np.full(len(self.totals), -1, np.int64)
        kept = np.flatnonzero(rows >= 0)
        new[rows[kept]] = kept
        pairs = np.sort(new[self.pairs], axis=1)
        there = np.flatnonzero(pairs[:, 0] >= 0) if len(pairs) else np.zeros(0, np.int64)
        order = there[np.lexsort((pairs[there, 1], pairs[there, 0]))]
        totals = np.zeros(len(rows), np.float32)
        totals[kept] = self.totals[rows[kept]]
        return CoUsage(pairs[order].astype(np.int32), self.counts[order], totals)
