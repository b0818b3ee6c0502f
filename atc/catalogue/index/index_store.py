"""An index on disk: one file of arrays (``.npz``) in a folder, which is replaced whole.

A reader finds the old file or the new one, never half of either, and processes that write at once do not disturb each
other: the last one stays. What is read is never trusted: no file makes its reader take much more memory than it has
bytes, nothing is unpickled, and what does not fit together is refused.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from atc._host.files import replaced
from atc.catalogue.index import lexical
from atc.catalogue.index.documents import Documents, HeldDocuments
from atc.catalogue.index.lexical import WEIGHTS, Counts, LexicalIndex
from atc.catalogue.index.shared import SharedReader, SharedWriter
from atc.catalogue.index.snapshot import DIGEST, MOST, Progress, Snapshot
from atc.catalogue.index.vectors import Encoder, Vectors
from atc.errors import ToolIndexError
from atc.tools.tool import Toolset

FORMAT, VERSION = "atc-tool-index", 4
"""The version changes with the arrays, and with the words, fields and weights that they were made of."""
FILE = "index.npz"
"""The file's name in the folder of an index."""
MOST_BYTES = 1_000_000_000
"""Bytes of a file: 47,000 tools of ToolBench take 70 MB with their vectors, the 452 of Stripe 170 MB."""
_TEXTS = ("ids", "vocabulary", "documents", "shared")
"""Texts: two arrays each, their bytes and where each ends."""
_DTYPES: Mapping[str, type[np.generic]] = {
    "about": np.uint8,
    **dict.fromkeys(_TEXTS, np.uint8),
    **{f"{name}-ends": np.int64 for name in _TEXTS},
    "pointers": np.int64,
    "words": np.int32,
    "weights": np.int32,
    "digests": np.uint8,
    "vectors": np.int8,
    "scales": np.float32,
}


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


