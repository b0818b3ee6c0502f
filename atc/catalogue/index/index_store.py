"""An index on disk: one folder, whose manifest names one complete generation of files.

A new generation is written beside the old one and the manifest replaced in one step, so that a reader finds the old
index or the new one, never half of either. Readers that have mapped the old files keep them after they are deleted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc._host.files import lock
from atc.catalogue.index import vectors
from atc.catalogue.index.co_usage import MOST, CoUsage
from atc.catalogue.index.lexical import Counts, LexicalIndex
from atc.catalogue.index.snapshot import DIGEST, Progress, Snapshot, line_of
from atc.catalogue.index.vectors import Encoder, Vectors
from atc.errors import ToolIndexError

FORMAT, VERSION = "atc-tool-index", 2
"""The version changes with the files' layout, and with the words, fields and weights that they were made of."""

MANIFEST, LOCK, BLOCKS, GRAPH = "index.json", ".lock", ".embedding", "nearest.usearch"
_USED = "used-"
"""The beginning of the names of files that say what was used together. An index works without them."""
_OLD = ("codes", "codebook-")
"""The beginning of the names of files that older versions kept for each tool's codes. Nothing reads them any more."""
_USED_LEFT_OUT = (
    "what was used together is left out, for its part of the index is damaged: "
    "`atc tools index --used-together FILE` reads it anew"
)
_ROUNDED = 1.01  # sums in 32 bits are rounded
_ATTEMPTS, _PAUSE_S = 5, 0.05
_EVERY = 1_000
"""Documents between two reports of progress."""


@dataclass(frozen=True)
class Coded:
    """The encoder whose vectors an index holds."""

    name: str
    digest: str
    dimensions: int

    @classmethod
    def of(cls, encoder: Encoder) -> Coded:
        """Return what names an encoder that can be used.

        Raises:
            EncoderUnavailable: it cannot.
        """
        encoder.check()
        return cls(encoder.name, encoder.digest, encoder.dimensions)

    def own(self) -> Encoder | None:
        """Return the encoder of this machine, if it is that one."""
        from atc.catalogue.index.minilm import MiniLM

        return MiniLM() if self.digest == MiniLM.digest else None


