"""What a service counts, for Prometheus. Labels come from fixed sets: never from a program, a tool or a token."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One service's. Read by ``GET /metrics``.

    Args:
        running: how many runs are connected now.
        tier: the isolation that holds.
    """

    def __init__(self, running: Callable[[], int], tier: str) -> None:
        self.registry = CollectorRegistry()
        self.runs = Counter("atc_runs", "Runs that ended, by how.", ["outcome"], registry=self.registry)
        self.refused = Counter("atc_refused", "Requests refused, by why.", ["reason"], registry=self.registry)
        self.calls = Counter("atc_tool_calls", "Tool calls passed to callers.", registry=self.registry)
        self.seconds = Histogram(
            "atc_run_seconds", "From a program's start to its end.", buckets=_BUCKETS, registry=self.registry
        )
        Gauge("atc_runs_running", "Runs going on.", registry=self.registry).set_function(running)
        Gauge("atc_isolation", "1 for the tier that holds.", ["tier"], registry=self.registry).labels(tier).set(1)

    def text(self) -> bytes:
        """Return the figures in the text format of Prometheus."""
        return generate_latest(self.registry)
