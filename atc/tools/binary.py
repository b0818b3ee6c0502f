"""Bytes in JSON Schemas: ``{"type": "string", "format": "binary"}`` is what takes Python's ``bytes``, and nothing else.

Text is refused there, base64 text too: what the text should become is the program's to say. A validator knows JSON
values only, so bytes are shown to it in their packed form (:mod:`atc.packing`), and the schema is rewritten to fit it.
"""

from __future__ import annotations

from typing import Any

from atc.packing import TAG
from atc.tools.protocol import JsonSchema

_NO_VALUE = {"not": {"title": "bytes"}}
_IS_PACKED = {"required": [TAG], "maxProperties": 1}
_PACKED: JsonSchema = {"type": "object", **_IS_PACKED}
_DATA = frozenset({"const", "default", "enum", "example", "examples"})


def takes_bytes(schema: Any) -> bool:
    """Whether a schema is the one of bytes; that it may be null besides does not count."""
    if not isinstance(schema, dict) or schema.get("format") != "binary":
        return False
    kind = schema.get("type")
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def for_validator(schema: Any, *, with_bytes: bool) -> Any:
    """``schema`` for a validator of packed values (``with_bytes``), or of values that hold no bytes.

    With bytes, what wants an object does not take them for one.
    """
    if isinstance(schema, list):
        return [for_validator(item, with_bytes=with_bytes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if takes_bytes(schema):
        types = schema["type"] if isinstance(schema["type"], list) else []
        taken = [_PACKED] if with_bytes else []
        taken += [{"type": kind} for kind in types if kind != "string"]
        return {"if": {"anyOf": taken}, "else": _NO_VALUE} if taken else _NO_VALUE
    made = {key: item if key in _DATA else for_validator(item, with_bytes=with_bytes) for key, item in schema.items()}
    kind = schema.get("type")
    if with_bytes and (kind == "object" or (isinstance(kind, list) and "object" in kind)):
        made["allOf"] = [*made.get("allOf", ()), {"not": _IS_PACKED}]
    return made


def without_bytes(schema: Any) -> Any:
    """``schema`` for a channel that carries JSON alone: what is called binary there is text."""
    if isinstance(schema, list):
        return [without_bytes(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = "format" if takes_bytes(schema) else None
    return {key: item if key in _DATA else without_bytes(item) for key, item in schema.items() if key != left_out}


def bytes_problem(value: Any, schema: Any) -> str:
    """Why ``value`` does not fit, where bytes are given or wanted; empty where neither is."""
    if isinstance(value, bytes):
        shown = repr(value[:30]) + (f" … ({len(value):,} bytes)" if len(value) > 30 else "")
        return f"{shown} is bytes, which are not taken here: decode text (`data.decode()`)"
    if isinstance(schema, dict) and schema == _NO_VALUE["not"]:
        return f"bytes are wanted, not {type(value).__name__}: encode text (`text.encode()`), decode base64 text"
    return ""
