"""What can be wrong with an index on disk: it is never trusted, and a failed writer leaves the old one."""

from __future__ import annotations

import io
import json
import os
import resource
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atc.catalogue.index import index_store
from atc.catalogue.index.index import ToolIndex
from atc.errors import ToolIndexError
from tests.support.retrieval import HashedWords, built, files, many, some

Arrays = dict[str, Any]


def test_no_index_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ToolIndexError, match="no tool index"):
            ToolIndex.load(folder)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / index_store.FILE)
    with pytest.raises(ToolIndexError, match="is no file"):
        ToolIndex.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x80\x04N.", b"PK\3\4" + b"x" * 100, b"PK\5\6" + b"\0" * 18, b"\x93NUMPY\x01\x00" + b" " * 90],
)
def test_a_foreign_file_is_made_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / index_store.FILE).write_bytes(content)
    with pytest.raises(ToolIndexError, match="damaged") as raised:
        ToolIndex.load(tmp_path)
    assert str(tmp_path) in str(raised.value)
    built(tmp_path)
    assert len(ToolIndex.load(tmp_path)) == len(some())


def test_a_byte_that_changed_or_is_missing_is_noticed(tmp_path: Path) -> None:
    whole = (built(tmp_path), (tmp_path / index_store.FILE).read_bytes())[1]
    expected = ToolIndex.load(tmp_path, HashedWords())
    for place in range(0, len(whole), max(1, len(whole) // 120)):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        for content in (bytes(changed), whole[:place], whole[:place] + whole[place + 1 :]):
            (tmp_path / index_store.FILE).write_bytes(content)
            try:
                found = ToolIndex.load(tmp_path, HashedWords())
            except ToolIndexError:
                continue
            # what an archive says of its members' dates and rights counts for nothing
            assert found.search("weather") == expected.search("weather"), place


# -- hostile files -----------------------------------------------------------------------------------------------------


def forged(folder: Path, change: Callable[[Arrays], object]) -> None:
    """An index whose arrays are others, in a file that is whole."""
    index = ToolIndex.build(some(), HashedWords())
    index.save(folder)
    with np.load(folder / index_store.FILE) as archive:
        arrays = dict(archive)
    change(arrays)
    np.savez(folder / index_store.FILE, **arrays)


def put(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], object]:
    return lambda arrays: arrays.update({name: change(arrays[name])})


def about(**changed: Any) -> Callable[[Arrays], object]:
    return put(
        "about", lambda old: np.frombuffer(json.dumps({**json.loads(old.tobytes()), **changed}).encode(), np.uint8)
    )


def last(value: int) -> Callable[[Any], Any]:
    return lambda old: np.append(old[:-1], np.array(value, old.dtype))


def far(old: Any) -> Any:
    """Places whose differences overflow."""
    return np.concatenate([[2**63 - 1, -2], old[2:]]).astype(np.int64)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (about(version=2), "version 2"),
        (about(format="another"), "something else"),
        (about(encoder={"name": "x"}), "digest"),
        (about(encoder={"name": "x", "digest": "y", "dimensions": 3}), "no such vectors"),
        (put("about", lambda old: np.frombuffer(b"[" * 9_000, np.uint8)), "damaged"),
        (put("about", lambda old: np.zeros(10_001, np.uint8)), "too long"),
        (lambda arrays: arrays.pop("about"), "about"),
        (lambda arrays: arrays.pop("documents"), "holds no protocols"),
        (lambda arrays: arrays.update(more=np.zeros(1)), "arrays that no index has"),
        (put("ids", lambda old: np.array([{"any": "object"}], dtype=object)), "damaged"),
        (put("ids", lambda old: old[::-1].copy()), "ids|codec"),
        (put("ids-ends", lambda old: old[:-1]), "where they should"),
        (put("ids-ends", far), "where they should"),
        (put("documents-ends", last(10**12)), "where they should"),
        (put("documents-ends", lambda old: old[None]), "no list"),
        (put("vocabulary", lambda old: np.full_like(old, ord("x"))), "vocabulary"),
        (put("pointers", lambda old: old[::-1].copy()), "no such counts"),
        (put("pointers", far), "no such counts"),
        (put("words", last(10**6)), "not in its vocabulary"),
        (put("words", last(-1)), "not in its vocabulary"),
        (put("words", lambda old: old.astype(np.int64)), "another type"),
        (put("weights", last(0)), "no such weight"),
        (put("weights", last(10**6)), "no such weight"),
        (put("digests", lambda old: old[:-1]), "not as many"),
        (put("vectors", lambda old: old[:, :-1]), "no such vectors"),
        (put("scales", lambda old: old * np.float32(np.nan)), "no such scale"),
    ],
)
def test_what_does_not_fit_together_is_refused(tmp_path: Path, change: Callable[[Arrays], object], why: str) -> None:
    forged(tmp_path, change)
    with pytest.raises(ToolIndexError, match=why):
        ToolIndex.load(tmp_path)


