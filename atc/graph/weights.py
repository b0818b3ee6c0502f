"""Weights of the tool graph: what counts are worth (NaviAgent Eq. 4 and 11).

Functions of plain numbers alone, for all who weigh: the graph, its store, its search, its pictures and its trainers.
"""

from __future__ import annotations

import math

from atc.graph.edges import Counts, Evidence

WORTH: dict[Evidence, float] = {"corrected": 1.0, "seen": 1.0, "stated": 0.8, "names": 0.6, "predicted": 0.5}
"""Weight of an edge whose evidence is as good as it can be. The paper weighs seen edges alone; the others' order is
that of :data:`~atc.graph.edges.Evidence`."""
LAMBDA = 0.5
"""λ of Eq. 11, which the paper leaves open: failures and disuse count alike."""


def weight_of(times: float, total: float) -> float:
    """The statistical weight of an edge: ``w̃ᵢⱼ = N(i→j) / N(j)`` (NaviAgent Eq. 4), from 0 to 1.

    Args:
        times: N(i→j), successful uses of the edge.
        total: N(j), uses of what it leads to; less than ``times`` where not all of them were counted.
    """
    return times / max(times, total) if times > 0 else 0.0


def reliability(counts: Counts) -> float:
    """How likely a tool succeeds, from 0 to 1, with one success assumed: 1 where it never failed."""
    return (counts.ok + 1) / (counts.ok + counts.failed + 1)


def sigmoid(value: float) -> float:
    """``1 / (1 + e^-x)``; of what is too far from 0 to be told apart, 0 or 1."""
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, value))))


def pruning_score(failed_rate: float, frequency: float, lam: float = LAMBDA) -> float:
    """How much a node deserves to be left out: ``λσ(f_fail) + (1-λ)σ(1/f_freq)`` (NaviAgent Eq. 11).

    From 0.5, used without end and never failed, to 1. What was never used has an infinite ``1/f``, so σ is 1.

    Args:
        failed_rate: the share of calls that failed, from 0 to 1.
        frequency: calls in a unit of time, or in all; 0 or more.
        lam: λ, from 0 (disuse alone) to 1 (failures alone).

    Raises:
        ValueError: a number is outside its range.
    """
    if not 0 <= failed_rate <= 1 or not 0 <= lam <= 1 or not frequency >= 0:
        raise ValueError(f"no pruning score of a failed rate {failed_rate}, a frequency {frequency} and λ {lam}")
    disuse = 1.0 if frequency == 0 else sigmoid(1 / frequency)
    return lam * sigmoid(failed_rate) + (1 - lam) * disuse
