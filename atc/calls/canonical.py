"""The canonical form of a call's arguments: two calls with one form are the same call."""

from __future__ import annotations

import json
from typing import Any

from atc.packing import TAG, is_small, may_hold_whole_float, pack
from atc.unicode_forms import normalized

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def canonical(value: Any) -> str:
    """Return JSON text that is equal exactly for equal values.

    Key order does not count; text is in Unicode normal form C (:mod:`atc.unicode_forms`); a float without a fraction
    is the integer (1.0 is 1, as JSON Schema has it), but ``True`` is not 1, and bytes are not their base64 text.

    Raises:
        ValueError: NaN or infinity, or two keys of an object that differ only in their Unicode form.
    """
    text = None if is_small(value) else _ready(value)
    return _ENCODER.encode(_normal(pack(value))) if text is None else text


def _ready(value: Any) -> str | None:
    """The canonical form of a value that is written as it stands; ``None`` where something in it may have to change."""
    try:
        text = _ENCODER.encode(value)
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
