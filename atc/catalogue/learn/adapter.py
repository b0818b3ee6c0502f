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

from atc.catalogue.index.adapter import MAX_DIMENSIONS, MAX_TOOLS, Adapter
from atc.catalogue.index.scorers import SHARES, Query, own_scorers
from atc.catalogue.index.snapshot import id_digest
from atc.catalogue.index.vectors import Floats, Rows, normalised
from atc.catalogue.learn.examples import PARTS, Pair, part_of
from atc.catalogue.learn.keeping import (
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
from atc.errors import EncoderUnavailable, UsageError

if TYPE_CHECKING:
    from atc.catalogue.index.index import ToolIndex
    from atc.catalogue.index.snapshot import Snapshot

# ----------------------------------------------------------------------------------------------------------------------
# The training of an adapter of queries: softmax over tools, Adam, in NumPy.


SHARPNESS = 20.0
"""The factor of cosines before the softmax."""
PULL = 0.01
"""The pull of each component of the matrix to 0: what queries do not ask for stays as it is."""
STEP = 1e-3
MAX_ROUNDS = 20
PATIENCE = 2
"""Rounds without a lesser loss on what is held out after which training stops."""
MAX_BESIDE = 1_024
"""Tools that a query is compared with at once, beside those of its batch; of more so many are drawn."""
_BATCH, _BATCHES = 128, 20
_MOMENTUM, _SQUARES, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Asked:
    """Queries as vectors.

    Attributes:
        vectors: of length one, of shape ``(queries, dimensions)``.
        gold: of each query the rows of its tools, at least one.
    """

    vectors: Floats
    gold: Sequence[Rows]

    def __len__(self) -> int:
        return len(self.gold)

    def only(self, places: Rows) -> Asked:
        """Return some of them."""
        return Asked(self.vectors[places], [self.gold[place] for place in places])


@dataclass(frozen=True)
class Fitted:
    """A matrix, and the rounds after which it was best."""

    matrix: Floats
    rounds: int


def fit(
    asked: Asked, tools: Floats, *, held_out: Asked | None = None, rounds: int = MAX_ROUNDS, seed: int = 0
) -> Fitted:
    """Train a matrix A so that q + qA is near the tools of q, and far from the others that queries were for.

    Only tools that some query is for are set against each other: of the rest nothing is known, so that they are left
    alone. The same seed gives the same matrix.

    Args:
        asked: what is learnt from.
        tools: vectors of all tools, of shape ``(tools, dimensions)``.
        held_out: stops the training where the loss on these no longer falls; their other tools count for nothing.
        rounds: over all queries, at most.
        seed: of all random choices.
    """
    rng = np.random.default_rng(seed)
    size = tools.shape[1]
    matrix: Floats = np.zeros((size, size), np.float32)
    first, second = matrix, matrix
    known = np.unique(np.concatenate(asked.gold))
    check = _Check(held_out, tools, known)
    best = Fitted(matrix.copy(), 0)
    least, step = check.loss(matrix), 0
    batch = max(1, min(_BATCH, len(asked) // _BATCHES))
    for number in range(1, rounds + 1):
        order = rng.permutation(len(asked))
        for at in range(0, len(order), batch):
            part = asked.only(order[at : at + batch])
            slope = _slope(part, matrix, tools, _beside(part, known, rng)) + PULL * matrix
            step += 1
            first = (_MOMENTUM * first + (1 - _MOMENTUM) * slope).astype(np.float32)
            second = (_SQUARES * second + (1 - _SQUARES) * slope * slope).astype(np.float32)
            scale = np.sqrt(second / (1 - _SQUARES**step)) + _TINY
            matrix = (matrix - STEP * (first / (1 - _MOMENTUM**step)) / scale).astype(np.float32)
        loss = check.loss(matrix)
        if loss is None or least is None or loss < least:
            best, least = Fitted(matrix.copy(), number), loss
        elif number - best.rounds >= PATIENCE:
            break
    return best


def _beside(part: Asked, known: Rows, rng: np.random.Generator) -> Rows:
    if len(known) <= MAX_BESIDE:
        return known
    return np.union1d(np.concatenate(part.gold), rng.choice(known, MAX_BESIDE, replace=False))


def _wanted(gold: Sequence[Rows], rows: Rows) -> Floats:
    """Return, for each query, how much of its softmax each tool should have, of shape ``(queries, rows)``."""
    wanted = np.zeros((len(gold), len(rows)), np.float32)
    for place, own in enumerate(gold):
        wanted[place, np.searchsorted(rows, own)] = 1 / len(own)
    return wanted


def _chances(adapted: Floats, tools: Floats) -> Floats:
    scores = SHARPNESS * (adapted @ tools.T)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Floats = raised / raised.sum(axis=1, keepdims=True)
    return chances


def _slope(part: Asked, matrix: Floats, tools: Floats, rows: Rows) -> Floats:
    """Return the gradient of the mean cross-entropy by the matrix, through the scaling to length one."""
    moved = part.vectors + part.vectors @ matrix
    lengths = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6)
    adapted = moved / lengths
    near = tools[rows]
    error = (_chances(adapted, near) - _wanted(part.gold, rows)) * (SHARPNESS / len(part))
    pulled = error @ near
    slope: Floats = part.vectors.T @ ((pulled - adapted * (pulled * adapted).sum(axis=1, keepdims=True)) / lengths)
    return slope


class _Check:
    """The loss on held-out queries whose tools are all known to the training."""

    def __init__(self, held_out: Asked | None, tools: Floats, known: Rows) -> None:
        self._asked: Asked | None = None
        if held_out is not None:
            there = [place for place, own in enumerate(held_out.gold) if np.isin(own, known).all()]
            self._asked = held_out.only(np.array(there, np.int64)) if there else None
        rows: NDArray[np.int64] = known
        if self._asked is not None and len(known) > 4 * MAX_BESIDE:
            rows = np.union1d(known[:: len(known) // (4 * MAX_BESIDE) + 1], np.concatenate(self._asked.gold))
        self._near, self._rows = tools[rows], rows

    def loss(self, matrix: Floats) -> float | None:
        if self._asked is None:
            return None
        vectors = self._asked.vectors
        chances = _chances(normalised(vectors + vectors @ matrix), self._near)
        wanted = _wanted(self._asked.gold, self._rows)
        return float(-(wanted * np.log(np.maximum(chances, 1e-12))).sum() / len(self._asked))


# ----------------------------------------------------------------------------------------------------------------------
# An adapter of queries, learnt from queries and their tools, and kept only where it ranks better than without.


MAX_COMPARED_WITH = 3_000
"""Pairs that are learnt from for a comparison; what is kept is learnt from all."""
_MOST_SCORES = 50_000_000  # queries times documents that are compared


@dataclass(frozen=True)
class Learnt:
    """Describes how a training went.

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
        """Return whether ranking is better with it."""
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
        """Train on all of it, and return what was learnt."""
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
