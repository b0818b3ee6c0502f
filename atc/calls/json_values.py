"""Values that a tool returned, as JSON values and bytes that every later reader can take."""

from __future__ import annotations

import json
from typing import Any

from atc.packing import pack, unpack
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.frames import TooMany

__all__ = ["TooMany", "holds_nothing", "is_empty", "to_json_value"]


def to_json_value(value: Any) -> Any:
    """Return ``value`` as JSON gives it back: keys are text, tuples are lists, half characters are question marks.

    Bytes stay bytes.

    Raises:
        TooMany: it holds more values than a program is given.
        ValueError: it has no JSON form that a program could be given (see :func:`atc.sandboxes.channel.frames.parse`).
    """
    try:
        text = json.dumps(pack(value), allow_nan=False, ensure_ascii=False).encode("utf-8", "replace").decode()
        return unpack(frames.parse(text))
    except TooMany:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(str(error)[:300]) from None


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
