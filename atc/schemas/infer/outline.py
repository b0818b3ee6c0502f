"""What is kept of responses beyond a run: keys and types with counts, never a value.

An :class:`Outline` is made of a :class:`~atc.schemas.infer.shape.Shape`, which holds strings and ranges and so lives no
longer than the run. Keys are kept only where they are names (:func:`~atc.schemas.infer.field_words.is_field_name`);
the values of a dictionary are taken as one, without their keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from atc.schemas.infer.evidence import Node, Objects, Tree
from atc.schemas.infer.field_words import is_field_name
from atc.schemas.infer.keys import dictionary
from atc.schemas.infer.shape import Shape
from atc.tools.protocol import JsonSchema
from atc.tools.types import EVIDENCE, OBSERVED

MAX_FIELDS, MAX_DEPTH, MAX_PLACES = 100, 8, 400
"""Fields of one object, levels, and places in all. An object with more fields is a dictionary; what lies deeper or
beyond is left out."""
MAX_ITEMS, MAX_PARTS = 200, 100_000
"""Items of one list that are looked at, and parts of all responses of a tool: megabytes teach no more than a page."""
_Type = Literal["null", "boolean", "string", "integer", "number", "array", "object"]


class Outline(BaseModel):
    """What was observed at one place.

    Attributes:
        seen: values that were there.
        types: how many were of each JSON type.
        fields: the named fields of the objects. ``values``: those of a dictionary, and of keys that are not surely
            names, as one. ``items``: those of lists.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seen: int = Field(ge=0, le=10**12)
    types: dict[_Type, int] = {}
    fields: dict[str, Outline] = {}
    values: Outline | None = None
    items: Outline | None = None

    def schema_seen(self) -> JsonSchema:
        """The JSON Schema of what was observed; empty where that says nothing.

        It enforces nothing: its types are marked as observed (:data:`atc.tools.types.OBSERVED`), others are allowed.
        ``required`` are the fields that every object had. Counts stand beside each part.
        """
        return _schema(self, self.seen) if self.types.keys() - {"null"} else {}

    def of_names(self, documented: Collection[str] = frozenset()) -> Outline:
        """The outline without keys that are no names: of one that was not made here."""
        named = {key: part.of_names(documented) for key, part in self.fields.items() if is_field_name(key, documented)}
        return Outline(
            seen=self.seen,
            types=self.types,
            fields=named,
            values=None if self.values is None else self.values.of_names(documented),
            items=None if self.items is None else self.items.of_names(documented),
        )


def outline_of(values: Sequence[Any], documented: Collection[str] = frozenset()) -> Outline:
    """The outline of responses of one tool.

    Args:
        values: JSON values.
        documented: words of the tools' documents, of which names of fields may be made.
    """
    shape, left = Shape(), [MAX_PARTS]
    for value in values:
        if left[0] > 0:
            shape.add(_looked_at(value, left))
    return _outline(shape.root, documented, 0, _Places())


def merged(first: Outline, second: Outline) -> Outline:
    """One outline of the evidence of both."""
    return _merged(first, second, _Places())


def _looked_at(value: Any, left: list[int], depth: int = 0) -> Any:
    """A response with the first items of its lists alone; ``left`` counts down the parts that are looked at."""
    left[0] -= 1
    if depth > MAX_DEPTH and isinstance(value, list | dict):  # what lies in it is left out
        return type(value)()
    if isinstance(value, list):
        items: list[Any] = []
        for item in value[:MAX_ITEMS]:
            if left[0] <= 0 and items:
                break
            items.append(_looked_at(item, left, depth + 1))
        return items
    if isinstance(value, dict):
        return {key: _looked_at(part, left, depth + 1) for key, part in value.items()}
    return value


class _Places:
    """How many places an outline may yet have."""

    def __init__(self) -> None:
        self.left = MAX_PLACES

    def take(self, depth: int) -> bool:
        """Whether there is leave for one more."""
        self.left -= 1
        return self.left >= 0 and depth < MAX_DEPTH


