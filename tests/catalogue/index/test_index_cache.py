"""Indexes that are made unasked: kept, found again, never stale, bounded; and what ``auto`` chooses."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Toolset
from atc.catalogue.index import retriever as seam
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_cache import KEPT_FROM, digest_of, kept_index, prune
from atc.catalogue.index.index_store import FILE
from atc.catalogue.index.retriever import IndexRetriever, encoder_for
from atc.catalogue.sketch import Sketch
from atc.errors import EncoderUnavailable
from atc.tools.tool import Tool
from tests.support.few import few
from tests.support.retrieval import HashedWords, no_model, protocol


def crowd(count: int = KEPT_FROM, text: str = "Thing number") -> Toolset:
    many = [Tool(protocol(f"tool_{n}", f"{text} {n}.")) for n in range(count)]
    return Toolset([*many, Tool(protocol("rentVehicle", "Book an automobile.", "days"))])


def silent(stage: str, done: int, total: int) -> None:
    pass


def found(retriever: IndexRetriever, tools: Toolset, task: str = "car") -> Sketch:
    return asyncio.run(retriever.retrieve(task, tools, 5, no_model))


# Kept


def test_an_index_is_made_once_and_found_again(tmp_path: Path) -> None:
    encoder, tools = HashedWords(), crowd()
    made, problem = kept_index(tools, encoder, tmp_path / "indexes", silent)
    assert problem == ""
    assert (tmp_path / "indexes").stat().st_mode & 0o777 == 0o700
    encoder.encoded.clear()
    again, _ = kept_index(crowd(), encoder, tmp_path / "indexes", silent)
    assert encoder.encoded == []
    assert [hit.id for hit in again.search("car", 3)] == [hit.id for hit in made.search("car", 3)]


def test_it_is_known_by_the_protocols_and_the_encoder() -> None:
    tools = crowd(3)
    digests = {
        digest_of(tools, None),
        digest_of(crowd(4), None),
        digest_of(crowd(3, "Other words"), None),
        digest_of(tools, HashedWords()),
        digest_of(tools, HashedWords("another")),
    }
    assert len(digests) == 5
    assert digest_of(crowd(3), None) in digests


def test_text_that_is_no_text_has_a_digest_too() -> None:
    assert digest_of(Toolset([Tool(protocol("odd", "half a pair: \ud800"))]), None)


def test_a_small_index_of_words_alone_is_not_kept(tmp_path: Path) -> None:
    kept_index(crowd(20), None, tmp_path / "indexes", silent)
    assert not (tmp_path / "indexes").exists()


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty"])
def test_a_damaged_one_is_made_anew(tmp_path: Path, damage: str) -> None:
    tools, cache = crowd(), tmp_path / "indexes"
    kept_index(tools, None, cache, silent)
    file = cache / digest_of(tools, None) / FILE
    file.write_bytes({"truncated": file.read_bytes()[:-50], "foreign": b"{}", "empty": b""}[damage])
    index, problem = kept_index(tools, None, cache, silent)
    assert (len(index), problem) == (len(tools), "")
    assert len(ToolIndex.load(file.parent, tools=tools)) == len(tools)


def test_where_nothing_can_be_written_the_index_is_made_and_it_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    index, problem = kept_index(crowd(), HashedWords(), blocked / "indexes", silent)
    assert len(index) == KEPT_FROM + 1
    assert "is not kept for the next run" in problem
    assert str(blocked) in problem


def test_a_full_disk_costs_no_second_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    encoder = HashedWords()
    monkeypatch.setattr("atc.catalogue.index.index_store.np.savez", full)
    index, problem = kept_index(crowd(), encoder, tmp_path / "indexes", silent)
    assert "No space left on device" in problem
    assert len(encoder.encoded) == len(index)


def test_the_ones_used_last_stay(tmp_path: Path) -> None:
    cache = tmp_path / "indexes"
    folders = []
    for number in range(4):
        tools = crowd(text=f"Kind {number}")
        kept_index(tools, None, cache, silent)
        folders.append(cache / digest_of(tools, None))
        os.utime(folders[-1] / FILE, (number, number))
    kept_index(crowd(text="Kind 0"), None, cache, silent)  # used again
    assert prune(cache, most=2) == [folders[2], folders[1]]
    assert prune(cache, keep=folders[3], most_bytes=1) == [folders[0]]
    assert folders[3].exists()


def test_one_that_is_being_made_by_another_process_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    assert prune(tmp_path, most=0) == []
    os.utime(tmp_path / "half", (0, 0))
    assert prune(tmp_path, most=0) == [tmp_path / "half"]


def test_several_may_make_the_same_one_at_once(tmp_path: Path) -> None:
    cache, lengths = tmp_path / "indexes", []
    work = [
        threading.Thread(target=lambda: lengths.append(len(kept_index(crowd(), None, cache, silent)[0])))
        for _ in range(4)
    ]
    for each in work:
        each.start()
    for each in work:
        each.join()
    assert lengths == [KEPT_FROM + 1] * 4
    assert len(ToolIndex.load(cache / digest_of(crowd(), None), tools=crowd())) == KEPT_FROM + 1


# Auto


def test_auto_finds_by_meaning_where_an_encoder_is_there(tmp_path: Path) -> None:
    tools = crowd(30)
    sketch = found(IndexRetriever(way="auto", folder=tmp_path, encoder=HashedWords()), tools)
    assert next(iter(sketch.tools)) == "rentVehicle"
    assert sketch.why["rentVehicle"].kind == "meaning"
    assert sketch.notices == ()


def test_auto_without_an_encoder_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: object) -> None:
        raise EncoderUnavailable("no file", fix="`atc model pull minilm`")

    monkeypatch.setattr("atc.catalogue.index.minilm.MiniLM.check", missing)
    retriever = IndexRetriever(way="auto")
    sketch = found(retriever, crowd(30), "automobile")
    (notice,) = sketch.notices
    assert "by words only" in notice
    assert "atc model pull minilm" in notice
    assert next(iter(sketch.tools)) == "rentVehicle"


def test_auto_does_not_read_very_many_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.catalogue.index.minilm.MiniLM.check", lambda self: None)
    encoder, (notice,) = encoder_for(seam.MAX_EMBEDDED + 1)
    assert encoder is None
    assert "atc tools index" in notice
    assert encoder_for(seam.MAX_EMBEDDED)[0] is not None


def test_hybrid_means_what_it_did() -> None:
    sketch = found(IndexRetriever(way="hybrid"), crowd(30), "automobile")
    assert sketch.why["rentVehicle"].kind == "words"
    assert sketch.notices == ()


def test_a_notice_and_a_long_build_are_in_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("atc.run.run.REPORT_S", 0.0)
    blocked = tmp_path / "file"
    blocked.write_text("")
    model = FakeModel(["```python\nanswer = 1\n```"] * 9)
    agent = Agent(crowd(), model=model, sentence=False, catalogue=blocked, max_revisions=0, **few(monkeypatch, 20))
    result = agent.run("book an automobile")
    assert result.sketch is not None
    (notice,) = result.sketch.notices
    assert str(blocked) in notice
    events = list(agent.store.find(result.run_id).events())
    told = [event["data"] for event in events if event["kind"] == "indexing"]
    assert told[0] == {"stage": "reading", "done": KEPT_FROM + 1, "total": KEPT_FROM + 1}
    chosen = next(event["data"] for event in events if event["kind"] == "tools_chosen")
    assert chosen["notices"] == [notice]


def test_a_build_that_is_cancelled_ends(tmp_path: Path) -> None:
    reached, go = threading.Event(), threading.Event()

    class Slow(HashedWords):
        def encode(self, texts: Any) -> Any:
            made = super().encode(texts)
            reached.set()
            go.wait(30)
            return made

    tools, encoder = crowd(600), Slow()

    async def cancelled() -> None:
        work = asyncio.ensure_future(
            IndexRetriever(way="auto", folder=tmp_path, encoder=encoder).retrieve("car", tools, 5, no_model)
        )
        await asyncio.to_thread(reached.wait, 30)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        go.set()

    asyncio.run(cancelled())
    assert len(encoder.encoded) < len(tools)  # it did not go on to the end
    assert found(IndexRetriever(way="auto", folder=tmp_path, encoder=encoder), tools).tools
