"""Graph networks as methods of :mod:`atc_research_benchmarks.links`. They need torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atc_research.naviagent.link_features import Matrix
from atc_research.naviagent.link_gnn import DEVICE_NAME, Kind, LinkGraph, Options, Predictions, train
from atc_research_benchmarks.links import Features, Method
from atc_research_benchmarks.links_data import Gold, Part

LARGE = 3_000
"""Tools of a source that a network is trained on; Seal-Tools has 4,076 for 42 edges, and is left out."""


HIDDEN: dict[str, Any] = {"hidden": 0.3, "epochs": 300, "decay": 0.994}
"""Of a network none of whose messages passes along the edges that it is asked for; it needs more epochs."""


class Networked(Method):
    """A network, trained on what a split gives, as the paper trains it or better."""

    def __init__(self, name: str, kind: Kind, options: Options, features: Features) -> None:
        self.name, self._kind, self._options, self._features = name, kind, options, features
        self.device = DEVICE_NAME
        self._trained: dict[str, LinkGraph] = {}
        self._predicted: dict[str, Predictions] = {}

    def learn(self, parts: Sequence[Part], seed: int) -> None:
        graphs = []
        for part in parts:
            if part.edges and len(part.gold.protocols) <= LARGE:
                kept = {tool for pair in part.edges for tool in pair}
                calls = Counter(tool for task in part.gold.tasks for tool in task if tool in kept)
                graphs.append(
                    self._features.graph(part.gold).with_runs({e: part.gold.edges[e] for e in part.edges}, calls)
                )
                self._trained[part.gold.source] = graphs[-1]
        self._network = train(graphs, self._kind, self._options, seed)

    def into(self, gold: Gold, consumer: str) -> Matrix:
        if len(gold.protocols) > LARGE:
            return np.zeros(len(gold.protocols), np.float32)
        if gold.source not in self._predicted:
            graph = self._trained.get(gold.source) or self._features.graph(gold)
            self._predicted[gold.source] = Predictions(self._network, graph)
        return self._predicted[gold.source].into(consumer)


def networks(features: Features) -> dict[str, Callable[[], Method]]:
    """The networks, by name."""
    better, hidden = Options(pair=True, reversed_too=True), Options(**HIDDEN)
    return {
        "GCN": lambda: Networked("GCN", "gcn", Options(), features),
        "GraphSAGE": lambda: Networked("GraphSAGE", "sage", Options(), features),
        "HGT": lambda: Networked("HGT", "hgt", Options(), features),
        "GraphSAGE, pairs": lambda: Networked("GraphSAGE, pairs", "sage", better, features),
        "HGT, pairs": lambda: Networked("HGT, pairs", "hgt", better, features),
        "GraphSAGE, hidden, pairs": lambda: Networked(
            "GraphSAGE, hidden, pairs", "sage", replace(better, **HIDDEN), features
        ),
        "HGT, hidden": lambda: Networked("HGT, hidden", "hgt", hidden, features),
        "HGT, hidden, pairs": lambda: Networked("HGT, hidden, pairs", "hgt", replace(better, **HIDDEN), features),
    }
