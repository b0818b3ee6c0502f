"""Fitting a link model: NumPy alone, exact and the same every time.

A model is fitted from scratch, or drawn from given weights towards what was seen: little moves it little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atc_research.naviagent.link_features import DIRECTED, FEATURES, Matrix
from atc_research.naviagent.link_model import LinkModel, reversed_features

Floats = NDArray[np.float64]
RIDGE = 50.0
"""Of a fit from scratch, on features of one scale."""
OF_ONE_TASK = 0.3
"""What a pair of tools of one task without an edge counts, beside a random one: such gold is seldom complete."""
STEPS = 50
"""Of Newton's method at most; some ten suffice."""


@dataclass
class Examples:
    """Features of edges: those that are there, and three kinds of such that are not.

    Attributes:
        edges: that are there. ``random``: from any other tool. ``same_task``: between tools that one task used.
        reversible: positions in ``edges`` of those whose reverse is not there, too.
    """

    edges: Matrix
    random: Matrix
    same_task: Matrix
    reversible: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def none() -> Matrix:
    """No rows of features."""
    return np.zeros((0, len(FEATURES)), np.float32)


def fit(
    groups: Sequence[Examples],
    *,
    start: LinkModel | None = None,
    ridge: float = RIDGE,
    vectors: bool = False,
    made: str = "",
) -> LinkModel:
    """A model of some groups of examples, such as the sources that they come from.

    A group counts with the root of its edges: a large one is heard, and does not drown the others.

    Args:
        groups: those without edges count for nothing.
        start: the weights that it stays near; 0 when not given.
        ridge: how near.
        vectors: the features hold the cosine of an encoder's vectors.
        made: kept with the model.

    Raises:
        ValueError: there is no edge at all.
    """
    groups = [group for group in groups if len(group.edges)]
    if not groups:
        raise ValueError("no edges to learn from")
    size = len(FEATURES)
    rows, told, weights = [], [], []
    for group in groups:
        share = 10 / np.sqrt(len(group.edges))
        kinds = ((group.edges, 1.0, 3.0), (group.random, 0.0, 2.0), (group.same_task, 0.0, OF_ONE_TASK))
        for some, label, weight in kinds:
            if len(some):
                rows.append(some)
                told.append(np.full(len(some), label))
                weights.append(np.full(len(some), share * weight * len(group.edges) / len(some)))
    together = np.concatenate(rows).astype(np.float64)
    free = np.array([" of the " not in name for name in FEATURES])  # these tell which comes first, not what fits
    free[-1] = vectors
    old = start.related if start else np.zeros(size + 1)
    scale = together.std(axis=0) + 1e-3
    columns = np.c_[together / scale, np.ones(len(together))]
    penalty = np.r_[np.full(size, ridge), 1e-3 if start is None else ridge]
    related = logistic(
        columns, np.concatenate(told), np.concatenate(weights), np.r_[free, True], penalty, old * np.r_[scale, 1]
    )

    ways = [group.edges[group.reversible] for group in groups]
    differences = np.concatenate([each - reversed_features(each) for each in ways]).astype(np.float64)
    heard = np.concatenate([np.full(len(each), 30 / np.sqrt(len(each))) for each in ways if len(each)] or [np.zeros(0)])
    first = np.arange(size) < DIRECTED  # the second half of a difference is the first half again
    old_direction = start.direction if start else np.zeros(size)
    scale_d = (np.sqrt((differences**2).mean(axis=0)) if len(differences) else np.ones(size)) + 1e-3
    direction = logistic(
        differences / scale_d, np.ones(len(differences)), heard, first, np.full(size, ridge), old_direction * scale_d
    )
    return LinkModel(related / np.r_[scale, 1], direction / scale_d, vectors, made)


def logistic(
    columns: Floats, told: Floats, weights: Floats, free: NDArray[np.bool_], penalty: Floats, start: Floats
) -> Floats:
    """Weights of a logistic regression, as near to the start as the penalty says; those that are not free stay."""
    found = start.copy()
    x = columns[:, free]
    fixed = columns[:, ~free] @ start[~free]
    for _ in range(STEPS if len(x) else 0):
        chance = 1 / (1 + np.exp(-np.clip(x @ found[free] + fixed, -30, 30)))
        slope = x.T @ (weights * (chance - told)) + penalty[free] * (found - start)[free]
        bend = (x * (weights * chance * (1 - chance))[:, None]).T @ x + np.diag(penalty[free])
        step = np.linalg.solve(bend, slope)
        found[free] -= np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-6:
            break
    return found
