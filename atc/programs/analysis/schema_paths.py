"""What a response schema says of a path into the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from atc.programs.analysis.values import MEMBER, Step
from atc.schemas.reading import allows_more, alternatives
from atc.schemas.validate import types_of
from atc.tools.protocol import JsonSchema
from atc.tools.types import EVIDENCE, LEFT_OUT, OBSERVED

_NOT_FOLLOWED = ("if", "not", "dependentSchemas", "unevaluatedProperties", "discriminator", "$dynamicRef")
_TEXT: JsonSchema = {"type": "string"}


@dataclass(frozen=True)
class Shape:
    """What stands at a path, as far as the schema is sure of it.

    Attributes:
        kind: ``record`` (an object whose keys are told), ``list``, ``scalar``, or ``open`` (nothing is sure).
        keys: of a record.
        type: of a scalar, in JSON Schema's words.
        closed: a record or list that says itself that it has nothing else; any other may have more.
    """

    kind: Literal["record", "list", "scalar", "open"]
    keys: tuple[str, ...] = ()
    type: str = ""
    closed: bool = False


OPEN = Shape("open")


def shape_at(schema: JsonSchema | None, path: Sequence[Step | int]) -> Shape:
    """The shape at ``path``; ``open`` where the schema is silent, allows more, or has several answers."""
    places = schemas_at(schema, path)
    shapes = {_shape(place) for place in places}
    return shapes.pop() if len(shapes) == 1 else _common_record(shapes)


def schemas_at(schema: JsonSchema | None, path: Sequence[Step | int]) -> list[JsonSchema]:
    """The alternatives, null left aside, that a schema has for what stands at ``path``; none where it is silent."""
    places = [] if schema is None else _members(schema, schema)
    for step in path:
        below: list[JsonSchema] = []
        for place in places:
            found = _below(schema or {}, place, step)
            if found is None:
                return []
            below += found
        places = below
    return places


def _common_record(shapes: set[Shape]) -> Shape:
    """Several records are one whose keys are all of theirs."""
    if shapes and all(shape.kind == "record" for shape in shapes):
        keys = tuple(dict.fromkeys(key for shape in shapes for key in shape.keys))
        return Shape("record", keys, closed=all(shape.closed for shape in shapes))
    return OPEN


def _members(root: JsonSchema, schema: Any) -> list[JsonSchema]:
    """The alternatives that a schema stands for, null left aside; ``{}`` stands for anything."""
    found = [each.schema for each in alternatives(root, schema)]
    found = [{} if any(each.get(keyword) for keyword in _NOT_FOLLOWED) else each for each in found]
    return [each for each in found if types_of(each) != {"null"}] or found


def _below(root: JsonSchema, place: JsonSchema, step: Step | int) -> list[JsonSchema] | None:
    shape = _shape(place)
    if step == MEMBER:
        return None
    if isinstance(step, str):
        fields = _fields(place) if shape.kind == "record" else {}
        return _members(root, fields[step]) if step in fields else None
    if shape.kind == "record":  # a loop over an object sees its keys
        return [_TEXT]
    return _members(root, place["items"]) if shape.kind == "list" and isinstance(place.get("items"), dict) else None


def _fields(place: JsonSchema) -> JsonSchema:
    """The keys of a record: those that it describes, and those that it only requires."""
    properties, required = place.get("properties"), place.get("required")
    undescribed = dict[str, Any].fromkeys(key for key in required if isinstance(key, str)) if required else {}
    return {**undescribed, **(properties if isinstance(properties, dict) else {})}


def _shape(place: JsonSchema) -> Shape:
    if OBSERVED in place:
        return OPEN
    types = types_of(place) - {"null"}
    if (types == {"object"} or not types) and isinstance(place.get("properties"), dict) and place["properties"]:
        if allows_more(place):
            return OPEN
        closed = place.get("additionalProperties") is False and EVIDENCE not in place and LEFT_OUT not in place
        return Shape("record", tuple(_fields(place)), closed=closed)
    if types == {"array"}:
        fixed = place.get("prefixItems")  # a named tuple of a Python function, say
        return Shape("list", closed=isinstance(fixed, list) and place.get("maxItems") == len(fixed))
    if len(types) == 1 and (kind := next(iter(types))) != "object":
        return Shape("scalar", type=kind)
    return OPEN
