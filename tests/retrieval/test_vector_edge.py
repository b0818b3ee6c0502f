"""Vectors in qdrant-edge, the real engine: killed in the middle, read by several processes, damaged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

from atc.errors import LexicalOnly, ToolIndexError, UsageError, VectorsUnavailable
from atc.retrieval.engines import edge
from atc.retrieval.engines.base import Facts
from atc.retrieval.engines.choice import EDGE, FOLDER, OWN, Choice
from atc.retrieval.index import ToolIndex
from tests.support.qdrant import QdrantDouble, served
from tests.support.retrieval import HashedWords, many, some

pytest.importorskip("qdrant_edge", reason="qdrant-edge is not installed: pip install -e '.[vectors]'")
IN_EDGE = Choice(EDGE)
QUERY = "weather for a car"


def found(folder: Path, query: str = QUERY) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LexicalOnly)
        return [hit.id for hit in ToolIndex.load(folder, HashedWords()).search(query, 2)]


def state(folder: Path) -> Facts | None:
    return Facts.of_record(json.loads((folder / FOLDER / "state.json").read_bytes()))


def test_it_finds_what_our_own_finds_and_follows_the_tools(tmp_path: Path) -> None:
    encoder = HashedWords()
    index = ToolIndex.build(some(), encoder, tmp_path, vectors=IN_EDGE)
    assert found(tmp_path) == ["get_weather", "rentVehicle"]
    assert not list(tmp_path.glob("g-*/vectors.npy"))
    encoder.encoded.clear()
    index.add(many(3))
    index.remove(["get_weather"])
    index.save(tmp_path)
    assert len(encoder.encoded) == 3
    assert found(tmp_path)[0] == "rentVehicle"
    with pytest.raises(UsageError, match="build it anew"):
        index.save(tmp_path / "elsewhere")
    index.keep_vectors(Choice(OWN), tmp_path)
    index.update([])
    index.save(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_a_damaged_collection_leaves_words_and_is_made_anew(tmp_path: Path) -> None:
    index = ToolIndex.build(some(), HashedWords(), tmp_path, vectors=IN_EDGE)
    (tmp_path / FOLDER / "shard" / "edge_config.json").write_bytes(b"{")
    with pytest.warns(LexicalOnly, match="cannot read"):
        assert [hit.id for hit in ToolIndex.load(tmp_path, HashedWords()).search(QUERY)] == ["get_weather"]
    (tmp_path / FOLDER / "state.json").write_bytes(b"[" * 9_000)
    with pytest.warns(LexicalOnly, match="are gone"):
        assert [hit.id for hit in ToolIndex.load(tmp_path, HashedWords()).search(QUERY)] == ["get_weather"]
    index.update([])
    assert found(tmp_path) == ["get_weather", "rentVehicle"]


def test_one_process_changes_it(tmp_path: Path) -> None:
    index = ToolIndex.build(some(), HashedWords(), tmp_path, vectors=IN_EDGE)
    other = edge.EdgeEngine(tmp_path)
    facts = other.facts()
    assert facts is not None
    other.begin(Facts(facts.encoder, facts.dimensions, facts.tools, "f" * 64))
    with pytest.raises(ToolIndexError, match="another process"):
        index.add(many(1))
    other.finish(facts, lambda: None)
    index.add(many(1))


BUILD = textwrap.dedent("""
    import sys
    from pathlib import Path
    from atc.retrieval.engines import edge
    from atc.retrieval.engines.choice import Choice
    from atc.retrieval.index import ToolIndex
    from tests.support.retrieval import HashedWords, many
    edge.FLAT, edge.FLUSH_S = 200, 0.0
    encoder = HashedWords()
    def told(stage, done, total):
        print(stage, done, flush=True)
        if f"{stage} {done}" == sys.argv[3]:
            print("here", flush=True)
            sys.stdin.readline()
    ToolIndex.build(many(int(sys.argv[2])), encoder, Path(sys.argv[1]), told, vectors=Choice("qdrant-edge"))
    print("encoded", len(encoder.encoded))
