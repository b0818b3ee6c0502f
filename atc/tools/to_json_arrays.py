"""Values of NumPy and pandas as plain ones: registered when the first of them comes, which has imported its library.

What is missing in pandas' values (NaN, NaT, NA) is null there, as a reader of a table expects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any

from atc.tools.to_json import MAX_ITEMS, note, to_json

MAX_ROWS, MAX_CELLS = 1_000, 100_000
"""Rows of a frame; a longer one gives its first rows, with a note."""


def register(library: str) -> None:
    """Teach :func:`to_json` the values of ``library``. What a user has registered for a class stands."""
    steps = _pandas_steps() if library == "pandas" else _numpy_steps()
    for kind, step in steps.items():
        if kind not in to_json.registry:
            to_json.register(kind, step)


def _numpy_steps() -> dict[type, Callable[[Any], Any]]:
    numpy = sys.modules["numpy"]
    return {numpy.generic: _array, numpy.ndarray: _array}


def _array(value: Any) -> Any:
    """A scalar or an array as numbers and lists; one with named fields as records."""
    if value.size > MAX_ITEMS:
        raise ValueError(f"an array of shape {value.shape} has more than {MAX_ITEMS:,} values: return fewer")
    if value.dtype.names:
        records = [dict(zip(value.dtype.names, row, strict=True)) for row in value.reshape(-1).tolist()]
        return records if value.ndim else records[0]
    if value.dtype.kind in "mM":  # to the microsecond: finer moments would become bare numbers
        return value.astype(f"{value.dtype.str[1:3]}[us]").tolist()
    return value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist()


def _pandas_steps() -> dict[type, Callable[[Any], Any]]:
    pandas = sys.modules["pandas"]
    return {
        pandas.DataFrame: _frame,
        pandas.Series: _series,
        pandas.Index: lambda value: _items(value.tolist()),
        pandas.api.extensions.ExtensionArray: lambda value: _items(value.tolist()),
        type(pandas.NA): lambda _: None,
        type(pandas.NaT): lambda _: None,
        pandas.Period: str,
        pandas.Interval: str,
    }


def _frame(frame: Any) -> Any:
    """The records of a frame; of one that is too long an object with the first of them, how many there are, and a
    note: what goes over its records as if they were all does not pass unseen."""
    most = min(MAX_ROWS, MAX_CELLS // max(frame.shape[1], 1))
    if len(frame) <= most:
        return _records(frame)
    text = f"the first {most:,} of {len(frame):,} rows: ask for fewer"
    note(f"the response is a table; these are {text}")
    return {"records": _records(frame.head(most)), "rows": len(frame), "note": text}


_frame.schema = {"type": "array", "items": {"type": "object"}}  # type: ignore[attr-defined]


def _records(frame: Any) -> list[dict[Hashable, Any]]:
    flat = frame if _is_counted(frame.index) else frame.reset_index()
    columns = [_items(flat.iloc[:, position].tolist()) for position in range(flat.shape[1])]
    return [_record(flat.columns, row) for row in zip(*columns, strict=True)]


def _record(names: Any, row: tuple[Any, ...]) -> dict[Hashable, Any]:
    made = dict(zip(names, row, strict=True))
    if len(made) != len(row):
        raise ValueError("a frame has two columns of one name")
    return made


def _series(series: Any) -> Any:
    """A list; of labelled values an object, or records where a label stands twice."""
    if _is_counted(series.index):
        return _items(series.tolist())
    if series.index.nlevels > 1 or not series.index.is_unique or len(series) > MAX_ROWS:
        return series.to_frame("value" if series.name is None else series.name)
    return dict(zip(series.index.tolist(), _items(series.tolist()), strict=True))


def _is_counted(index: Any) -> bool:
    """Whether an index is nothing but the numbers of the rows."""
    return type(index).__name__ == "RangeIndex" and index.name is None


def _items(items: list[Any]) -> list[Any]:
    return [None if isinstance(item, float) and item != item else item for item in items]
