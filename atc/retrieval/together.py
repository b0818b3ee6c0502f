"""Ranking by what is used together: a tool gains by likely tools that tasks used with it (ToolWeaver Eq. 5).

Two things are known of a pair of tools: how often tasks used them together, and how often tasks used their services
together. The first brings in a tool that shares no word with the task. The second is known of far more pairs, and
only strengthens what the task itself speaks for. The figures that the constants were chosen by are in
docs/benchmarks/search.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atc.graph.edges import Learnt
from atc.retrieval.co_usage import CoUsage
from atc.retrieval.scorers import Query, Rows
from atc.retrieval.snapshot import Snapshot
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

    def gains(self, query: Query) -> tuple[Floats, Rows]:
        """What each row gains, as parts of the best score, and the likely row by which it gains most; -1 for none.

        A row gains at most :data:`TOOL`, and :data:`SERVICE` of what the task itself speaks for it.
        """
        by_tool, likely = _most(self.tools, query, None)
        gained = TOOL * by_tool
        by_service, service = _most(self.services, query, self._service)
        if query.found is not None and by_service.any():
            rows = np.flatnonzero((by_service > 0)[self._service])  # few of them all
            through = SERVICE * by_service[self._service[rows]] * query.found[rows]
            surer = rows[through > gained[rows]]
            likely[surer] = service[self._service[surer]]
            gained[rows] += through
        likely[gained <= 0] = -1
        return gained, likely

    def brought(self, query: Query) -> Rows:
        """The rows that were used with a likely one."""
        found = [self.tools.neighbours(row)[0] for row, _ in _likely(query)]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _of_services(self, pairs: NDArray[np.int64], counts: Floats, totals: Floats, most: int) -> Edges:
        """The same sums for services: C of Eq. 5 with the rows and the columns of a service added up."""
        ends = np.sort(self._service[pairs], axis=1)
        within = ends[:, 0] == ends[:, 1]
        used = np.bincount(self._service, totals, most) + 2 * np.bincount(ends[within, 0], counts[within], most)
        keys, places = np.unique(ends[~within, 0] * most + ends[~within, 1], return_inverse=True)
        together = np.bincount(places.reshape(-1), counts[~within], len(keys)).astype(np.float32)
        ends = np.stack([keys // max(most, 1), keys % max(most, 1)], axis=1)
        return Edges.of(ends, together, used.astype(np.float32))


@dataclass
class UsedTogether:
    """The scorer ``co-usage``.

    Attributes:
        tables: what was used together by several sources: the index's own column, the runs. The surer one counts.
    """

    tables: Sequence[Together]
    name: ScorerName = "co-usage"
    second: bool = True
    share: float | None = None
    _last: tuple[Query, Floats, Rows] | None = field(default=None, init=False, repr=False)

    def scores(self, query: Query, rows: Rows | None) -> Floats | None:
        gained, _ = self._gains(query)
        if not gained.any():
            return None
        return gained if rows is None else gained[rows]

    def proposed(self, query: Query, count: int) -> Rows:
        return np.unique(np.concatenate([table.brought(query) for table in self.tables]))

    def likely(self, query: Query) -> Rows:
        """For each row the likely one by which it gains most; -1 for none."""
        return self._gains(query)[1]

    def _gains(self, query: Query) -> tuple[Floats, Rows]:
        last = self._last  # searches of several threads may share it
        if last is None or last[0] is not query:
            gained, likely = self.tables[0].gains(query)
            for table in self.tables[1:]:
                more, by = table.gains(query)
                gained, likely = np.maximum(gained, more), np.where(more > gained, by, likely)
            self._last = last = (query, gained, likely)
        return last[1], last[2]


def _most(edges: Edges, query: Query, of: Rows | None) -> tuple[Floats, Rows]:
    """For each thing the most of A(u, thing) · score(u) over the likely rows u, and that row.

    Args:
        of: the thing that each row is of; itself when ``None``.
    """
    most = np.zeros(len(edges.pointers) - 1, np.float32)
    by = np.full(len(most), -1, np.int64)
    for row, score in _likely(query):
        others, weights = edges.neighbours(row if of is None else int(of[row]))
        more = weights * np.float32(score) > most[others]
        most[others[more]] = weights[more] * np.float32(score)
        by[others[more]] = row
    return most, by


def _likely(query: Query) -> list[tuple[int, float]]:
    rows, scores = query.likely if query.likely is not None else ((), ())
    return [(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]


# -- what runs have taught ---------------------------------------------------------------------------------------------
# What answered runs used together, as a column of an index: ranking starts from it at once, without a file.


@dataclass
class RunsTogether:
    """A :class:`~atc.retrieval.scorers.Column` of what runs have taught, beside what the index's own column says.

    Attributes:
        learnt: by keys that are the ids of the index.
    """

    learnt: Learnt
    name: ScorerName = "co-usage"
    _made: tuple[Snapshot, UsedTogether | None] | None = field(default=None, init=False, repr=False)

    def scorer(self, snapshot: Snapshot) -> UsedTogether | None:
        if self._made is None or self._made[0] is not snapshot:
            used = used_in_runs(self.learnt, snapshot)
            tables = [Together(used, snapshot.services)] if len(used.pairs) else []
            if snapshot.together is not None:
                tables.append(snapshot.together)
            self._made = (snapshot, UsedTogether(tables) if tables else None)
        return self._made[1]


def used_in_runs(learnt: Learnt, snapshot: Snapshot) -> CoUsage:
    """C of Eq. 5 by successful calls: one tool ran right after another, or took a value of it.

    Args:
        learnt: weighed by age. Tools that the index has not count for nothing.
        snapshot: of the index.
    """
    rows = snapshot.rows
    ended = [(ends, count.ok) for ends, count in learnt.follows.items()]
    ended += [((supplier, consumer), count.ok) for (supplier, _, consumer, _), count in learnt.feeds.items()]
    together: dict[tuple[int, int], float] = defaultdict(float)
    for (one, other), ok in ended:
        if one != other and ok > 0 and one in rows and other in rows:
            pair = (min(rows[one], rows[other]), max(rows[one], rows[other]))
            together[pair] = max(together[pair], ok)
    totals = np.zeros(len(snapshot), np.float32)
    for tool, count in learnt.calls.items():
        if tool in rows:
            totals[rows[tool]] = max(0.0, count.ok)
    met = np.zeros(len(snapshot), np.float32)
    for pair, ok in together.items():
        met[list(pair)] += ok / 2  # a call has one before it and one after it: counts that say less are not true
    pairs = sorted(together)
    return CoUsage(
        np.array(pairs, np.int32).reshape(-1, 2),
        np.array([together[pair] for pair in pairs], np.float32),
        np.maximum(totals, met),
    )
