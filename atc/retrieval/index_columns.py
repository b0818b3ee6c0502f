"""Columns that an index may have or not: codes, and what was used together. One that is unsound is left out.

An index works without them: a column that is damaged, foreign or of another version gives a notice and no error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atc.retrieval.co_usage import MOST, CoUsage
from atc.retrieval.code_column import fault_of
from atc.retrieval.codes import CODES_VERSION, Codes, CodesFacts
from atc.retrieval.snapshot import Snapshot

Arrays = Mapping[str, NDArray[Any]]

CODES, CO_USAGE = "codes", "co-usage"
_ROUNDED = 1.01  # sums in 32 bits are rounded
_VALUES, _BOOK, _MORE, _USED = "codes", "codebook-", "codes-", "used-"
_HEAD = "head-"
"""How the names of arrays begin that older versions trained to rank by codes."""


def column_of(file: str) -> str | None:
    """The column that a file of an index belongs to; ``None`` for what no index can do without."""
    name = file.removesuffix(".npy")
    if name == _VALUES or name.startswith((_BOOK, _MORE)):
        return CODES
    return CO_USAGE if name.startswith(_USED) else None


def column_arrays(snapshot: Snapshot) -> dict[str, NDArray[Any]]:
    """The arrays of the columns that a snapshot has, by the names of their files."""
    arrays: dict[str, NDArray[Any]] = {}
    if snapshot.codes is not None:
        arrays[_VALUES] = snapshot.codes.values
        arrays |= {f"{_BOOK}{level}": book for level, book in enumerate(snapshot.codes.books)}
        arrays |= {f"{_MORE}{name}": array for name, array in snapshot.codes.arrays.items()}
    if snapshot.co_usage is not None:
        together = snapshot.co_usage
        arrays |= {
            f"{_USED}pairs": together.pairs,
            f"{_USED}counts": together.counts,
            f"{_USED}totals": together.totals,
        }
    return arrays


def read_columns(about: Any, arrays: Arrays, damaged: Collection[str], documents: int, encoder: str) -> dict[str, Any]:
    """The columns of a saved index, as arguments of a :class:`~atc.retrieval.snapshot.Snapshot`.

    Args:
        about: what the manifest says of the codes; nothing where there are none.
        arrays: those that could be read, by name.
        damaged: columns of which a file is missing or not what the manifest says.
        documents: of the index.
        encoder: the digest of the encoder of its vectors; empty where it has none.
    """
    found: dict[str, Any] = {}
    notices = []
    if any(column_of(name) == CO_USAGE for name in arrays) or CO_USAGE in damaged:
        together = None if CO_USAGE in damaged else _co_usage(arrays, documents)
        if together is None:
            notices.append(
                "what was used together is left out, for its part of the index is damaged: "
                "`atc tools index --used-together FILE` reads it anew"
            )
        found["co_usage"] = together
    if about:
        codes, why = (None, "their part of the index is damaged") if CODES in damaged else _codes(about, arrays)
        if codes is not None and (why := fault_of(codes, documents, encoder, _dimensions(arrays))):
            codes = None
        if codes is None:
            notices.append(f"the codes of this index are left out: {why}; `atc tools index --codes` makes them anew")
        elif any(name.startswith(_HEAD) for name in codes.arrays):
            codes = replace(codes, arrays={k: each for k, each in codes.arrays.items() if not k.startswith(_HEAD)})
            notices.append("the head that ranked by the codes of this index is ignored: `atc learn` learns it")
        found["codes"] = codes
    return found | {"notices": tuple(notices)}


def _codes(about: Any, arrays: Arrays) -> tuple[Codes | None, str]:
    """The codes, or why there are none."""
    if not isinstance(about, dict) or about.get("version") != CODES_VERSION:
        version = about.get("version") if isinstance(about, dict) else None
        return None, f"they are of version {version!r:.40} and this ATC reads version {CODES_VERSION}"
    method, seed, smoothing, encoder = (about.get(name) for name in ("method", "seed", "smoothing", "encoder"))
    values = arrays.get(_VALUES)
    if not isinstance(method, str) or not isinstance(encoder, str) or not isinstance(seed, int) or values is None:
        return None, "the index does not say how they were made"
    if not isinstance(smoothing, int | float) or values.ndim != 2:
        return None, "the index does not say how they were made"
    books = tuple(arrays[name] for level in range(values.shape[1]) if (name := f"{_BOOK}{level}") in arrays)
    more = {name.removeprefix(_MORE): array for name, array in arrays.items() if name.startswith(_MORE)}
    return Codes(values, books, CodesFacts(method, seed, smoothing, encoder), more), ""


def _dimensions(arrays: Arrays) -> int:
    vectors = arrays.get("vectors")
    return vectors.shape[1] if vectors is not None and vectors.ndim == 2 else 0


def _co_usage(arrays: Arrays, documents: int) -> CoUsage | None:
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
