"""The paper's network as a method of :mod:`benchmarks.layers`. It needs torch, and an encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atc.graph.layer_network import LayerNetwork
from atc.graph.link_features import Matrix
from atc.learn.layers import LayerExample, train
from atc.retrieval.document_fields import document_fields, text_for_encoder
from benchmarks.layers_data import LayerData, LayerTask
from benchmarks.layers_methods import Layers, Method
from benchmarks.links_methods import KeptVectors


class Networked(Method):
    """The network, trained on what a split gives; NumPy computes its layers.

    Args:
        encoder: of the vectors that retrieval compares, the tasks' and the tools'.
        sources: those that it learns from; all when not given.
    """

    def __init__(self, name: str, data: LayerData, encoder: KeptVectors, sources: frozenset[str] | None = None) -> None:
        self.name, self._sources = name, sources
        tools = list(data.protocols)
        texts = [text_for_encoder(document_fields(tool, data.protocols[tool])) for tool in tools]
        self._tools = dict(zip(tools, encoder.encode(texts), strict=True))
        words = [task.text for task in data.tasks]
        self._tasks = dict(zip((task.id for task in data.tasks), encoder.encode(words), strict=True))
        self.network: LayerNetwork | None = None

    def learn(self, tasks: Sequence[LayerTask]) -> None:
        some = [task for task in tasks if self._sources is None or task.source in self._sources]
        examples = [
            LayerExample(self._tasks[task.id], self._rows([*task.layers, *task.others]), tuple(task.layers.values()))
            for task in some
        ]
        self.network = train(examples).exported()

    def layers(self, task: LayerTask, tools: Sequence[str]) -> Layers:
        assert self.network is not None
        return dict(zip(tools, self.network.layers(self._tasks[task.id], self._rows(tools)), strict=True))

    def _rows(self, tools: Sequence[str]) -> Matrix:
        return np.stack([self._tools[tool] for tool in tools])
