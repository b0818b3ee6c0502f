"""What a schema demands of a value beyond its type, in a few words: ranges, lengths, patterns."""

from __future__ import annotations

from typing import Any

from atc.tools.protocol import JsonSchema

MAX_PATTERN = 30
"""Characters of a pattern that is shown; a longer one is noise to a reader."""
_MAX_NUMBER = 10**6
"""A larger bound is the end of a machine's range rather than a rule of the service."""


def limits_of(schema: JsonSchema) -> str:
    """``1 to 100``, ``at most 20 characters``, ``pattern ^a+$``; empty where there is none that is short.

    The text comes from outside: write it with :func:`atc.tools.types.one_line`.
    """
    parts = [
        _beyond("more than", _number(schema, "exclusiveMinimum")),
        _range(_number(schema, "minimum"), _number(schema, "maximum")),
        _beyond("less than", _number(schema, "exclusiveMaximum")),
        _range(_number(schema, "minLength"), _number(schema, "maxLength"), "character"),
        _range(_number(schema, "minItems"), _number(schema, "maxItems"), "item"),
    ]
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= MAX_PATTERN:
        parts.append(f"pattern {pattern}")
    return ", ".join(filter(None, parts))


def _number(schema: JsonSchema, keyword: str) -> float | int | None:
    value: Any = schema.get(keyword)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER
    return value if usable else None


def _range(least: float | int | None, most: float | int | None, unit: str = "") -> str:
    """The demand that a value is not negative, or not empty, is left out."""
    if most is None:
        if least is None or 0 <= least <= 1:
            return ""
        text, last = f"at least {least}", least
    elif least is None or (unit and least <= 1 != most):
        text, last = f"at most {most}", most
    else:
        text, last = (f"{least} to {most}" if least != most else f"{least}"), most
    return f"{text} {unit}{'' if last == 1 else 's'}" if unit else text


def _beyond(word: str, bound: float | int | None) -> str:
    return "" if bound is None else f"{word} {bound}"