""")


def building(folder: Path, tools: int, halt: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, str(folder), str(tools), halt]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("halt", ["embedding 0", "embedding 768", "embedding 1200", "connecting 1200", "writing 1000"])
def test_a_killed_build_goes_on(tmp_path: Path, halt: str) -> None:
    with building(tmp_path, 1_200, halt) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "here\n":
                break
        process.kill()
    assert process.returncode == -signal.SIGKILL
    with building(tmp_path, 1_200, "never") as process:
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said
    kept = {"embedding 0": 0, "embedding 768": 768}.get(halt, 1_200)
    assert said.splitlines()[-1] == f"encoded {1_200 - kept}"
    index = ToolIndex.load(tmp_path, HashedWords())
    assert "s/0777" in [
        hit.id for hit in index.search("thing number 777", 5, "dense")
    ]  # some numbers share a component


@pytest.mark.slow
def test_ctrl_c_while_it_connects_ends_at_once_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "FLAT", 200)
    monkeypatch.setattr(edge, "_CONNECT", "import time; time.sleep(600)")
    monkeypatch.setattr(edge, "_BEAT_S", 0.02)
    beats = 0

    def stopped(stage: str, done: int, total: int) -> None:
        nonlocal beats
        beats += stage == "connecting"
        if beats == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ToolIndex.build(many(300), HashedWords(), tmp_path, stopped, vectors=IN_EDGE)
    assert (facts := state(tmp_path)) is not None
    assert not facts.whole
    monkeypatch.undo()
    encoder = HashedWords()
    index = ToolIndex.build(many(300), encoder, tmp_path, vectors=IN_EDGE)  # the lock is free: its process is gone
    assert encoder.encoded == []
    assert index.search("thing number 77", 1, "dense")[0].id == "s/0077"


@pytest.mark.slow
def test_a_graph_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "FLAT", 200)
    monkeypatch.setattr(edge, "_CONNECT", "raise SystemExit('no memory')")
    with pytest.raises(VectorsUnavailable, match="no memory"):
        ToolIndex.build(many(300), HashedWords(), tmp_path, vectors=IN_EDGE)
    assert not (tmp_path / "index.json").exists()


@pytest.mark.slow
def test_a_graph_of_many_finds_nearly_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "FLAT", 5_000)
    random = np.random.default_rng(5)
    centres = random.standard_normal((60, 64))
    vectors = (centres[random.integers(60, size=12_000)] + random.standard_normal((12_000, 64))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys, digests = np.arange(1, 12_001, dtype=np.uint64), np.zeros((12_000, 16), np.uint8)
    engine = edge.EdgeEngine(tmp_path)
    engine.begin(Facts("e", 64, "", "t"))
    for at in range(0, 12_000, 1_000):
        engine.put(keys[at : at + 1_000], digests[at : at + 1_000], vectors[at : at + 1_000])
    engine.finish(Facts("e", 64, "t"), lambda: None)
    hits = 0
    for query in vectors[::600]:
        near, scores = engine.nearest(query, 10)
        assert (np.diff(scores) <= 0).all()
        hits += len(set(near.tolist()) & set((np.argsort(-(vectors @ query))[:10] + 1).tolist()))
    assert hits >= 190
    some_keys = keys[100:150]
    near, _ = engine.nearest(vectors[0], 50, some_keys)
    assert set(near.tolist()) == set(some_keys.tolist())
    engine.close()


@pytest.mark.slow
def test_several_processes_read_it(tmp_path: Path) -> None:
    ToolIndex.build(some(), HashedWords(), tmp_path, vectors=IN_EDGE)
    script = (
        "import sys; from tests.retrieval.test_vector_edge import found; from pathlib import Path\n"
        "print(found(Path(sys.argv[1])), flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    readers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "['get_weather', 'rentVehicle']\n"
        assert found(tmp_path) == ["get_weather", "rentVehicle"]
    finally:
        for reader in readers:
            reader.communicate()


@pytest.mark.slow
def test_the_protocol_over_real_http(tmp_path: Path) -> None:
    double = QdrantDouble("key")
    with served(double) as address:
        choice = Choice(f"{address}/tools", "key")
        ToolIndex.build([*some(), *many(700)], HashedWords(), tmp_path, vectors=choice)
        index = ToolIndex.load(tmp_path, HashedWords(), choice)
        assert index.search(QUERY, 1)[0].id == "get_weather"
        assert index.search("thing number 654", 1, "dense")[0].id == "s/0654"
    with pytest.warns(LexicalOnly, match="cannot be reached"):
        assert ToolIndex.load(tmp_path, HashedWords(), choice).search(QUERY, 1)[0].id == "get_weather"
