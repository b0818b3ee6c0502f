"""Two schemas of one value → one schema that says what both say.

A ``$ref`` with keywords beside it, ``allOf``, and fields beside ``anyOf`` are the same thing: several schemas that hold
of one value (draft 2020-12, §8.2.3.1 and §10.2.1). What is made here is for readers of a schema: it has every field
that either has. A validator is given the schema as it stands.
"""

from __future__ import annotations

import json
from typing import Any

from atc.tools.protocol import JsonSchema

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_CHOICES = ("anyOf", "oneOf")
_BELOW = ("items", "additionalProperties", "contains", "propertyNames")
MAX_DEPTH = 40
"""Levels of fields in fields down to which two schemas of one field are joined; below, they stand in an ``allOf``."""


def both(first: JsonSchema, second: JsonSchema, depth: int = 0) -> JsonSchema:
    """One schema of what two schemas say of the same value.

    Args:
        first: one schema.
        second: the other; of what can be said only once (a description, a bound), this one's word holds.
        depth: levels above them.

    Returns:
        A schema with the fields of both; what is required by either is required. No reference is followed.
    """
    made: JsonSchema = {**first, **second}
    for key in first.keys() & second.keys():
        one, other = first[key], second[key]
        if one is other:
            continue
        if key in _MAPS and isinstance(one, dict) and isinstance(other, dict):
            common = {name: _of_one_value(one[name], other[name], depth) for name in one.keys() & other.keys()}
            made[key] = {**one, **other, **common}
        elif key in _BELOW:
            made[key] = _of_one_value(one, other, depth)
        elif key == "required" and isinstance(one, list) and isinstance(other, list):
            made[key] = list(dict.fromkeys([*filter(_is_text, one), *filter(_is_text, other)]))
        elif key == "type":
            made[key] = common_types(one, other) or other
        elif key == "enum" and isinstance(one, list) and isinstance(other, list):
            known = {json.dumps(value, sort_keys=True, default=str) for value in one}
            made[key] = [v for v in other if json.dumps(v, sort_keys=True, default=str) in known] or other
        elif key == "allOf" and isinstance(one, list) and isinstance(other, list):
            made[key] = [*one, *other]
    beside = [
        {key: first[key]} for key in ("$ref", *_CHOICES) if key in first and key in second and first[key] != second[key]
    ]
    if beside:
        listed = made.get("allOf")
        made["allOf"] = [*(listed if isinstance(listed, list) else ()), *beside]
    return made


def common_types(first: Any, second: Any) -> Any:
    """The value of ``type`` for a value of which two ``type`` keywords hold; an empty list where none can be."""
    one, other = _listed(first), _listed(second)
    common = [kind for kind in other if kind in one or (kind == "integer" and "number" in one)] + [
        kind for kind in one if kind == "integer" and "number" in other and kind not in other
    ]
    return common[0] if len(common) == 1 else common


def _of_one_value(one: Any, other: Any, depth: int) -> Any:
    """What two schemas, or ``true`` and ``false``, say of one value."""
    if one is other or other is True or one is False:
        return one
    if one is True or other is False or not isinstance(one, dict):
        return other
    if not isinstance(other, dict):
        return one
    return both(one, other, depth + 1) if depth < MAX_DEPTH else {"allOf": [one, other]}


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
