"""Learning from the user's own runs which tool feeds which: the link model, drawn towards what they did.

A quarter of the runs, drawn by the hash of their names, is held out. What was learnt stays only where it is better on
the edges that these have and no other run; the model before it is kept, and can be had back.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from atc import Protocol, UsageError
from atc_research.naviagent.link_features import LinkFeatures, Matrix
from atc_research.naviagent.link_fit import Examples, fit, none
from atc_research.naviagent.link_model import LinkModel, load, reversed_features, shipped, write_private

MIN_RUNS, MIN_EDGES, MIN_HELD_OUT = 10, 12, 4
"""Runs with an edge, different edges to learn from, and different ones that only held-out runs have: of less nothing is
learnt."""
MAX_TOOLS = 5_000
"""Tools among which links are predicted: time grows with their square, and these take less than a minute."""
RIDGE = 5.0
"""How near to the model before the new one stays: a user's runs are few, and of the tools that it is for."""
GOOD = 0.75
"""The least mean area on held-out runs of a model whose predictions are kept."""
KINDS = ("random", "same task", "reversed")
_NEGATIVES = 4
_CURRENT, _BEFORE = "links.json", "links.before.json"
Pair = tuple[str, str]


@dataclass(frozen=True)
class Used:
    """What one answered run did.

    Attributes:
        name: of the run; its hash decides whether it is held out.
        tools: that were called. ``feeds``: the pairs of a provider and a consumer among them.
    """

    name: str
    tools: frozenset[str]
    feeds: frozenset[Pair]

    @property
    def held_out(self) -> bool:
        """Whether nothing is learnt from it."""
        return hashlib.sha256(self.name.encode("utf-8", "replace")).digest()[0] % 4 == 0


@dataclass(frozen=True)
class Retrained:
    """How a training went.

    Attributes:
        runs, edges: that were learnt from. ``held_out``: edges that only held-out runs have.
        before, after: areas under the ROC curve on these, against each of :data:`KINDS` that occurred.
        model: the better one. ``kept``: it is the new one.
    """

    runs: int
    edges: int
    held_out: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    model: LinkModel
    kept: bool

    @property
    def good(self) -> bool:
        """Whether the model is good enough for its predictions to be kept."""
        return _mean(self.after if self.kept else self.before) >= GOOD


class TooLittle(UsageError):
    """There is too little to learn from."""


def retrain(runs: Iterable[Used], protocols: Mapping[str, Protocol], before: LinkModel) -> Retrained:
    """Draw a model towards what runs did, and compare both on runs that were held out.

    Args:
        runs: in any order; those without an edge count for nothing.
        protocols: the tools by the names that the runs call them by.
        before: the model that is drawn; without vectors.

    Raises:
        TooLittle: there are too few runs or different edges.
        UsageError: there are too many tools.
    """
    if len(protocols) > MAX_TOOLS:
        many = f"{len(protocols):,} tools are too many: links are predicted among {MAX_TOOLS:,} at most"
        raise UsageError(f"{many}; name fewer with --only")
    known = {each.name: _known(each, protocols) for each in runs}
    useful = [each for each in known.values() if each.feeds]
    taught = [each for each in useful if not each.held_out]
    learnt = frozenset().union(*(each.feeds for each in taught))
    asked = frozenset().union(*(each.feeds for each in useful if each.held_out)) - learnt
    if len(useful) < MIN_RUNS or len(learnt) < MIN_EDGES or len(asked) < MIN_HELD_OUT:
        raise TooLittle(
            f"too little to learn from: {len(useful)} runs passed a value between these tools (it takes {MIN_RUNS}),"
            f" {len(learnt)} different edges are there to learn from ({MIN_EDGES}),"
            f" and {len(asked)} that only held-out runs have ({MIN_HELD_OUT})"
        )
    features = LinkFeatures(protocols)
    made = f"atc tools learn links: {len(taught)} runs, {len(learnt)} edges"
    new = fit([_examples(features, learnt, taught, learnt | asked)], start=before, ridge=RIDGE, made=made)
    held_out = _examples(features, asked, [each for each in useful if each.held_out], learnt | asked)
    was, now = _areas(before, held_out), _areas(new, held_out)
    kept = _mean(now) > _mean(was)
    return Retrained(len(taught), len(learnt), len(asked), was, now, new if kept else before, kept)


