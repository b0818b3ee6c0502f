"""An adapter of queries, learnt from queries and their tools, and kept only where it ranks better than without.

Each fifth of the queries in turn is held out, drawn by the hash of their words, and with it a fifth of the tools: the
queries for these show what becomes of tools that nothing was learnt for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.errors import EncoderUnavailable, UsageError
from atc.learn.adapter_fit import Asked, fit
from atc.learn.pairs import PARTS, Pair, TooLittle, part_of, usable
from atc.retrieval.adapter import MAX_DIMENSIONS, MAX_TOOLS, Adapter
from atc.retrieval.encoder import Floats
from atc.retrieval.fusion import SHARES, fused, top
from atc.retrieval.metrics import ndcg
from atc.retrieval.scorers import Query, own_scorers
from atc.retrieval.snapshot import id_digest

if TYPE_CHECKING:
    from atc.retrieval.index import ToolIndex
    from atc.retrieval.snapshot import Snapshot

MIN_TOOLS, MIN_HELD_OUT = 5, 20
"""Different tools to learn from, and queries to compare on: of less nothing is learnt."""
TRIED = (0.5, 1.0)
"""Weights of an adapted query that are compared. Higher ones rank what was learnt better still, and the rest worse."""
BEYOND_NOISE = 2.5
"""Standard errors by which the held-out queries must be ranked better."""
MAX_HARM = 0.005
"""nDCG that queries for tools that nothing was learnt for may lose, as a mean over queries and over tools."""
MAX_COMPARED_WITH = 3_000
"""Pairs that are learnt from for a comparison; what is kept is learnt from all."""
MAX_COMPARED = 1_000
"""Queries that the ranks are compared on, of either kind."""
_MOST_SCORES = 50_000_000  # queries times documents that are compared
_PLACES = 10
_AT_ONCE = 256

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Compared:
    """How well queries are ranked.

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
        """The lesser of both mean differences: no tool that is asked for often hides what the others lose."""
        return min(self.after - self.before, self.each_tool)


@dataclass(frozen=True)
class Learnt:
    """How a training went.

    Attributes:
        pairs, tools: that could be learnt from.
        held_out: queries that were held out, for tools that others were for.
        unseen: queries for tools that were held out.
        share: the weight that ranked best.
        adapter: learnt from all pairs; ``None`` where it is not better.
    """

    pairs: int
    tools: int
    held_out: Compared
    unseen: Compared
    share: float = 0.0
    adapter: Adapter | None = field(default=None, repr=False)

    @property
    def kept(self) -> bool:
        """Whether ranking is better with it."""
        return self.adapter is not None


def learn_adapter(
    index: ToolIndex, pairs: Iterable[Pair], *, seed: int = 0, progress: Progress | None = None
) -> Learnt:
    """Learn an adapter of queries for the tools of an index.

    Args:
        index: of the tools, with vectors and their encoder.
        pairs: queries with the ids of their tools; ids that the index lacks count for nothing.
        seed: of all random choices.
        progress: told of each stage.

    Raises:
        TooLittle: there are too few queries or tools.
        UsageError: the vectors have too many components.
        EncoderUnavailable: the index has no vectors, or its encoder cannot be used.
        ModelError: the encoder failed in the middle of work.
    """
    told = progress or (lambda stage, done, total: None)
    snapshot, encoder = index.snapshot, index.encoder
    if snapshot.vectors is None or encoder is None:
        raise EncoderUnavailable("ranking is learnt on vectors, and the index has none: build it with an encoder")
    if encoder.dimensions > MAX_DIMENSIONS:
        raise UsageError(
            f"the vectors of {encoder.name!r} have {encoder.dimensions:,} components, and ranking is learnt for "
            f"{MAX_DIMENSIONS:,} at most: take another encoder"
        )
    encoder.check()
    kept = usable(pairs, snapshot.rows)
    known = {id for pair in kept for id in pair.gold}
    if len(known) < MIN_TOOLS or len(kept) < MIN_HELD_OUT:
        raise TooLittle(
            f"too little to learn from: {len(kept)} different queries with tools of these (it takes {MIN_HELD_OUT}), "
            f"for {len(known)} different tools ({MIN_TOOLS})"
        )
    if len(known) > MAX_TOOLS:
        raise UsageError(f"ranking is learnt for {MAX_TOOLS:,} tools at most, and the queries are for {len(known):,}")
    asked = []
    for at in range(0, len(kept), _AT_ONCE):
        told("embedding", at, len(kept))
        asked.append(encoder.encode([pair.query for pair in kept[at : at + _AT_ONCE]]))
    told("embedding", len(kept), len(kept))
    gold = [np.array([snapshot.rows[id] for id in pair.gold], np.int64) for pair in kept]
    return _Learning(snapshot, encoder.digest, kept, Asked(np.concatenate(asked), gold), seed, told).done()


