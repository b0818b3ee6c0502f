"""Batches whose processes are killed, here and on a Ray cluster of two nodes: nothing twice, nothing lost."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel
from atc.errors import EnvironmentProblem
from benchmarks.kills import batch as batch_kills
from tests.support.postgres import WHY_NOT, Server

TASKS = 4


def nothing_wrong(found: batch_kills.Found) -> None:
    assert found.kills.total() > 0
    assert (found.twice, found.lost, found.rows_lost) == (0, 0, 0)
    assert found.done + found.in_doubt == found.batches * TASKS * 6
    assert found.ends.total() == found.batches * TASKS
    assert found.ends.keys() <= {"answered", "in_doubt"}  # a program that caught a write in doubt is in doubt
    assert bool(found.ends["in_doubt"]) == bool(found.in_doubt)


@pytest.mark.slow
def test_a_batch_that_is_killed_goes_on() -> None:
    nothing_wrong(batch_kills.measured(2, seed=3, tasks=TASKS))


@pytest.mark.slow
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_a_batch_in_a_database_waits_for_the_lease_of_what_was_killed() -> None:
    with Server() as server:
        nothing_wrong(batch_kills.measured(1, seed=3, tasks=TASKS, server=server))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    with batch_kills.two_nodes() as made:
        yield made
        folder = made.head_node.get_temp_dir_path()
    assert not Path(folder).exists()


@pytest.mark.slow
def test_workers_of_a_cluster_that_are_killed_are_replaced(cluster: Any) -> None:
    nothing_wrong(batch_kills.measured(2, seed=1, cluster=cluster, tasks=TASKS))


def elsewhere(folder: str) -> Agent:
    return Agent([len_of], model=FakeModel([]), runs_dir=folder)


def len_of(text: str) -> int:
    """The length of a text."""
    return len(text)


@pytest.mark.slow
def test_a_cluster_that_sees_another_store_is_refused_before_anything_runs(cluster: Any, tmp_path: Path) -> None:
    from atc.batch.on_ray import OnRay

    agent = elsewhere(str(tmp_path / "one"))
    on = OnRay(partial(elsewhere, str(tmp_path / "two")), address=cluster.address, store=agent.store)
    with pytest.raises(EnvironmentProblem, match="another place than the batch's"):
        list(agent.map(["x"], on=on))
    assert not agent.store.list()
    assert not any(os.scandir(tmp_path / "one"))


@pytest.mark.slow
def test_a_cluster_that_is_down_is_refused_in_time(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    agent = elsewhere(str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(EnvironmentProblem, match="no Ray cluster can be reached"):
        list(agent.map(["x"], on=f"ray:127.0.0.1:{port}"))
    assert time.monotonic() - began < 60
