"""Predicted layers: which tools of a task come first, where neither schemas nor runs say so (RETO §3.2).

One logistic regression on :mod:`atc.graph.layer_features`: the chance that a tool stands in an earlier layer than
another. It needs no encoder. The paper's network, which does, is in :mod:`atc.graph.layer_network`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.errors import EnvironmentProblem, UsageError
from atc.graph.layer_features import PAIR_FEATURES, pair_features
from atc.graph.layers import layers_of
from atc.graph.link_features import Matrix
from atc.tools.protocol import Protocol

VERSION = 1
"""Of the file's form."""
LAYERS = 5
"""Layers at most (L of the paper)."""
THRESHOLD = 0.5
"""Chance from which one tool is taken to come before another: ``python -m benchmarks.layers``."""
MAX_TOOLS = 60
"""Tools among which layers are predicted: time grows with their square."""
_STEP = 0.05
_WEIGHTS = File(__file__).with_name("layer_weights.json")
SHA256 = "8221fcec4a77c83451d1c8dcffde4de9c617d5274afbb2cf7eb4fa9462bef9bd"
"""Of the file of weights. ``python -m benchmarks.layers --data DIR --write`` makes the file and says this."""


@dataclass(frozen=True, eq=False)
class LayerModel:
    """A layer model's weights.

    Attributes:
        weights: one for each of :data:`~atc.graph.layer_features.PAIR_FEATURES`. ``bias``: for all pairs alike.
        made: the command that made it, and on what.
    """

    weights: NDArray[np.float64]
    bias: float
    made: str = ""

    def chances(self, rows: Matrix) -> NDArray[np.float64]:
        """For each pair the chance that the first tool stands in an earlier layer than the second, from 0 to 1.

        Args:
            rows: features as :func:`~atc.graph.layer_features.pair_features` gives them, along the last axis.
        """
        found: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(rows @ self.weights + self.bias, -30, 30)))
        return found

    def record(self) -> dict[str, Any]:
        """The model as JSON; :meth:`read` takes it back."""
        weights = {name: round(float(value), 4) for name, value in zip(PAIR_FEATURES, self.weights, strict=True)}
        return {"version": VERSION, "made": self.made, "bias": round(self.bias, 4), "weights": weights}

    @classmethod
    def read(cls, record: object) -> LayerModel:
        """A model from its record.

        Raises:
            UsageError: it is none, or of another version.
        """
        if not isinstance(record, dict) or record.get("version") != VERSION:
            raise UsageError(f"no layer model of version {VERSION}")
        weights: Any = record.get("weights")
        bias: Any = record.get("bias")
        if not isinstance(weights, dict) or tuple(weights) != PAIR_FEATURES:
            raise UsageError("a layer model with other features than this version of ATC reads")
        if not all(_is_weight(value) for value in (*weights.values(), bias)):
            raise UsageError("a layer model with a weight that is no number")
        return cls(np.array(list(weights.values()), np.float64), float(bias), str(record.get("made") or "")[:1_000])


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6


@cache
def shipped() -> LayerModel:
    """The model that ships with ATC.

    Raises:
        EnvironmentProblem: its file is missing or is not the one that this version ships.
    """
    return load(_WEIGHTS, SHA256)


def load(path: File, sha256: str) -> LayerModel:
    """A model from a file whose digest is known.

    Raises:
        EnvironmentProblem: the file is missing, or is another one.
        UsageError: it is no layer model of this version.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be read ({error.strerror}): install atc-runtime again") from None
    if hashlib.sha256(text).hexdigest() != sha256:
        raise EnvironmentProblem(f"{path} is damaged, or is of another version: install atc-runtime again")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} holds no layer model: it is no JSON") from None
    return LayerModel.read(record)


def predicted_layers(
    protocols: Mapping[str, Protocol], task: str = "", *, model: LayerModel | None = None, threshold: float = THRESHOLD
) -> dict[str, int]:
    """The likely layer of each tool; :meth:`atc.graph.tool_graph.ToolGraph.layers` takes it.

    A tool stands behind those that come before it with at least ``threshold``. Where that makes more than
    :data:`LAYERS`, less is believed.

    Args:
        protocols: the tools by key. Of more than :data:`MAX_TOOLS` nothing is predicted.
        task: the user's words: what they mention first often comes first.
        model: :func:`shipped` when not given.

    Raises:
        EnvironmentProblem: the shipped file is missing or damaged.
    """
    keys = list(protocols)
    if not 2 <= len(keys) <= MAX_TOOLS:
        return {}
    return layers_by((model or shipped()).chances(pair_features(protocols, task)), keys, threshold)


def layers_by(chances: NDArray[np.float64], keys: Sequence[str], threshold: float = THRESHOLD) -> dict[str, int]:
    """The layers that go with some chances.

    Args:
        chances: for each pair that the first tool comes before the second; shape ``(tools, tools)``.
        keys: the tools, in their order.
        threshold: as :func:`predicted_layers` takes it.
    """
    pairs = ~np.eye(len(keys), dtype=bool)
    while True:
        before = (chances >= threshold) & pairs
        sure = {
            a: {keys[int(column)]: float(chances[row, column]) for column in np.flatnonzero(before[row])}
            for row, a in enumerate(keys)
        }
        layers = layers_of(keys, sure)
        if len(layers) <= LAYERS:
            return {tool: place for place, some in enumerate(layers) for tool in some}
        threshold += _STEP