class MappedLines:
    """The documents of a file, each read when it is asked for."""

    def __init__(self, path: Path, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        with path.open("rb") as file:
            self._map = mmap(file.fileno(), 0, access=ACCESS_READ) if path.stat().st_size else b""

    def __getitem__(self, row: int) -> bytes:
        return self._map[int(self._offsets[row]) : int(self._offsets[row + 1])]

    def __len__(self) -> int:
        return len(self._offsets) - 1


def write(folder: Path, snapshot: Snapshot, encoder: Coded | None, progress: Progress | None = None) -> None:
    """Make ``folder`` hold an index; whatever index it held before is replaced at the very end.

    Args:
        folder: of the index.
        snapshot: what it holds.
        encoder: whose vectors those are.
        progress: told of each stage.

    Raises:
        ToolIndexError: it cannot be written (what was there still is), or another process is writing there.
    """
    try:
        with _locked(folder):
            _remove(folder, ".new-*")  # of writers that were killed
            _remove(folder, "vectors-edge")  # of versions that kept vectors there
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
            try:
                _write_files(scratch, snapshot, progress or (lambda stage, done, total: None))
                files = {path.relative_to(scratch).as_posix(): _described(path) for path in _all_files(scratch)}
                _publish(folder, scratch, _manifest(snapshot, encoder, files))
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise ToolIndexError(
            f"the index cannot be written to {folder}: {error.strerror or error}. Check that (a full disk, or rights); "
            "an index that was there before is untouched"
        ) from None


def read(folder: Path) -> tuple[Snapshot, Coded | None]:
    """Open the index of a folder. Its large files are mapped into memory.

    Args:
        folder: of the index.

    Raises:
        ToolIndexError: there is none, or it is damaged, foreign or of another version.
    """
    for attempt in range(_ATTEMPTS):
        manifest = _read_manifest(folder)
        try:
            return _open(folder, manifest)
        except FileNotFoundError as error:  # a writer has replaced it meanwhile?
            missing = error
            time.sleep(_PAUSE_S * attempt)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(folder, str(error)) from None
    raise _damaged(folder, f"{missing.filename} is missing")


# Writing


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as handle:
        try:
            lock(handle)
        except BlockingIOError:
            raise ToolIndexError(
                f"another process is writing the index in {folder} right now: wait for it, then try again"
            ) from None
        yield


def _write_files(folder: Path, snapshot: Snapshot, progress: Progress) -> None:
    offsets = [0]
    with (folder / "documents.jsonl").open("wb") as out:
        for row, id in enumerate(snapshot.ids):
            line = line_of(id, snapshot.documents[row]).rstrip(b"\n") + b"\n"
            out.write(line)
            offsets.append(offsets[-1] + len(line))
            if row % _EVERY == 0:
                progress("writing", row, len(snapshot))
    progress("writing", len(snapshot), len(snapshot))
    (folder / "ids.json").write_text(json.dumps(list(snapshot.ids)))
    snapshot.lexical.save(folder / "lexical")
    arrays: dict[str, Any] = {
        "offsets": np.array(offsets, np.int64),
        "digests": snapshot.digests,
        "services": snapshot.services,
        "pointers": snapshot.counts.pointers,
        "words": snapshot.counts.words,
        "weights": snapshot.counts.weights,
    }
    if snapshot.vectors is not None:
        arrays |= {"vectors": snapshot.vectors.values, "scales": snapshot.vectors.scales}
    if (used := snapshot.co_usage) is not None:
        arrays |= {f"{_USED}pairs": used.pairs, f"{_USED}counts": used.counts, f"{_USED}totals": used.totals}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    if snapshot.vectors is not None and len(snapshot) > vectors.EXACT:
        vectors.Nearest.write(snapshot.vectors, folder / GRAPH, partial(progress, "connecting"))


def _manifest(snapshot: Snapshot, encoder: Coded | None, files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    listing = json.dumps(files, sort_keys=True).encode()
    return {
        "format": FORMAT,
        "version": VERSION,
        "generation": f"g-{hashlib.sha256(listing).hexdigest()[:16]}",
        "documents": len(snapshot),
        "encoder": None if encoder is None or snapshot.vectors is None else vars(encoder),
        "files": files,
    }


def _publish(folder: Path, scratch: Path, manifest: dict[str, Any]) -> None:
    home = folder / manifest["generation"]
    if not _is_whole(home, manifest["files"]):  # the same index again: its files are there
        shutil.rmtree(home, ignore_errors=True)
        for path in _all_files(scratch):
            _sync(path)
        os.replace(scratch, home)
    new = folder / f".new-{MANIFEST}"
    new.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    _sync(new)
    os.replace(new, folder / MANIFEST)
    _sync(folder)
    _remove(folder, "g-*", but=home)


def _is_whole(home: Path, files: dict[str, dict[str, Any]]) -> bool:
    try:
        return all(_described(home / name) == wanted for name, wanted in files.items())
    except OSError:
        return False


def _all_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _described(path: Path) -> dict[str, Any]:
    if not path.is_file():  # a pipe would be waited for without end
        raise FileNotFoundError(errno.ENOENT, "no file", str(path))
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(folder: Path, pattern: str, but: Path | None = None) -> None:
    for path in folder.glob(pattern):
        if path == but:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# Reading


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if path.exists() and not path.is_file():
        raise ToolIndexError(f"{path} is no file: give another folder")
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ToolIndexError(f"there is no tool index in {folder}: build one there, or give its folder") from None
    except OSError as error:
        raise ToolIndexError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise _damaged(folder, f"{MANIFEST} is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ToolIndexError(f"{path} is of something else than a tool index: give another folder")
    if manifest.get("version") != VERSION:
        raise ToolIndexError(
            f"the index in {folder} is of version {manifest.get('version')!r} and this ATC reads version {VERSION}: "
            "build it anew, or use the ATC that made it"
        )
    files, generation = manifest.get("files"), manifest.get("generation")
    if not isinstance(files, dict) or not isinstance(generation, str) or Path(generation).name != generation:
        raise _damaged(folder, f"{MANIFEST} names no files")
    return manifest


def _open(folder: Path, manifest: dict[str, Any]) -> tuple[Snapshot, Coded | None]:
    home = folder / manifest["generation"]
    files = {name: wanted for name, wanted in manifest["files"].items() if not name.startswith(_OLD)}
    damaged = False
    for name, wanted in files.items():
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ValueError(f"{MANIFEST} names a file elsewhere")
        if not _is_as_wanted(home / name, wanted, folder, manifest):
            if not name.startswith(_USED):
                raise ValueError(f"{name} is not what {MANIFEST} says")
            damaged = True
    arrays = {
        Path(name).stem: np.load(home / name, mmap_mode="r", allow_pickle=False)
        for name in files
        if name.endswith(".npy") and "/" not in name and not (damaged and name.startswith(_USED))
    }
    ids = json.loads((home / "ids.json").read_bytes())
    lexical = LexicalIndex.load(home / "lexical")
    encoder = Coded(**manifest["encoder"]) if manifest["encoder"] else None
    used = _co_usage(arrays, len(ids))
    snapshot = Snapshot(
        ids=ids,
        documents=MappedLines(home / "documents.jsonl", arrays["offsets"]),
        counts=Counts(lexical.vocabulary, arrays["pointers"], arrays["words"], arrays["weights"]),
        digests=arrays["digests"].reshape(-1, DIGEST),
        services=arrays["services"],
        lexical=lexical,
        # older versions may have kept the vectors elsewhere: then only their encoder is known
        vectors=Vectors(arrays["vectors"], arrays["scales"]) if encoder and not manifest.get("engine") else None,
        nearest=vectors.Nearest.open(home / GRAPH) if GRAPH in files else None,
        co_usage=used,
        notices=(_USED_LEFT_OUT,) if used is None and any(name.startswith(_USED) for name in files) else (),
    )
    if not len(ids) == manifest["documents"] == len(snapshot.documents) == len(snapshot.counts) == len(lexical):
        raise ValueError("its files hold different numbers of documents")
    return snapshot, encoder


def _is_as_wanted(path: Path, wanted: dict[str, Any], folder: Path, manifest: dict[str, Any]) -> bool:
    """Return whether a file is as the manifest says. One of :data:`_USED` can be gone, unless a writer replaced it."""
    try:
        if _described(path) != wanted:
            return False
        if path.name.startswith(_USED):
            np.load(path, mmap_mode="r", allow_pickle=False)
        return True
    except FileNotFoundError:
        if not path.name.startswith(_USED) or _read_manifest(folder)["generation"] != manifest["generation"]:
            raise
    except (ValueError, EOFError):
        pass
    return False


def _co_usage(arrays: Mapping[str, NDArray[Any]], documents: int) -> CoUsage | None:
    """Return what was used together; ``None`` where there is nothing of it, or what cannot be."""
    pairs, counts, totals = (arrays.get(f"{_USED}{name}") for name in ("pairs", "counts", "totals"))
    if pairs is None or counts is None or totals is None:
        return None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or counts.shape != (len(pairs),) or totals.shape != (documents,):
        return None
    if not np.issubdtype(pairs.dtype, np.integer) or (pairs[:, 0] >= pairs[:, 1]).any():
        return None
    if (pairs < 0).any() or (pairs >= documents).any():
        return None
    for array in (counts, totals):
        if not np.issubdtype(array.dtype, np.floating) or not ((array >= 0) & (array <= np.float64(MOST))).all():
            return None
    if (counts > _ROUNDED * np.minimum(totals[pairs[:, 0]], totals[pairs[:, 1]])).any():
        return None  # a pair was used no oftener than each of its tools: other counts would join all to all
    return CoUsage(pairs, counts, totals)


def _damaged(folder: Path, what: str) -> ToolIndexError:
    return ToolIndexError(f"the index in {folder} is damaged ({what}): delete the folder and build it anew")
