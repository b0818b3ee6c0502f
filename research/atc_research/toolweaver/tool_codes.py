"""Codes of tools: a short sequence of numbers for each, near for near tools, different for all (ToolWeaver §3.1).

They lie in one file beside an index (:data:`FILE`), which names the tools and the encoder that they are of. ATC reads
the index without it.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc import UsageError
from atc.plugins.learning import Floats, Snapshot
from atc_research.toolweaver.clustering import squared_distances

FILE = "codes.npz"
"""Beside the file of an index."""
CODES_VERSION = 1
"""Changes with what the arrays of a file of codes mean."""
WEIGHT, BIAS = "encoder-weight-", "encoder-bias-"
"""How the names of a trained encoder's arrays begin; the number of the layer follows."""
_LARGEST_BOOK = 2**15
"""Codes of a level that 16 bits hold."""
_LARGEST = np.float64(1e5)
"""No number of a codebook or of a network that was learnt comes near; larger ones would overflow in a product."""
_FACTS, _VALUES, _BOOK, _MORE = "facts", "codes", "codebook-", "more-"


@dataclass(frozen=True)
class CodesFacts:
    """How codes were made; the file of codes holds it.

    Attributes:
        method: ``closed-form``, ``trained``, or a baseline of the benchmark.
        seed: of all random choices.
        smoothing: λ of ToolWeaver's Eq. 7, or of the closed form.
        encoder: the digest of the encoder of the vectors.
    """

    method: str
    seed: int = 0
    smoothing: float = 1.0
    encoder: str = ""
    version: int = CODES_VERSION


@dataclass(frozen=True)
class Codes:
    """The codes of the documents of an index, no two of them the same.

    Attributes:
        values: a row of codes for each document, of shape ``(documents, levels)``.
        books: the vector of each code, a codebook a level, each of shape ``(codes, dimensions)``.
        facts: how they were made.
        arrays: what else the method keeps, by name: the weights that take a vector into the space of the codebooks, or
            those of a head that says codes.
    """

    values: NDArray[np.int16]
    books: tuple[Floats, ...]
    facts: CodesFacts
    arrays: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def levels(self) -> int:
        """Codes of one tool."""
        return len(self.books)


def vectors_of(snapshot: Snapshot) -> Floats:
    """The vectors of the tools of an index, of shape ``(tools, dimensions)``.

    Raises:
        UsageError: it has none.
    """
    if snapshot.vectors is None:
        raise UsageError(
            "the index has no vectors, and codes are made of them: build it with an encoder (`atc tools index`)"
        )
    return snapshot.vectors.floats()


# -- the file ----------------------------------------------------------------------------------------------------------


def write_codes(index: Path, codes: Codes, ids: Sequence[str]) -> None:
    """Put codes into the folder of an index.

    Args:
        index: the folder.
        codes: in the order of the ids.
        ids: of the tools of the index.
    """
    facts = json.dumps({**vars(codes.facts), "tools": _digest(ids)})
    arrays: dict[str, Any] = {_FACTS: np.frombuffer(facts.encode(), np.uint8), _VALUES: codes.values}
    arrays |= {f"{_BOOK}{level}": book for level, book in enumerate(codes.books)}
    arrays |= {f"{_MORE}{name}": array for name, array in codes.arrays.items()}
    with (index / FILE).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_codes(index: Path, snapshot: Snapshot, encoder: str) -> Codes | None:
    """Read the codes of an index; ``None`` if none were made.

    Args:
        index: the folder.
        snapshot: what the index holds.
        encoder: the digest of the encoder of its vectors; empty where it has none.

    Raises:
        UsageError: they are damaged, or of other tools, another encoder or another version.
    """
    path = index / FILE
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            facts = json.loads(arrays[_FACTS].tobytes())
            books = tuple(arrays[f"{_BOOK}{level}"] for level in range(arrays[_VALUES].shape[1]))
            more = {name.removeprefix(_MORE): arrays[name] for name in arrays.files if name.startswith(_MORE)}
            tools = facts.pop("tools")
            codes = Codes(arrays[_VALUES], books, CodesFacts(**facts), more)
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile):
        raise UsageError(f"{path} is damaged: make the codes anew") from None
    why = "they are of other tools than the index holds" if tools != _digest(snapshot.ids) else ""
    if codes.facts.version != CODES_VERSION:
        why = f"they are of version {codes.facts.version!r:.40}, and this package reads version {CODES_VERSION}"
    dimensions = snapshot.vectors.values.shape[1] if snapshot.vectors is not None else 0
    if why := why or fault_of(codes, len(snapshot), encoder, dimensions):
        raise UsageError(f"the codes in {path} do not fit the index: {why}; make them anew")
    return codes


