"""How evidence ages and what is given up first (NaviAgent §3.2.4, Eq. 11 and 12). The paper leaves η and τ open."""

from __future__ import annotations

from atc.graph.weights import pruning_score

DAY_S = 86_400
LONG_TERM = 0.3
"""η of Eq. 12: what all before the window weighs beside the window itself. The less, the sooner the weights follow a
service that drifts (``benchmarks.evolution``); below one half, the window alone can turn an order round."""
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
    """How little something is worth to be kept (Eq. 11), when it was not used for a while.

    Args:
        failed: times that it failed, out of ``total``.
        days: since it was used last. Its frequency is ``total``, faded by η for each window that passed since.
    """
    frequency = total * LONG_TERM ** min(max(days, 0.0) / WINDOW_DAYS, 60.0)
    return pruning_score(failed / total if total > 0 else 0.0, frequency)
