"""Values that a tool returned, as JSON values and bytes that every later reader can take."""

from __future__ import annotations

import json
import re
from typing import Any

from atc.packing import TAG, is_small, pack, unpack
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.frames import TooMany

__all__ = ["TooMany", "holds_nothing", "is_empty", "json_value_and_text", "to_json_value"]

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)
_LONG_NUMBER = re.compile(rf"\d{{{frames.MAX_INTEGER_DIGITS}}}")


def to_json_value(value: Any) -> Any:
    """Return ``value`` as JSON gives it back: keys are text, tuples are lists, half characters are question marks.

    Bytes stay bytes.

    Raises:
        TooMany: it holds more values than a program is given.
        ValueError: it has no JSON form that a program could be given (see :func:`atc.sandboxes.channel.frames.parse`).
    """
    return json_value_and_text(value)[0]


def json_value_and_text(value: Any) -> tuple[Any, str]:
    """:func:`to_json_value`, and the JSON text of what it returns, its bytes tagged (:mod:`atc.packing`).

    Raises:
        TooMany, ValueError: as :func:`to_json_value`.
    """
    try:
        quick = _copied(value)
        if quick is not None:
            return quick
        text = json.dumps(pack(value), allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
        return unpack(frames.parse(text)), text
    except TooMany:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)[:300]) from None


def _copied(value: Any) -> tuple[Any, str] | None:
    """A value that JSON gives back as it is, copied, and its text; ``None`` where the strict way has to tell.

    What equals its copy has no key that stands twice in the text, and none that is no text.
    """
    if is_small(value):
        return None
    try:
        text = _ENCODER.encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    if f'{TAG}"' in text or _LONG_NUMBER.search(text) is not None:
        return None
    frames.bound_size(text)
    copy = json.loads(text)
    return (copy, text) if copy == value else None


def is_empty(value: Any) -> bool:
    """Whether a value is null or empty; 0 and ``False`` are not."""
    return value is None or (isinstance(value, str | bytes | list | dict) and not value)


def holds_nothing(value: Any, *, deep: bool = False) -> bool:
    """Whether a response is empty: null, ``""``, ``[]``, ``{}``, or an object whose lists are all empty.

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