def _outline(node: Node, documented: Collection[str], depth: int, places: _Places) -> Outline:
    types: dict[_Type, int] = {"null": node.nulls, "boolean": node.booleans}
    fields: dict[str, Outline] = {}
    values = items = None
    if node.strings is not None:
        types["string"] = node.strings.count
    if node.numbers is not None:
        whole = node.numbers.to_schema()["type"] == "integer"
        types["integer" if whole else "number"] = node.count - _others(node)
    if node.arrays is not None:
        types["array"] = node.arrays.count
        if node.arrays.items is not None and places.take(depth):
            items = _outline(node.arrays.items, documented, depth + 1, places)
    if node.objects is not None:
        types["object"] = node.objects.count
        named, rest = _taken_apart(node.objects, documented)
        for key, part in named.items():
            if places.take(depth):
                fields[key] = _outline(part, documented, depth + 1, places)
        if rest and places.take(depth):
            values = _outline(_as_one(rest), documented, depth + 1, places)
    seen = {kind: count for kind, count in types.items() if count}
    return Outline(seen=node.count, types=seen, fields=fields, values=values, items=items)


def _others(node: Node) -> int:
    """How many values of a place were no numbers."""
    held = [known.count for known in (node.strings, node.arrays, node.objects) if known is not None]
    return node.nulls + node.booleans + sum(held)


def _taken_apart(objects: Objects, documented: Collection[str]) -> tuple[dict[str, Node], Sequence[Node]]:
    """The fields whose keys are names, and the other values: of a dictionary, or of keys that are not surely names."""
    found = dictionary(objects)
    fields = objects.fields if found is None else found.named
    rest = [] if found is None else [*found.values]
    if len(fields) > MAX_FIELDS:
        return {}, [*fields.values(), *rest]
    named = {key: node for key, node in fields.items() if is_field_name(key, documented)}
    return named, [*rest, *(node for key, node in fields.items() if key not in named)]


def _as_one(nodes: Sequence[Node]) -> Node:
    whole = Node(Tree())
    for node in nodes:
        whole.merge(node)
    return whole


def _merged(first: Outline, second: Outline, places: _Places, depth: int = 0) -> Outline:
    types = {kind: first.types.get(kind, 0) + second.types.get(kind, 0) for kind in first.types | second.types}
    fields: dict[str, Outline] = {}
    for key in first.fields | second.fields:
        both = _either(first.fields.get(key), second.fields.get(key), places, depth)
        if both is not None and len(fields) < MAX_FIELDS:
            fields[key] = both
    values = _either(first.values, second.values, places, depth)
    items = _either(first.items, second.items, places, depth)
    return Outline(seen=first.seen + second.seen, types=types, fields=fields, values=values, items=items)


def _either(first: Outline | None, second: Outline | None, places: _Places, depth: int) -> Outline | None:
    some = first or second
    if some is None or not places.take(depth):
        return None
    return _merged(first or _NONE, second or _NONE, places, depth + 1)


_NONE = Outline(seen=0)


def _schema(outline: Outline, of: int) -> JsonSchema:
    types = [*sorted(outline.types.keys() - {"null"}), *["null"] * ("null" in outline.types)]
    made: JsonSchema = {OBSERVED: types[0] if len(types) == 1 else types} if types else {}
    if outline.fields:
        made["properties"] = {key: _schema(part, outline.seen) for key, part in outline.fields.items()}
        objects = outline.types.get("object", 0)
        if always := [key for key, part in outline.fields.items() if 0 < objects <= part.seen]:
            made["required"] = always
    if "object" in outline.types:
        made["additionalProperties"] = True if outline.values is None else _schema(outline.values, outline.values.seen)
    if outline.items is not None:
        made["items"] = _schema(outline.items, outline.items.seen)
    return made | {EVIDENCE: {"seen": outline.seen, "of": of, **_nulls(outline.types)}}


def _nulls(types: Mapping[_Type, int]) -> dict[str, int]:
    return {"null": types["null"]} if "null" in types else {}
