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
SHOWN = 60
"""Bytes of a value that are written out where people and models read."""
_TAGS = re.compile(r"\$+bytes")


def pack(value: Any) -> Any:
    """Return ``value`` with its bytes as tagged objects: plain JSON values if it held nothing else.

    What holds no bytes is returned as it is, not copied.
    """
    if isinstance(value, bytes | bytearray):
        return {TAG: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        key = _only_tag(value)
        if key is not None:
            return {f"${key}": pack(value[key])}
        made = {key: pack(item) for key, item in value.items()}
        return made if any(made[key] is not item for key, item in value.items()) else value
    if isinstance(value, list | tuple):
        items = [pack(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def unpack(value: Any) -> Any:
    """The value that :func:`pack` was given, from what it returned.

    Raises:
        ValueError: a tag holds anything but the base64 text of bytes, as an encoder writes it.
    """
    if isinstance(value, dict):
        key = _only_tag(value)
        if key == TAG:
            return _bytes(value[key])
        if key is not None:
            return {key[1:]: unpack(value[key])}
        made = {key: unpack(item) for key, item in value.items()}
        return made if any(made[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [unpack(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def holds_bytes(value: Any) -> bool:
    """Whether there are bytes anywhere in a value."""
    if isinstance(value, dict):
        return any(map(holds_bytes, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_bytes, value))
    return isinstance(value, bytes | bytearray)


def as_text(value: Any) -> str:
    """JSON text for people and models, in which the first bytes stand as Python writes them: ``b'\\x89PNG'``."""
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


def _only_tag(value: dict[Any, Any]) -> str | None:
    """The key of an object that has one alone, if that is the tag with any number of ``$``."""
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
