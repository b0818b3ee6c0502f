"""The seam of vector engines: what they hold follows the index, and nothing that they say is taken unseen."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.errors import EncoderUnavailable, LexicalOnly, SettingsError, UsageError, VectorsUnavailable
from atc.retrieval.engines import rows, server
from atc.retrieval.engines.address import Address
from atc.retrieval.engines.base import MARKER, Facts, tools_digest
from atc.retrieval.engines.choice import EDGE, OWN, Choice
from atc.retrieval.index import ToolIndex
from atc.settings import Settings
from tests.support.cli import atc
from tests.support.qdrant import Answer, QdrantDouble
from tests.support.retrieval import HashedWords, files, many, protocol, some

PLACE = Choice("https://vectors.example:6333/tools", "s3cret-key")
QUERY = "weather for a car"


@pytest.fixture
def qdrant(monkeypatch: pytest.MonkeyPatch) -> QdrantDouble:
    double = QdrantDouble("s3cret-key")
    monkeypatch.setattr(server, "ServerEngine", partial(server.ServerEngine, transport=double.transport()))
    return double


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LexicalOnly)
        yield


def built(folder: Path, encoder: HashedWords | None = None) -> ToolIndex:
    return ToolIndex.build(some(), encoder or HashedWords(), folder, vectors=PLACE)


def found(index: ToolIndex, query: str = QUERY, **how: Any) -> list[str]:
    return [hit.id for hit in index.search(query, 2, **how)]


# What the setting takes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("faiss", "no place of vectors"),
        ("ftp://host/tools", "no address"),
        ("https:///tools", "no address"),
        ("https://host:6333", "names no collection"),
        ("https://host:6333/a b", "names no collection"),
        ("https://host:6333/..", "names no collection"),
        ("https://host:notaport/tools", "cannot be read"),
        ("https://user:hunter2@host/tools", "more than a place"),
        ("https://host/tools?key=hunter2", "more than a place"),
    ],
)
def test_a_place_that_is_none_is_refused_without_its_secrets(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        Choice(text).checked()
    assert "hunter2" not in str(caught.value)


def test_a_place_has_one_form() -> None:
    assert Choice("https://HOST:6333/proxy/tools/").checked().where == "https://host:6333/proxy/tools"
    assert Address.of("http://[::1]:6333/tools").server == "http://[::1]:6333"
    assert [Choice(place).checked().where for place in (OWN, EDGE)] == [OWN, EDGE]


def test_a_key_goes_to_nobody_who_reads_along() -> None:
    with pytest.raises(UsageError, match="plain http"):
        Choice("http://vectors.example:6333/tools", "s3cret").checked()
    assert Choice("http://127.0.0.1:6333/tools", "s3cret").checked().where == "http://127.0.0.1:6333/tools"
    assert "s3cret" not in repr(Choice("https://host/tools", "s3cret"))
    settings = Settings(vectors="https://host/tools", vectors_key="s3cret")
    assert Choice.of(settings) == Choice("https://host/tools", "s3cret")
    assert "s3cret" in settings.secrets


def test_facts_are_read_strictly() -> None:
    facts = Facts("a" * 64, 384, "b" * 64)
    assert Facts.of_record(json.loads(json.dumps(facts.record()))) == facts
    for damage in ({"version": 2}, {"dimensions": True}, {"dimensions": 0}, {"tools": None}, {"format": "other"}):
        assert Facts.of_record(facts.record() | damage) is None
    assert Facts.of_record([]) is None


def test_the_digest_of_tools_knows_their_texts_and_not_their_order() -> None:
    keys, texts = np.array([3, 1, 2], np.uint64), np.arange(48, dtype=np.uint8).reshape(3, 16)
    order = [2, 0, 1]
    assert tools_digest(keys, texts) == tools_digest(keys[order], texts[order])
    assert tools_digest(keys, texts) != tools_digest(keys, texts[order])


# The server's protocol


def test_a_server_finds_what_our_own_finds(tmp_path: Path, qdrant: QdrantDouble) -> None:
    own = ToolIndex.build(some(), HashedWords())
    index = built(tmp_path)
    for made in (index, ToolIndex.load(tmp_path, HashedWords(), PLACE)):
        for query in (QUERY, "bills", "film title", "Übersetzung"):
            ours, theirs = (each.search(query, 2, "dense") for each in (own, made))
            theirs = theirs[: len(ours)]  # of the others eight bits have rounded the cosine to nothing
            assert [hit.id for hit in theirs] == [hit.id for hit in ours]
            np.testing.assert_allclose([hit.score for hit in theirs], [hit.score for hit in ours], atol=0.01)
        assert found(made) == found(own)
    assert set(qdrant.keys) == {"s3cret-key"}
    assert not list(tmp_path.glob("g-*/vectors.npy")), "the vectors are in the engine alone"
    assert b"s3cret" not in b"".join(files(tmp_path).values())


def test_the_same_tools_are_not_embedded_again(tmp_path: Path, qdrant: QdrantDouble) -> None:
    built(tmp_path / "one")
    encoder = HashedWords()
    built(tmp_path / "two", encoder)  # of another machine, say
    assert encoder.encoded == []


def test_what_is_there_follows_the_tools(tmp_path: Path, qdrant: QdrantDouble) -> None:
    built(tmp_path)
    encoder = HashedWords()
    index = ToolIndex.load(tmp_path, encoder, PLACE)
    index.update([protocol("rentVehicle", "Hire a bicycle."), protocol("new_tool", "A kite.")])
    index.remove(["undocumented"])
    index.save(tmp_path)
    assert len(encoder.encoded) == 2
    assert len(qdrant.collections["tools"]) == len(index) + 1, "and the marker"
    assert found(ToolIndex.load(tmp_path, encoder, PLACE), "kite", mode="dense")[0] == "new_tool"


def test_vectors_that_are_there_move_without_the_encoder(tmp_path: Path, qdrant: QdrantDouble) -> None:
    encoder = HashedWords()
    ToolIndex.build(some(), encoder, tmp_path)
    encoder.encoded.clear()
    index = ToolIndex.load(tmp_path, encoder)
    index.keep_vectors(PLACE, tmp_path)
    index.update([])
    index.save(tmp_path)
    assert encoder.encoded == []
    assert found(ToolIndex.load(tmp_path, encoder, PLACE), mode="dense") == ["get_weather", "rentVehicle"]
    index.keep_vectors(Choice(), tmp_path)  # and back, which embeds what the engine had
    index.update([])
    index.save(tmp_path)
    assert ToolIndex.load(tmp_path, encoder).vectors_at == OWN
    assert found(ToolIndex.load(tmp_path, encoder), mode="dense") == ["get_weather", "rentVehicle"]


def test_a_change_that_is_cut_off_goes_on(
    tmp_path: Path, qdrant: QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.retrieval.engines.keeping.BLOCK", 4)
    built(tmp_path)
    index = ToolIndex.load(tmp_path, HashedWords(fails_after=8), PLACE)
    with pytest.raises(KeyboardInterrupt):
        index.update(many(20))
    with pytest.warns(LexicalOnly, match="cut off"):
        assert found(ToolIndex.load(tmp_path, HashedWords(), PLACE)) == ["get_weather"]
    encoder = HashedWords()
    index = ToolIndex.load(tmp_path, encoder, PLACE)
    index.update(many(20))
    index.save(tmp_path)
    assert len(encoder.encoded) == 12
    assert found(ToolIndex.load(tmp_path, encoder, PLACE)) == ["get_weather", "rentVehicle"]


def test_nobody_elses_collection_is_changed(tmp_path: Path, qdrant: QdrantDouble) -> None:
    qdrant.collections["tools"] = {7: {"id": 7, "vector": {}, "payload": {"photo": "cat"}}}
    before = json.dumps(qdrant.collections)
    with pytest.raises(VectorsUnavailable, match="something else than an index"):
        built(tmp_path)
    assert json.dumps(qdrant.collections) == before
    assert not (tmp_path / "index.json").exists()
    qdrant.collections.clear()
    ToolIndex.build(many(3), HashedWords(), vectors=PLACE)
    before = json.dumps(qdrant.collections)
    with pytest.raises(UsageError, match="of another index"):
        built(tmp_path)
    with pytest.raises(UsageError, match="of another encoder"):
        ToolIndex.build(many(3), HashedWords("other"), vectors=PLACE)
    assert json.dumps(qdrant.collections) == before


def test_a_stale_collection_is_not_searched(tmp_path: Path, qdrant: QdrantDouble) -> None:
    built(tmp_path)
    other = ToolIndex.load(tmp_path, HashedWords(), PLACE)
    other.remove(["get_weather"])  # and dies before it is saved
    index = ToolIndex.load(tmp_path, HashedWords(), PLACE)
    with pytest.warns(LexicalOnly, match="of other tools"):
        assert found(index) == ["get_weather"]
    with pytest.raises(VectorsUnavailable):
        found(index, mode="dense")
    del qdrant.collections["tools"]
    with pytest.warns(LexicalOnly, match="are gone"):
        found(ToolIndex.load(tmp_path, HashedWords(), PLACE))


def test_an_index_sends_nobody_to_a_server_that_they_did_not_name(tmp_path: Path, qdrant: QdrantDouble) -> None:
    built(tmp_path)
    qdrant.asked.clear()
    for choice in (Choice(), Choice("https://elsewhere.example/tools", "k")):
        index = ToolIndex.load(tmp_path, HashedWords(), choice)
        with pytest.warns(LexicalOnly, match="ATC_VECTORS"):
            assert found(index) == ["get_weather"]
        with pytest.raises(VectorsUnavailable, match="ATC_VECTORS"):
            index.update(many(1))
    assert qdrant.asked == []


# A server that is down, slow, damaged or hostile


def test_an_engine_that_is_down_leaves_words_and_is_not_asked_at_each_search(
    tmp_path: Path, qdrant: QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = built(tmp_path)
    now = [1000.0]
    monkeypatch.setattr(rows.time, "monotonic", lambda: now[0])
    assert found(index) == ["get_weather", "rentVehicle"]
    qdrant.down = True
    with pytest.warns(LexicalOnly, match="cannot be reached"):
        assert found(index) == ["get_weather"]
    qdrant.down = False
    qdrant.asked.clear()
    assert found(index) == ["get_weather"]
    assert qdrant.asked == []
    now[0] += rows.PAUSE_S + 1
    assert found(index) == ["get_weather", "rentVehicle"]


def test_an_engine_that_is_down_is_an_error_in_building(tmp_path: Path, qdrant: QdrantDouble) -> None:
    qdrant.down = True
    with pytest.raises(VectorsUnavailable, match="cannot be reached"):
        built(tmp_path)
    assert not (tmp_path / "index.json").exists()


def test_a_refused_key_says_which_setting(tmp_path: Path, qdrant: QdrantDouble) -> None:
    qdrant.key = "another"
    with pytest.raises(VectorsUnavailable, match="ATC_VECTORS_KEY") as caught:
        built(tmp_path)
    assert "s3cret" not in str(caught.value)


BAD_SCORE: Any = {"id": 7, "score": 0.5}


def _points(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[str, Answer], Answer | bytes]:
    def instead(path: str, answer: Answer) -> Answer | bytes:
        return (200, {"points": change(answer[1]["points"])}) if path.endswith("/query") else answer

    return instead


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (_points(lambda points: [*points, {"id": 12345, "score": 0.1}]), "does not have"),
        (_points(lambda points: [*points, points[0]]), "twice"),
        (_points(lambda points: [point | {"score": 1e30} for point in points]), "no cosine"),
        (_points(lambda points: [point | {"score": float("nan")} for point in points]), "no cosine"),
        (_points(lambda points: [point | {"score": 10**400} for point in points]), "no number"),
        (_points(lambda points: [point | {"score": "0.5"} for point in points]), "no number"),
        (_points(lambda points: [point | {"score": True} for point in points]), "no number"),
        (_points(lambda points: [point | {"id": MARKER} for point in points]), "no index put there"),
        (_points(lambda points: [point | {"id": "../etc"} for point in points]), "no index put there"),
        (_points(lambda points: points * 100), "were asked for"),
        (_points(lambda points: {"0": points}), "no list of points"),
        (lambda path, answer: b"\x00<html>", "status 200"),
        (lambda path, answer: b"[" * 100_000, "status 200"),
        (lambda path, answer: b'{"result": "' + b"x" * 3_000 + b'"}', "more than"),
        (lambda path, answer: (500, "boom \x1b[31m s3cret-key"), r"status 500: boom  \[31m \[key\]"),
    ],
)
def test_an_engine_that_lies_leaves_words(
    tmp_path: Path,
    qdrant: QdrantDouble,
    monkeypatch: pytest.MonkeyPatch,
    lie: Callable[[str, Answer], Answer | bytes],
    why: str,
) -> None:
    index = built(tmp_path)
    monkeypatch.setattr(server, "MAX_ANSWER", 200_001)
    if why == "more than":
        monkeypatch.setattr(server, "MAX_ANSWER", 2_000)
    qdrant.instead = lie
    with pytest.warns(LexicalOnly, match=why):
        assert found(index) == ["get_weather"]
    with pytest.raises(EncoderUnavailable):
        found(index, mode="dense")


def test_an_engine_that_returns_what_was_not_asked_about_leaves_words(tmp_path: Path, qdrant: QdrantDouble) -> None:
    index = built(tmp_path)
    all_of_them = {"points": [{"id": id, "score": 0.1} for id in sorted(qdrant.collections["tools"]) if id != MARKER]}
    vectors = index.snapshot.engine
    assert vectors is not None
    qdrant.instead = lambda path, answer: (200, {"points": all_of_them["points"][:2]})
    few = np.flatnonzero(~np.isin(index.snapshot.id_digests, [point["id"] for point in all_of_them["points"][:2]]))
    with pytest.raises(VectorsUnavailable, match="not asked about"):
        vectors.scores(HashedWords().encode(["car"])[0], few)


def test_pages_that_go_round_end(tmp_path: Path, qdrant: QdrantDouble) -> None:
    index = built(tmp_path)
    qdrant.instead = lambda path, answer: (
        (200, {"points": answer[1]["points"][:0], "next_page_offset": 5}) if path.endswith("/scroll") else answer
    )
    with pytest.raises(VectorsUnavailable, match="no order"):
        index.update(many(1))


def test_a_drip_of_bytes_ends(qdrant: QdrantDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    qdrant.collections["tools"] = {}
    now = iter(range(0, 10_000, 1_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with pytest.raises(VectorsUnavailable, match="few bytes at a time"):
        PLACE.engine(None).facts()  # type: ignore[union-attr]


# The command


def test_the_command_refuses_what_cannot_be(tmp_path: Path) -> None:
    wrong = atc("tools", "index", "atlas", "-o", str(tmp_path / "i"), "--vectors", "faiss")
    assert wrong.exit_code == 2
    assert "no place of vectors" in wrong.stderr
    words = atc("tools", "index", "atlas", "-o", str(tmp_path / "i"), "--encoder", "none", "--vectors", "qdrant-edge")
    assert words.exit_code == 2
    assert "--encoder" in words.stderr
    assert not (tmp_path / "i").exists()


def test_a_folder_is_needed_by_an_engine_of_this_process() -> None:
    with pytest.raises(UsageError, match="folder"):
        ToolIndex.build(some(), HashedWords(), vectors=Choice(EDGE))


def test_an_untrusted_file_sets_no_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "atc.toml").write_text('vectors = "https://evil.example/tools"\n')
    with pytest.raises(SettingsError, match="vectors"):
        Settings.load()
