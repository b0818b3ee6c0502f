"""An adapter of queries, learnt from queries and their tools, and kept only where it ranks better than without.

It is ToolQP's ContrastiveFT (App. B, Tab. 5) in small: one matrix is trained, and the encoder stays as it is.

Each fifth of the queries in turn is held out, drawn by the hash of their words, and with it a fifth of the tools: the
queries for these show what becomes of tools that nothing was learnt for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atc.errors import EncoderUnavailable, UsageError
from atc.learn.adapter_fit import Asked, fit
from atc.learn.keeping import (
    MAX_COMPARED,
    MIN_HELD_OUT,
    Compared,
    Progress,
    Ranks,
    embedded,
    judge,
    learnable,
    too_few_held_out,
)
from atc.learn.pairs import PARTS, Pair, part_of
from atc.retrieval.adapter import MAX_DIMENSIONS, MAX_TOOLS, Adapter
from atc.retrieval.scorers import SHARES, Query, own_scorers
from atc.retrieval.snapshot import id_digest
from atc.retrieval.vectors import Floats

if TYPE_CHECKING:
    from atc.retrieval.index import ToolIndex
    from atc.retrieval.snapshot import Snapshot

MAX_COMPARED_WITH = 3_000
"""Pairs that are learnt from for a comparison; what is kept is learnt from all."""
_MOST_SCORES = 50_000_000  # queries times documents that are compared


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
    kept, known = learnable(pairs, snapshot.rows)
    if len(known) > MAX_TOOLS:
        raise UsageError(f"ranking is learnt for {MAX_TOOLS:,} tools at most, and the queries are for {len(known):,}")
    asked = embedded(kept, encoder, told)
    gold = [np.array([snapshot.rows[id] for id in pair.gold], np.int64) for pair in kept]
    return _Learning(snapshot, encoder.digest, kept, Asked(asked, gold), seed, told).done()


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
            raise too_few_held_out(len(held_out), len(self._pairs), len(self._ids))
        judged = judge(held_out, unseen)
        found = Learnt(len(self._pairs), len(self._ids), judged.held_out, judged.unseen, judged.share)
        long = round(float(np.median(rounds))) if rounds else 0
        if not judged.better or not long:
            return found
        self._told("training", 0, long)
        fitted = fit(self._asked, self._tools, rounds=long, seed=self._seed)
        self._told("training", long, long)
        whole = self._adapter(fitted.matrix, np.arange(len(self._pairs)), judged.share)
        return replace(found, adapter=whole)

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
            ranks.compare(self._snapshot, pair, query, own, scorer)
