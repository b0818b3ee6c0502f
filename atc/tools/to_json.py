"""What users' functions return, as JSON values and bytes: one registry, one step at a time.

:func:`to_json` takes one value a step nearer to JSON; :func:`to_json_with_notes` takes steps until none is left.
NumPy and pandas are not imported here: their steps are registered when the first value of theirs comes. What is missing
in pandas' values (NaN, NaT, NA) is null there, as a reader of a table expects.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import itertools
import math
import pathlib
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from atc.schemas.protocol import JsonSchema
from atc.wording import outcomes

MAX_DEPTH = 100
MAX_ITEMS = 200_000
"""Values of one list; a frame to a program may have as many."""
MAX_ROWS, MAX_CELLS = 1_000, 100_000
"""Rows of a frame; a longer one gives its first rows, with a note."""
_LIBRARIES = frozenset({"numpy", "pandas"})
_ANY: TypeAdapter[Any] = TypeAdapter(Any)
_learnt: set[str] = set()
_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)


def _learn(kind: type) -> bool:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    new = (packages & _LIBRARIES) - _learnt
    for library in new:
        _learnt.add(library)
        register(library)
    return bool(new)


@functools.singledispatch
def to_json(value: Any) -> Any:
    """Return ``value`` a step nearer to JSON values: what it holds may need steps of its own.

    ``@to_json.register`` on a function of one annotated argument says how values of that class (and of its subclasses)
    become data; it may return anything that has a JSON form in its turn. As :func:`functools.singledispatch`.

    Raises:
        TypeError: nothing is registered for its class, and pydantic knows none.
    """
    if _learn(type(value)) and to_json.dispatch(type(value)) is not _default:
        return to_json(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        serializer = getattr(type(value), "__pydantic_serializer__", None)
        if serializer is not None:
            return serializer.to_python(value, by_alias=True)
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, Iterator | range):
        return list(itertools.islice(value, MAX_ITEMS + 1))
    try:
        return to_jsonable_python(value)  # paths, addresses, patterns, secrets: what pydantic knows
    except (PydanticSerializationError, ValueError) as error:
        raise TypeError(
            f"a {type(value).__name__} has no JSON form: return plain values, or register one with "
            "`@atc.to_json.register`"
        ) from error


_default = to_json.dispatch(object)


@to_json.register(enum.Enum)
def _(value: enum.Enum) -> Any:
    return value.value


@to_json.register
def _(value: Decimal) -> Any:
    """A number where one says the same, digit for digit; else text."""
    if not value.is_finite():
        return float(value)
    if int(value.as_tuple().exponent) >= 0 and value.adjusted() < 300:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)


@to_json.register(datetime.date)
@to_json.register(datetime.time)
def _(value: Any) -> str:
    return str(value.isoformat())


@to_json.register
def _(value: datetime.timedelta) -> str:
    """An ISO 8601 duration of days and smaller. The sandbox has the same in ``sandbox/convert.py``."""
    left = abs(value)
    hours, rest = divmod(left.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = f"{hours}H" * (hours > 0) + f"{minutes}M" * (minutes > 0)
    if seconds or left.microseconds or not (parts or left.days):
        parts += f"{seconds}.{left.microseconds:06}".rstrip("0").rstrip(".") + "S"
    return f"{'-' * (value.days < 0)}P" + f"{left.days}D" * (left.days > 0) + f"T{parts}" * bool(parts)


@to_json.register(collections.deque)
@to_json.register(type({}.keys()))
@to_json.register(type({}.values()))
@to_json.register(type({}.items()))
def _(value: Any) -> list[Any]:
    return list(value)


@to_json.register
def _(value: pathlib.PurePath) -> str:
    return str(value)


@to_json.register(Set)
def _(value: Any) -> list[Any]:
    return sorted(value, key=lambda item: (type(item).__name__, str(item)))


@to_json.register(bytearray)
@to_json.register(memoryview)
def _(value: Any) -> bytes:
    return bytes(value)


@to_json.register
def _(value: BaseModel) -> Any:
    if _has_json_of_its_own(type(value)):
        return value.model_dump(mode="json", by_alias=True, fallback=to_json)
    return value.model_dump(by_alias=True)


@functools.lru_cache(maxsize=1024)
def _has_json_of_its_own(model: type[BaseModel]) -> bool:
    todo: list[Any] = [model.__pydantic_core_schema__]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            if str(part.get("type")).startswith("function-") and str(part.get("when_used")).startswith("json"):
                return True
            todo += part.values()
        elif isinstance(part, list | tuple):
            todo += part
    return False


def schema_of(kind: type) -> JsonSchema | None:
    """The schema of what values of a class become: empty where it is only known that they can; ``None`` if not."""
    _learn(kind)
    step = to_json.dispatch(kind)
    if step is _default:
        return None
    return dict(getattr(step, "schema", {}))


def note(text: str) -> None:
    """Say something about the answer that is being made: it is noted at the call."""
    notes = _notes.get()
    if notes is not None and text not in notes:
        notes.append(text)


def to_json_with_notes(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A value as JSON values and bytes, and what to know of it: what was cut, what has no JSON form and became null.

    Raises:
        TypeError: something in it has no JSON form.
        ValueError: it is nested deeper than 100 levels, has a list of more than 200,000, or two keys of one text.
        Exception: whatever a registered function raised.
    """
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        made = _Conversion()
        return made.value(value, 0), (*notes, *made.notes())
    finally:
        _notes.reset(token)


