"""Lenient output schemas of what tools answer, and answers made to fit them.

A client may refuse an answer that does not fit the declared schema, and what was seen is no promise. So in a filled
schema nothing is required, every field may be null, other fields are allowed, and numbers are numbers, whole or not. It
is always of an object: any other answer stands under ``result``.
"""

from __future__ import annotations

from typing import Any

from atc.schemas.observed import MAX_DEPTH, MAX_NODES
from atc.schemas.protocol import JsonSchema
from atc.schemas.types import OBSERVED
from atc.schemas.validate import resolve, types_of

RESULT = "result"
"""Where an answer stands that is no object."""
MAX_LEFT_OUT = 20
"""Places that are named of an answer that does not fit."""
_NOTHING = object()


def filled_schema(shape: JsonSchema | None) -> JsonSchema | None:
    """The output schema for a response of a shape; ``None`` where that says no more than that it is text or nothing.

    Args:
        shape: of keys and types (:mod:`atc.schemas.observed`); whatever else stands in it is left out.
    """
    root = resolve(shape, shape) if shape else {}
    kinds = _types(root)
    if shape is None or not kinds & {"object", "array"}:
        return None
    maker = _Maker(shape)
    made: JsonSchema = {"type": "object"}
    properties: dict[str, Any] = {}
    if "object" in kinds:
        inner = maker.loose({**root, OBSERVED: "object", "type": "object"})
        properties = inner.get("properties", {})
        if "additionalProperties" in inner:
            made["additionalProperties"], properties = inner["additionalProperties"], {RESULT: {}}
    if others := sorted(kinds - {"object", "null"}):
        under = maker.loose({**root, OBSERVED: others, "type": others})
        properties = {**properties, RESULT: {} if RESULT in properties else under}
    return made | ({"properties": properties} if properties else {})


def _types(schema: JsonSchema) -> set[str]:
    return set(types_of(schema) or types_of({"type": schema.get(OBSERVED)}))


class _Maker:
    """Makes schemas of types alone, each of which may be null."""

    def __init__(self, root: JsonSchema) -> None:
        self._root, self._left = root, MAX_NODES

    def loose(self, schema: Any, depth: int = 0) -> JsonSchema:
        self._left -= 1
        schema = resolve(self._root, schema) if isinstance(schema, dict) else {}
        kinds = _types(schema) - {"null"}
        if not kinds or depth > MAX_DEPTH or self._left < 0:
            return {}
        if "integer" in kinds:
            kinds = kinds - {"integer"} | {"number"}
        made: JsonSchema = {"type": [*sorted(kinds), "null"]}
        properties, others, items = (schema.get(name) for name in ("properties", "additionalProperties", "items"))
        if "object" in kinds and isinstance(properties, dict) and properties:
            made["properties"] = {str(key): self.loose(part, depth + 1) for key, part in properties.items()}
        elif "object" in kinds and isinstance(others, dict) and (below := self.loose(others, depth + 1)):
            made["additionalProperties"] = below
        if "array" in kinds and isinstance(items, dict) and (below := self.loose(items, depth + 1)):
            made["items"] = below
        return made


def fitted(value: Any, schema: JsonSchema) -> tuple[dict[str, Any], list[str]]:
    """An answer as structured content that fits a filled schema, and the places that were left out for that.

    Linear in the answer.

    Args:
        value: a JSON value.
        schema: of :func:`filled_schema`.
    """
    left_out: list[str] = []
    whole = value if isinstance(value, dict) else {RESULT: value}
    made = _fitted(whole, schema, "$", left_out)
    assert isinstance(made, dict)  # the root allows every object
    return made, left_out


def _fitted(value: Any, schema: Any, place: str, left_out: list[str]) -> Any:
    if not schema:
        return value
    if not _is_of(value, schema["type"]):
        if len(left_out) < MAX_LEFT_OUT:
            left_out.append(place)
        return _NOTHING
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        made = {
            key: _fitted(part, properties.get(key, others), f"{place}.{key}", left_out) for key, part in value.items()
        }
        return {key: part for key, part in made.items() if part is not _NOTHING}
    if isinstance(value, list) and (items := schema.get("items")):
        parts = [_fitted(item, items, f"{place}[]", left_out) for item in value]
        return [None if part is _NOTHING else part for part in parts]  # the others keep their places
    return value


_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
}  # fmt: skip


def _is_of(value: Any, kinds: str | list[str]) -> bool:
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind == "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return True
        elif isinstance(value, _KINDS[kind]):
            return True
    return False
