"""JSON Schema → Python types as text: ``TypedDict``, ``Literal``, lists, unions.

:func:`inline_type` writes a response on one line instead, for a model alone: shorter than classes, such as
``{'cities': [{'city_id': int, 'name': str}], 'total': int}``. A key that may be missing ends with a question mark; a
list is its member in brackets; what cannot be told is ``Any``.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from atc._host.invisible import JOINERS, legible, written
from atc.schemas.names import is_readable_name
from atc.schemas.protocol import JsonSchema, takes_bytes
from atc.schemas.reading import CHOICES, Reader, name_of
from atc.schemas.validate import types_of

MAX_DEPTH = 8
MAX_NODES = 5000
"""Schemas in one response that are looked at: choices that multiply have no end."""
MAX_LITERALS = 40
MAX_FIELDS, MAX_PLACES = 400, 40
OBSERVED = "x-atc-observed"
"""In a schema that probing made: a type that was seen, of which nothing shows that others are refused. It is shown to a
model, and nothing enforces it."""
EVIDENCE = "x-atc-evidence"
"""In a schema of what was seen: how many values it rests on, ``{"seen": 3, "of": 4, "null": 1}``."""
VALUE_NAMES = "x-enum-varnames"
"""Beside ``enum``: what its values are called, in their order, as generators of OpenAPI clients read it."""
LEFT_OUT = "x-left-out"
"""In a schema that this project shortened: how many keys of a record are not shown."""
_NEAR, _NEAR_CHOICES = 2, 8
_SEPARATORS = re.compile(r"[\W_]+")
_WRITTEN_FIRST = frozenset({"$ref", "const", "enum", *CHOICES})
RESERVED = frozenset({"Any", "Literal", "NotRequired", "TypedDict", "ToolError", "Exception"})
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?](?=\s)")
MAX_QUOTED = 200
_QUOTED = re.compile(rf"(?<![^\s(\[{{,:;=|/])(['`])\S[^'`]{{0,{MAX_QUOTED}}}\1(?!\w)")
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
"""JSON types that are one type of Python."""


@dataclass
class TypeWriter:
    """Writes types, collecting the ``TypedDict`` classes that they need, in order of use.

    Args:
        root: the schema whose ``$defs`` references point into.
        prefix: CamelCase name of the tool; every class name begins with it.
        taken: names that no class may have.
        comment_length: characters of a field's comment; a longer one is left out.
        room: characters of all classes together; what comes after them is ``Any``, see :attr:`full`.
        marked: the schema was shortened: a ``...`` marks what was left out, with how much that is.
    """

    root: JsonSchema
    prefix: str
    comment_length: int = 80
    classes: dict[str, str] = field(default_factory=dict)
    taken: Collection[str] = RESERVED
    room: int | None = None
    marked: bool = False
    _by_reference: dict[str, str] = field(default_factory=dict)
    _referenced: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)
    _nodes: int = 0
    _written: int = 0

    def __post_init__(self) -> None:
        self._reader = Reader(self.root)

    @property
    def full(self) -> bool:
        """Whether the room was too small."""
        return self.room is not None and self._written > self.room

    def write(self, schema: Any, name: str = "", depth: int = 0) -> str:
        """The type of ``schema`` as text. ``name`` tells a nested class what to be called."""
        self._nodes += 1
        if not isinstance(schema, dict) or not schema or depth > MAX_DEPTH or self._nodes > MAX_NODES or self.full:
            return "Any"
        schema = self._reader.read(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in self._by_reference:  # a cycle, or the second use of one class
                return self._by_reference[reference]
            return self.write_reference(reference, name, depth)
        if "const" in schema:
            return self._literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return self._literal(schema["enum"])
        for choice in CHOICES:
            if isinstance(schema.get(choice), list):
                return self._union([self.write(member, name, depth + 1) for member in schema[choice]])
        types = sorted(types_of(schema) or types_of({"type": schema.get(OBSERVED)})) or (
            ["object"] if "properties" in schema else ["array"] if "items" in schema else []
        )
        return self._union([self._typed(kind, schema, name, depth) for kind in types]) if types else "Any"

    def write_reference(self, reference: str, name: str, depth: int) -> str:
        """Write the type of a referenced schema, once for each reference.

        Args:
            reference: the ``$ref``.
            name: what the value is called, for the name of a class whose definition has none.
            depth: levels above it.

        Returns:
            The type as an annotation.
        """
        target = self._reader.target(reference)
        types = sorted(types_of(target)) or ["object"]
        if "object" not in types or not self._is_record(target) or not _WRITTEN_FIRST.isdisjoint(target):
            return self.write(target, name, depth + 1)
        others = [self._typed(kind, target, name, depth) for kind in types if kind != "object"]
        class_name = self._class_name(name_of(reference) or name or "response")
        self._by_reference[reference] = made = self._union([class_name, *others])
        self._referenced.add(class_name)
        self._record(target, class_name, depth)
        return made

    def _typed(self, kind: str, schema: JsonSchema, name: str, depth: int) -> str:
        if kind in SIMPLE:
            return "bytes" if kind == "string" and takes_bytes(schema) else SIMPLE[kind]
        if kind == "array":
            if places := places_of(schema):
                return f"tuple[{', '.join(self.write(p, f'{name}_{n}', depth + 1) for n, p in enumerate(places, 1))}]"
            return f"list[{self.write(schema.get('items'), f'{name}_item', depth + 1)}]"
        if kind == "object":
            if self._is_record(schema):
                return self._record(schema, self._class_name(name or "response"), depth)
            values = schema.get("additionalProperties")
            return f"dict[str, {self.write(values, f'{name}_value', depth + 1)}]"
        return "Any"

    def _is_record(self, schema: JsonSchema) -> bool:
        properties = schema.get("properties")
        return isinstance(properties, dict) and 0 < len(properties) <= MAX_FIELDS

    def _record(self, schema: JsonSchema, class_name: str, depth: int) -> str:
        self.classes[class_name] = ""  # keeps the order of first use
        required = set(schema.get("required", ()))
        lines = []
        undescribed: JsonSchema = {key: {} for key in schema.get("required", ()) if key not in schema["properties"]}
        for key, value in {**schema["properties"], **undescribed}.items():
            text = self.write(value, f"{class_name.removeprefix(self.prefix)}_{key}", depth + 1)
            comment = self._comment(value)
            lines.append((key, text if key in required else f"NotRequired[{text}]", comment))
            self._written += len(key) + len(text) + len(comment)
        if all(_is_attribute_name(key) for key, _, _ in lines):
            fields = "".join(f"\n    {key}: {text}{note}" for key, text, note in lines)
            self.classes[class_name] = f"class {class_name}(TypedDict):{fields}{self._rest(schema)}"
        else:
            fields = ", ".join(f"{written(key)}: {text}" for key, text, _ in lines)
            self.classes[class_name] = f"{class_name} = TypedDict('{class_name}', {{{fields}}}){self._rest(schema, '')}"
        return class_name

    def _comment(self, schema: Any) -> str:
        about, form = (self._reader.about(schema, keyword) for keyword in ("description", "format"))
        form = "" if takes_bytes(self._reader.follow(schema)[0]) else form  # its type says it
        names = names_of_values(self._reader, schema)
        text = str(about or form or names_of_places(self._reader.follow(schema)[0]))
        text = one_line(f"{text} ({names})" if text and names else text or names, 200)
        return f"  # {text}" if text and len(text) <= self.comment_length else ""

    def _rest(self, schema: JsonSchema, mark: str = "\n    ...") -> str:
        hidden = schema.get(LEFT_OUT) if self.marked else None
        return f"{mark}  # {hidden} more key{'s' * (hidden != 1)}" if isinstance(hidden, int) else ""

    def _class_name(self, name: str) -> str:
        base = candidate = self.prefix + camel(name)
        number = self._next.get(base, 2)
        while candidate in self.taken or candidate in self.classes or candidate in self._referenced:
            candidate, number = f"{base}{number}", number + 1
        self._next[base] = number
        return candidate

    def _literal(self, values: list[Any]) -> str:
        usable = [v for v in values if v is None or (isinstance(v, str | int) and len(str(v)) < 200)]
        if len(usable) != len(values) or len(values) > MAX_LITERALS or not values:
            names = {type(None): "None", str: "str", bool: "bool", int: "int", float: "float"}
            return self._union([names.get(type(v), "Any") for v in values]) if values else "Any"
        return f"Literal[{', '.join(map(written, values))}]"

    def _union(self, members: list[str]) -> str:
        unique = sorted(dict.fromkeys(members), key=lambda member: member == "None")  # `str | None`, as people write it
        if "Any" in unique or not unique:
            return "Any"
        return " | ".join(unique)


def places_of(schema: JsonSchema) -> list[Any]:
    """The schemas of the items of a list that has so many and no others; empty where it may have more or fewer."""
    places = schema.get("prefixItems")
    if not isinstance(places, list) or not 0 < len(places) <= MAX_PLACES:
        return []
    return places if schema.get("minItems") == schema.get("maxItems") == len(places) else []


def names_of_places(schema: JsonSchema) -> str:
    """What the items of such a list are called: ``(x, label)``; empty where one has no name."""
    names = [str(place["title"]) for place in places_of(schema) if isinstance(place, dict) and "title" in place]
    return f"({', '.join(names)})" if names and len(names) == len(places_of(schema)) else ""


def value_names(schema: JsonSchema) -> list[str]:
    """What the values of an enumeration are called, one for each; empty where the names only repeat the values."""
    values, names = schema.get("enum"), schema.get(VALUE_NAMES)
    if not isinstance(values, list) or not isinstance(names, list) or len(values) != len(names):
        return []
    if len(values) > MAX_LITERALS or not all(isinstance(name, str) for name in names):
        return []
    return [] if all(_same_words(str(v), name) for v, name in zip(values, names, strict=True)) else names


def _same_words(text: str, other: str) -> bool:
    return _SEPARATORS.sub("", text).casefold() == _SEPARATORS.sub("", other).casefold()


def names_of_values(reader: Reader, schema: Any, depth: int = 0) -> str:
    """The named values that a value, or an item of a list, may have: ``1 = LOW, 3 = HIGH``; empty where none is named.

    Only near choices are looked at: the stub of every tool asks this of every argument.
    """
    schema, _ = reader.follow(schema)
    if names := value_names(schema):
        pairs = zip(schema["enum"], names, strict=True)
        return ", ".join(f"{one_line(written(value), 80)} = {one_line(name, 40)}" for value, name in pairs)
    if depth >= _NEAR:
        return ""
    choices = (schema[key][:_NEAR_CHOICES] for key in CHOICES if isinstance(schema.get(key), list))
    inner = [schema.get("items"), *chain.from_iterable(choices)]
    return next(filter(None, (names_of_values(reader, each, depth + 1) for each in inner if each)), "")


def camel(text: str) -> str:
    """``find_cities`` → ``FindCities``; only ASCII letters, digits and underscores are left."""
    words = re.findall(r"[A-Za-z0-9]+", text)
    made = "".join(word[0].upper() + word[1:] for word in words)[:60]
    return made if made and not made[0].isdigit() else f"T{made}"


def one_line(text: str, limit: int) -> str:
    """Text from outside as one harmless line: no control character, nothing that nobody would see, and no quote that
    could end a docstring.
    """
    words = legible(text).split()
    if not all(map(str.isprintable, words)):
        words = "".join(c if c.isprintable() or c in JOINERS else " " for c in " ".join(words)).split()
    flat = " ".join(words)
    flat = flat.replace("\\", "\\\\").replace('"""', "'''").replace('"', "'")
    return flat if len(flat) <= limit else flat[: _end_within(flat, max(0, limit - 2))].rstrip("\\ ") + " …"


