"""What a service counts, for Prometheus. Labels come from fixed sets: never from a program, a tool or a token, and a
tenant's name is one that was set."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from atc.accepting import Crowd
from atc.sandboxes.service.accounts import Account

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One service's. Read by ``GET /metrics``.

    Args:
        running: how many runs are connected now.
        tier: the isolation that holds.
        accounts: gives the tenants' accounts of the service's own processor time, by name: those that were set, and no
            others.
        crowd: counts the service's connections.
    """

    def __init__(
        self, running: Callable[[], int], tier: str, accounts: Callable[[], Iterable[tuple[str, Account]]], crowd: Crowd
    ) -> None:
        self.registry = CollectorRegistry()
        self.runs = Counter("atc_runs", "Runs that ended, by how.", ["outcome"], registry=self.registry)
        self.refused = Counter("atc_refused", "Requests refused, by why.", ["reason"], registry=self.registry)
        self.calls = Counter("atc_tool_calls", "Tool calls passed to callers.", registry=self.registry)
        self.seconds = Histogram(
            "atc_run_seconds", "From a program's start to its end.", buckets=_BUCKETS, registry=self.registry
        )
        self.registry.register(_Times(accounts, crowd))
        Gauge("atc_connections", "Open connections.", registry=self.registry).set_function(lambda: len(crowd))
        Gauge("atc_runs_running", "Runs going on.", registry=self.registry).set_function(running)
        Gauge("atc_isolation", "1 for the tier that holds.", ["tier"], registry=self.registry).labels(tier).set(1)

    def text(self) -> bytes:
        """Return the figures in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Times(Collector):
    def __init__(self, accounts: Callable[[], Iterable[tuple[str, Account]]], crowd: Crowd) -> None:
        self._accounts, self._crowd = accounts, crowd

    def collect(self) -> Iterable[Metric]:
        used = CounterMetricFamily("atc_host_seconds", "The service's own processor time.", labels=["tenant"])
        waited = CounterMetricFamily("atc_held_back_seconds", "Connections waited for a share.", labels=["tenant"])
        for name, account in self._accounts():
            used.add_metric([name], account.used_s)
            waited.add_metric([name], account.waited_s)
        refused = CounterMetricFamily("atc_connections_refused", "Connections there was no room for.")
        refused.add_metric([], self._crowd.refused)
        return [used, waited, refused]
