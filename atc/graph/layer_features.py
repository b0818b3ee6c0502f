"""What tells which of two tools of one task is called first, before either was used.

For each pair the features of an edge between the two (:mod:`atc.graph.link_features`, without vectors), and what
differs between them as tools of this task: where the task mentions them, and how much they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from atc.graph.link_features import FEATURES, LinkFeatures, Matrix, words_in
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol

_OWN = ("mention", "order of mention", "parameters", "required", "none required", "both mentioned")
PAIR_FEATURES: tuple[str, ...] = (*FEATURES[:-1], *_OWN)
"""The names of a row's numbers, in order: those of an edge from the first tool to the second but the cosine of vectors,
then differences, the second less the first. ``mention`` is the place of a tool's words in the task, from 0 to 1."""


def pair_features(protocols: Mapping[str, Protocol], task: str = "") -> Matrix:
    """The features of all pairs of tools.

    Args:
        protocols: the tools by key. Time grows with the square of their number.
        task: the user's words; of a long one the beginning is read.

    Returns:
        Shape ``(tools, tools, len(PAIR_FEATURES))``: the first tool, the second, what tells that the first comes first.
        The pair of a tool and itself means nothing.
    """
    count = len(protocols)
    edges = LinkFeatures(protocols)
    rows = [edges.into(key)[:, :-1] for key in protocols]
    made = np.zeros((count, count, len(PAIR_FEATURES)), np.float32)
    if not count:
        return made
    made[:, :, : len(FEATURES) - 1] = np.stack(rows, axis=1)
    mentioned = _mentions(list(protocols.values()), task)
    asked = [parameters_of(protocol) for protocol in protocols.values()]
    parameters = np.array([len(some) for some in asked], np.float64)
    required = np.array([sum(each.required for each in some) for some in asked], np.float64)
    later = mentioned[None, :] - mentioned[:, None]
    both = ~np.isnan(later)
    later = np.where(both, later, 0.0)
    own = (
        np.tanh(3 * later),
        np.sign(later),
        np.tanh((parameters[None, :] - parameters[:, None]) / 3),
        np.tanh((required[None, :] - required[:, None]) / 3),
        (required[:, None] == 0).astype(np.float64) - (required[None, :] == 0),
        both,
    )
    made[:, :, len(FEATURES) - 1 :] = np.stack(own, axis=-1)
    return made


def _mentions(protocols: Sequence[Protocol], task: str) -> Matrix:
    """Where a task has the words of each tool's name, on average, from 0 to 1; not a number where it has none."""
    first: dict[str, int] = {}
    words = words_in(task)
    for place, word in enumerate(words):
        first.setdefault(word, place)
    found = np.full(len(protocols), np.nan, np.float32)
    for row, protocol in enumerate(protocols):
        places = [first[word] for word in sorted(set(words_in(protocol.plain_name))) if word in first]
        if places:
            found[row] = sum(places) / len(places) / len(words)
    return found
