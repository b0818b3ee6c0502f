"""JSON Schemas that a reply is held to: bounded, and cut to what a grammar can say.

A schema may come from a stranger's tool. Whoever makes a grammar of it (llama.cpp in a process of ours, an endpoint)
pays for its size, and references that multiply have no end. So a schema is refused where applying it could take long,
and what is sent to be enforced is a new, small schema. It says less than the whole one: replies are held to that one
afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from atc.errors import UsageError
from atc.schemas.validate import pointed, types_of
from atc.tools.protocol import JsonSchema

MAX_STEPS = 20_000
"""Subschemas that may apply, with every reference followed."""
MAX_DEPTH = 64
"""Levels of nested subschemas."""
MAX_ENFORCED, MAX_ENFORCED_DEPTH = 400, 12
"""Subschemas of what is sent, and how deep they may stand in each other."""
MAX_SENT = 100_000
"""Characters of it."""
MAX_ENUM, MAX_ITEMS, MAX_LENGTH = 256, 32, 256
"""Values of an enumeration, and bounds of lists and texts, that a grammar is made for: it spells each of them out."""
_MAX_MEMBERS = 16
_MAX_NUMBER = 10**12

_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {
        *("items", "additionalProperties", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
        *("not", "if", "then", "else"),
    }
)
_ELSEWHERE = frozenset({"$id", "$dynamicRef", "$recursiveRef"})
"""Keywords below the root by which a reference may mean another place than its pointer says."""


def check_bounded(schema: JsonSchema) -> None:
    """Look whether a schema can be applied within bounds.

    Raises:
        UsageError: it refers to something outside itself, is nested too deeply, or its references multiply.
    """
    steps = 0
    waiting: list[tuple[Any, int, frozenset[str]]] = [(schema, 0, frozenset())]
    while waiting:
        at, depth, followed = waiting.pop()
        if not isinstance(at, dict):
            continue
        steps += 1
        if steps > MAX_STEPS:
            raise UsageError(f"the reply's schema has more than {MAX_STEPS:,} parts, its references followed")
        if depth > MAX_DEPTH:
            raise UsageError(f"the reply's schema has more than {MAX_DEPTH} levels")
        if others := (_ELSEWHERE - {"$id"} if at is schema else _ELSEWHERE) & at.keys():
            raise UsageError(f"the reply's schema uses {min(others)}: references are followed within it by $ref alone")
        if isinstance(reference := at.get("$ref"), str) and reference not in followed:  # a cycle ends where it began
            waiting.append((_target(schema, reference), depth + 1, followed | {reference}))
        waiting += [(below, depth + 1, followed) for below in _below(at)]


def _target(root: JsonSchema, reference: str) -> Any:
    target = root if reference == "#" else pointed(root, reference) if reference.startswith("#/") else None
    if not isinstance(target, dict | bool):
        raise UsageError(f"the reply's schema refers to {reference[:80]!r}, which it does not hold")
    return target


def _below(schema: JsonSchema) -> Iterator[Any]:
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            yield from value.values()
        elif keyword in _LISTS and isinstance(value, list):
            yield from value
        elif keyword in _SINGLE:
            yield value


@dataclass(frozen=True)
class Enforced:
    """The schema that an endpoint is asked to enforce.

    Attributes:
        schema: of an object; has no reference.
        strict: whether it is of the kind that OpenAI calls strict: every key is required, and no other is allowed.
        wrapped: it is of an object around what is wanted.
    """

    schema: JsonSchema
    strict: bool
    wrapped: bool = False


class _TooMuch(Exception):
    """A grammar cannot say it, or is too large."""


def enforced(schema: JsonSchema) -> Enforced | None:
    """The part of a schema that a grammar can say; ``None`` where it is too large, or recursive.

    The root becomes an object: a schema of anything else stands under the key ``value``.
    """
    cutter = _Cutter(schema)
    try:
        made = cutter.cut(schema, 0, frozenset())
    except _TooMuch:
        return None
    if len(json.dumps(made)) > MAX_SENT:  # a long enumeration may stand in many places
        return None
    wrapped = made.get("type") != "object"
    if wrapped:
        made = {"type": "object", "properties": {"value": made}, "required": ["value"], "additionalProperties": False}
    return Enforced(made, cutter.strict, wrapped)


class _Cutter:
    def __init__(self, root: JsonSchema) -> None:
        self._root, self._nodes, self.strict = root, 0, True

    def cut(self, schema: Any, depth: int, followed: frozenset[str]) -> JsonSchema:
        self._nodes += 1
        if self._nodes > MAX_ENFORCED or depth > MAX_ENFORCED_DEPTH:
            raise _TooMuch
        if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
            if reference in followed:
                raise _TooMuch
            return self.cut(_target(self._root, reference), depth + 1, followed | {reference})
        if not isinstance(schema, dict):
            return self._anything()
        if "const" in schema:
            return _enumeration([schema["const"]])
        if isinstance(values := schema.get("enum"), list) and 0 < len(values) <= MAX_ENUM:
            return _enumeration(values)
        if isinstance(parts := schema.get("allOf"), list) and len(parts) == 1 and "properties" not in schema:
            return self.cut(parts[0], depth + 1, followed)
        for keyword in ("anyOf", "oneOf"):
            members = schema.get(keyword)
            if isinstance(members, list) and 0 < len(members) <= _MAX_MEMBERS and "properties" not in schema:
                return {"anyOf": [self.cut(member, depth + 1, followed) for member in members]}
        kinds = sorted(types_of(schema) or ({"object"} if "properties" in schema else ()))
        if not kinds:
            return self._anything()
        made = [self._of_type(kind, schema, depth, followed) for kind in kinds]
        return made[0] if len(made) == 1 else {"anyOf": made}

    def _of_type(self, kind: str, schema: JsonSchema, depth: int, followed: frozenset[str]) -> JsonSchema:
        if kind == "object":
            return self._object(schema, depth, followed)
        if kind == "array":
            items = schema.get("items")
            made = {"type": "array", "items": self.cut(items, depth + 1, followed)}
            return made | _bounds(schema, ("minItems", "maxItems"), MAX_ITEMS)
        if kind == "string":
            return {"type": "string"} | _bounds(schema, ("minLength", "maxLength"), MAX_LENGTH)
        if kind == "integer":
            return {"type": "integer"} | _bounds(schema, ("minimum", "maximum"), _MAX_NUMBER)
        return {"type": kind}

    def _object(self, schema: JsonSchema, depth: int, followed: frozenset[str]) -> JsonSchema:
        properties, required = schema.get("properties"), schema.get("required")
        required = [key for key in required if isinstance(key, str)] if isinstance(required, list) else []
        if not isinstance(properties, dict) or not properties or not properties.keys() >= set(required):
            self.strict = False  # its keys are not known
            return {"type": "object"}
        self.strict &= properties.keys() == set(required)
        made = {key: self.cut(value, depth + 1, followed) for key, value in properties.items()}
        return {"type": "object", "properties": made, "required": required, "additionalProperties": False}

    def _anything(self) -> JsonSchema:
        self.strict = False
        return {}


def _enumeration(values: list[Any]) -> JsonSchema:
    """The values with their type, which some endpoints want to see beside them."""
    kinds = {_KINDS.get(type(value), "") for value in values}
    return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 and kinds != {""} else {"enum": values}


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _bounds(schema: JsonSchema, keywords: tuple[str, ...], most: int) -> JsonSchema:
    """The bounds that are whole numbers a grammar can count to."""
    found = {keyword: schema.get(keyword) for keyword in keywords}
    return {
        keyword: value
        for keyword, value in found.items()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= most
    }