@contextmanager
def limited(what: int, size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def _taken() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _claims(shape: tuple[int, ...], dtype: str) -> bytes:
    """The head of an array of a shape, without its values."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    return head.getvalue()


def archived(*members: tuple[str, bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


_ZEROS = _claims((300_000_000,), "|u1") + bytes(300_000_000)
BOMBS = {
    "compressed": lambda: archived(("ids.npy", _ZEROS), kind=zipfile.ZIP_DEFLATED),
    "a claim of many values": lambda: archived(("ids.npy", _claims((10**12,), "|u1"))),
    "a claim of values of no size": lambda: archived(("ids.npy", _claims((10**15,), "|V0"))),
    "a claim beyond all numbers": lambda: archived(("ids.npy", _claims((2**62, 2**62), "|u1"))),
    "one member's bytes as two": lambda: archived(("ids.npy", b"x" * 9)).replace(b"\x09\0\0\0", b"\xff\xff\xff\0"),
    "very many members": lambda: archived(*((f"{n}.npy", b"") for n in range(20_000))),
    "a deep head": lambda: archived(("ids.npy", b"\x93NUMPY\x01\x00\x00\x20" + b"(" * 8192)),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_no_file_takes_memory_without_bound(tmp_path: Path, bomb: Callable[[], bytes]) -> None:
    (tmp_path / index_store.FILE).write_bytes(bomb())
    with limited(resource.RLIMIT_AS, _taken() + 200_000_000), pytest.raises(ToolIndexError, match="damaged"):
        ToolIndex.load(tmp_path)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / index_store.FILE).open("wb") as file:
        file.truncate(10**12)  # it takes no room
    with pytest.raises(ToolIndexError, match="1,000,000,000 at most"):
        ToolIndex.load(tmp_path)


# -- writers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_a_full_disk_leaves_the_old_index_as_it_was(tmp_path: Path, size: int) -> None:
    built(tmp_path)
    before = files(tmp_path)
    index = ToolIndex.build(many(200), HashedWords())
    with limited(resource.RLIMIT_FSIZE, size), pytest.raises(ToolIndexError, match="cannot be written") as raised:
        index.save(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert files(tmp_path) == before
    index.save(tmp_path)  # the disk has room again
    assert len(ToolIndex.load(tmp_path)) == 200


def test_an_index_that_would_be_too_large_to_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(tmp_path)
    before = files(tmp_path)
    monkeypatch.setattr(index_store, "MOST_BYTES", 20_000)
    with pytest.raises(ToolIndexError, match="20,000 at most: leave out tools"):
        ToolIndex.build(many(200), HashedWords(), tmp_path)
    assert files(tmp_path) == before


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ToolIndexError, match="cannot be written"):
        ToolIndex.build(some(), folder=tmp_path / "file")
    with pytest.raises(ToolIndexError, match="file"):
        ToolIndex.load(tmp_path / "file")
