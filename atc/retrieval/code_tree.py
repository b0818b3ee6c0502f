"""The codes that exist, as a tree in arrays: what follows many beginnings is found at once, for a beam over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class CodeTree:
    """Which codes exist, a level of nodes for each length of a beginning, in the order of their codes.

    Attributes:
        order: the rows of an index in the order of their codes.
        codes: for each level the last code of each node.
        starts: for each level the first child of each node of the level above, and the end.
        leaves: the first place in ``order`` of each node of the last level, and the end.
    """

    order: Rows
    codes: tuple[Rows, ...]
    starts: tuple[Rows, ...]
    leaves: Rows

    @classmethod
    def of(cls, values: NDArray[np.int16]) -> CodeTree:
        """The tree of some codes, of shape ``(documents, levels)``."""
        order = np.lexsort(np.asarray(values).T[::-1]).astype(np.int64)
        sorted_values = np.asarray(values)[order].astype(np.int64)
        count, levels = sorted_values.shape
        differs = np.ones((count, levels), bool)
        differs[1:] = np.logical_or.accumulate(sorted_values[1:] != sorted_values[:-1], axis=1)
        firsts = [np.zeros(min(count, 1), np.int64)]
        codes, starts = [], []
        for level in range(levels):
            firsts.append(np.flatnonzero(differs[:, level]))
            codes.append(sorted_values[firsts[-1], level])
            starts.append(np.searchsorted(firsts[-1], np.append(firsts[-2], count)))
        return cls(order, tuple(codes), tuple(starts), np.append(firsts[-1], count))

    def children(self, level: int, nodes: Rows) -> tuple[Rows, Rows]:
        """The nodes of a level below some nodes of the level above, and for each the place of its parent in these."""
        begins, counts = self.starts[level][nodes], np.diff(self.starts[level])[nodes]
        return _ranges(begins, counts), np.repeat(np.arange(len(nodes)), counts)

    def rows(self, leaves: Rows) -> tuple[Rows, Rows]:
        """The rows of some nodes of the last level, and for each the place of its node in these."""
        counts = self.leaves[leaves + 1] - self.leaves[leaves]
        return self.order[_ranges(self.leaves[leaves], counts)], np.repeat(np.arange(len(leaves)), counts)

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each row at each level, of shape ``(levels, documents)``."""
        found = np.zeros((len(self.codes), len(self.order)), np.int64)
        sizes = np.diff(self.leaves)
        for level in range(len(self.codes) - 1, -1, -1):
            found[level, self.order] = np.repeat(np.arange(len(sizes)), sizes)
            sizes = np.add.reduceat(sizes, self.starts[level][:-1]) if len(sizes) else sizes
        return found


def _ranges(begins: Rows, counts: Rows) -> Rows:
    """``begin, begin + 1, …`` for each, one after the other."""
    ends = np.cumsum(counts)
    found: Rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - ends + counts, counts)
    return found
