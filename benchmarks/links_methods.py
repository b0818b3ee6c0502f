"""The ways of predicting links that :mod:`benchmarks.links` compares: each learns from parts and scores providers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atc.retrieval.vectors import Encoder
from atc_research.naviagent.link_features import FEATURES, LinkFeatures, Matrix
from atc_research.naviagent.link_fit import Examples, fit, none
from atc_research.naviagent.link_model import LinkModel
from benchmarks.links_data import Gold, Part, by_consumer

if TYPE_CHECKING:
    from atc_research.naviagent.link_gnn import LinkGraph

_BLOCK = 256


class KeptVectors:
    """An encoder whose vectors of some texts are kept in a folder, and made once.

    Args:
        encoder: makes them.
        folder: where they are.
    """

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self._encoder, self._folder = encoder, folder
        self.name, self.digest, self.dimensions = encoder.name, encoder.digest, encoder.dimensions

    def check(self) -> None:
        """As the encoder itself."""
        self._encoder.check()

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Vectors of texts, from the folder where the same texts were asked for before."""
        digest = hashlib.sha256("\0".join((self.digest, *texts)).encode("utf-8", "replace")).hexdigest()[:24]
        path = self._folder / f"{digest}.npy"
        if not path.is_file():
            starts = range(0, max(1, len(texts)), _BLOCK)  # none at all is a block, too
            blocks = [self._encoder.encode(texts[at : at + _BLOCK]) for at in starts]
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_suffix(".part.npy")
            np.save(scratch, np.concatenate(blocks), allow_pickle=False)
            scratch.replace(path)
        made: Matrix = np.load(path, allow_pickle=False)
        return made


class Features:
    """The features of each source's tools, with the vectors of an encoder where there is one."""

    def __init__(self, encoder: KeptVectors | None) -> None:
        self._encoder = encoder
        self._made: dict[str, LinkFeatures] = {}
        self._rows: dict[tuple[str, str], Matrix] = {}
        self._graphs: dict[str, LinkGraph] = {}

    def of(self, gold: Gold) -> LinkFeatures:
        if gold.source not in self._made:
            self._made[gold.source] = LinkFeatures(gold.protocols, self.vectors(gold))
        return self._made[gold.source]

    def into(self, gold: Gold, consumer: str) -> Matrix:
        if (gold.source, consumer) not in self._rows:
            self._rows[gold.source, consumer] = self.of(gold).into(consumer)
        return self._rows[gold.source, consumer]

    def vectors(self, gold: Gold) -> Matrix | None:
        """Of each tool its name and description as a vector; ``None`` without an encoder."""
        if self._encoder is None:
            return None
        return self._encoder.encode(
            [f"{each.name.replace('_', ' ')}: {each.description}" for each in gold.protocols.values()]
        )

    def graph(self, gold: Gold) -> LinkGraph:
        """The structure of a source's tools, for networks alone."""
        from atc_research.naviagent.link_gnn import LinkGraph

        if gold.source not in self._graphs:
            assert self._encoder is not None
            self._graphs[gold.source] = LinkGraph.of(gold.protocols, self._encoder, self.vectors(gold))
        return self._graphs[gold.source]

    def examples(self, part: Part) -> Examples:
        """A part as examples to learn from."""
        places = {pair: place for place, pair in enumerate(part.edges)}
        free = np.array([places[b, a] for a, b in part.none["reversed"]], np.int64)
        edges, random, same = (
            self._pairs(part.gold, pairs) for pairs in (part.edges, part.none["random"], part.none["same task"])
        )
        return Examples(edges, random, same, free)

    def _pairs(self, gold: Gold, pairs: tuple[tuple[str, str], ...]) -> Matrix:
        rows = self.of(gold).rows
        found = {}
        for consumer, providers in by_consumer(pairs).items():
            into = self.into(gold, consumer)
            found.update({(provider, consumer): into[rows[provider]] for provider in providers})
        return np.stack([found[pair] for pair in pairs]) if pairs else none()


class Method(ABC):
    """A way to predict links."""

    name: str

    @abstractmethod
    def learn(self, parts: Sequence[Part], seed: int) -> None:
        """Learn from some edges alone."""

    @abstractmethod
    def into(self, gold: Gold, consumer: str) -> Matrix:
        """How likely each tool of a source feeds one of them, in their order; of any scale."""


class Column(Method):
    """One feature as it is: nothing is learnt."""

    def __init__(self, name: str, feature: str, features: Features) -> None:
        self.name, self._column, self._features = name, FEATURES.index(feature), features

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        """Nothing to learn."""

    def into(self, gold: Gold, consumer: str) -> Matrix:
        return self._features.into(gold, consumer)[:, self._column]


class Logistic(Method):
    """What ships: two logistic regressions."""

    def __init__(self, name: str, features: Features, *, vectors: bool) -> None:
        self.name, self._features, self._vectors = name, features, vectors
        self.model: LinkModel | None = None

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        self.model = fit([self._features.examples(part) for part in parts], vectors=self._vectors)

    def into(self, gold: Gold, consumer: str) -> Matrix:
        assert self.model is not None
        return self.model.chances(self._features.into(gold, consumer)).astype(np.float32)


def methods(features: Features, *, vectors: bool) -> dict[str, Callable[[], Method]]:
    """The methods that need no torch, by name."""
    found: dict[str, Callable[[], Method]] = {
        "names": lambda: Column("names", "affinity", features),
        "words": lambda: Column("words", "gives_all:takes_all", features),
        "logistic": lambda: Logistic("logistic", features, vectors=False),
    }
    if vectors:
        found["cosine"] = lambda: Column("cosine", "cosine", features)
        found["logistic, vectors"] = lambda: Logistic("logistic, vectors", features, vectors=True)
    return found
