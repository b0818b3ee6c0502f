"""Scorers give documents of an index scores for a query: words, vectors, and what was learnt, behind one signature.

:mod:`atc.catalogue.index.search` asks them all and :mod:`atc.catalogue.index.scorers` makes one order of what they
give. A scorer that knows nothing of a query gives ``None`` and has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from atc._records.choices import ScorerName
from atc.catalogue.index.vectors import Floats, Rows
from atc.errors import UsageError
from atc.parts import SCORERS

if TYPE_CHECKING:
    from atc.catalogue.index.snapshot import Snapshot


# -- one order out of several ------------------------------------------------------------------------------------------
# One order out of the scores of several scorers.

DENSE_SHARE = 0.45
"""The weight of a vector's score beside a word's; by ``python -m benchmarks.retrieval`` (docs/benchmarks/search.md)."""
ADAPTER_SHARE = 1.0
"""The weight of an adapted query where nothing else was found; chosen by ``python -m benchmarks.retrieval.adapter``."""
SHARES: Mapping[str, float] = {
    "words": 1 - DENSE_SHARE,
    "vectors": DENSE_SHARE,
    "adapter": ADAPTER_SHARE,
}
"""The weight of each scorer, by name."""
ADDED: frozenset[str] = frozenset({"co-usage"})
"""Scorers that give parts of the best score of the others, to be added to them as they are."""


def fused(parts: Mapping[Any, Floats], count: int, shares: Mapping[Any, float] = SHARES) -> Floats:
    """Scores of several kinds as one: each as a part of the best of its kind, weighed and added.

    Ranks would lose how far ahead a tool is that has the very words of the query. This needs no scores of the worst
    documents, so that it also works on a part of them.

    Args:
        parts: by the name of a scorer, a score for each document; those below 0 count as 0. One alone is taken as it
            is, so that its own order stands; those of :data:`ADDED` come on top.
        count: documents.
        shares: the weight of each scorer, by name.
    """
    total = _weighed({name: scores for name, scores in parts.items() if name not in ADDED}, count, shares)
    best = total.max(initial=0.0)
    for name, scores in parts.items():
        if name in ADDED and best > 0:
            total = np.maximum(total, 0.0) + best * scores
    return total


def _weighed(parts: Mapping[Any, Floats], count: int, shares: Mapping[Any, float]) -> Floats:
    if len(parts) == 1:
        return next(iter(parts.values()))
    total = np.zeros(count, np.float32)
    weight = 0.0
    for name, scores in parts.items():
        best = scores.max(initial=0.0)
        if best > 0:
            total += np.float32(shares[name]) * np.maximum(scores, 0.0) / best
            weight += shares[name]
    # what was learnt comes on top of words and vectors: what is the best by all of them still has 1
    return total if weight <= 1.0 else total / np.float32(weight)


def top(scores: Floats, limit: int, least: float | None = 0.0) -> NDArray[np.int64]:
    """Return the rows of the best scores, best first; equal ones in the order of their rows.

    Args:
        scores: a score a row.
        limit: how many at most.
        least: only rows with a higher score; all when ``None``.
    """
    rows = np.arange(len(scores)) if least is None else np.flatnonzero(scores > least)
    if len(rows) > limit:
        found = scores[rows]
        rows = rows[found >= np.partition(found, len(rows) - limit)[len(rows) - limit]]  # all that equal the last
    order = np.lexsort((rows, -scores[rows]))
    best: NDArray[np.int64] = rows[order][:limit].astype(np.int64)
    return best


@dataclass(frozen=True)
class Query:
    """Holds what is asked of an index.

    Attributes:
        text: its words.
        vector: of length one, of shape ``(dimensions,)``; ``None`` where vectors are not compared.
        likely: the rows that the first scorers put first, the best first, and their scores as parts of the best;
            ``None`` while these are asked.
        found: of every row what the first scorers gave it, as a part of the best; 0 where they were not asked. There
            with ``likely``.
    """

    text: str
    vector: Floats | None = None
    likely: tuple[Rows, Floats] | None = None
    found: Floats | None = None


class Scorer(Interface):
    """One way to score the documents of one snapshot."""

    @property
    def name(self) -> ScorerName:
        """Return the name by which it is weighed and switched off."""
        ...

    @property
    def second(self) -> bool:
        """Return whether it starts from what the others found (:attr:`Query.likely`)."""
        ...

    @property
    def share(self) -> float | None:
        """Return its weight, learnt with it; ``None``: by name, :data:`~atc.catalogue.index.scorers.SHARES`, else 1."""
        ...

    def scores(self, query: Query) -> Floats | None:
        """Return a score for each row; 0 or less says nothing for it. Only their proportions count."""
        ...


class Column(Interface):
    """Gives what was learnt, not yet of a snapshot: an adapter of queries, what was used together."""

    @property
    def name(self) -> ScorerName:
        """Return the name of the scorer that it makes."""
        ...

    def scorer(self, snapshot: Snapshot) -> Scorer | None:
        """Return the scorer over a snapshot; ``None`` where it says nothing of it. Called for each search: keep it."""
        ...


@dataclass(frozen=True)
class Words:
    """BM25 (:mod:`atc.catalogue.index.lexical`)."""

    snapshot: Snapshot
    name: ScorerName = "words"
    second: bool = False
    share: float | None = None

    def scores(self, query: Query) -> Floats:
        return self.snapshot.lexical.scores(query.text)


@dataclass(frozen=True)
class Cosines:
    """The cosines of the documents' vectors with the query's."""

    snapshot: Snapshot
    name: ScorerName = "vectors"
    second: bool = False
    share: float | None = None

    def scores(self, query: Query) -> Floats | None:
        vectors = self.snapshot.vectors
        return None if query.vector is None or vectors is None else vectors.scores(query.vector)


@dataclass
class Added:
    """A :class:`Column` of a scorer that another package adds: it is made once for a snapshot.

    Attributes:
        name: of its entry point.
        make: what the entry point names.
    """

    name: ScorerName
    make: Callable[[Snapshot], Scorer | None]
    _made: tuple[Snapshot, Scorer | None] | None = field(default=None, init=False, repr=False)

    def scorer(self, snapshot: Snapshot) -> Scorer | None:
        """
        Raises:
            UsageError: the scorer has another name: it would stand in the place of that one.
        """
        if self._made is None or self._made[0] is not snapshot:
            made = self.make(snapshot)
            if made is not None and made.name != self.name:
                raise UsageError(
                    f"scorer {self.name!r} calls itself {made.name!r}: give it the name of its entry point"
                )
            self._made = (snapshot, made)
        return self._made[1]


def added(names: Collection[str]) -> list[Added]:
    """Return the columns of the scorers of other packages among some names.

    Raises:
        UsageError: one cannot be had.
    """
    return [Added(name, SCORERS.load(name)) for name in names if name not in SCORERS.ours]


def own_scorers(snapshot: Snapshot) -> Sequence[Scorer]:
    """Return the scorers that a snapshot has by itself."""
    made = [SCORERS.load(name)(snapshot) for name in SCORERS.own]
    return [scorer for scorer in made if scorer is not None]


def joined(snapshot: Snapshot, columns: Sequence[Column], on: Collection[str]) -> Sequence[Scorer]:
    """Return the scorers of a snapshot and of what was learnt, as far as they are switched on.

    Args:
        columns: their scorers take the place of the snapshot's own of the same name, which they know of.
        on: names.
    """
    learnt = [scorer for column in columns if (scorer := column.scorer(snapshot)) is not None]
    taken = {each.name for each in learnt}
    own = [each for each in own_scorers(snapshot) if each.name not in taken]
    return [each for each in (*own, *learnt) if each.name in on]


def shares_of(scorers: Sequence[Scorer]) -> Mapping[str, float]:
    """Return the weight of each scorer, by name: learnt with it, else :data:`~atc.catalogue.index.scorers.SHARES`."""
    shares = {each.name: SHARES.get(each.name, 1.0) if each.share is None else each.share for each in scorers}
    return {**SHARES, **shares}
