"""The examples of an operation, where the document gives any. Nothing is invented."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

from atc.errors import ToolImportError
from atc.schemas.validate import resolve
from atc.tools.openapi.load import Resolver
from atc.tools.parse import parse_document

MAX_EXAMPLE = 6_000
"""Characters of JSON that an example may have; lists are shortened to get there."""

MISSING: Any = object()
"""Stands for "the document gives no example"."""
_MAX_DEPTH = 8
_MAX_STEPS = 1_000  # schemas looked at for one example: a schema that holds itself many times has no end
_SHORT_LIST = 3
_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Examples:
    """Finds examples in the parts of one document."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._steps = 0
        self._made: dict[int, tuple[Any, Any]] = {}

    def of_media(self, media: dict[str, Any]) -> Any:
        """The example of a media type or parameter: its own, its schema's, or one made of its properties' examples.

        Returns:
            A bounded JSON value, or :data:`MISSING`.
        """
        try:
            found = self._own(media)
            if found is MISSING:
                found = self._of_whole(media.get("schema"))
        except ToolImportError:  # an example behind a reference that cannot be followed is no loss
            return MISSING
        if isinstance(found, str) and self._is_structured(media.get("schema")):
            found = _parsed(found)
        return _bounded(found)

    def _of_whole(self, node: Any) -> Any:
        schema = self._resolver.follow(node)
        if id(schema) not in self._made:  # many operations may share it; it is kept, so its id stays its own
            self._steps = _MAX_STEPS
            self._made[id(schema)] = (schema, self._of_schema(schema, 0))
        return self._made[id(schema)][1]

    def _own(self, node: dict[str, Any]) -> Any:
        if "example" in node:
            return node["example"]
        examples = node.get("examples")
        if isinstance(examples, list) and examples:
            return examples[0]
        if isinstance(examples, dict):
            for raw in examples.values():
                example = self._resolver.follow(raw)
                if isinstance(example, dict) and "value" in example:
                    return example["value"]
        return MISSING

    def _of_schema(self, node: Any, depth: int) -> Any:
        schema = self._resolver.follow(node)
        self._steps -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._steps < 0:
            return MISSING
        own = self._own(schema)
        if own is not MISSING:
            return own
        if isinstance(schema.get("properties"), dict):
            some = takewhile(lambda _: self._steps > 0, schema["properties"].items())
            made = {name: self._of_schema(item, depth + 1) for name, item in some}
            known = {name: value for name, value in made.items() if value is not MISSING}
            return known or MISSING
        if isinstance(schema.get("items"), dict):
            item = self._of_schema(schema["items"], depth + 1)
            return MISSING if item is MISSING else [item]
        return MISSING

    def _is_structured(self, node: Any) -> bool:
        try:
            schema = self._resolver.follow(node)
        except ToolImportError:
            return False
        return isinstance(schema, dict) and (schema.get("type") in ("object", "array") or "properties" in schema)


def _parsed(text: str) -> Any:
    """Documents often give a JSON example as a string."""
    try:
        found = parse_document(text, "an example")
    except ToolImportError:
        return MISSING
    return found if isinstance(found, (dict, list)) else MISSING


def _bounded(value: Any) -> Any:
    if value is MISSING or _is_short(value):
        return value
    value = _with_short_lists(value) if _is_short(value, _SHORT_LIST) else MISSING
    return value if value is not MISSING and _is_short(value) else MISSING


def _is_short(value: Any, items: int | None = None) -> bool:
    """Of a value without end no more is looked at. ``items``: of each list, that count; then it only may be short."""
    left, waiting = MAX_EXAMPLE, [value]
    while waiting:
        part = waiting.pop()
        left -= 1 + (len(part) if isinstance(part, str) else 0)
        if isinstance(part, list):
            waiting += part[: min(left + 1, len(part) if items is None else items)]
        elif isinstance(part, dict) and len(part) <= left:
            waiting += [*part, *part.values()]
        elif isinstance(part, dict):
            return False
        if left < 0:
            return False
    return items is not None or len(json.dumps(value)) <= MAX_EXAMPLE


def _with_short_lists(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_short_lists(item) for item in value[:_SHORT_LIST]]
    return {key: _with_short_lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def completed(root: dict[str, Any], schema: Any, example: Any, depth: int = _MAX_DEPTH) -> Any:
    """A response's schema with the fields that its example has and the schema does not name.

    A document is often careless with the one or the other, and what is shown was once answered: without these fields a
    program that reads them would be refused.

    Args:
        root: the whole schema, with its ``$defs``.
        schema: the part of it that the example is of.
    """
    node = resolve(root, schema)
    known, items = node.get("properties"), node.get("items")
    if depth and isinstance(example, dict) and isinstance(known, dict) and known:
        new = {name: _shape(value, depth - 1) for name, value in example.items() if name not in known}
        same = {
            name: completed(root, known[name], value, depth - 1) for name, value in example.items() if name in known
        }
        if new or any(part is not known[name] for name, part in same.items()):
            return {**node, "properties": {**known, **same, **new}}
    if depth and isinstance(example, list) and example and isinstance(items, dict):
        item = completed(root, items, example[0], depth - 1)
        return schema if item is items else {**node, "items": item}
    return schema


def _shape(value: Any, depth: int) -> dict[str, Any]:
    if isinstance(value, dict):
        made: dict[str, Any] = {"type": "object"}
        return {**made, "properties": {k: _shape(v, depth - 1) for k, v in value.items()}} if depth and value else made
    if isinstance(value, list):
        return {"type": "array", **({"items": _shape(value[0], depth - 1)} if depth and value else {})}
    return {"type": _TYPES[type(value)]} if type(value) in _TYPES else {}
