"""What a response schema says of a path into the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atc.programs.values import MEMBER, Step
from atc.tools.protocol import JsonSchema
from atc.tools.schemas import resolve, types_of


@dataclass(frozen=True)
class Shape:
    """What stands at a path, as far as the schema is sure of it.

    Attributes:
        kind: ``record`` (an object whose keys are all known), ``list``, ``scalar``, or ``open`` (nothing is sure).
        keys: of a record.
        type: of a scalar, in JSON Schema's words.
    """

    kind: Literal["record", "list", "scalar", "open"]
    keys: tuple[str, ...] = ()
    type: str = ""


OPEN = Shape("open")


def shape_at(schema: JsonSchema | None, path: Sequence[Step | int]) -> Shape:
    """The shape at ``path``; ``open`` where the schema is silent, allows more, or has several answers."""
    if schema is None:
        return OPEN
    places = _members(schema, schema)
    for step in path:
        below: list[JsonSchema] = []
        for place in places:
            found = _below(schema, place, step)
            if found is None:
                return OPEN
            below += found
        places = below
    shapes = {_shape(place) for place in places}
    return shapes.pop() if len(shapes) == 1 else _common_record(shapes)


def _common_record(shapes: set[Shape]) -> Shape:
    """Several records are one whose keys are all of theirs."""
    if shapes and all(shape.kind == "record" for shape in shapes):
        return Shape("record", tuple(dict.fromkeys(key for shape in shapes for key in shape.keys)))
    return OPEN


def _members(root: JsonSchema, schema: Any, depth: int = 0) -> list[JsonSchema]:
    """The alternatives that a schema stands for, null left aside."""
    schema = resolve(root, schema)
    if depth > 6:
        return [{}]
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            found = [m for part in schema[keyword] for m in _members(root, part, depth + 1)]
            return [m for m in found if types_of(m) != {"null"}] or found
    if isinstance(schema.get("allOf"), list):
        from atc.tools.types import merge_all_of

        return _members(root, merge_all_of(root, schema), depth + 1)
    return [schema]


def _below(root: JsonSchema, place: JsonSchema, step: Step | int) -> list[JsonSchema] | None:
    shape = _shape(place)
    if step == MEMBER:
        return None
    if isinstance(step, str):
        properties = place.get("properties")
        if shape.kind == "record" and isinstance(properties, dict) and step in properties:
            return _members(root, properties[step])
        return None
    return _members(root, place["items"]) if shape.kind == "list" and isinstance(place.get("items"), dict) else None


def _shape(place: JsonSchema) -> Shape:
    types = types_of(place) - {"null"}
    if (types == {"object"} or not types) and isinstance(place.get("properties"), dict) and place["properties"]:
        closed = not place.get("additionalProperties") and not place.get("patternProperties")
        return Shape("record", tuple(place["properties"])) if closed else OPEN
    if types == {"array"}:
        return Shape("list")
    if len(types) == 1 and (kind := next(iter(types))) != "object":
        return Shape("scalar", type=kind)
    return OPEN

