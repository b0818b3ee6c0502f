"""What was used together: how often two tools stood in one task, by the rows of an index (ToolWeaver §3.2)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

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


# -- a file of it ------------------------------------------------------------------------------------------------------
# A file of what was used together: a line of JSON for each set of tools, ``{"tools": [ids], "count": n}``.

MAX_LINE = 1_000_000
"""Bytes of a line."""
MAX_COUNT = 1_000_000.0
"""How often a set may have occurred: more is no count of tasks."""
MAX_PAIRS = 2_000_000
"""Pairs of tools, in all sets that differ."""


@dataclass(frozen=True)
class Used:
    """What a file says.

    Attributes:
        sets: of ids, each with how often it occurred.
        unknown: ids that the index has not.
        too_large: sets of more than :data:`~atc.retrieval.co_usage.MAX_TOGETHER` tools, which say nothing of a pair.
    """

    sets: Mapping[frozenset[str], float]
    unknown: int
    too_large: int


def read_used(path: Path, known: Mapping[str, Any] | frozenset[str]) -> Used:
    """Read a file; ids that are not known count for nothing.

    Args:
        path: of the file.
        known: the ids of the index.

    Raises:
        UsageError: it cannot be read, or says something else than sets of tools: which line, and what is wrong.
    """
    sets: Counter[frozenset[str]] = Counter()
    unknown: set[str] = set()
    too_large = pairs = 0
    try:
        with path.open("rb") as file:
            for number, line in _lines(file, path):
                ids, count = _set_of(line, path, number)
                found = frozenset(id for id in ids if id in known)
                unknown |= ids - found
                if len(found) > MAX_TOGETHER:
                    too_large += 1
                elif found:
                    pairs += 0 if found in sets else len(found) * (len(found) - 1) // 2
                    if pairs > MAX_PAIRS:
                        _refuse(path, number, f"there are more than {MAX_PAIRS:,} pairs of tools by here")
                    sets[found] += count  # type: ignore[assignment]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    return Used(sets, len(unknown), too_large)


def _lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            _refuse(path, number, f"it is longer than {MAX_LINE:,} bytes")
        if line.strip():
            yield number, line


def _set_of(line: bytes, path: Path, number: int) -> tuple[frozenset[str], float]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        _refuse(path, number, "it is no JSON")
    if not isinstance(record, dict) or not {"tools"} <= record.keys() <= {"tools", "count"}:
        _refuse(path, number, 'it must be {"tools": [ids], "count": n}')
    ids, count = record["tools"], record.get("count", 1)
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        _refuse(path, number, "its tools must be a list of ids")
    # Python reads NaN and numbers without end as JSON; an integer may be too long for a float
    if isinstance(count, bool) or not isinstance(count, int | float) or not math.isfinite(_as_float(count)):
        _refuse(path, number, "its count must be a number")
    if not 0 < count <= MAX_COUNT:
        _refuse(path, number, f"its count must be above 0 and at most {MAX_COUNT:,.0f}")
    return frozenset(ids), float(count)


def _as_float(count: float) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    raise UsageError(f"{path}, line {number}: {why}. Correct the line, or take it out")
