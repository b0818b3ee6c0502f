"""Weights of the tool graph: what counts are worth (NaviAgent Eq. 4 and 11).

Functions of plain numbers alone, for all who weigh: the graph, its store, its search, its pictures and its trainers.
"""

from __future__ import annotations

import math

from atc.catalogue.graph.edges import Counts, Evidence

WORTH: dict[Evidence, float] = {"corrected": 1.0, "seen": 1.0, "stated": 0.8, "names": 0.6, "predicted": 0.5}
"""Weight of an edge whose evidence is as good as it can be. The paper weighs seen edges alone; the others' order is
that of :data:`~atc.catalogue.graph.edges.Evidence`."""


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


# ----------------------------------------------------------------------------------------------------------------------
# How evidence ages and what is given up first (NaviAgent §3.2.4, Eq. 11 and 12). The paper leaves η and τ open.


DAY_S = 86_400
LONG_TERM = 0.3
"""η of Eq. 12: what all before the window weighs beside the window itself. The less, the sooner the weights follow a
service that drifts (``benchmarks.graph.evolution``); below one half, the window alone can turn an order round."""
WINDOW_DAYS = 7
"""τ of Eq. 12: a week, so that every weekday is in it once. A shorter one follows sooner and forgets a weekly task."""
CHANGED = 0.5
"""What the evidence of a tool is worth after each change of its schemas."""


def weight_now(before: float, of_before: float, recent: float, of_recent: float) -> float:
    """The weight of an edge now: η · long-term share + (1 − η) · share within the window (Eq. 12).

    Where nothing happened in one of the two, the other says it alone.

    Args:
        before: counts of the edge before the window, out of ``of_before`` of its tool.
        recent: counts of the edge within it, out of ``of_recent``.

    Returns:
        From 0 to 1; 0 where nothing ever happened.
    """
    shares = [part / whole for part, whole in ((before, of_before), (recent, of_recent)) if whole > 0]
    if not shares:
        return 0.0
    mixed = shares[0] if len(shares) == 1 else LONG_TERM * shares[0] + (1 - LONG_TERM) * shares[1]
    return min(max(mixed, 0.0), 1.0)


def score_after(failed: float, total: float, days: float) -> float:
    """How little something is worth to be kept: ``λσ(f_fail) + (1-λ)σ(1/f_freq)`` (Eq. 11), after a while of disuse.

    λ, which the paper leaves open, is ½: failures and disuse count alike. From 0.5, used without end and never failed,
    to 1. What was never used has an infinite ``1/f``, so σ is 1.

    Args:
        failed: times that it failed, out of ``total``.
        days: since it was used last. Its frequency is ``total``, faded by η for each window that passed since.
    """
    frequency = total * LONG_TERM ** min(max(days, 0.0) / WINDOW_DAYS, 60.0)
    disuse = sigmoid(1 / frequency) if frequency > 0 else 1.0
    return (sigmoid(failed / total if total > 0 else 0.0) + disuse) / 2
