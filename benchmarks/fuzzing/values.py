"""Values of programs and tools: their JSON form, bytes among them, canonical forms, and what is masked in them."""

from __future__ import annotations

import json
from typing import Any

from atc._host.redaction import Redactor
from atc._host.secret_detection import looks_secret, masked_exception, masked_text
from atc._records.packing import as_text, holds_bytes, pack, unpack
from atc.calls.json_values import canonical, holds_nothing, to_json_value
from benchmarks.fuzzing.target import Broken, Target

_BYTES, _FLOAT = "!b", "!f"
_SECRET = "s3cr3t/T0ken+42=="
_redactor = Redactor([_SECRET], {})


def run(data: bytes) -> None:
    """Take an input for a value: ``{"!b": "text"}`` stands for bytes."""
    try:
        given = _value(json.loads(data))
    except (ValueError, RecursionError):
        return
    try:
        value = to_json_value(given)
    except ValueError:
        return
    if not same(unpack(pack(value)), value):
        raise Broken("packing: a value is not what came back")
    if not same(to_json_value(value), value):
        raise Broken("json_values: taken twice, it is another value")
    _canonical(value)
    as_text(value), holds_bytes(value), holds_nothing(value), holds_nothing(value, deep=True)
    redacted = _redactor.value(value)
    if _SECRET in json.dumps(pack(redacted), ensure_ascii=False):
        raise Broken("redact: a secret is still there")
    for text in _texts(value):
        masked_text(text), masked_exception(text), looks_secret(text)


def _canonical(value: Any) -> None:
    try:
        form = canonical(value)
    except ValueError:
        return
    if canonical(unpack(json.loads(form))) != form:
        raise Broken("canonical: the form of what a form holds is another")
    if canonical(_turned(value)) != form:
        raise Broken("canonical: the order of keys counts")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with their types: 1 is neither 1.0 nor True."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _value(raw: Any) -> Any:
    if isinstance(raw, dict):
        if raw.keys() == {_BYTES} and isinstance(raw[_BYTES], str):
            return raw[_BYTES].encode("utf-8", "replace")
        return {key: _value(item) for key, item in raw.items()}
    return [_value(item) for item in raw] if isinstance(raw, list) else raw


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in _texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


TARGET = Target(
    "values",
    run,
    words=(
        _BYTES, "$bytes", "$$bytes", "aGk=", "aGk", "password", "api_key", _SECRET, "s3cr3t", "Bearer",
        "sk-abc123def456ghi789", "4111 1111 1111 1111", "id", "items", "2024-01-01", "https://u:p@h/", "é", "e\u0301",
        "\u1e9b\u0323", "\uac00",
    ),
)  # fmt: skip
