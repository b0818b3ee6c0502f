"""One rule, for adapters and for heads over codes, says from what ranking learns and when what it learnt is kept.

Queries are ranked as a search would rank them, without what was learnt and with each of some weights. It is kept where
held-out queries gain more than chance gives, and where the tools that nothing was learnt for do not lose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.scorers import SHARES, Query, Scorer, fused, top
from atc.catalogue.index.vectors import Encoder, Floats
from atc.catalogue.learn.examples import Pair, TooLittle, usable

if TYPE_CHECKING:
    from atc.catalogue.index.snapshot import Snapshot

MIN_TOOLS, MIN_HELD_OUT = 5, 20
"""Different tools to learn from, and queries to compare on: of less nothing is learnt."""
TRIED = (0.5, 1.0)
"""Weights of an adapted query that are compared. Higher ones rank what was learnt better still, and the rest worse."""
BEYOND_NOISE = 2.5
"""Standard errors by which the held-out queries must be ranked better."""
MAX_HARM = 0.005
"""nDCG that queries for tools that nothing was learnt for may lose, as a mean over queries and over tools."""
MAX_COMPARED = 1_000
"""Queries that the ranks are compared on, of either kind."""
_PLACES = 10
_AT_ONCE = 256

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Compared:
    """Describes how well queries are ranked.

    Attributes:
        queries: that were compared.
        before, after: mean nDCG of the first ten without the adapter and with it, from 0 to 1.
        noise: the standard error of the mean difference.
        each_tool: the mean difference where each tool counts the same, however many queries it has, but the one that
            gains the most: that one alone is no reason.
    """

    queries: int = 0
    before: float = 0.0
    after: float = 0.0
    noise: float = 0.0
    each_tool: float = 0.0

    @property
    def least(self) -> float:
        """Return the lesser of both mean differences: no tool that is asked for often hides what the others lose."""
        return min(self.after - self.before, self.each_tool)


@dataclass(frozen=True)
class Judged:
    """Describes what comparing comes to.

    Attributes:
        share: the weight that ranks best of those that harm nothing; the least where all do.
        held_out, unseen: how well queries are ranked with it.
        better: whether what was learnt is kept.
    """

    share: float
    held_out: Compared
    unseen: Compared
    better: bool


class Ranks:
    """Holds what comparing gave: of each query nDCG before, and with each weight after."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._before: list[float] = []
        self._after: list[list[float]] = []

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, pair: Pair, before: float, after: list[float]) -> None:
        """Add one query's."""
        self._pairs.append(pair)
        self._before.append(before)
        self._after.append(after)

    def compare(
        self, snapshot: Snapshot, pair: Pair, query: Query, own: Sequence[Scorer], learnt: Scorer | None
    ) -> None:
        """Rank a query as a search does, without what was learnt and with each weight.

        Args:
            own: the scorers without it. ``learnt``: that of what was learnt; ``None`` where it does not count.
        """

        def rank(total: Floats) -> float:
            return ndcg([snapshot.ids[row] for row in top(total, _PLACES)], pair.gold, _PLACES)

        given = ((each.name, each.scores(query)) for each in own)
        scores = {name: found for name, found in given if found is not None}
        before = rank(fused(scores, len(snapshot)))
        after = [before] * len(TRIED)
        if learnt is not None and (found := learnt.scores(query)) is not None:
            both = {**scores, learnt.name: found}
            tried = ({**SHARES, learnt.name: share} for share in TRIED)
            after = [rank(fused(both, len(snapshot), shares)) for shares in tried]
        self.add(pair, before, after)

    def compared(self, share: float) -> Compared:
        """Return those of all queries, with one weight."""
        if not self._pairs:
            return Compared()
        before = np.array(self._before)
        after = np.array(self._after)[:, TRIED.index(share)]
        gain = after - before
        of_tools: dict[str, list[float]] = {}
        for pair, each in zip(self._pairs, gain.tolist(), strict=True):
            for id in pair.gold:
                of_tools.setdefault(id, []).append(each)
        means = sorted(sum(own) / len(own) for own in of_tools.values())
        each_tool = sum(means[:-1]) / max(1, len(means) - 1)
        noise = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else 1.0
        return Compared(len(gain), float(before.mean()), float(after.mean()), noise, each_tool)


def judge(held_out: Ranks, unseen: Ranks) -> Judged:
    """Choose a weight, and say whether what was learnt is kept.

    Args:
        held_out: queries for tools that other queries were for. ``unseen``: for tools that nothing was learnt for.
    """
    tried = {share: (held_out.compared(share), unseen.compared(share)) for share in TRIED}
    harmless = [share for share, (_, rest) in tried.items() if rest.least >= -MAX_HARM]
    share = max(harmless or TRIED[:1], key=lambda each: tried[each][0].after)
    seen, rest = tried[share]
    better = seen.after - seen.before > BEYOND_NOISE * seen.noise and seen.each_tool >= -MAX_HARM
    return Judged(share, seen, rest, bool(harmless) and better)


def learnable(pairs: Iterable[Pair], ids: Collection[str]) -> tuple[list[Pair], set[str]]:
    """Return the pairs that something can be learnt from, and the tools that they are for.

    Args:
        ids: the tools that there are; others count for nothing.

    Raises:
        TooLittle: there are too few queries or tools.
    """
    kept = usable(pairs, ids)
    known = {id for pair in kept for id in pair.gold}
    if len(known) < MIN_TOOLS or len(kept) < MIN_HELD_OUT:
        raise TooLittle(
            f"too little to learn from: {len(kept)} different queries with tools of these (it takes {MIN_HELD_OUT}), "
            f"for {len(known)} different tools ({MIN_TOOLS})"
        )
    return kept, known


def too_few_held_out(held_out: int, queries: int, tools: int) -> TooLittle:
    """Return the error where too few queries are left to compare on."""
    return TooLittle(
        f"too little to learn from: {held_out} queries can be held out (it takes {MIN_HELD_OUT}); "
        f"{queries} different queries for {tools} tools are there"
    )


def embedded(pairs: Sequence[Pair], encoder: Encoder, told: Progress) -> Floats:
    """Return the vectors of queries, of shape ``(pairs, dimensions)``.

    Raises:
        ModelError: the encoder failed in the middle of work.
    """
    batches = []
    for at in range(0, len(pairs), _AT_ONCE):
        told("embedding", at, len(pairs))
        batches.append(encoder.encode([pair.query for pair in pairs[at : at + _AT_ONCE]]))
    told("embedding", len(pairs), len(pairs))
    return np.concatenate(batches)
