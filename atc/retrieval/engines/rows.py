"""The vectors of an index's documents where an engine keeps them, by row; what the engine says is checked here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atc.errors import VectorsUnavailable
from atc.retrieval.engines.base import Engine, Facts, Keys
from atc.retrieval.vectors import Floats

Rows = NDArray[np.int64]
Found = TypeVar("Found")

PAUSE_S = 30.0
"""Seconds for which an engine that failed is not asked again: each search would wait for it."""
_COSINE = 1.02
"""No cosine is larger, rounded to sixteen bits or not."""
_NAMED = 2_000
"""Rows that are named in one question."""


class EngineVectors:
    """The documents' vectors in an engine.

    Args:
        engine: that keeps them; ``None``: it must not be asked.
        place: its name.
        keys: of the documents, in their order.
        facts: what the engine must say that it holds.
    """

    def __init__(self, engine: Engine | None, place: str, keys: Keys, facts: Facts) -> None:
        self.engine, self.place, self.facts = engine, place, facts
        self._order = np.argsort(keys, kind="stable")
        self._keys, self._sorted = keys, np.asarray(keys)[self._order]
        self._checked = False
        self._failed: tuple[float, VectorsUnavailable] | None = None
        self._mutex = threading.Lock()
        self._last: tuple[Floats, Rows, Floats] | None = None

    def check(self) -> None:
        """Check, once, that the engine is there and holds the vectors of these tools.

        Raises:
            VectorsUnavailable: it does not.
        """
        with self._mutex:
            if not self._checked:
                self._asked(self._compare)
                self._checked = True

    def nearest(self, query: Floats, count: int) -> tuple[Rows, Floats]:
        """Rows near a query and their cosines, best first.

        Args:
            query: a vector of length one.
            count: how many at most.

        Raises:
            VectorsUnavailable: the engine cannot be had, or what it says cannot be.
        """
        rows, scores = self._asked(lambda: self._sound(*self._reached().nearest(query, count), count))
        self._last = (query, rows, scores)
        return rows, scores

    def scores(self, query: Floats, rows: Rows) -> Floats:
        """The cosine of each of some rows; 0 for one that the engine does not have.

        Raises:
            VectorsUnavailable: as :meth:`nearest`.
        """
        known: dict[int, float] = {}
        if (last := self._last) is not None and last[0] is query:  # most of them were just proposed
            known = dict(zip(last[1].tolist(), last[2].tolist(), strict=True))
        missing = np.array([row for row in rows.tolist() if row not in known], np.int64)
        for at in range(0, len(missing), _NAMED):
            some = missing[at : at + _NAMED]
            found, given = self._asked(lambda some=some: self._named(query, some))  # type: ignore[misc]
            known |= zip(found.tolist(), given.tolist(), strict=True)
        return np.array([known.get(row, 0.0) for row in rows.tolist()], np.float32)

    def _named(self, query: Floats, rows: Rows) -> tuple[Rows, Floats]:
        found, scores = self._sound(*self._reached().nearest(query, len(rows), self._keys[rows]), len(rows))
        if not np.isin(found, rows).all():
            raise self._lie("tools that were not asked about")
        return found, scores

    def _sound(self, keys: Keys, scores: Floats, count: int) -> tuple[Rows, Floats]:
        """The rows of an answer.

        Raises:
            VectorsUnavailable: a tool is not of this index or there twice, a score is no cosine, or there are too many.
        """
        if len(keys) > count or len(keys) != len(scores):
            raise self._lie(f"{len(keys)} tools where {count} were asked for")
        if not (np.abs(scores) <= _COSINE).all():  # NaN is not
            raise self._lie("a score that is no cosine")
        places = np.searchsorted(self._sorted, keys)
        there = places < len(self._sorted)
        there[there] = self._sorted[places[there]] == keys[there]
        if not there.all():
            self._checked = False
            raise self._lie("a tool that this index does not have")
        rows = self._order[places]
        if len(np.unique(rows)) < len(rows):
            raise self._lie("one tool twice")
        return rows, scores

    def _compare(self) -> None:
        said = self._reached().facts()
        if said is None:
            raise VectorsUnavailable(
                f"the vectors of this index are gone from {self.place}: `atc tools index` makes them anew"
            )
        if said != self.facts:
            why = "are being changed, or a change was cut off" if not said.whole else "are of other tools"
            if said.whole and said.encoder != self.facts.encoder:
                why = "are of another encoder"
            raise VectorsUnavailable(f"the vectors at {self.place} {why}: `atc tools index` puts that right")

    def _reached(self) -> Engine:
        if self.engine is None:
            raise VectorsUnavailable(
                f"the vectors of this index are at {self.place!r:.200}: set `vectors` (ATC_VECTORS) to that, if you "
                "trust it"
            )
        return self.engine

    def _asked(self, work: Callable[[], Found]) -> Found:
        if self._failed is not None and time.monotonic() - self._failed[0] < PAUSE_S:
            raise VectorsUnavailable(str(self._failed[1]))
        try:
            found = work()
        except VectorsUnavailable as error:
            self._failed = (time.monotonic(), error)
            raise
        self._failed = None
        return found

    def _lie(self, what: str) -> VectorsUnavailable:
        return VectorsUnavailable(
            f"the vector engine at {self.place} returned {what}: it has changed since this index was opened, or "
            "holds something else; `atc tools index` puts that right"
        )