def _digest(ids: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()


# -- the space of the codebooks ----------------------------------------------------------------------------------------


def into_space(codes: Codes, vectors: Floats) -> Floats:
    """Take vectors into the space of the codebooks.

    The closed form quantises the vectors themselves. Trained codes have an encoder (ToolWeaver App. A.3): a linear
    map, beside it layers with the positive part taken between them; the sum is divided by its length.

    Args:
        codes: whose ``arrays`` hold the encoder, if there is one.
        vectors: of tools, of shape ``(tools, dimensions)``.

    Returns:
        Vectors of shape ``(tools, dimensions of a codebook)``.

    Raises:
        ValueError: the encoder takes vectors of other dimensions, or a layer of it is missing.
    """
    found = np.asarray(vectors, np.float32)
    linear = _layers(codes)
    if not linear:
        return found
    (weight, bias), *inner = linear
    made = found @ weight.T + bias
    for weight, bias in inner[:-1]:
        found = np.maximum(found @ weight.T + bias, 0)
    for weight, bias in inner[-1:]:
        made = made + found @ weight.T + bias
    return lengths_one(made)


def dimensions_of(codes: Codes, dimensions: int) -> int:
    """The components that :func:`into_space` makes of vectors.

    Args:
        dimensions: of the vectors.

    Raises:
        ValueError: the encoder's layers do not fit the vectors, or each other.
    """
    layers = _layers(codes)
    if not layers:
        return dimensions
    (straight, _), *inner = layers
    width = dimensions
    for place, (weight, bias) in enumerate(layers):
        if place == 1:
            width = dimensions  # the other layers begin at the vectors too
        if weight.ndim != 2 or weight.shape[1] != width or bias.shape != weight.shape[:1]:
            raise ValueError(f"layer {place} of the encoder has no shape that fits")
        width = len(weight)
    if inner and width != len(straight):
        raise ValueError("the encoder's layers have no sum")
    return width


def _layers(codes: Codes) -> list[tuple[Floats, Floats]]:
    count = sum(name.startswith(WEIGHT) for name in codes.arrays)
    wanted = [(f"{WEIGHT}{layer}", f"{BIAS}{layer}") for layer in range(count)]
    missing = next((name for pair in wanted for name in pair if name not in codes.arrays), None)
    if missing is not None:
        raise ValueError(f"{missing} of the encoder is missing")
    return [(np.asarray(codes.arrays[weight]), np.asarray(codes.arrays[bias])) for weight, bias in wanted]


def lengths_one(vectors: Floats) -> Floats:
    """Vectors of length one; those of length zero stay."""
    lengths = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
    made: Floats = vectors / np.maximum(lengths, 1e-6)
    return made


# -- tools that come later ---------------------------------------------------------------------------------------------


def fault_of(codes: Codes, documents: int, encoder: str, dimensions: int) -> str:
    """What is wrong with codes for an index; empty if nothing is.

    Args:
        documents: of the index.
        encoder: the digest of the encoder of its vectors; empty where it has none.
        dimensions: of its vectors.
    """
    values, books = codes.values, codes.books
    if not encoder:
        return "the index has no vectors"
    if codes.facts.encoder and codes.facts.encoder != encoder:
        return "they are of another encoder than the vectors"
    if values.dtype != np.int16 or values.ndim != 2 or not 1 <= values.shape[1] == len(books):
        return "they are no rows of whole numbers, one for each level"
    if len(values) != documents:
        return f"they are of {len(values)} tools, and the index has {documents}"
    for book in books:
        if book.ndim != 2 or not 1 <= len(book) <= _LARGEST_BOOK or book.shape[1:] != books[0].shape[1:]:
            return "a codebook has no shape that fits"
    for array in (*books, *codes.arrays.values()):
        if (
            not np.issubdtype(array.dtype, np.floating) or not (np.abs(array) <= np.float64(_LARGEST)).all()
        ):  # NaN is not
            return "an array holds something that is no number, or far too large"
    try:
        wide = dimensions_of(codes, dimensions)
    except ValueError as problem:
        return str(problem)
    if books[0].shape[1] != wide:
        return f"the codebooks have {books[0].shape[1]} dimensions, and the tools' vectors {wide} there"
    if documents and ((values < 0).any() or (values >= [len(book) for book in books]).any()):
        return "a code is not in its codebook"
    if len(np.unique(values, axis=0)) < documents:
        return "two tools have the same"
    return ""


def carried(codes: Codes, rows: NDArray[np.int64], vectors: Floats) -> Codes | None:
    """Codes for the tools of a changed index: the old ones stay, new tools get the nearest that are free.

    Args:
        codes: of the index before.
        rows: for each tool its row before, or -1 if it is new.
        vectors: of the new tools, in the order of their rows, of shape ``(new, dimensions)``.

    Returns:
        ``None`` where the codebooks have no room for so many tools.
    """
    if len(rows) > _room(codes, 0):
        return None
    new = rows < 0
    values = np.zeros((len(rows), codes.levels), np.int16)
    values[~new] = codes.values[rows[~new]]
    if new.any():
        values[new] = _free(codes, values[~new], into_space(codes, vectors))
    return Codes(values, codes.books, codes.facts, codes.arrays)


def _room(codes: Codes, level: int) -> int:
    return math.prod(len(book) for book in codes.books[level:])


def _free(codes: Codes, taken: NDArray[np.int16], vectors: Floats) -> NDArray[np.int16]:
    """At each level that is the nearest code with room: below a full one, no level could tell one more tool apart."""
    below: Counter[tuple[int, ...]] = Counter()
    full: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for level in range(codes.levels):
        prefixes, counts = np.unique(taken[:, : level + 1], axis=0, return_counts=True)
        room = _room(codes, level + 1)
        for prefix, count in zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True):
            below[prefix] = count
            if count >= room:
                full[prefix[:-1]].append(prefix[-1])
    made = np.zeros((len(vectors), codes.levels), np.int16)
    for row, vector in enumerate(np.asarray(vectors, np.float32)):
        said: tuple[int, ...] = ()
        for level, book in enumerate(codes.books):
            distances = squared_distances(vector[None], book)[0]
            distances[full[said]] = np.inf
            code = int(distances.argmin())
            vector = vector - book[code]
            said += (code,)
            below[said] += 1
            if below[said] >= _room(codes, level + 1):
                full[said[:-1]].append(code)
        made[row] = said
    return made