class _Learning:
    """One training: parts are held out, weights compared, and all is learnt."""

    def __init__(
        self, snapshot: Snapshot, digest: str, pairs: Sequence[Pair], asked: Asked, seed: int, told: Progress
    ) -> None:
        self._snapshot, self._digest, self._pairs, self._seed, self._told = snapshot, digest, pairs, seed, told
        # only the tools that queries are for are set against each other: their vectors alone are needed
        rows = np.unique(np.concatenate(asked.gold))
        assert snapshot.vectors is not None
        near = snapshot.vectors.take(rows)
        self._tools: Floats = near.values.astype(np.float32) * near.scales[:, None]
        self._asked = Asked(asked.vectors, [np.searchsorted(rows, own) for own in asked.gold])
        self._ids = [snapshot.ids[row] for row in rows]
        self._queries = np.array([pair.part for pair in pairs])
        own_parts = np.array([part_of(id) for id in self._ids])
        self._hidden = np.array([[(own_parts[own] == part).any() for part in range(PARTS)] for own in self._asked.gold])

    def done(self) -> Learnt:
        """All of it."""
        parts = range(PARTS)
        held_out, unseen, rounds = Ranks(), Ranks(), list[int]()
        for number, part in enumerate(parts):
            self._told("comparing", number, len(parts))
            learnt = np.flatnonzero((self._queries != part) & ~self._hidden[:, part])[:MAX_COMPARED_WITH]
            others = np.flatnonzero((self._queries == part) & ~self._hidden[:, part])
            apart = np.flatnonzero(self._hidden[:, part])
            if not len(learnt):
                continue
            fitted = fit(self._asked.only(learnt), self._tools, held_out=self._asked.only(others), seed=self._seed)
            rounds.append(fitted.rounds)
            adapter = self._adapter(fitted.matrix, learnt)
            self._compare(adapter, others, held_out, len(parts))
            self._compare(adapter, apart, unseen, len(parts))
        self._told("comparing", len(parts), len(parts))
        if len(held_out) < MIN_HELD_OUT:
            raise TooLittle(
                f"too little to learn from: {len(held_out)} queries can be held out (it takes {MIN_HELD_OUT}); "
                f"{len(self._pairs)} different queries for {len(self._ids)} tools are there"
            )
        tried = {share: (held_out.compared(share), unseen.compared(share)) for share in TRIED}
        harmless = [share for share, (_, rest) in tried.items() if rest.least >= -MAX_HARM]
        share = max(harmless or TRIED[:1], key=lambda each: tried[each][0].after)
        seen, rest = tried[share]
        better = seen.after - seen.before > BEYOND_NOISE * seen.noise and seen.each_tool >= -MAX_HARM
        found = Learnt(len(self._pairs), len(self._ids), seen, rest, share)
        long = round(float(np.median(rounds))) if rounds else 0
        if not harmless or not better or not long:
            return found
        self._told("training", 0, long)
        fitted = fit(self._asked, self._tools, rounds=long, seed=self._seed)
        self._told("training", long, long)
        whole = self._adapter(fitted.matrix, np.arange(len(self._pairs)), share)
        return Learnt(found.pairs, found.tools, seen, rest, share, whole)

    def _adapter(self, matrix: Floats, learnt: NDArray[np.int64], share: float = SHARES["adapter"]) -> Adapter:
        known = np.unique(np.concatenate([self._asked.gold[place] for place in learnt]))
        digests = np.unique(np.array([id_digest(self._ids[row]) for row in known], np.uint64))
        return Adapter(matrix, self._digest, digests, share, len(learnt))

    def _compare(self, adapter: Adapter, places: NDArray[np.int64], ranks: Ranks, parts: int) -> None:
        """Rank queries as a search of the index does, with each weight."""
        scorer = adapter.scorer(self._snapshot)
        most = max(MIN_HELD_OUT, min(MAX_COMPARED, _MOST_SCORES // max(1, len(self._snapshot))) // parts)
        own = own_scorers(self._snapshot)
        for place in places[:most]:
            pair = self._pairs[place]
            query = Query(pair.query, self._asked.vectors[place])
            given = ((each.name, each.scores(query, None)) for each in own)
            scores = {name: found for name, found in given if found is not None}
            adapted = scorer.scores(query, None) if scorer is not None else None
            before = self._ndcg(fused(scores, len(self._snapshot)), pair)
            after = [before] * len(TRIED)
            if adapted is not None:
                both = {**scores, "adapter": adapted}
                tried = ({**SHARES, "adapter": share} for share in TRIED)
                after = [self._ndcg(fused(both, len(self._snapshot), shares), pair) for shares in tried]
            ranks.add(pair, before, after)

    def _ndcg(self, total: Floats, pair: Pair) -> float:
        return ndcg([self._snapshot.ids[row] for row in top(total, _PLACES)], pair.gold, _PLACES)


class Ranks:
    """What comparing gave: of each query nDCG before, and with each weight after."""

    def __init__(self) -> None:
        self._pairs: list[Pair] = []
        self._before: list[float] = []
        self._after: list[list[float]] = []

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, pair: Pair, before: float, after: list[float]) -> None:
        """One query's."""
        self._pairs.append(pair)
        self._before.append(before)
        self._after.append(after)

    def compared(self, share: float) -> Compared:
        """All queries' with one weight."""
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
