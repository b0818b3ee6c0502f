"""Very many tools: every long stage says how far it is and can be ended, and there is a bound."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from atc.catalogue.index import documents, index_store, lexical, snapshot, vectors
from atc.catalogue.index.changing import BLOCK
from atc.catalogue.index.index import ToolIndex
from atc.errors import ToolIndexError, UsageError
from tests.support.retrieval import HashedWords, built, files, many, protocol, some

STAGES = ["reading", "ordering", "embedding", "writing", "connecting"]


def test_every_stage_is_told_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    monkeypatch.setattr(vectors, "EXACT", 3)
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
    monkeypatch.setattr(vectors, "EXACT", 3)

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
    made = ToolIndex.build(many(50), HashedWords()).snapshot.vectors
    assert made is not None
    vectors.Nearest.write(made, tmp_path / index_store.GRAPH)
    monkeypatch.setattr(vectors, "_CONNECTED", 7)
    vectors.Nearest.write(made, tmp_path / "steps")
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


def test_documents_of_a_long_stream_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ToolIndex.build(many(60), HashedWords(), tmp_path / "memory")
    monkeypatch.setattr(documents, "IN_MEMORY", 500)
    spooled = ToolIndex.build(many(60), HashedWords(), parts=tmp_path / "parts")
    assert list((tmp_path / "parts").glob("*")) == [tmp_path / "parts" / index_store.BLOCKS], "its file has no name"
    assert [spooled.protocol(id) for id in spooled.ids] == [whole.protocol(id) for id in whole.ids]
    spooled.update([("s/0003", protocol("other")), *many(3)])
    spooled.remove(["s/0001"])
    assert spooled.protocol("s/0003").name == "other"
    assert spooled.protocol("s/0059").name == "tool_59"
    spooled.save(tmp_path / "saved")
    assert len(ToolIndex.load(tmp_path / "saved", HashedWords())) == 59
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolIndexError, match="documents of the tools cannot be kept"):
        ToolIndex.build(many(60), folder=tmp_path / "file" / "index")


def test_an_index_is_the_same_however_many_words_are_sorted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ToolIndex.build([*some(), *many(30)]).snapshot
    monkeypatch.setattr(lexical, "_AT_ONCE", 3)
    parts = ToolIndex.build([*some(), *many(30)]).snapshot
    assert whole.counts.vocabulary == parts.counts.vocabulary
    for name in ("pointers", "words", "weights"):
        assert (getattr(whole.counts, name) == getattr(parts.counts, name)).all(), name
    query = "the weather at thing number 7"
    assert (whole.lexical.scores(query) == parts.lexical.scores(query)).all()


def test_more_words_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "MOST", 20)
    with pytest.raises(UsageError, match=r"20 words at most.* build several"):
        ToolIndex.build(many(30))
