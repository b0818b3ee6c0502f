"""Ranking by what is used together: a tool gains by likely tools that tasks used with it (ToolWeaver Eq. 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atc.plugins.learning import Hit, Learnt, Snapshot, ToolIndex, one_ranking, parts_of, service_of, top
from atc_research.toolweaver.co_usage import CoUsage, Together

LIKELY = 10
"""Tools of the best places from which others gain."""


class UsedTogether:
    """Searches an index, and lets tools gain by those that tasks used with them.

    Args:
        index: of the tools.
        used: what was used together, by the rows of the index.
    """

    def __init__(self, index: ToolIndex, used: CoUsage) -> None:
        self._index, self.used = index, used
        services = {service: number for number, service in enumerate(sorted(set(_services(index))))}
        self._table = Together(used, np.array([services[each] for each in _services(index)], np.uint64))

    def search(self, query: str, limit: int) -> list[Hit]:
        """Return the likeliest tools for a query, those that gained in their new places."""
        hits = self._index.search(query, max(1, len(self._index)))
        if not hits:
            return []
        rows = dict(zip(self._index.rows(hit.id for hit in hits), hits, strict=True))
        total, best = np.zeros(len(self._index), np.float32), hits[0].score
        total[[*rows]] = [hit.score for hit in hits]
        likely = [(row, hit.score / best) for row, hit in [*rows.items()][:LIKELY]]
        gained, _ = self._table.gains(likely, (np.maximum(total, 0.0) / best).astype(np.float32))
        total = np.maximum(total, 0.0) + np.float32(best) * gained
        ids = self._index.ids
        return [
            replace(rows.get(int(row), Hit(ids[row], 0.0, 0)), score=float(total[row]), rank=rank)
            for rank, row in enumerate(top(total, limit), 1)
        ]

    def search_task(self, task: str, limit: int) -> list[Hit]:
        """Search as :meth:`search` does, by the parts of a task, too."""
        parts = parts_of(task)
        if len(parts) < 2:
            return self.search(task, limit)
        return one_ranking([self.search(query, limit) for query in (task, *parts)], limit)


def _services(index: ToolIndex) -> Sequence[str]:
    return [id.rpartition("/")[0] or service_of(id, index.protocol(id)) for id in index.ids]


# -- what runs have taught ---------------------------------------------------------------------------------------------


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
