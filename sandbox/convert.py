"""Python values that a program made, as JSON values; and JSON values from the host, as Python's.

Bytes travel as ``{"$bytes": BASE64}``. An object of the program's own that has this one key alone gets a ``$`` more on
its way out, and one less on its way in. The host has the same in atc/_records/packing.py.
"""

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import io
import itertools
import math
import pathlib
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence
from typing import Any

MAX_DEPTH = 100
MAX_BITS = 1024  # of an integer: as much as the largest float
_PLAIN_INT = 1 << 64
MAX_ROWS = 1000  # of a frame
MAX_ERROR = 100  # characters of what an error says that stands where a value should
MAX_DRAWN = 200_000
"""Items that are drawn from the iterators of one value, in all: the host takes no more values in one message."""
TAG = "$bytes"
_TAGS = re.compile(r"\$+bytes")


def to_json(value: object, where: str, depth: int = 0, drawn: Iterator[int] | None = None) -> object:
    """Return ``value`` as JSON values.

    What is JSON already is returned as it is, not copied. Dates, times and durations become ISO text, sets, tuples and
    whatever is iterated (``map``, ``zip``, generators, views, ``range`` …) lists, dataclasses, models and mappings
    objects. A decimal becomes a number, or text where a number would lose digits. NumPy's scalars and arrays become
    numbers and lists; a series of pandas becomes a list, or an object of its labels; a frame becomes a list of records.
    What is missing in these is null.

    Args:
        value: of the program.
        where: what it is, for errors.
        depth: how deep it stands in that.
        drawn: counts what was drawn from iterators.

    Raises:
        TypeError: a value in it has no JSON form.
        ValueError: it is nested deeper than 100 levels, has two keys of one text, or holds NaN, infinity, an integer of
            more than 308 digits, a frame of more than 1,000 rows, or iterators of more than 200,000 items.
        BaseException: whatever an iterator raised.
    """
    if depth == 0 and is_plain(value):
        return value
    drawn = itertools.count(1) if drawn is None else drawn
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return value if not isinstance(value, str) else str(value).encode("utf-8", "replace").decode()
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if isinstance(value, enum.Enum):
        return to_json(value.value, where, depth + 1, drawn)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"{where} is an integer of {value.bit_length()} bits: give such a number as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {float(value)}, which is not a JSON number")
        return float(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value, where)
    if isinstance(value, Mapping):
        members = ((_key(key, where), f"{where}[{key!r}]", item) for key, item in value.items())
        return _object(members, where, depth, drawn)
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{where}[{index}]", depth + 1, drawn) for index, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return to_json(sorted(value, key=lambda item: (type(item).__name__, str(item))), where, depth, drawn)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {TAG: base64.b64encode(bytes(value)).decode()}
    found = _of_a_library(value, where)
    if found is not value:
        return to_json(found, where, depth + 1, drawn)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, pathlib.PurePath, collections.UserString)):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return duration(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = ((f.name, f"{where}.{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value))
        return _object(members, where, depth, drawn)
    if _is_iterated(value):
        return [to_json(item, f"{where}[{n}]", depth + 1, drawn) for n, item in enumerate(_drawn(value, where, drawn))]
    if isinstance(value, Exception):
        what = f"{where} is an error ({type(value).__name__}: {str(value)[:MAX_ERROR]}) and no value"
        raise TypeError(f"{what}: leave it out, or give its text") from value
    raise TypeError(f"{where} is a {type(value).__name__}, which has no JSON form: give numbers, text, lists or dicts")


def listed(value: object, where: str) -> object:
    """Return the list of what an iterator gives; any other value as it is.

    Raises:
        ValueError: it gives more than 200,000 items.
        BaseException: whatever it raised.
    """
    is_one = issubclass(type(value), Iterator) and _is_iterated(value)
    return list(_drawn(value, where, itertools.count(1))) if is_one else value


def _is_iterated(value: object) -> bool:
    """Whether a value is nothing but the items that it gives; a file in memory, say, is more."""
    return isinstance(value, (Iterator, Sequence, MappingView)) and not isinstance(value, io.IOBase)


def _drawn(items: Any, where: str, drawn: Iterator[int]) -> Iterator[object]:
    for item in items:
        if next(drawn) > MAX_DRAWN:
            raise ValueError(f"{where} gives more than {MAX_DRAWN:,} items, or has no end: take a part of it")
        yield item


def duration(value: datetime.timedelta) -> str:
    """Return an ISO 8601 duration of days and smaller: ``P1DT2H``, ``-PT0.5S``. The host has the same."""
    left = abs(value)
    hours, rest = divmod(left.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = f"{hours}H" * (hours > 0) + f"{minutes}M" * (minutes > 0)
    if seconds or left.microseconds or not (parts or left.days):
        parts += f"{seconds}.{left.microseconds:06}".rstrip("0").rstrip(".") + "S"
    return f"{'-' * (value.days < 0)}P" + f"{left.days}D" * (left.days > 0) + f"T{parts}" * bool(parts)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value surely is JSON already; most are, and this takes a tenth of the time."""
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[no-any-return]
    if kind is dict:
        if depth >= MAX_DEPTH:
            return False
        for key, item in value.items():
            if type(key) is not str or not key.isascii() or key[:1] == "$" or not is_plain(item, depth + 1):
                return False  # a key that begins so may be a tag
        return True
    if kind is list:
        if depth >= MAX_DEPTH:
            return False
        for item in value:  # noqa: SIM110 - quicker than a generator
            if not is_plain(item, depth + 1):
                return False
        return True
    if kind is int:
        return -_PLAIN_INT < value < _PLAIN_INT  # type: ignore[no-any-return]
    if kind is float:
        return math.isfinite(value)
    return kind is bool or value is None


def from_json(value: object) -> object:
    """A value of the host's as Python has it: tags become bytes. The host's own frames are believed."""
    if isinstance(value, dict):
        key = _only_tag(value)
        if key == TAG:
            return base64.b64decode(value[key])
        if key is not None:
            return {key[1:]: from_json(value[key])}
        return {key: from_json(item) for key, item in value.items()}
    return [from_json(item) for item in value] if isinstance(value, list) else value


def _object(
    members: Iterable[tuple[str, str, object]], where: str, depth: int, drawn: Iterator[int]
) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, place, item in members:
        if key in made:
            raise ValueError(f"{where} has two keys that are {key!r} as text")
        made[key] = to_json(item, place, depth + 1, drawn)
    tag = _only_tag(made)
    return made if tag is None else {f"${tag}": made[tag]}


def _only_tag(value: dict[str, object]) -> str | None:
    if len(value) != 1:
        return None
    (key,) = value
    return key if _TAGS.fullmatch(key) else None


def _key(key: object, where: str) -> str:
    if isinstance(key, enum.Enum):
        return _key(key.value, where)
    if isinstance(key, str):
        return key.encode("utf-8", "replace").decode()
    if isinstance(key, (bool, int, float, type(None))):
        return str(key)
    if isinstance(key, (datetime.date, datetime.time)):
        return key.isoformat()
    if isinstance(key, datetime.timedelta):
        return duration(key)
    if isinstance(key, (tuple, uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(key)
    if _is_of(key, "numpy") and hasattr(key, "item"):
        return _key(key.item(), where)
    raise TypeError(f"{where} has a key of type {type(key).__name__}: use text keys")


def _decimal(value: decimal.Decimal, where: str) -> object:
    if not value.is_finite():
        raise ValueError(f"{where} is {value}, which is not a JSON number")
    if int(value.as_tuple().exponent) >= 0 and value.adjusted() < 300:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) and decimal.Decimal(repr(number)) == value else str(value)


# -- values of libraries, known by their module: none is imported for it -----------------------------------------------


def _is_of(value: object, package: str) -> bool:
    return any(base.__module__.split(".")[0] == package for base in type(value).__mro__)


def _of_a_library(value: Any, where: str) -> Any:
    if _is_of(value, "pandas"):
        return _of_pandas(value, where)
    if _is_of(value, "numpy"):
        return _of_numpy(value)
    if _is_of(value, "pydantic") and hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True)
    return value


def _of_numpy(value: Any) -> Any:
    if not hasattr(value, "dtype"):
        return value
    if value.dtype.names:
        return [dict(zip(value.dtype.names, row, strict=True)) for row in value.reshape(-1).tolist()]
    if value.dtype.kind in "mM":  # to the microsecond: finer moments would become bare numbers
        return value.astype(f"{value.dtype.str[1:3]}[us]").tolist()
    return value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist()


def _of_pandas(value: Any, where: str) -> Any:
    pandas: Any = sys.modules["pandas"]
    if value is pandas.NA or value is pandas.NaT:
        return None
    if isinstance(value, pandas.DataFrame):
        if len(value) > MAX_ROWS:
            raise ValueError(f"{where} is a frame of {len(value):,} rows; at most {MAX_ROWS:,} are passed: give fewer")
        flat = value if _is_range(pandas, value.index) else value.reset_index()
        columns = [[_missing(pandas, item) for item in flat.iloc[:, i].tolist()] for i in range(flat.shape[1])]
        return [dict(zip(flat.columns, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(value, pandas.Series):
        items = [_missing(pandas, item) for item in value.tolist()]
        if _is_range(pandas, value.index):
            return items
        if value.index.nlevels > 1 or not value.index.is_unique:
            return value.to_frame("value" if value.name is None else value.name)
        return dict(zip(value.index.tolist(), items, strict=True))
    if isinstance(value, (pandas.Index, pandas.api.extensions.ExtensionArray)):
        return [_missing(pandas, item) for item in value.tolist()]
    if isinstance(value, (pandas.Period, pandas.Interval)):
        return str(value)
    return value


def _is_range(pandas: Any, index: Any) -> bool:
    return isinstance(index, pandas.RangeIndex) and index.name is None


def _missing(pandas: Any, item: Any) -> Any:
    return None if item is pandas.NA or item is pandas.NaT or (isinstance(item, float) and item != item) else item
