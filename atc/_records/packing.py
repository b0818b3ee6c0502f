"""Bytes among JSON values: ``{"$bytes": "aGk="}``, on every way where values are JSON text.

Inside a process bytes are Python's own. :func:`pack` is applied once where values are written as JSON (a frame to a
program, the journal, a trace, ``--json``), :func:`unpack` once where they are read back. An object of the user's own
that has this one key alone gets a ``$`` more and loses it again, so that every value comes back as it was. The sandbox
has the same two in ``sandbox/convert.py``.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

TAG = "$bytes"
SMALL = 50
"""Values in a value that is visited one by one."""
SHOWN = 60
"""Bytes of a value that are written out where people and models read."""
_SCALARS = frozenset((str, int, float, bool, type(None)))
_TAGS = re.compile(r"\$+bytes")
_WHOLE_FLOAT = re.compile(r"\.0[,\]}]|\.0\Z|e\+")
"""The way in which every float without a fraction is written."""
# possessive, and it takes an unterminated string to the end: linear whatever comes
_STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def pack(value: Any) -> Any:
    """Return ``value`` with its bytes as tagged objects: plain JSON values if it held nothing else.

    What holds no bytes is returned as it is, not copied.
    """
    return value if is_plain(value) or _is_same_packed(value) else _packed(value)


def is_plain(value: Any) -> bool:
    """Return whether a value is surely the same packed, at one look: a number, a text, or a few of them by name.

    Most arguments are so, and many answers.
    """
    if type(value) is not dict:
        return type(value) in _SCALARS
    size = len(value)
    if size > SMALL:
        return False
    if size == 1:
        (key,) = value
        if type(key) is not str or "$" in key:  # it may be the tag
            return False
    return _SCALARS.issuperset(map(type, value.values()))


def _packed(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {TAG: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        key = _only_tag(value)
        if key is not None:
            return {f"${key}": _packed(value[key])}
        made = {key: _packed(item) for key, item in value.items()}
        return made if any(made[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        items = [_packed(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def unpack(value: Any) -> Any:
    """Return the value that :func:`pack` was given, from what it returned.

    Raises:
        ValueError: a tag holds anything but the base64 text of bytes, as an encoder writes it.
    """
    return value if is_plain(value) or _is_same_packed(value) else _unpacked(value)


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        key = _only_tag(value)
        if key == TAG:
            return _bytes(value[key])
        if key is not None:
            return {key[1:]: _unpacked(value[key])}
        made = {key: _unpacked(item) for key, item in value.items()}
        return made if any(made[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [_unpacked(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def holds_bytes(value: Any) -> bool:
    """Return whether there are bytes anywhere in a value."""
    if is_plain(value):
        return False
    if not isinstance(value, dict | list | tuple):
        return isinstance(value, bytes | bytearray)
    if not is_small(value) and json_text(value) is not None:
        return False
    return any(map(holds_bytes, value.values() if isinstance(value, dict) else value))


def is_small(value: Any) -> bool:
    """Return whether a value holds so few others that to visit each costs less than to write it as text."""
    if is_plain(value):
        return True
    waiting, left = [value], SMALL
    for at in waiting:  # which grows meanwhile
        if isinstance(at, dict | list | tuple):
            left -= len(at)
            if left < 0:
                return False
            waiting += at.values() if isinstance(at, dict) else at
    return True


def json_text(value: Any) -> str | None:
    """Return a value as JSON text, with its texts as they are; ``None`` where it holds anything but JSON values.

    The encoder is the one walk through a value that is cheap: a search of its text takes the place of others. Numbers
    that JSON does not have stand in it as Python writes them.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def count_values(text: str, enough: int = 0) -> int:
    """Return how many values JSON text writes: lists, objects, and what is in them. Keys do not count.

    Where it has space in empty lists or objects, these count twice.

    Args:
        enough: where there are surely no more, any number up to it may be returned.
    """
    most = 1 + text.count("[") + text.count("{") + text.count(",")
    if most <= enough:
        return most
    return values_of(without_strings(text))


def values_of(bare: str) -> int:
    """:func:`count_values` of text without strings. Each value that is not the first of its list follows a comma."""
    empty = bare.count("[]") + bare.count("{}")
    return 1 + bare.count(",") + bare.count("[") + bare.count("{") - empty


def without_strings(text: str) -> str:
    """JSON text with a number in place of each string and key. Linear whatever text it is."""
    return _STRING.sub("0", text)


def may_hold_whole_float(text: str) -> bool:
    """Return whether JSON text, as Python writes it, may hold a whole float. A string that looks so counts."""
    return _WHOLE_FLOAT.search(text) is not None


def shortened(text: str, limit: int) -> str:
    """Return a text cut to ``limit`` characters, with a mark where it was longer: the one place that does so."""
    return text if len(text) <= limit else f"{text[:limit]} …"


def as_text(value: Any) -> str:
    """JSON text for people and models, in which the first bytes stand as Python writes them: ``b'\\x89PNG'``."""
    if (text := json_text(value)) is not None:
        return text
    return _shown(value) if holds_bytes(value) else json.dumps(value, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_shown(item)}" for key, item in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, bytes | bytearray):
        cut = len(value) - SHOWN
        return repr(bytes(value[:SHOWN])) + (f" … ({len(value):,} bytes)" if cut > 0 else "")
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_same_packed(value: Any) -> bool:
    """Return whether a value surely has neither bytes nor an object with a tag in it, which a search can tell."""
    if not isinstance(value, dict | list | tuple):
        return not isinstance(value, bytes | bytearray)
    if is_small(value):
        return False
    text = json_text(value)
    return text is not None and f'{TAG}"' not in text


def _only_tag(value: dict[Any, Any]) -> str | None:
    """Return the key of an object that has one alone, if that is the tag with any number of ``$``."""
    if len(value) != 1:
        return None
    (key,) = value
    return key if isinstance(key, str) and _TAGS.fullmatch(key) else None


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"{TAG} holds a {type(text).__name__}, not base64 text")
    try:
        made = base64.b64decode(text, validate=True)
    except ValueError:
        made = None
    if made is None or base64.b64encode(made).decode() != text:  # of several spellings one is taken
        raise ValueError(f"{TAG} holds text that is not base64")
    return made