def sentences(text: str, limit: int, most: int) -> str:
    """Text from outside as :func:`one_line` writes it, the sentence under way at ``limit`` whole if it ends before
    ``most``: half a list of values is taken for all of it.
    """
    line = one_line(text, most)
    if len(line) <= limit:
        return line
    ends = [*(found.end() for found in _SENTENCE.finditer(line)), *([] if line.endswith(" …") else [len(line)])]
    end = next((end for end in ends if end >= limit * 3 // 4), None)
    if end is None:
        return one_line(text, limit)
    return line[:end] if end == len(line) else f"{line[:end]} …"


def _end_within(flat: str, limit: int) -> int:
    """Behind a sentence, else behind a word, never inside of what is quoted; at least half of the room is used."""
    least = limit // 2
    if (end := max((found.end() for found in _SENTENCE.finditer(flat, 0, limit + 1)), default=0)) > least:
        return end
    if flat[limit : limit + 1] != " " and (space := flat.rfind(" ", least, limit)) > 0:
        limit = space
    quoted = next((found for found in _QUOTED.finditer(flat, 0, limit + MAX_QUOTED) if found.end() > limit), None)
    return quoted.start() if quoted is not None and least < quoted.start() < limit else limit


def _is_attribute_name(key: str) -> bool:
    return is_readable_name(key) and not keyword.iskeyword(key) and not key.startswith("__")


MAX_INLINE_NODES = 2_000
"""Schemas in one response that are looked at: what is shared is written each time that it is used."""


@dataclass(frozen=True)
class InlineType:
    """A type on one line, and the names of all keys in it. ``records``: the name, as far as it has one, and the text of
    each object in it.
    """

    text: str
    keys: frozenset[str]
    records: tuple[tuple[str, str], ...] = ()


def inline_type(schema: JsonSchema, comment_length: int, room: int | None = None) -> InlineType | None:
    """The type of a response as one line; ``None`` where it takes more than about ``room`` characters.

    Args:
        schema: of the response; its references point into itself.
        comment_length: characters of a key's description; a longer one is left out.
        room: characters.
    """
    writer = _Writer(schema, comment_length, room)
    text = writer.write(schema)
    return None if writer.full else InlineType(text, frozenset(writer.keys), tuple(writer.records))


class _Writer:
    def __init__(self, root: JsonSchema, comment_length: int, room: int | None) -> None:
        self._reader, self._comment_length, self._room = Reader(root), comment_length, room
        self._nodes = self._written = 0
        self.keys: set[str] = set()
        self.records: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._key_of = ""

    @property
    def full(self) -> bool:
        return self._nodes > MAX_INLINE_NODES or (self._room is not None and self._written > self._room)

    def write(self, schema: Any, depth: int = 0, name: str = "") -> str:
        self._nodes += 1
        if not isinstance(schema, dict) or not schema or depth > MAX_DEPTH or self.full:
            return "Any"
        schema = self._reader.read(schema)
        if isinstance(reference := schema.get("$ref"), str):
            if reference in self._open:  # a cycle
                return "Any"
            self._open.append(reference)
            written = self.write(self._reader.target(reference), depth + 1, name_of(reference))
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
        return _union([self._typed(kind, schema, depth, name) for kind in types]) if types else "Any"

    def _typed(self, kind: str, schema: JsonSchema, depth: int, name: str) -> str:
        if kind in SIMPLE:
            return "bytes" if kind == "string" and takes_bytes(schema) else SIMPLE[kind]
        if kind == "array":
            if places := places_of(schema):
                return f"({', '.join(self._place(place, depth) for place in places)})"
            return f"[{self.write(schema.get('items'), depth + 1)}]" if schema.get("items") else "list"
        if isinstance(properties := schema.get("properties"), dict) and properties:
            listed = schema.get("required")
            required = dict.fromkeys(key for key in listed if isinstance(key, str)) if isinstance(listed, list) else {}
            keys, key_of = [], self._key_of
            for key, value in {**properties, **{key: {} for key in required if key not in properties}}.items():
                if self.full:
                    break
                keys.append(self._key(key, value, key in required, depth))
            text = f"{{{', '.join(keys)}}}"
            self.records.append((name or str(schema.get("title", "")) or key_of, text))
            return text
        values = schema.get("additionalProperties")
        return f"{{str: {self.write(values, depth + 1)}}}" if isinstance(values, dict) and values else "dict"

    def _place(self, schema: Any, depth: int) -> str:
        name = schema.get("title") if isinstance(schema, dict) else None
        text = self.write(schema, depth + 1)
        return f"{one_line(name, 80)}: {text}" if isinstance(name, str) and name.isidentifier() else text

    def _key(self, key: str, schema: Any, required: bool, depth: int) -> str:
        self.keys.add(key)
        self._key_of = key
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
