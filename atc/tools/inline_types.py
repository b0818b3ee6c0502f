"""JSON Schema → the type of a response on one line: ``{'cities': [{'city_id': int, 'name': str}], 'total': int}``.

For a model alone: shorter than classes (:mod:`atc.tools.types`). A key that may be missing
ends with a question mark; a list is its member in brackets; what cannot be told is ``Any``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atc.invisible import written
from atc.schemas.reading import CHOICES, Reader
from atc.schemas.validate import types_of
from atc.tools.binary import takes_bytes
from atc.tools.protocol import JsonSchema
from atc.tools.types import MAX_DEPTH, MAX_LITERALS, OBSERVED, SIMPLE, one_line, places_of, value_names

MAX_NODES = 2_000
"""Schemas in one response that are looked at: what is shared is written each time that it is used."""


@dataclass(frozen=True)
class InlineType:
    """A type on one line, and the names of all keys in it."""

    text: str
    keys: frozenset[str]


def inline_type(schema: JsonSchema, comment_length: int, room: int | None = None) -> InlineType | None:
    """The type of a response as one line; ``None`` where it takes more than about ``room`` characters.

    Args:
        schema: of the response; its references point into itself.
        comment_length: characters of a key's description; a longer one is left out.
        room: characters.
    """
    writer = _Writer(schema, comment_length, room)
    text = writer.write(schema)
    return None if writer.full else InlineType(text, frozenset(writer.keys))


class _Writer:
    def __init__(self, root: JsonSchema, comment_length: int, room: int | None) -> None:
        self._reader, self._comment_length, self._room = Reader(root), comment_length, room
        self._nodes = self._written = 0
        self.keys: set[str] = set()
        self._open: list[str] = []

    @property
    def full(self) -> bool:
        return self._nodes > MAX_NODES or (self._room is not None and self._written > self._room)

    def write(self, schema: Any, depth: int = 0) -> str:
        self._nodes += 1
        if not isinstance(schema, dict) or not schema or depth > MAX_DEPTH or self.full:
            return "Any"
        schema = self._reader.read(schema)
        if isinstance(reference := schema.get("$ref"), str):
            if reference in self._open:  # a cycle
                return "Any"
            self._open.append(reference)
            written = self.write(self._reader.target(reference), depth + 1)
            self._open.pop()
            return written
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(values := schema.get("enum"), list) and len(values) <= MAX_LITERALS:
            names = value_names(schema) or [""] * len(values)
            return _union([_literal(value, name) for value, name in zip(values, names, strict=True)])
        for choice in CHOICES:
            if isinstance(members := schema.get(choice), list):
                return _union([self.write(member, depth + 1) for member in members])
        types = sorted(types_of(schema) or types_of({"type": schema.get(OBSERVED)})) or (
            ["object"] if "properties" in schema else ["array"] if "items" in schema else []
        )
        return _union([self._typed(kind, schema, depth) for kind in types]) if types else "Any"

    def _typed(self, kind: str, schema: JsonSchema, depth: int) -> str:
        if kind in SIMPLE:
            return "bytes" if kind == "string" and takes_bytes(schema) else SIMPLE[kind]
        if kind == "array":
            if places := places_of(schema):
                return f"({', '.join(self._place(place, depth) for place in places)})"
            return f"[{self.write(schema.get('items'), depth + 1)}]" if schema.get("items") else "list"
        if isinstance(properties := schema.get("properties"), dict) and properties:
            listed = schema.get("required")
            required = dict.fromkeys(key for key in listed if isinstance(key, str)) if isinstance(listed, list) else {}
            keys = []
            for key, value in {**properties, **{key: {} for key in required if key not in properties}}.items():
                if self.full:
                    break
                keys.append(self._key(key, value, key in required, depth))
            return f"{{{', '.join(keys)}}}"
        values = schema.get("additionalProperties")
        return f"{{str: {self.write(values, depth + 1)}}}" if isinstance(values, dict) and values else "dict"

    def _place(self, schema: Any, depth: int) -> str:
        """An item of a list that has so many and no others, with its name if it has one."""
        name = schema.get("title") if isinstance(schema, dict) else None
        text = self.write(schema, depth + 1)
        return f"{one_line(name, 80)}: {text}" if isinstance(name, str) and name.isidentifier() else text

    def _key(self, key: str, schema: Any, required: bool, depth: int) -> str:
        self.keys.add(key)
        text = f"{one_line(written(key), 200)}{'' if required else '?'}: {self.write(schema, depth + 1)}"
        about = self._reader.about(schema, "description")
        comment = one_line(about, 200) if isinstance(about, str) else ""
        if comment and len(comment) <= self._comment_length:
            text = f"{text} ({comment})"
        self._written += len(text)
        return text


def _literal(value: Any, name: str = "") -> str:
    text = one_line(written(value), 200) if value is None or isinstance(value, str | int | float) else "Any"
    return f"{text} ({one_line(name, 40)})" if name and text != "Any" else text


def _union(members: list[str]) -> str:
    unique = sorted(dict.fromkeys(members), key=lambda member: member == "None")
    return "Any" if "Any" in unique or not unique else " | ".join(unique)
