"""What answered runs used together, as a column of an index: ranking starts from it at once, without a file."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from atc.graph.edges import Learnt
from atc.retrieval.co_usage import CoUsage
from atc.retrieval.snapshot import Snapshot
from atc.retrieval.together import Together, UsedTogether
from atc.scorer_names import ScorerName


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
