"""Counts what was used together: how often two tools stood in one task, by the rows of an index (ToolWeaver §3.2)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from atc import UsageError
from atc.plugins.learning import Floats, Rows

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
        """Return the same for other rows.

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


# -- what a tool gains by it -------------------------------------------------------------------------------------------

# Two things are known of a pair of tools: how often tasks used them together, and how often tasks used their services
# together. The first brings in a tool that shares no word with the task. The second is known of far more pairs, and
# only strengthens what the task itself speaks for. ``python -m atc_research_benchmarks.used_together`` chose the
# constants.

TOOL = 0.3
"""λ of a tool: the part of the best score that it gains at most by a likely tool, also if it has none of its own."""
SERVICE = 1.0
"""λ of a service: the part of its own score that a tool gains at most by a service that a likely tool is of."""
DOUBT = 2.0
"""Tasks that are added to those expected: two that met once are no pair yet, though Eq. 5 alone gives them 1."""

LEAST = 0.05
"""The least A that counts: what met by chance among many tasks brings in nothing."""

Likely = Sequence[tuple[int, float]]
"""The rows that other scorers put first, the best first, each with its score as a part of the best."""


@dataclass(frozen=True)
class Edges:
    """Describes whom each of some things was used with, by number.

    Attributes:
        pointers: where the neighbours of each begin, of shape ``(things + 1,)``.
        others: the neighbours, of shape ``(2 · pairs,)``. ``weights``: A of each (Eq. 5), from 0 to 1.
    """

    pointers: NDArray[np.int64]
    others: NDArray[np.int64]
    weights: Floats

    @classmethod
    def of(cls, pairs: NDArray[np.int64], counts: Floats, totals: Floats) -> Edges:
        """Eq. 5 with doubt: C_uv / (√(C_uu · C_vv) + :data:`DOUBT`).

        Args:
            pairs: of different things, each once, of shape ``(pairs, 2)``.
            counts: C_uv. ``totals``: C_uu of each thing.
        """
        totals = np.maximum(np.nan_to_num(totals.astype(np.float64)), 0.0)
        expected = np.sqrt(totals[pairs[:, 0]] * totals[pairs[:, 1]])
        with np.errstate(invalid="ignore"):  # counts that are no numbers end below the least
            weights = np.minimum(1.0, counts / (np.maximum(expected, counts) + DOUBT)).astype(np.float32)
        kept = weights >= LEAST
        pairs, weights = pairs[kept], weights[kept]
        sources = np.concatenate([pairs[:, 0], pairs[:, 1]])
        order = np.argsort(sources, kind="stable")
        return cls(
            np.searchsorted(sources[order], np.arange(len(totals) + 1)),
            np.concatenate([pairs[:, 1], pairs[:, 0]])[order],
            np.concatenate([weights, weights])[order],
        )

    def neighbours(self, thing: int) -> tuple[NDArray[np.int64], Floats]:
        """Return the others, and their A."""
        here = slice(self.pointers[thing], self.pointers[thing + 1])
        return self.others[here], self.weights[here]


class Together:
    """Describes what was used together, by the rows of one index.

    Args:
        used: C of Eq. 5.
        services: the number of the service of each row.
    """

    def __init__(self, used: CoUsage, services: NDArray[np.uint64]) -> None:
        pairs = np.asarray(used.pairs, np.int64).reshape(-1, 2)
        counts, totals = np.asarray(used.counts), np.asarray(used.totals)
        self.tools = Edges.of(pairs, counts, totals)
        _, service = np.unique(services, return_inverse=True)
        self._service = service.reshape(-1).astype(np.int64)
        self.services = self._of_services(pairs, counts, totals, int(self._service.max(initial=-1)) + 1)

    def gains(self, likely: Likely, found: Floats | None) -> tuple[Floats, Rows]:
        """Return what each row gains, as parts of the best score, and by which likely row it gains most (-1: none).

        A row gains at most :data:`TOOL`, and :data:`SERVICE` of what the task itself speaks for it.

        Args:
            likely: the rows that the task speaks for most.
            found: for every row what the task speaks for it, as a part of the best; ``None`` where that is not known.
        """
        by_tool, through = _most(self.tools, likely, None)
        gained = TOOL * by_tool
        by_service, service = _most(self.services, likely, self._service)
        if found is not None and by_service.any():
            rows = np.flatnonzero((by_service > 0)[self._service])  # few of them all
            more = SERVICE * by_service[self._service[rows]] * found[rows]
            surer = rows[more > gained[rows]]
            through[surer] = service[self._service[surer]]
            gained[rows] += more
        through[gained <= 0] = -1
        return gained, through

    def _of_services(self, pairs: NDArray[np.int64], counts: Floats, totals: Floats, most: int) -> Edges:
        """Return the same sums for services: C of Eq. 5 with the rows and the columns of a service added up."""
        ends = np.sort(self._service[pairs], axis=1)
        within = ends[:, 0] == ends[:, 1]
        used = np.bincount(self._service, totals, most) + 2 * np.bincount(ends[within, 0], counts[within], most)
        keys, places = np.unique(ends[~within, 0] * most + ends[~within, 1], return_inverse=True)
        together = np.bincount(places.reshape(-1), counts[~within], len(keys)).astype(np.float32)
        ends = np.stack([keys // max(most, 1), keys % max(most, 1)], axis=1)
        return Edges.of(ends, together, used.astype(np.float32))


def _most(edges: Edges, likely: Likely, of: Rows | None) -> tuple[Floats, Rows]:
    """Return, for each thing, the most of A(u, thing) · score(u) over the likely rows u, and that row.

    Args:
        of: the thing that each row is of; itself when ``None``.
    """
    most = np.zeros(len(edges.pointers) - 1, np.float32)
    by = np.full(len(most), -1, np.int64)
    for row, score in likely:
        others, weights = edges.neighbours(row if of is None else int(of[row]))
        more = weights * np.float32(score) > most[others]
        most[others[more]] = weights[more] * np.float32(score)
        by[others[more]] = row
    return most, by


# -- a file of it ------------------------------------------------------------------------------------------------------
# A file of what was used together: a line of JSON for each set of tools, ``{"tools": [ids], "count": n}``.

MAX_LINE = 1_000_000
"""Bytes of a line."""
MAX_COUNT = 1_000_000.0
"""Times that a set may have occurred: more is no count of tasks."""
MAX_PAIRS = 2_000_000
"""Pairs of tools, in all sets that differ."""


@dataclass(frozen=True)
class Used:
    """Holds what a file says.

    Attributes:
        sets: of ids, each with how often it occurred.
        unknown: ids that the index has not.
        too_large: sets of more than :data:`MAX_TOGETHER` tools, which say nothing of a
        pair.
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
