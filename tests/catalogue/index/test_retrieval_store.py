"""An index on disk: read back as it was, made anew when its tools change, and safe for those who read and write it."""

from __future__ import annotations

import multiprocessing
import warnings
from pathlib import Path

import pytest

from atc import Toolset
from atc.catalogue.index.index import ToolIndex
from atc.errors import EncoderUnavailable, LexicalOnly, ToolIndexError, UsageError
from atc.tools.tool import Tool
from tests.support.retrieval import HashedWords, built, files, many, protocol, some


def test_an_index_is_read_back_as_it_was(tmp_path: Path) -> None:
    index = built(tmp_path)
    loaded = ToolIndex.load(tmp_path, HashedWords())
    assert list(loaded.ids) == list(index.ids)
    for mode in ("lexical", "dense", "hybrid", None):
        assert loaded.search("weather by the hour", mode=mode) == index.search("weather by the hour", mode=mode)
    assert {id: loaded.protocol(id) for id in loaded.ids} == {p.name: p for p in some()}


@pytest.mark.parametrize("encoder", [None, HashedWords()])
def test_an_empty_index_is_read_back(tmp_path: Path, encoder: HashedWords | None) -> None:
    ToolIndex.build([], encoder, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LexicalOnly)
        assert ToolIndex.load(tmp_path, encoder).search("x") == []


def test_ids_and_words_of_any_text_are_read_back(tmp_path: Path) -> None:
    odd = [("a\nb/\x00", protocol("x", "天気 übersetzung")), ("half \ud800", protocol("y", "half \ud800 word"))]
    ToolIndex.build(odd, folder=tmp_path)
    loaded = ToolIndex.load(tmp_path)
    assert list(loaded.ids) == sorted(id for id, _ in odd)
    assert loaded.search("天気", mode="lexical")[0].id == "a\nb/\x00"


def test_the_same_documents_make_the_same_file(tmp_path: Path) -> None:
    ToolIndex.build(some(), HashedWords(), tmp_path / "a")
    ToolIndex.build(reversed(some()), HashedWords(), tmp_path / "b")
    ToolIndex.build([*some()[:-1], protocol("dictionary", "x")], HashedWords(), tmp_path / "c")
    ToolIndex.build(some(), HashedWords(), tmp_path / "c")
    assert files(tmp_path / "a") == files(tmp_path / "b") == files(tmp_path / "c")


def test_an_index_without_its_protocols_takes_them_from_its_tools(tmp_path: Path) -> None:
    tools = Toolset(map(Tool, some()))
    index = ToolIndex.build(tools)
    index.save(tmp_path, documents=False)
    loaded = ToolIndex.load(tmp_path, tools=tools)
    assert loaded.search("weather", mode="lexical") == index.search("weather", mode="lexical")
    assert [loaded.protocol(id) for id in loaded.ids] == [index.protocol(id) for id in index.ids]
    for others in (None, tools.only("dictionary")):
        with pytest.raises(ToolIndexError, match="holds no protocols"):
            ToolIndex.load(tmp_path, tools=others)


def test_a_reader_is_not_disturbed_by_a_later_index(tmp_path: Path) -> None:
    built(tmp_path)
    reader = ToolIndex.load(tmp_path, HashedWords())
    ToolIndex.build(some()[1:], HashedWords(), tmp_path)
    assert list(files(tmp_path)) == ["index.npz"]
    assert reader.search("weather")[0].id == reader.protocol("get_weather").name == "get_weather"
    assert "get_weather" not in ToolIndex.load(tmp_path)


def _build_often(folder: Path, count: int) -> None:
    for _ in range(5):
        ToolIndex.build(many(count), folder=folder)


def test_processes_that_build_at_once_leave_a_whole_index(tmp_path: Path) -> None:
    ToolIndex.build(many(10), folder=tmp_path)
    work = [multiprocessing.get_context("fork").Process(target=_build_often, args=(tmp_path, n)) for n in (20, 30)]
    for each in work:
        each.start()
    seen = set()
    while any(each.is_alive() for each in work):
        seen.add(len(ToolIndex.load(tmp_path)))
    for each in work:
        each.join()
    assert [each.exitcode for each in work] == [0, 0]
    assert seen <= {10, 20, 30}
    assert list(files(tmp_path)) == ["index.npz"]


# Encoders


def test_the_encoder_must_be_the_one_of_the_build(tmp_path: Path) -> None:
    built(tmp_path)
    with pytest.raises(UsageError, match=r"'hashed', not of 'another'"):
        ToolIndex.load(tmp_path, HashedWords("another"))


def test_without_its_encoder_an_index_is_searched_by_words(tmp_path: Path) -> None:
    built(tmp_path)
    index = ToolIndex.load(tmp_path)
    with pytest.warns(LexicalOnly, match="'hashed'"):
        assert index.search("weather")[0].id == "get_weather"
    with pytest.raises(EncoderUnavailable, match="'hashed'"):
        index.search("weather", mode="dense")


def test_an_index_of_words_takes_no_vectors_by_accident(tmp_path: Path) -> None:
    ToolIndex.build(some(), folder=tmp_path)
    index = ToolIndex.load(tmp_path, HashedWords())
    with pytest.warns(LexicalOnly, match="built without an encoder"):
        index.search("weather", mode="hybrid")


# Made anew


def test_only_new_text_is_embedded(tmp_path: Path) -> None:
    built(tmp_path)
    encoder = HashedWords()
    twins = [("another/id", protocol("twin", "x")), ("another/id2", protocol("twin", "x"))]
    tools = [*some()[:-1], protocol("dictionary", "Other words.")]
    index = ToolIndex.build([*((each.name, each) for each in tools), *twins], encoder, tmp_path)
    assert len(encoder.encoded) == 2, "the twins have one text"
    anew = ToolIndex.build([(id, index.protocol(id)) for id in index.ids], HashedWords())
    for query in ("weather", "other words", "car"):
        assert index.search(query) == anew.search(query)
    encoder = HashedWords("another")
    ToolIndex.build(tools, encoder, tmp_path)
    assert len(encoder.encoded) == len(tools), "vectors of another encoder are not taken over"
