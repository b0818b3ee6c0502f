"""Ranking by what is used together: a tool gains by likely tools that tasks used with it (ToolWeaver Eq. 5).

Two things are known of a pair of tools: how often tasks used them together, and how often tasks used their services
together. The first brings in a tool that shares no word with the task. The second is known of far more pairs, and
only strengthens what the task itself speaks for. docs/benchmarks.md has the figures that the constants were chosen by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.co_usage import CoUsage
from atc.retrieval.scorers import Query, Rows
from atc.retrieval.vectors import Floats
from atc.scorer_names import ScorerName

TOOL = 0.3
"""λ of a tool: the part of the best score that it gains at most by a likely tool, also if it has none of its own."""
SERVICE = 1.0
"""λ of a service: the part of its own score that a tool gains at most by a service that a likely tool is of."""
DOUBT = 2.0
"""Tasks that are added to those expected: two that met once are no pair yet, though Eq. 5 alone gives them 1."""

LEAST = 0.05
"""The least A that counts: what met by chance among many tasks brings in nothing."""


@dataclass(frozen=True)
class Edges:
    """Whom each of some things was used with, by number.

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
        expected = np.sqrt(totals[pairs[:, 0]].astype(np.float64) * totals[pairs[:, 1]])
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
        """The others, and their A."""
        here = slice(self.pointers[thing], self.pointers[thing + 1])
        return self.others[here], self.weights[here]


class Together:
    """What was used together, by the rows of one index.

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

    def gains(self, query: Query) -> Floats:
        """What each row gains, as parts of the best score: at most :data:`TOOL`, and :data:`SERVICE` of its own."""
        by_tool = np.zeros(len(self._service), np.float32)
        by_service = np.zeros(len(self.services.pointers) - 1, np.float32)
        for row, score in _likely(query):
            others, weights = self.tools.neighbours(row)
            by_tool[others] = np.maximum(by_tool[others], weights * score)
            others, weights = self.services.neighbours(int(self._service[row]))
            by_service[others] = np.maximum(by_service[others], weights * score)
        gained = TOOL * by_tool
        if query.found is not None:
            gained += SERVICE * by_service[self._service] * query.found
        return gained

    def brought(self, query: Query) -> Rows:
        """The rows that were used with a likely one."""
        found = [self.tools.neighbours(row)[0] for row, _ in _likely(query)]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def by(self, row: int, query: Query) -> tuple[float, int]:
        """How much a row gains by the likely row that it gains most by, and that row; -1 where there is none."""
        best = (0.0, -1)
        for likely, score in _likely(query):
            for edges, thing, other, most in (
                (self.tools, likely, row, TOOL),
                (self.services, int(self._service[likely]), int(self._service[row]), self._own(row, query)),
            ):
                others, weights = edges.neighbours(thing)
                gained = float(most * score * weights[others == other].max(initial=0.0))
                best = max(best, (gained, likely), key=lambda each: each[0])
        return best

    def _own(self, row: int, query: Query) -> float:
        return SERVICE * float(query.found[row]) if query.found is not None else 0.0

    def _of_services(self, pairs: NDArray[np.int64], counts: Floats, totals: Floats, most: int) -> Edges:
        """The same sums for services: C of Eq. 5 with the rows and the columns of a service added up."""
        ends = np.sort(self._service[pairs], axis=1)
        within = ends[:, 0] == ends[:, 1]
        used = np.bincount(self._service, totals, most) + 2 * np.bincount(ends[within, 0], counts[within], most)
        keys, places = np.unique(ends[~within, 0] * most + ends[~within, 1], return_inverse=True)
        together = np.bincount(places.reshape(-1), counts[~within], len(keys)).astype(np.float32)
        ends = np.stack([keys // max(most, 1), keys % max(most, 1)], axis=1)
        return Edges.of(ends, together, used.astype(np.float32))


@dataclass(frozen=True)
class UsedTogether:
    """The scorer ``co-usage``.

    Attributes:
        tables: what was used together by several sources: the index's own column, the runs. The surer one counts.
    """

    tables: Sequence[Together]
    name: ScorerName = "co-usage"
    second: bool = True

    def scores(self, query: Query, rows: Rows | None) -> Floats | None:
        gained: Floats = np.max([table.gains(query) for table in self.tables], axis=0)
        if not gained.any():
            return None
        return gained if rows is None else gained[rows]

    def proposed(self, query: Query, count: int) -> Rows:
        return np.unique(np.concatenate([table.brought(query) for table in self.tables]))

    def by(self, row: int, query: Query) -> int | None:
        """The likely row that a row gains most by."""
        best = max((table.by(row, query) for table in self.tables), key=lambda each: each[0])
        return best[1] if best[1] >= 0 else None


def _likely(query: Query) -> list[tuple[int, float]]:
    rows, scores = query.likely if query.likely is not None else ((), ())
    return [(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]
