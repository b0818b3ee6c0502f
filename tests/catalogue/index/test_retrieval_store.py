"""An index on disk: read back as it was, never half, and clear about what is wrong with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from atc.catalogue.index import index_store, vectors
from atc.catalogue.index.changing import BLOCK
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.vectors import Vectors
from atc.errors import EncoderUnavailable, LexicalOnly, ToolIndexError, UsageError
from tests.support.retrieval import HashedWords, built, files, generation, many, protocol, some


def test_an_index_is_read_back_as_it_was(tmp_path: Path) -> None:
    index, loaded = built(tmp_path), ToolIndex.load(tmp_path, HashedWords())
    assert list(loaded.ids) == list(index.ids)
    for mode in ("lexical", "dense", "hybrid"):
        assert loaded.search("weather by the hour", mode=mode) == index.search("weather by the hour", mode=mode)
    assert {id: loaded.protocol(id) for id in loaded.ids} == {p.name: p for p in some()}


def test_an_empty_index_is_read_back(tmp_path: Path) -> None:
    ToolIndex.build([], HashedWords(), tmp_path)
    assert ToolIndex.load(tmp_path, HashedWords()).search("x") == []


def test_the_same_documents_make_the_same_files(tmp_path: Path) -> None:
    ToolIndex.build(some(), HashedWords(), tmp_path / "a")
    ToolIndex.build(reversed(some()), HashedWords(), tmp_path / "b")
    changed = ToolIndex.build(
        [*some()[:-1], protocol("dictionary", "x"), protocol("more")], HashedWords(), tmp_path / "c"
    )
    changed.update(some()[-1:])
    changed.remove("more")
    changed.save(tmp_path / "c")
    assert files(tmp_path / "a") == files(tmp_path / "b") == files(tmp_path / "c")


def test_saving_again_leaves_one_generation_and_readers_of_the_old_one_in_peace(tmp_path: Path) -> None:
    index = built(tmp_path)
    reader = ToolIndex.load(tmp_path, HashedWords())
    index.remove(["get_weather"])
    index.save(tmp_path)
    assert len(list(tmp_path.glob("g-*"))) == 1
    assert reader.search("weather")[0].id == "get_weather"
    assert reader.protocol("get_weather").name == "get_weather"
    assert "get_weather" not in ToolIndex.load(tmp_path)


def test_a_reader_that_comes_between_manifest_and_files_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built(tmp_path)
    old = json.loads((tmp_path / "index.json").read_bytes())
    index.remove(["get_weather"])
    index.save(tmp_path)
    real, answers = index_store._read_manifest, [old]
    monkeypatch.setattr(index_store, "_read_manifest", lambda folder: answers.pop() if answers else real(folder))
    assert "get_weather" not in ToolIndex.load(tmp_path)


def test_a_changed_index_that_was_loaded_can_be_saved(tmp_path: Path) -> None:
    built(tmp_path)
    index = ToolIndex.load(tmp_path, HashedWords())
    index.add([protocol("brand_new", "Never seen.")])
    index.save(tmp_path)
    assert ToolIndex.load(tmp_path).search("never seen", mode="lexical")[0].id == "brand_new"


# Very many


def test_beyond_a_size_near_neighbours_are_proposed_and_the_answers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("usearch")
    tools = [*many(1_000), *((p.name, p) for p in some())]
    exact = ToolIndex.build(tools, HashedWords())
    monkeypatch.setattr(vectors, "EXACT", 500)
    index = ToolIndex.build(tools, HashedWords(), tmp_path)
    assert (generation(tmp_path) / index_store.GRAPH).is_file()
    for mode in ("lexical", "dense", "hybrid"):
        for query in ("weather by the hour", "open bills"):
            assert index.search(query, 3, mode)[:1] == exact.search(query, 3, mode)[:1]
    before = files(tmp_path)
    index.save(tmp_path)
    assert files(tmp_path) == before
    index.add([protocol("car_wash", "Cleans an automobile.")])
    assert index.search("car_wash")[0].id == "car_wash"
    (generation(tmp_path) / index_store.GRAPH).write_bytes(b"no graph")
    with pytest.raises(ToolIndexError, match=index_store.GRAPH):
        ToolIndex.load(tmp_path)


def test_nearly_all_of_the_nearest_are_proposed(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    random = np.random.default_rng(5)
    centres = random.standard_normal((40, 32))
    rows = (centres[random.integers(0, 40, 4_000)] + random.standard_normal((4_000, 32))).astype(np.float32)
    made = Vectors.of(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    vectors.Nearest.write(made, tmp_path / "graph")
    graph = vectors.Nearest.open(tmp_path / "graph")
    assert graph is not None
    found = 0
    for query in rows[::200]:
        best = np.argsort(-made.scores(query))[:10]
        found += len(set(best) & set(graph.rows(query, 10)))
    assert found >= 0.97 * 10 * len(rows[::200])


def test_without_its_library_a_very_large_index_is_compared_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("usearch")
    monkeypatch.setattr(vectors, "EXACT", 3)
    index = built(tmp_path)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    assert ToolIndex.load(tmp_path, HashedWords()).search("car") == index.search("car")
    with pytest.raises(EncoderUnavailable, match="usearch"):
        index.save(tmp_path / "other")


# Encoders


def test_the_encoder_must_be_the_one_of_the_build(tmp_path: Path) -> None:
    built(tmp_path)
    with pytest.raises(UsageError, match=r"'hashed', not of 'another'"):
        ToolIndex.load(tmp_path, HashedWords("another"))


def test_without_its_encoder_an_index_is_searched_by_words_and_not_changed(tmp_path: Path) -> None:
    built(tmp_path)
    index = ToolIndex.load(tmp_path)
    with pytest.warns(LexicalOnly, match="'hashed'"):
        assert index.search("weather")[0].id == "get_weather"
    with pytest.raises(EncoderUnavailable, match="'hashed'"):
        index.add([protocol("new")])


def test_an_index_of_words_takes_no_vectors_by_accident(tmp_path: Path) -> None:
    ToolIndex.build(some(), folder=tmp_path)
    index = ToolIndex.load(tmp_path, HashedWords())
    with pytest.warns(LexicalOnly, match="built without an encoder"):
        index.search("weather", mode="hybrid")


# Resume


def test_an_interrupted_build_goes_on_where_it_stopped(tmp_path: Path) -> None:
    tools = many(3 * BLOCK)
    with pytest.raises(KeyboardInterrupt):
        ToolIndex.build(tools, HashedWords(fails_after=2 * BLOCK), tmp_path / "a")
    encoder = HashedWords()
    ToolIndex.build(tools, encoder, tmp_path / "a")
    assert len(encoder.encoded) == BLOCK
    ToolIndex.build(tools, HashedWords(), tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_blocks_of_another_encoder_and_damaged_ones_are_not_used(tmp_path: Path) -> None:
    tools = many(3 * BLOCK)
    with pytest.raises(KeyboardInterrupt):
        ToolIndex.build(tools, HashedWords(fails_after=2 * BLOCK), tmp_path)
    other = HashedWords("another")
    ToolIndex.build(tools, other)
    for block in (tmp_path / ".embedding").rglob("*.npy"):
        block.write_bytes(block.read_bytes()[:100])
    encoder = HashedWords()
    ToolIndex.build(tools, encoder, tmp_path)
    assert len(encoder.encoded) == len(other.encoded) == 3 * BLOCK


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    ToolIndex.build(many(300), HashedWords(), tmp_path, progress=lambda *stage: told.append(stage))
    assert ("reading", 300, 300) in told
    assert told[-1] == ("writing", 300, 300)
    assert [step for step in told if step[0] == "embedding"] == [
        ("embedding", 0, 300),
        ("embedding", BLOCK, 300),
        ("embedding", 300, 300),
    ]


def test_an_index_whose_vectors_an_older_version_kept_elsewhere_is_searched_by_words_until_it_is_made_again(
    tmp_path: Path,
) -> None:
    built(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_bytes())
    for name in ("vectors.npy", "scales.npy"):
        (generation(tmp_path) / name).unlink()
        del manifest["files"][name]
    manifest["engine"] = {"place": "qdrant-edge", "facts": {}}
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    (tmp_path / "vectors-edge").mkdir()

    index = ToolIndex.load(tmp_path, HashedWords())
    with pytest.warns(LexicalOnly, match="another engine.*embeds its tools anew"):
        assert index.search("weather by the hour")
    index.update(some())
    index.save(tmp_path)
    assert ToolIndex.load(tmp_path, HashedWords()).search("weather", mode="dense")
    assert not (tmp_path / "vectors-edge").exists()
