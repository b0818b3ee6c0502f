"""Very many tools: every long stage says how far it is and can be ended, and there is a bound."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from atc.errors import UsageError
from atc.retrieval import index_store, nearest, snapshot
from atc.retrieval.embedding import BLOCK
from atc.retrieval.index import ToolIndex
from tests.support.retrieval import HashedWords, built, files, many, protocol

STAGES = ["reading", "ordering", "embedding", "writing", "connecting"]


def test_every_stage_is_told_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    monkeypatch.setattr(nearest, "EXACT", 3)
    told: dict[str, list[tuple[int, int]]] = {}
    ToolIndex.build(many(BLOCK + 4), HashedWords(), tmp_path, lambda stage, *of: told.setdefault(stage, []).append(of))
    assert list(told) == STAGES
    for stage, steps in told.items():
        assert steps == sorted(steps), stage
        assert steps[-1] == (BLOCK + 4, BLOCK + 4), stage


@pytest.mark.parametrize("at", STAGES)
def test_ctrl_c_in_any_stage_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    pytest.importorskip("usearch")
    built(tmp_path)
    before = files(tmp_path)
    monkeypatch.setattr(nearest, "EXACT", 3)

    def stopped(stage: str, done: int, total: int) -> None:
        if stage == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ToolIndex.build(many(9), HashedWords(), tmp_path, stopped)
    after = files(tmp_path)
    assert {name: after.get(name) for name in before} == before
    assert all(name.startswith(index_store.BLOCKS) for name in after.keys() - before.keys()), "vectors to go on from"
    assert not list(tmp_path.glob(".new-*"))


def test_the_graph_does_not_depend_on_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    vectors = ToolIndex.build(many(50), HashedWords()).snapshot.vectors
    assert vectors is not None
    nearest.Nearest.write(vectors, tmp_path / index_store.GRAPH)
    monkeypatch.setattr(nearest, "_AT_ONCE", 7)
    nearest.Nearest.write(vectors, tmp_path / "steps")
    assert (tmp_path / "steps").read_bytes() == (tmp_path / index_store.GRAPH).read_bytes()


def test_a_stream_without_end_meets_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST", 5)
    assert len(ToolIndex.build(many(5))) == 5
    with pytest.raises(UsageError, match="5 tools at most"):
        ToolIndex.build(protocol(f"tool_{number}") for number in itertools.count())


def test_removing_nothing_changes_nothing(tmp_path: Path) -> None:
    index = built(tmp_path)
    was = index.snapshot
    index.remove([])
    assert index.snapshot is was