def _known(run: Used, protocols: Mapping[str, Protocol]) -> Used:
    feeds = frozenset(pair for pair in run.feeds if pair[0] != pair[1] and protocols.keys() >= set(pair))
    return Used(run.name, run.tools & protocols.keys(), feeds)


def _examples(
    features: LinkFeatures, edges: frozenset[Pair], runs: Sequence[Used], linked: frozenset[Pair]
) -> Examples:
    either = linked | {(b, a) for a, b in linked}
    rng = random.Random(0)
    ordered = sorted(edges)
    drawn = [(rng.choice(features.keys), consumer) for _, consumer in ordered for _ in range(_NEGATIVES)]
    beside = sorted({(a, b) for run in runs for a in run.tools for b in run.tools if a != b} - either)
    rng.shuffle(beside)
    free = [place for place, (a, b) in enumerate(ordered) if (b, a) not in linked]
    return Examples(
        _rows(features, ordered),
        _rows(features, [pair for pair in drawn if pair[0] != pair[1] and pair not in either]),
        _rows(features, beside[: _NEGATIVES * len(ordered)]),
        np.array(free, np.int64),
    )


def _rows(features: LinkFeatures, pairs: Sequence[Pair]) -> Matrix:
    into = {consumer: features.into(consumer) for consumer in {consumer for _, consumer in pairs}}
    return np.stack([into[consumer][features.rows[provider]] for provider, consumer in pairs]) if pairs else none()


def _areas(model: LinkModel, examples: Examples) -> dict[str, float]:
    there = model.chances(examples.edges)
    back = reversed_features(examples.edges[examples.reversible])
    kinds = zip(KINDS, (examples.random, examples.same_task, back), strict=True)
    return {kind: area(there, model.chances(rows)) for kind, rows in kinds if len(rows)}


def area(there: NDArray[np.float64], apart: NDArray[np.float64]) -> float:
    """The area under the ROC curve: how often an edge has a higher score than a pair without; equal ones count half."""
    _, places, counts = np.unique(np.concatenate([there, apart]), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    wins = ranks[: len(there)].sum() - len(there) * (len(there) + 1) / 2
    return float(wins / (len(there) * len(apart)))


def _mean(areas: Mapping[str, float]) -> float:
    return sum(areas.values()) / len(areas) if areas else 0.0


# -- the user's own model ----------------------------------------------------------------------------------------------


class OwnModel:
    """The user's own link model, and the one before it: two files that their owner alone can read.

    Args:
        folder: where they lie, beside the store of what runs teach.

    Attributes:
        notice: why a file that is there does not count; empty where all is well.
    """

    def __init__(self, folder: Path) -> None:
        self._current, self._before = folder / _CURRENT, folder / _BEFORE
        self.notice = ""

    def read(self) -> LinkModel | None:
        """The model; ``None`` where there is none, or it is damaged: the one that ships counts then."""
        if not self._current.exists():
            return None
        try:
            return LinkModel.read(load(self._current))
        except UsageError as error:
            self.notice = f"{self._current} does not count, and the link model that ships is used: {error}"
            return None

    def keep(self, model: LinkModel) -> None:
        """Put a model in the place of the one before, which is kept.

        Raises:
            UsageError: it cannot be written.
        """
        old = self.read()
        if old is None:
            self._before.unlink(missing_ok=True)
        else:
            write_private(self._before, old.record())
        write_private(self._current, model.record())

    def roll_back(self) -> LinkModel | None:
        """Go back to the model before; ``None``: there was none, and the one that ships counts.

        Raises:
            UsageError: no model was learnt.
        """
        if self._before.exists():
            os.replace(self._before, self._current)
        elif self._current.exists():
            self._current.unlink()
        else:
            raise UsageError("there is nothing to roll back: no link model was learnt from your runs")
        return self.read()

    def or_shipped(self) -> LinkModel:
        """The model that counts."""
        return self.read() or shipped()