class _Lines:
    """Texts that lie one after the other.

    Args:
        content: their bytes.
        ends: where each ends.
    """

    def __init__(self, content: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._content, self._ends = content, ends

    def __getitem__(self, place: int) -> bytes:
        return self._content[self._ends[place - 1] if place else 0 : self._ends[place]].tobytes()

    def __len__(self) -> int:
        return len(self._ends)


def write(
    folder: Path,
    snapshot: Snapshot,
    encoder: Coded | None,
    progress: Progress | None = None,
    *,
    documents: bool = True,
) -> None:
    """Make ``folder`` hold an index, in place of one that it may hold.

    Args:
        folder: of the index.
        snapshot: what it holds.
        encoder: whose vectors those are.
        progress: told when it begins and ends.
        documents: also write the protocols; without them :func:`read` must be given the tools.

    Raises:
        ToolIndexError: it is too large or cannot be written; what was there still is.
    """
    told = progress or (lambda stage, done, total: None)
    told("writing", 0, len(snapshot))
    arrays = _arrays_of(snapshot, encoder, documents)
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_BYTES:
        raise ToolIndexError(
            f"the index would take {size:,} bytes, and an index takes {MOST_BYTES:,} at most: leave out tools that no "
            "task needs, or make several indexes, by service or by kind"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replaced(folder / FILE, 0o666) as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise ToolIndexError(
            f"the index cannot be written to {folder}: {error.strerror or error}. Check that (a full disk, or rights); "
            "an index that was there before is untouched"
        ) from None
    told("writing", len(snapshot), len(snapshot))


def read(folder: Path, tools: Toolset | None = None) -> tuple[Snapshot, Coded | None]:
    """Read the index of a folder.

    Args:
        folder: of the index.
        tools: hold the protocols of an index that was written without them.

    Raises:
        ToolIndexError: there is none, or it is damaged, foreign or of another version.
    """
    path = folder / FILE
    try:
        if not path.exists():
            raise ToolIndexError(f"there is no tool index in {folder}: build one there, or give its folder")
        if not path.is_file():  # a pipe would be waited for without end
            raise ToolIndexError(f"{path} is no file: give another folder")
        return _opened(_arrays(path), tools)
    except ToolIndexError:
        raise
    except OSError as error:
        raise ToolIndexError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # whatever a foreign or damaged file makes its readers raise
        why = f"{error}" or type(error).__name__
        raise ToolIndexError(f"the index in {folder} is damaged or foreign ({why:.200}): build it anew") from None


# -- writing -----------------------------------------------------------------------------------------------------------


def _arrays_of(snapshot: Snapshot, encoder: Coded | None, documents: bool) -> dict[str, Any]:
    coded = encoder if snapshot.vectors is not None else None
    about = {"format": FORMAT, "version": VERSION, "encoder": vars(coded) if coded else None}
    arrays: dict[str, Any] = {
        "about": np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8),
        **_packed("ids", [id.encode("utf-8", "surrogatepass") for id in snapshot.ids]),
        **_packed("vocabulary", [word.encode("utf-8", "surrogatepass") for word in snapshot.counts.vocabulary]),
        "pointers": snapshot.counts.pointers,
        "words": snapshot.counts.words,
        "weights": snapshot.counts.weights,
        "digests": snapshot.digests,
    }
    if documents:
        shared = SharedWriter()
        lines = [shared.line(id, snapshot.documents[row]) for row, id in enumerate(snapshot.ids)]
        arrays |= _packed("documents", lines) | _packed("shared", shared.texts)
    if snapshot.vectors is not None:
        arrays |= {"vectors": snapshot.vectors.values, "scales": snapshot.vectors.scales}
    return arrays


def _packed(name: str, texts: Sequence[bytes]) -> dict[str, NDArray[Any]]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {name: np.frombuffer(b"".join(texts), np.uint8), f"{name}-ends": ends}


# -- reading -----------------------------------------------------------------------------------------------------------


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Raises ValueError where it is no such file, or the arrays take more memory than the file has bytes."""
    size = path.stat().st_size
    _require(size <= MOST_BYTES, f"it has {size:,} bytes, and an index has {MOST_BYTES:,} at most")
    with path.open("rb") as file:
        _require(_lists_little(file, size), "it is no file of arrays")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            members = archive.zip.infolist()
            _require(all(each.compress_type == zipfile.ZIP_STORED for each in members), "its arrays are compressed")
            _require(sum(each.file_size for each in members) <= size, "it holds more than it has bytes")
            _require(archive.files == list(dict.fromkeys(archive.files)), "it holds an array twice")
            _require(set(archive.files) <= _DTYPES.keys(), "it holds arrays that no index has")
            arrays = {name: archive[name] for name in archive.files}
    for name, array in arrays.items():
        _require(array.dtype == _DTYPES[name], f"{name} holds values of another type")
    return arrays


def _lists_little(file: IO[bytes], size: int) -> bool:
    """Return whether a file ends as an archive of few members does: a list of many would take memory without bound."""
    file.seek(max(0, size - 42))
    end = file.read()
    if len(end) < 42 or end[:4] == b"PK\6\7" or end[20:24] != b"PK\5\6" or end[40:] != b"\0\0":
        return False
    return int.from_bytes(end[32:36], "little") <= 10_000


def _opened(arrays: dict[str, NDArray[Any]], tools: Toolset | None) -> tuple[Snapshot, Coded | None]:
    _require(len(arrays["about"]) <= 10_000, "what it says of itself is too long")
    about = json.loads(arrays["about"].tobytes())
    _require(about["format"] == FORMAT, "it is of something else than a tool index")
    _require(about["version"] == VERSION, f"it is of version {about['version']!r:.40}, and this ATC reads {VERSION}")
    ids = _unpacked(arrays, "ids", MOST)
    counts = Counts(
        _unpacked(arrays, "vocabulary", lexical.MOST), *(arrays[name] for name in ("pointers", "words", "weights"))
    )
    _check_counts(counts, len(ids))
    digests = arrays["digests"]
    _require(digests.shape == (len(ids), DIGEST), "its rows are not as many")
    coded, vectors = _vectors(about["encoder"], arrays, len(ids))
    snapshot = Snapshot(
        ids=ids,
        documents=_documents(arrays, ids, tools),
        counts=counts,
        digests=digests,
        lexical=LexicalIndex(counts),
        vectors=vectors,
    )
    return snapshot, coded


def _lines(arrays: Mapping[str, NDArray[Any]], name: str) -> _Lines:
    content, ends = arrays[name], arrays[f"{name}-ends"]
    _require(content.ndim == ends.ndim == 1, f"{name} are no list")
    _require(_ascends(np.append(0, ends), len(content)), f"{name} do not end where they should")
    return _Lines(content, ends)


def _ascends(places: NDArray[np.int64], last: int) -> bool:
    return bool(places[0] == 0 and places[-1] == last and (places[:-1] <= places[1:]).all())


def _unpacked(arrays: Mapping[str, NDArray[Any]], name: str, most: int) -> list[str]:
    """Return texts that are sorted, and all different."""
    count = len(_lines(arrays, name))
    _require(count <= most, f"there are {count:,} {name}, and an index has {most:,} at most")
    content, ends = arrays[name].tobytes(), arrays[f"{name}-ends"].tolist()
    texts = [content[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise([0, *ends])]
    _require(all(one < other for one, other in pairwise(texts)), f"{name} are not sorted")
    return texts


def _documents(arrays: Mapping[str, NDArray[Any]], ids: Sequence[str], tools: Toolset | None) -> Documents:
    if "documents" in arrays:
        lines = _lines(arrays, "documents")
        _require(len(lines) == len(ids), "its documents are not as many as its ids")
        return SharedReader(lines, _lines(arrays, "shared"))
    if tools is None or tools.keys() != set(ids):
        raise ValueError("it holds no protocols, and they are of other tools")
    return HeldDocuments([tools[id].protocol for id in ids])


def _check_counts(counts: Counts, documents: int) -> None:
    pointers, words, weights = counts.pointers, counts.words, counts.weights
    _require(len(words) <= lexical.MOST, f"it counts more than {lexical.MOST:,} words")
    _require(pointers.shape == (documents + 1,) and words.ndim == 1 and words.shape == weights.shape, "no such counts")
    _require(_ascends(pointers, len(words)), "no such counts")
    if len(words):
        _require(int(words.min()) >= 0 and int(words.max()) < len(counts.vocabulary), "a word is not in its vocabulary")
        _require(int(weights.min()) >= 1 and int(weights.max()) <= sum(WEIGHTS.values()), "a word has no such weight")


def _vectors(
    encoder: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]], documents: int
) -> tuple[Coded | None, Vectors | None]:
    if encoder is None:
        return None, None
    coded = Coded(str(encoder["name"]), str(encoder["digest"]), int(encoder["dimensions"]))
    values, scales = arrays["vectors"], arrays["scales"]
    _require(values.shape == (documents, coded.dimensions) and scales.shape == (documents,), "no such vectors")
    _require(bool(np.isfinite(scales).all()) and not (scales < 0).any(), "a vector has no such scale")
    return coded, Vectors(values, scales)


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)
