"""Predicted edges: which tool likely feeds which, where neither names nor runs say so (NaviAgent §3.2, in small).

Two logistic regressions on :mod:`.link_features`. The one asks whether two tools belong together; the other,
which of the two comes first, from what differs between the edge and its reverse: so the probability of an edge and that
of its reverse never are both high. A prediction is the least of all evidence, and never sure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc import Protocol, UsageError
from atc.plugins.learning import Path, ToolGraph, make_private, write_whole
from atc_research.naviagent.link_features import DIRECTED, FEATURES, LinkFeatures, Matrix

VERSION = 1
"""Of the file's form."""
MAX_BYTES = 100_000
"""Of a file of weights; a larger one is none."""
MAX_PREDICTIONS = 50_000_000
"""Bytes of a file of predicted edges."""
THRESHOLD = 0.9
"""Probability from which an edge is told. Chosen on held-out tools: ``python -m atc_research_benchmarks.links``."""
MOST = 3
"""Providers that are predicted for one tool at most."""
FITS = 0.3
"""How well a field must fit a parameter for an edge between the two; see :meth:`LinkFeatures.places`."""
_WEIGHTS = File(__file__).with_name("link_weights.json")
_REVERSED = np.r_[DIRECTED : 2 * DIRECTED, 0:DIRECTED, 2 * DIRECTED : len(FEATURES)]
Edge = tuple[str, Path, str, str]
"""Provider, the field's path in its response, consumer, parameter: as the graph's store takes predictions."""


def reversed_features(rows: Matrix) -> Matrix:
    """The features of the reverse edges."""
    return rows[:, _REVERSED]


def _chance(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(scores, -30, 30)))


@dataclass(frozen=True, eq=False)
class LinkModel:
    """A link model's weights.

    Attributes:
        related: for each feature, and a last one for all edges alike: whether two tools belong together.
        direction: for each feature, what the difference between an edge and its reverse says of which one is there.
        vectors: it was trained with an encoder's vectors.
        made: the command that made it, and on what.
    """

    related: NDArray[np.float64]
    direction: NDArray[np.float64]
    vectors: bool = False
    made: str = ""

    def chances(self, rows: Matrix) -> NDArray[np.float64]:
        """The probability of each edge, from 0 to 1.

        Args:
            rows: features as :meth:`LinkFeatures.into` gives them.
        """
        together = _chance(rows @ self.related[:-1] + self.related[-1])
        return together * _chance((rows - reversed_features(rows)) @ self.direction)

    def record(self) -> dict[str, Any]:
        """The model as JSON; :meth:`read` takes it back."""
        weights = {
            name: [round(float(a), 4), round(float(b), 4)]
            for name, a, b in zip(FEATURES, self.related[:-1], self.direction, strict=True)
        }
        return {
            "version": VERSION,
            "made": self.made,
            "vectors": self.vectors,
            "bias": round(float(self.related[-1]), 4),
            "weights": weights,
        }

    @classmethod
    def read(cls, record: object) -> LinkModel:
        """A model from its record.

        Raises:
            UsageError: it is none, or of another version.
        """
        if not isinstance(record, dict) or record.get("version") != VERSION:
            raise UsageError(f"no link model of version {VERSION}")
        weights, bias = record.get("weights"), record.get("bias")
        if not isinstance(weights, dict) or tuple(weights) != FEATURES:
            raise UsageError("a link model with other features than this version of ATC reads")
        rows = [*weights.values(), [bias, 0.0]]
        good = all(isinstance(row, list) and len(row) == 2 and all(map(_is_weight, row)) for row in rows)
        if not good:
            raise UsageError("a link model with a weight that is no number")
        both = np.array(rows, np.float64)
        return cls(both[:, 0], both[:-1, 1], record.get("vectors") is True, str(record.get("made") or "")[:1_000])


def _is_chance(value: object) -> bool:
    return _is_weight(value) and 0 <= value <= 1  # type: ignore[operator]


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6


def load(path: File, most: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in a file of weights; one of more than ``most`` bytes is none.

    Raises:
        UsageError: it cannot be read, is too large, or is no JSON object.
    """
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
        record = json.loads(text) if len(text) <= most else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise UsageError(f"{path} holds no link model")
    return record


def write_private(path: File, record: Mapping[str, Any]) -> None:
    """Put a JSON object in a file that its owner alone can read, in place of the one before.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        make_private(path.parent)
        write_whole(path, json.dumps(record))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def read_predictions(path: File) -> dict[Edge, float]:
    """The edges that a network predicted, as :func:`.link_gnn.write_predictions` left them.

    Raises:
        UsageError: the file cannot be read, or holds none.
    """
    edges = load(path, MAX_PREDICTIONS).get("edges")
    if not isinstance(edges, list) or not all(map(_is_prediction, edges)):
        raise UsageError(f"{path} holds no predicted edges")
    return {(row[0], tuple(row[1]), row[2], row[3]): float(row[4]) for row in edges}


def _is_prediction(row: object) -> bool:
    if not isinstance(row, list) or len(row) != 5 or not isinstance(row[1], list):
        return False
    provider, path, consumer, parameter, chance = row
    return all(isinstance(name, str) for name in (provider, *path, consumer, parameter)) and _is_chance(chance)


@cache
def shipped(vectors: bool = False) -> LinkModel:
    """The model that ships with this package.

    Args:
        vectors: the one for features with an encoder's vectors.
    """
    return LinkModel.read(load(_WEIGHTS)["vectors" if vectors else "words"])


def predict_feeds(
    graph: ToolGraph | Mapping[str, Protocol],
    consumers: Sequence[str] | None = None,
    *,
    model: LinkModel | None = None,
    vectors: Matrix | None = None,
    threshold: float = THRESHOLD,
    most: int = MOST,
) -> dict[Edge, float]:
    """The likely edges among some tools, with their probabilities.

    Args:
        graph: the tools, or their graph.
        consumers: the tools that take values; all when not given. Each costs time in proportion to all tools.
        model: :func:`shipped` when not given.
        vectors: of each tool, in their order, the encoder's vector of length one.
        threshold: the least probability.
        most: providers for each consumer, the likeliest.

    Raises:
        UsageError: a consumer is none of the tools; or the model was trained with vectors, and there are none.
    """
    protocols = graph.protocols if isinstance(graph, ToolGraph) else graph
    if unknown := set(consumers or ()) - protocols.keys():
        raise UsageError(
            f"no tool is named {sorted(unknown)[0]!r}: name one of the tools that links are predicted among"
        )
    model = model or shipped(vectors is not None)
    if model.vectors and vectors is None:
        raise UsageError("this link model was trained with an encoder's vectors: give them, or take another model")
    features = LinkFeatures(protocols, vectors if model.vectors else None)
    found: dict[Edge, float] = {}
    for consumer in features.keys if consumers is None else consumers:
        for chance, provider in likeliest(features, consumer, model, most):
            if chance >= threshold:
                for fit, path, parameter in features.places(provider, consumer):
                    if fit >= FITS:
                        found[provider, path, consumer, parameter] = round(chance, 4)
    return found


def likeliest(features: LinkFeatures, consumer: str, model: LinkModel, most: int) -> list[tuple[float, str]]:
    """The likeliest providers of a tool, with their probabilities; of equal ones the first of the tools is first."""
    chances = model.chances(features.into(consumer))
    chances[features.rows[consumer]] = -1
    order = np.argsort(-chances, kind="stable")[: min(most, len(chances) - 1)]
    return [(float(chances[row]), features.keys[row]) for row in order]
