"""The trie of codes: which codes go on after a prefix, and which documents lie below it (ToolWeaver §3.4).

It is no tree in memory: the rows are sorted by their codes once, so that all documents below a prefix lie side by side,
and a prefix is found by one binary search a level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Prefix = Sequence[int]
"""The first codes of a tool; none at the root."""

_LEAST, _MOST = np.iinfo(np.int16).min, np.iinfo(np.int16).max


class Trie:
    """The prefixes of the codes of an index; it is never changed.

    Sorting takes O(n log n) once. A prefix is found in O(levels · log n), its children in as many steps more as it has
    children, and its rows in as many as lie below it.

    Args:
        values: a row of codes for each document, of shape ``(documents, levels)``. Two rows may be equal.

    Raises:
        ValueError: they have another shape.
    """

    def __init__(self, values: NDArray[np.int16]) -> None:
        if values.ndim != 2:
            raise ValueError(f"codes have a row a document and a column a level, not the shape {values.shape}")
        self._order: NDArray[np.int64] = np.lexsort(values.T[::-1]) if values.shape[1] else np.arange(len(values))
        self._columns = np.ascontiguousarray(values[self._order].T, np.int16)  # (levels, documents)
        self._starts = _starts(self._columns)

    def __len__(self) -> int:
        """Documents."""
        return len(self._order)

    @property
    def levels(self) -> int:
        """Codes of one tool."""
        return len(self._columns)

    def __contains__(self, prefix: Prefix) -> bool:
        """Whether a document lies below a prefix."""
        first, end = self._span(prefix)
        return first < end

    def children(self, prefix: Prefix = ()) -> NDArray[np.int16]:
        """The codes that go on after a prefix, sorted; none after whole codes or an unknown prefix."""
        return self.branches(prefix)[0]

    def branches(self, prefix: Prefix = ()) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """The codes that go on after a prefix, sorted, and how many documents lie below each."""
        first, end = self._span(prefix)
        level = len(prefix)
        if level >= self.levels or first == end:
            return np.zeros(0, np.int16), np.zeros(0, np.int64)
        starts = self._starts[level]
        low, high = np.searchsorted(starts, (first, end))
        found = starts[low:high]
        return self._columns[level][found], np.diff(found, append=end)

    def rows(self, prefix: Prefix = ()) -> NDArray[np.int64]:
        """The rows of the documents below a prefix, sorted; all at the root, none below an unknown prefix."""
        first, end = self._span(prefix)
        return np.sort(self._order[first:end])

    def count(self, prefix: Prefix = ()) -> int:
        """How many documents lie below a prefix."""
        first, end = self._span(prefix)
        return end - first

    def _span(self, prefix: Prefix) -> tuple[int, int]:
        first, end = 0, len(self)
        if len(prefix) > self.levels:
            return 0, 0
        for column, code in zip(self._columns, prefix, strict=False):
            if not _LEAST <= code <= _MOST:
                return 0, 0
            part, sought = column[first:end], np.int16(code)  # a number of another type would copy the whole column
            first, end = (
                first + int(np.searchsorted(part, sought, "left")),
                first + int(np.searchsorted(part, sought, "right")),
            )
        return first, end


def _starts(columns: NDArray[np.int16]) -> list[NDArray[np.int64]]:
    levels, count = columns.shape
    found: list[NDArray[np.int64]] = []
    new = np.zeros(count, np.bool_)
    new[:1] = True
    for level in range(levels):
        new[1:] |= columns[level, 1:] != columns[level, :-1]
        found.append(np.flatnonzero(new))
    return found
