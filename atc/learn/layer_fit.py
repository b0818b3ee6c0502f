"""Fitting a layer model: NumPy alone, exact and the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atc.graph.layer_features import PAIR_FEATURES
from atc.graph.layer_model import LayerModel
from atc.graph.link_features import Matrix
from atc.learn.link_fit import logistic

RIDGE = 20.0
"""How near 0 the weights stay, on features of one scale."""


@dataclass(frozen=True)
class OrderedTools:
    """The tools of one task, as examples to learn from.

    Attributes:
        features: of all pairs, as :func:`~atc.graph.layer_features.pair_features` gives them.
        layers: the layer of each tool, in their order.
    """

    features: Matrix
    layers: Sequence[int]


def fit(tasks: Sequence[OrderedTools], *, ridge: float = RIDGE, made: str = "") -> LayerModel:
    """A model of some tasks. A task counts with the number of its tools, not of its pairs.

    Args:
        tasks: those whose tools all stand in one layer teach nothing.
        made: kept with the model.

    Raises:
        ValueError: no task has two layers.
    """
    rows, told, weights = [], [], []
    for task in tasks:
        layers = np.array(task.layers)
        if len(set(task.layers)) > 1:
            pairs = ~np.eye(len(layers), dtype=bool)
            rows.append(task.features[pairs])
            told.append((layers[:, None] < layers[None, :])[pairs])
            weights.append(np.full(int(pairs.sum()), 1 / len(layers)))
    if not rows:
        raise ValueError("no order to learn from")
    together = np.concatenate(rows).astype(np.float64)
    scale = together.std(axis=0) + 1e-3
    size = len(PAIR_FEATURES)
    found = logistic(
        np.c_[together / scale, np.ones(len(together))],
        np.concatenate(told).astype(np.float64),
        np.concatenate(weights),
        np.ones(size + 1, bool),
        np.r_[np.full(size, ridge), 1e-3],
        np.zeros(size + 1),
    )
    return LayerModel(found[:-1] / scale, float(found[-1]), made)
