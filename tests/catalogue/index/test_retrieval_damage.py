"""What can be wrong with an index on disk: damage is named, a failed writer leaves the old one."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from atc.catalogue.index import index_store
from atc.catalogue.index.index import ToolIndex
from atc.errors import ToolIndexError
from tests.support.retrieval import HashedWords, built, files, generation, many, some


def test_no_index_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolIndexError, match="no tool index"):
        ToolIndex.load(tmp_path)
    with pytest.raises(ToolIndexError, match="no tool index"):
        ToolIndex.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"\xff\x00", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"[]", "something else"),
        (b'{"name": "a web page"}', "something else"),
        (b'{"format": "atc-tool-index", "version": 99}', "version 99"),
        (b'{"format": "atc-tool-index", "version": 2}', "names no files"),
        (b'{"format": "atc-tool-index", "version": 2, "generation": "../..", "files": {}}', "names no files"),
        (b'{"format": "atc-tool-index", "version": 2, "generation": "g-1", "files": {"../x": {}}}', "elsewhere"),
        (b'{"format": "atc-tool-index", "version": 2, "generation": "g-1", "files": {"x.npy": 1}}', "x.npy is missing"),
        (b'{"format": "atc-tool-index", "version": 2, "generation": "g-1", "files": {}}', "damaged"),
    ],
)
def test_a_foreign_or_damaged_manifest_is_said(tmp_path: Path, manifest: bytes, message: str) -> None:
    (tmp_path / "index.json").write_bytes(manifest)
    with pytest.raises(ToolIndexError, match=message) as raised:
        ToolIndex.load(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_every_damaged_or_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_store, "_PAUSE_S", 0.0)
    built(tmp_path / "good")
    names = [str(p.relative_to(tmp_path / "good")) for p in generation(tmp_path / "good").rglob("*") if p.is_file()]
    assert len(names) >= 10
    for number, name in enumerate(names):
        for how in ("cut", "flipped", "gone"):
            copy = tmp_path / f"{number}-{how}"
            shutil.copytree(tmp_path / "good", copy)
            content = bytearray((copy / name).read_bytes())
            content[len(content) // 2] ^= 1
            if how == "gone":
                (copy / name).unlink()
            else:
                (copy / name).write_bytes(content[:-1] if how == "cut" else content)
            with pytest.raises(ToolIndexError, match=Path(name).name):
                index_store.read(copy)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    built(tmp_path)
    place = generation(tmp_path) / "offsets.npy"
    np.save(place, np.array([{"any": "object"}], dtype=object), allow_pickle=True)
    manifest = json.loads((tmp_path / "index.json").read_bytes())
    manifest["files"]["offsets.npy"] = index_store._described(place)
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    with pytest.raises(ToolIndexError, match="damaged"):
        ToolIndex.load(tmp_path)


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_a_full_disk_leaves_the_old_index_as_it_was(tmp_path: Path, size: int) -> None:
    built(tmp_path)
    before = files(tmp_path)
    index = ToolIndex.build(many(200), HashedWords())
    with small_disk(size), pytest.raises(ToolIndexError, match="cannot be written") as raised:
        index.save(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert files(tmp_path) == before
    index.save(tmp_path)  # the disk has room again
    assert len(ToolIndex.load(tmp_path)) == 200


def test_a_full_disk_while_embedding_is_said(tmp_path: Path) -> None:
    with small_disk(1_000), pytest.raises(ToolIndexError, match="cannot be kept"):
        ToolIndex.build(many(10), HashedWords(), tmp_path)


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ToolIndexError, match="cannot be written"):
        ToolIndex.build(some(), folder=tmp_path / "file")
    with pytest.raises(ToolIndexError, match="file"):
        ToolIndex.load(tmp_path / "file")


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    index = built(tmp_path)
    (tmp_path / ".new-killed").mkdir()
    (tmp_path / ".new-killed" / "half").write_bytes(b"x")
    index.save(tmp_path)
    assert not list(tmp_path.glob(".new-*"))


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    index = built(tmp_path)
    with index_store._locked(tmp_path), pytest.raises(ToolIndexError, match="another process"):
        index.save(tmp_path)
    assert os.listdir(tmp_path)
