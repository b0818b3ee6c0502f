"""Python values that a program made, as plain JSON values."""

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Mapping

MAX_DEPTH = 100
MAX_BITS = 1024  # of an integer: as much as the largest float


def to_json(value: object, where: str, depth: int = 0) -> object:
    """Return ``value`` as JSON values.

    Dates become ISO text, sets and tuples lists, dataclasses and mappings objects, decimals numbers.

    Raises:
        TypeError: something in it has no JSON form; the message says where.
        ValueError: it is nested deeper than 100 levels, or holds NaN, infinity or an integer of more than 308 digits.
    """
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return value if not isinstance(value, str) else str(value).encode("utf-8", "replace").decode()
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if isinstance(value, enum.Enum):
        return to_json(value.value, where, depth + 1)
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"{where} is an integer of {value.bit_length()} bits: give such a number as text")
        return int(value)
    if isinstance(value, (float, decimal.Decimal)):
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{where} is {number}, which is not a JSON number")
        return number
    if isinstance(value, Mapping):
        return {_key(key, where): to_json(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return to_json(sorted(value, key=lambda item: (type(item).__name__, str(item))), where, depth)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: to_json(getattr(value, f.name), f"{where}.{f.name}", depth + 1) for f in dataclasses.fields(value)
        }
    if isinstance(value, (range, type({}.keys()), type({}.values()))):
        return to_json(list(value), where, depth)
    raise TypeError(f"{where} is a {type(value).__name__}, which has no JSON form: give numbers, text, lists or dicts")


def _key(key: object, where: str) -> str:
    if isinstance(key, str):
        return key.encode("utf-8", "replace").decode()
    if isinstance(key, (bool, int, float, type(None))):
        return str(key)
    if isinstance(key, (datetime.date, tuple)):
        return str(key) if isinstance(key, tuple) else key.isoformat()
    raise TypeError(f"{where} has a key of type {type(key).__name__}: use text keys")
