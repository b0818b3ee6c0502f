"""The benchmark of codes: its baselines tell all tools apart, its figures are what they are named for."""

from __future__ import annotations

import numpy as np
import pytest

from atc.retrieval.co_usage import CoUsage
from atc.retrieval.index import ToolIndex
from benchmarks.codes_baselines import BASELINES
from benchmarks.codes_data import Pool
from benchmarks.codes_tokens import Used, by_baseline, by_levels, by_transport
from tests.support.retrieval import HashedWords, many


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("count", [0, 1, 2, 137])
def test_a_baseline_tells_all_tools_apart(name: str, count: int) -> None:
    names = [f"get_thing_{row % 9}" for row in range(count)]
    for vectors in (np.ones((count, 4)), np.random.default_rng(0).standard_normal((count, 4))):
        found = BASELINES[name](names, vectors.astype(np.float32), 0)
        assert len(found) == len(set(found)) == count
        assert all(found)


def test_the_figures_of_a_small_pool() -> None:
    pool = Pool("small", ToolIndex.build(many(60), HashedWords()))
    ids = list(pool.snapshot.ids)
    learnt = CoUsage.of([(ids[:2], 1.0), (ids[2:4], 1.0)], pool.snapshot.rows, 60)
    used = Used(pool, pool.vectors, learnt, np.array([[0, 1], [8, 9]], np.int32), np.array([[8, 9]], np.int32))
    atomic, _, *levels = by_levels(used, 0)
    assert (atomic["shared"], atomic["alike after"], atomic["std"]) == (0.0, 0, 0.0)
    assert all(line["alike after"] == 0 and line["stays"] == 1.0 for line in levels)
    assert all(0 <= line["by assignment"] <= line["error"] for line in levels)
    assert [line.get("assignment") for line in by_transport(used, 0)][:2] == ["exact", "sinkhorn"]
    assert [line["codes"] for line in by_baseline(used, 0)] == ["closed form", *BASELINES]
