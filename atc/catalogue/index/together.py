"""Ranking by what is used together: a tool gains by likely tools that tasks used with it (ToolWeaver Eq. 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from atc._records.choices import ScorerName
from atc.catalogue.graph.edges import Learnt
from atc.catalogue.index.co_usage import CoUsage, Likely, Together
from atc.catalogue.index.scorers import Query
from atc.catalogue.index.snapshot import Snapshot
from atc.catalogue.index.vectors import Floats, Rows


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

    def scores(self, query: Query) -> Floats | None:
        gained, _ = self._gains(query)
        return gained if gained.any() else None

    def likely(self, query: Query) -> Rows:
        """Return, for each row, the likely one by which it gains most; -1 for none."""
        return self._gains(query)[1]

    def _gains(self, query: Query) -> tuple[Floats, Rows]:
        last = self._last  # searches of several threads may share it
        if last is None or last[0] is not query:
            likely = _likely(query)
            gained, through = self.tables[0].gains(likely, query.found)
            for table in self.tables[1:]:
                more, by = table.gains(likely, query.found)
                gained, through = np.maximum(gained, more), np.where(more > gained, by, through)
            self._last = last = (query, gained, through)
        return last[1], last[2]


def _likely(query: Query) -> Likely:
    rows, scores = query.likely if query.likely is not None else ((), ())
    return [(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]


def own_scorer(snapshot: Snapshot) -> UsedTogether | None:
    """Return the scorer of a snapshot's own column; ``None`` where nothing was given as used together."""
    return UsedTogether([snapshot.together]) if snapshot.together is not None else None


# -- what runs have taught ---------------------------------------------------------------------------------------------
# What answered runs used together, as a column of an index: ranking starts from it at once, without a file.


@dataclass
class RunsTogether:
    """A :class:`~atc.catalogue.index.scorers.Column` of what runs have taught, beside what the index's own column says.

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
