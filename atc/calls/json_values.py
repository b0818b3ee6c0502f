"""Values that a tool returned, as JSON values and bytes that every later reader can take."""

from __future__ import annotations

import json
import re
from typing import Any

from atc._host.unicode_forms import normalized
from atc._records.packing import TAG, is_plain, is_small, may_hold_whole_float, pack, unpack
from atc._records.strict_json import MAX_INTEGER_DIGITS, TooMany, bound_size, parse

__all__ = ["TooMany", "copied", "holds_nothing", "is_empty", "json_value_and_text", "to_json_value"]

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
_LONG_NUMBER = re.compile(rf"\d{{{MAX_INTEGER_DIGITS}}}")


def to_json_value(value: Any) -> Any:
    """Return ``value`` as JSON gives it back: keys are text, tuples are lists, half characters are question marks.

    Bytes stay bytes.

    Raises:
        TooMany: it holds more values than a program is given.
        ValueError: it has no JSON form that a program could be given (see :func:`atc._records.strict_json.parse`).
    """
    return json_value_and_text(value)[0]


def json_value_and_text(value: Any) -> tuple[Any, str]:
    """:func:`to_json_value`, and the JSON text of what it returns, its bytes tagged (:mod:`atc._records.packing`).

    Raises:
        TooMany, ValueError: as :func:`to_json_value`.
    """
    try:
        quick = _copied(value)
        if quick is not None:
            return quick
        text = json.dumps(pack(value), allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
        return unpack(parse(text)), text
    except TooMany:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)[:300]) from None


def _copied(value: Any) -> tuple[Any, str] | None:
    """``None`` where the strict way has to tell. What equals its copy has no key that stands twice in the text, and
    none that is no text."""
    plain = is_plain(value)
    if not plain and is_small(value):
        return None
    try:
        text = _ENCODER.encode(value)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    if f'{TAG}"' in text or _LONG_NUMBER.search(text) is not None:
        return None
    if plain and type(value) is not dict:
        return value, text
    bound_size(text)
    copy = json.loads(text)
    return (copy, text) if copy == value else None


def copied(value: Any) -> Any:
    """Return JSON values and bytes in lists and objects of their own."""
    if isinstance(value, dict):
        return dict(value) if is_plain(value) else {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list | tuple) else value


def is_empty(value: Any) -> bool:
    """Return whether a value is null or empty; 0 and ``False`` are not."""
    return value is None or (isinstance(value, str | bytes | list | dict) and not value)


def holds_nothing(value: Any, *, deep: bool = False) -> bool:
    """Return whether a response is empty: null, ``""``, ``[]``, ``{}``, or an object whose lists are all empty.

    Args:
        value: the response.
        deep: look for a value within objects and lists too, as probing does, which learns from values. Without it,
            ``{"user": {"name": null}}`` is the answer of a service that found a user.
    """
    if is_empty(value):
        return True
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        if deep:
            return all(holds_nothing(item, deep=True) for item in lists or value.values())
        return bool(lists) and not any(lists)
    return deep and isinstance(value, list) and all(holds_nothing(item, deep=True) for item in value)


# ----------------------------------------------------------------------------------------------------------------------
# The canonical form of a call's arguments: two calls with one form are the same call.


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def canonical(value: Any) -> str:
    """Return JSON text that is equal exactly for equal values.

    Key order does not count; text is in Unicode normal form C (:mod:`atc._host.unicode_forms`); a float without a
    fraction is the integer (1.0 is 1, as JSON Schema has it), but ``True`` is not 1, and bytes are not their base64
    text.

    Raises:
        ValueError: NaN or infinity, or two keys of an object that differ only in their Unicode form.
    """
    text = _ready(value) if is_plain(value) or not is_small(value) else None
    return _CANONICAL.encode(_normal(pack(value))) if text is None else text


def _ready(value: Any) -> str | None:
    """Return the canonical form of a value that is written as it stands; ``None`` where it may have to change."""
    try:
        text = _CANONICAL.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if f'{TAG}"' in text or may_hold_whole_float(text) or normalized("NFC", text) != text:
        return None
    return text  # all its texts are in form C, for every part of a text in form C is


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return normalized("NFC", value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_normal(item) for item in value]
    if isinstance(value, dict):
        made = {normalized("NFC", key): _normal(item) for key, item in value.items()}
        if len(made) != len(value):
            raise ValueError("two keys are the same text in different Unicode forms")
        return made
    return value
