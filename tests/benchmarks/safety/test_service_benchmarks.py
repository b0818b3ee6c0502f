"""The load and the floods of the service: each kind is tried, and a flood costs little."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.safety import service_flood
from benchmarks.safety.service_load import ALL_KINDS_BY, PROGRAMS, kind_of


def test_every_kind_of_program_is_some_of_the_load_whoever_sends_it() -> None:
    numbers = range(0, 10 * ALL_KINDS_BY, 10)
    assert set(map(kind_of, numbers)) == set(PROGRAMS)
    for clients in (6, 8):
        for client in range(clients):
            assert set(map(kind_of, range(10 * client, 20_000, 10 * clients))) == set(PROGRAMS)
    counts = Counter(map(kind_of, range(0, 60_000, 10)))
    assert min(counts.values()) > 800


@pytest.mark.slow
def test_a_flood_without_a_token_fills_neither_the_log_nor_the_descriptors() -> None:
    with service_flood.service(32) as served:
        found = service_flood.flooded(served, "silent", 1500, "127.0.0.2")
    failed_before, _, failed_after = found["failed"]
    assert failed_before == failed_after == 0, found["why"]
    assert found["log_bytes"] < service_flood.MOST_LOG
    before, _, after = found["descriptors"]
    assert after <= before + 20
    assert found["memory_mb"][2] < found["memory_mb"][0] + 50