class _Conversion:
    def __init__(self) -> None:
        self._not_finite = 0

    def notes(self) -> list[str]:
        return [outcomes.became_null(self._not_finite, ())] if self._not_finite else []

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is str or kind is bool or kind is int or kind is bytes:
            return value
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself")
        if kind is float:
            return self._number(value)
        if kind is dict:
            return self._object(value, depth)
        if kind is list or kind is tuple:
            return self._list(value, depth)
        _learn(kind)
        if to_json.dispatch(kind) is _default:
            for base, take in self._by_base():
                if isinstance(value, base):
                    return take(value, depth)
        return self.value(to_json(value), depth + 1)

    def _by_base(self) -> list[tuple[Any, Callable[[Any, int], Any]]]:
        return [
            (str, lambda value, _: str.__str__(value)),
            (int, lambda value, _: int(value)),
            (float, lambda value, _: self._number(float(value))),
            (bytes, lambda value, _: bytes(value)),
            (Mapping, self._object),
            (list | tuple, self._list),
        ]

    def _number(self, value: float) -> float | None:
        if math.isfinite(value):
            return value
        self._not_finite += 1
        return None

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in value.items():
            text = key if type(key) is str else _key(key)
            if text in made:
                raise ValueError(f"an object has two keys that are {text[:80]!r} as text")
            made[text] = self.value(item, depth + 1)
        return made

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        if len(value) > MAX_ITEMS:
            raise ValueError(f"a list has more than {MAX_ITEMS:,} items: return fewer")
        return [self.value(item, depth + 1) for item in value]


def _key(key: Any) -> str:
    try:
        (text,) = _ANY.dump_python({key: None}, mode="json")
    except PydanticSerializationError:
        (text,) = _ANY.dump_python({to_json(key): None}, mode="json")  # a number of NumPy
    return str(text)


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
    """One that is too long says so: what goes over its records as if they were all does not pass unseen."""
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
    if _is_counted(series.index):
        return _items(series.tolist())
    if series.index.nlevels > 1 or not series.index.is_unique or len(series) > MAX_ROWS:
        return series.to_frame("value" if series.name is None else series.name)
    return dict(zip(series.index.tolist(), _items(series.tolist()), strict=True))


def _is_counted(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex" and index.name is None


def _items(items: list[Any]) -> list[Any]:
    return [None if isinstance(item, float) and item != item else item for item in items]
