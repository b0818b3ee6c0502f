"""Schemas of OpenAPI 3.0, 3.1 and Swagger 2.0 → JSON Schema 2020-12 that stands alone.

Every ``$ref`` becomes ``#/$defs/…``, so cycles stay cycles; :meth:`SchemaConverter.closed` puts the definitions that a
schema reaches beside it. A definition is converted once and shared by all protocols that need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal
from urllib.parse import unquote

from atc.errors import ToolImportError
from atc.schemas.names import UniqueNames
from atc.schemas.types import VALUE_NAMES, value_names
from atc.tools.openapi.keywords import (
    CHOICES,
    RIGHT_VALUE,
    SUBSCHEMA,
    SUBSCHEMA_LISTS,
    SUBSCHEMA_MAPS,
    Base,
    Heirs,
    groups_of,
    is_pattern,
    json_types,
    merged,
)
from atc.tools.openapi.load import Resolver
from atc.tools.openapi.text import clean

Direction = Literal["request", "response"]
_Form = Literal["", "any", "own"]
"""Of what a reference names: as it stands; any of its heirs or itself; without the choice that lists its heirs."""

MAX_DEFINITIONS = 2_000
"""Definitions that one schema may reach."""

MAX_NAMED = 1_000_000
"""Definitions of all schemas of one document together, each counted where it is reached. What is read beyond has one
dictionary of all definitions in common: else a few lines could say that thousands of operations have thousands each."""

MAX_SCHEMA_TEXT = 1_000
"""Characters of a description inside a schema."""

MAX_MERGED = 5_000_000
"""Values of schemas that are merged for ``allOf``, of one document; what is beyond stays ``allOf``, which is the same.
Else a few lines could say that thousands of schemas hold thousands of properties each."""

MAX_HINTED = 200
"""Values of a discriminator that are named in one branch."""

_MANY = 20  # schemas beside each other whose references are kept
_MAX_EXAMPLE = 1_000
_INLINE_DEPTH = 40
_DEFS = "#/$defs/"
_NOT_KEY = re.compile(r"[^A-Za-z0-9_.-]+")
_BESIDE_REFERENCE = frozenset(
    """
    $ref title description default example examples deprecated readOnly writeOnly nullable x-nullable
    properties required
    """.split()
)
"""What is kept beside a reference of OpenAPI 3.0 and Swagger 2.0, which ignore it: words, and fields that are meant."""
_HIDDEN = {"request": "readOnly", "response": "writeOnly"}


class SchemaConverter:
    """Converts the schemas of one document.

    Args:
        resolver: follows the references of that document.
    """

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._heirs = Heirs(resolver.root)
        self._writes_defaults = _is_of_fastapi(resolver.root)
        version = str(resolver.root.get("openapi", "3.0" if "swagger" in resolver.root else ""))
        self._beside_reference = _BESIDE_REFERENCE if version.startswith("3.0") else None
        self._names: dict[tuple[str, _Form], str] = {}
        self._unique = UniqueNames()
        self._refs: dict[str, tuple[str, _Form]] = {}
        self._bodies: dict[tuple[str, Direction], Any] = {}
        self._inside: set[tuple[str, Direction]] = set()
        self._edges: dict[tuple[str, Direction], list[str]] = {}
        self._below: dict[int, tuple[Any, frozenset[str]]] = {}
        self._sizes: dict[int, int] = {}
        self._lasting: set[int] = set()
        self._merging = MAX_MERGED
        self._naming = MAX_NAMED
        self._closures: dict[tuple[Direction, tuple[str, ...]], dict[str, Any]] = {}
        self._common: dict[Direction, dict[str, Any]] = {"request": {}, "response": {}}
        self._converted: dict[tuple[int, Direction], tuple[Any, dict[str, Any]]] = {}

    def convert(self, node: Any, direction: Direction) -> dict[str, Any]:
        """Convert one schema. Its references point into ``$defs`` that :meth:`closed` adds.

        A schema that only refers to another is replaced by it, so that its type can be seen at the top.

        Args:
            node: the schema as the document has it.
            direction: ``"request"`` drops read-only properties, ``"response"`` write-only ones.

        Raises:
            ToolImportError: a reference cannot be followed.
        """
        key = (
            id(node),
            direction,
        )  # shared parameters are converted once; the entry keeps its node, so the id stays its own
        if not isinstance(node, dict):
            return {"not": {}} if node is False else {}
        if key not in self._converted:
            schema = self._inlined(self._schema(node, direction, 0), direction, 0)
            self._converted[key] = (node, schema if isinstance(schema, dict) else self.convert(schema, direction))
        return dict(self._converted[key][1])

    def closed(self, schema: dict[str, Any], direction: Direction) -> dict[str, Any]:
        """Return ``schema`` with the ``$defs`` that it reaches; schemas that reach the same have the same dictionary.

        Raises:
            ToolImportError: a reference cannot be followed, or it reaches more than :data:`MAX_DEFINITIONS`.
        """
        named = tuple(self._references(schema))
        if not named:
            return schema
        key = (direction, named)
        if key not in self._closures:
            self._closures[key] = self._reached(named, direction)
        return {**schema, "$defs": self._closures[key]}

    def _reached(self, named: tuple[str, ...], direction: Direction) -> dict[str, Any]:
        common = self._naming < 0
        reached: dict[str, Any] = self._common[direction] if common else {}
        waiting = [*named]
        while waiting:
            name = waiting.pop()
            if name in reached:
                continue
            if len(reached) >= MAX_DEFINITIONS and not common:
                raise ToolImportError(f"its schema reaches more than {MAX_DEFINITIONS:,} definitions")
            reached[name] = self._definition(name, direction, 0)
            edge = (name, direction)
            if edge not in self._edges:
                self._edges[edge] = self._references(reached[name])
            waiting.extend(target for target in self._edges[edge] if target not in reached)
        if common:
            return reached
        self._naming -= len(reached)
        return {name: reached[name] for name in sorted(reached)}

    def _definition(self, name: str, direction: Direction, depth: int) -> Any:
        key = (name, direction)
        if key not in self._bodies:
            self._inside.add(key)
            try:
                reference, form = self._refs[name]
                node = self._resolver.lookup(reference)
                base = self._heirs.base(reference)
                if form == "own" and isinstance(node, dict):
                    node = {key: value for key, value in node.items() if key not in (*CHOICES, "discriminator")}
                if form == "any" and base is not None:
                    made = self._any_of(reference, base)
                else:
                    made = self._schema(node, direction, depth)
                self._bodies[key] = made
                self._lasting.add(id(made))
            finally:
                self._inside.discard(key)
        return self._bodies[key]

    def _name(self, ref: Any, form: _Form = "") -> str:
        if not isinstance(ref, str) or (ref, form) not in self._names:
            self._resolver.lookup(ref)  # refuses what cannot be followed
            last = unquote(ref).rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")
            last = f"Any{last}" if form == "any" else last
            name = self._unique.take(_NOT_KEY.sub("_", last).strip("_")[:80] or "schema")
            self._names[ref, form], self._refs[name] = name, (ref, form)
        return self._names[ref, form]

    def _reference(self, ref: Any, *, inherited: bool) -> dict[str, Any]:
        """A reference of the document; ``inherited``: in the ``allOf`` of an heir, where it means the base alone."""
        base = self._heirs.base(ref)
        if base is None:
            return {"$ref": _DEFS + self._name(ref)}
        if inherited or base.lists:
            return {"$ref": _DEFS + self._name(ref, "own" if inherited and base.lists else "")}
        if base.many:
            return {"$ref": _DEFS + self._name(ref), "additionalProperties": True}
        return {"$ref": _DEFS + self._name(ref, "any")}

    def _any_of(self, ref: str, base: Base) -> dict[str, Any]:
        heirs: list[dict[str, Any]] = [
            {"$ref": _DEFS + self._name(heir), "properties": {base.tells: _one_of(values)}}
            for heir, values in base.heirs.items()
        ]
        return {"anyOf": [*heirs, {"$ref": _DEFS + self._name(ref)}]}

    def _schema(self, node: Any, direction: Direction, depth: int, *, inherited: bool = False) -> Any:
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            return {}
        out: dict[str, Any] = {}
        if "$ref" in node:
            if self._beside_reference is not None:
                node = {key: value for key, value in node.items() if key in self._beside_reference}
            out |= self._reference(node["$ref"], inherited=inherited)
        _keep_plain(node, out)
        self._keep_subschemas(node, out, direction, depth)
        self._keep_properties(node, out, direction, depth)
        if isinstance(node.get("discriminator"), dict):
            self._hint_discriminator(node, out)
        if "allOf" in out:
            out = self._merge_all_of(out, direction, depth)
        _make_nullable(node, out)
        return out

    def _keep_subschemas(self, node: dict[str, Any], out: dict[str, Any], direction: Direction, depth: int) -> None:
        for key in SUBSCHEMA:
            if isinstance(node.get(key), (dict, bool)):
                out[key] = self._schema(node[key], direction, depth + 1)
        if isinstance(node.get("items"), list):  # the tuples of drafts before 2020-12
            out["prefixItems"] = [self._schema(item, direction, depth + 1) for item in node["items"]]
        for key in SUBSCHEMA_LISTS:
            if isinstance(node.get(key), list) and node[key]:
                heir = key == "allOf" and self._heirs.is_heir(node)
                out[key] = [self._schema(item, direction, depth + 1, inherited=heir) for item in node[key]]
        if out.get("prefixItems") == []:
            del out["prefixItems"]
        if ("items" in out or "prefixItems" in out) and "$ref" not in out:
            out.setdefault("type", "array")

    def _keep_properties(self, node: dict[str, Any], out: dict[str, Any], direction: Direction, depth: int) -> None:
        hidden: set[str] = set()
        for key in SUBSCHEMA_MAPS:
            if not isinstance(node.get(key), dict):
                continue
            kept = {}
            for name, item in node[key].items():
                if key == "patternProperties" and not is_pattern(name):
                    continue
                if key == "properties" and self._is_hidden(item, direction):
                    hidden.add(name)
                else:
                    kept[name] = self._schema(item, direction, depth + 1)
            out[key] = kept
        required = node.get("required")
        if isinstance(required, list):
            names = dict.fromkeys(name for name in required if isinstance(name, str) and name not in hidden)
            if names:
                out["required"] = list(names)
        if direction == "response" and self._writes_defaults and "properties" in out:
            stated = [name for name in out["properties"] if _has_default(node["properties"][name])]
            if stated:
                out["required"] = list(dict.fromkeys([*out.get("required", ()), *stated]))
        if "properties" in out and "type" not in out and "$ref" not in out:
            out["type"] = "object"

    def _is_hidden(self, node: Any, direction: Direction) -> bool:
        mark = _HIDDEN[direction]
        if not isinstance(node, dict):
            return False
        return node.get(mark) is True or ("$ref" in node and self._target(node["$ref"]).get(mark) is True)

    def _target(self, ref: Any) -> dict[str, Any]:
        found = self._resolver.lookup(ref)
        return found if isinstance(found, dict) else {}

    def _merge_all_of(self, out: dict[str, Any], direction: Direction, depth: int) -> dict[str, Any]:
        members = [self._inlined(member, direction, depth) for member in out["allOf"]]
        rest = {key: value for key, value in out.items() if key != "allOf"}
        if (whole := self._merged(*members, rest)) is not None:
            return whole
        if len(out["allOf"]) == 1 and isinstance(out["allOf"][0], dict) and not (out["allOf"][0].keys() & rest.keys()):
            return {**out["allOf"][0], **rest}
        return out

    def _merged(self, *parts: Any) -> dict[str, Any] | None:
        self._merging -= sum(map(self._size, parts))
        return merged([*parts]) if self._merging >= 0 else None

    def size_of(self, closed: dict[str, Any]) -> int:
        """About how many values a schema has that :meth:`closed` gave: its definitions are counted once each."""
        own = {key: value for key, value in closed.items() if key != "$defs"}
        return _values_in(own) + sum(self._size(body) for body in closed.get("$defs", {}).values())

    def _size(self, schema: Any) -> int:
        if (known := self._sizes.get(id(schema))) is None:
            known = _values_in(schema)
            if id(schema) in self._lasting:
                self._sizes[id(schema)] = known
        return known

    def _references(self, schema: Any) -> list[str]:
        """The definitions that a converted schema names, sorted: every run must give the same names."""
        return sorted(self._named_in([schema]))

    def _named_in(self, schemas: Iterable[Any]) -> set[str]:
        names: set[str] = set()
        waiting = [*schemas]
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict):
                continue
            if isinstance(node.get("$ref"), str):
                names.add(node["$ref"].removeprefix(_DEFS))
            for group in groups_of(node):
                if len(group) <= _MANY:
                    waiting += group.values() if isinstance(group, dict) else group
                    continue
                if id(group) not in self._below:  # many operations may share it; it is kept, so its id stays its own
                    below = frozenset(self._named_in(group.values() if isinstance(group, dict) else group))
                    self._below[id(group)] = (group, below)
                names |= self._below[id(group)][1]
        return names

    def _inlined(self, member: Any, direction: Direction, depth: int) -> Any:
        if isinstance(member, dict) and "$ref" in member and len(member) > 1:
            target = self._inlined({"$ref": member["$ref"]}, direction, depth)
            beside = {key: value for key, value in member.items() if key != "$ref"}
            return self._merged(target, beside) or member
        for _ in range(_INLINE_DEPTH):
            if not (isinstance(member, dict) and set(member) == {"$ref"}):
                break
            name = member["$ref"].removeprefix(_DEFS)
            if (name, direction) in self._inside or depth > _INLINE_DEPTH:
                break
            member = self._definition(name, direction, depth + 1)
        return member

    def _hint_discriminator(self, node: dict[str, Any], out: dict[str, Any]) -> None:
        name, mapping = node["discriminator"].get("propertyName"), node["discriminator"].get("mapping")
        if not isinstance(name, str) or not isinstance(mapping, dict):
            return
        values: dict[str, list[str]] = {}
        for value, target in mapping.items():
            if isinstance(target, str):
                values.setdefault(target.rsplit("/", 1)[-1], []).append(value)
        for key in ("oneOf", "anyOf"):
            for index, branch in enumerate(node[key] if isinstance(node.get(key), list) else []):
                ref = branch.get("$ref") if isinstance(branch, dict) else None
                named = values.get(ref.rsplit("/", 1)[-1]) if isinstance(ref, str) else None
                if named and len(named) <= MAX_HINTED:
                    out[key][index] = {**out[key][index], "properties": {name: _one_of(named)}}


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    return {"const": values[0]} if len(values) == 1 else {"enum": list(values)}


def _keep_plain(node: dict[str, Any], out: dict[str, Any]) -> None:
    types = json_types(node.get("type")) if "type" in node else []
    if types:
        out["type"] = types[0] if len(types) == 1 else types
    for key, is_right in RIGHT_VALUE.items():
        if key in node and is_right(node[key]):
            value = node[key]
            whole = types[:1] == ["integer"] and isinstance(value, float) and value.is_integer()
            out[key] = int(value) if whole else value  # an `int` is shown to be at least 1, and not 1.0
    if out.get("format") == "binary":  # bytes only where a whole body or part is meant: JSON has none
        del out["format"]
        out.setdefault("contentMediaType", "application/octet-stream")
    if "enum" in out and (names := node.get(VALUE_NAMES, node.get("x-enumNames"))) is not None:
        out |= {VALUE_NAMES: names} if value_names({"enum": out["enum"], VALUE_NAMES: names}) else {}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(exclusive) is True and bound in out:
            out[exclusive] = out.pop(bound)
    if "enum" in out and types and not any(_fits(value, types) for value in out["enum"] if value is not None):
        del out["type"]  # `type: string` over an enum of numbers: the values are the surer statement
    for key in ("title", "description"):
        text = clean(node.get(key), MAX_SCHEMA_TEXT)
        if text:
            out[key] = text
    examples = node.get("examples") if isinstance(node.get("examples"), list) else None
    if examples is None and "example" in node:
        examples = [node["example"]]
    if examples and len(json.dumps(examples[0])) <= _MAX_EXAMPLE:
        out["examples"] = examples[:1]


def _make_nullable(node: dict[str, Any], out: dict[str, Any]) -> None:
    if node.get("nullable") is not True and node.get("x-nullable") is not True:
        return
    if "enum" in out and None not in out["enum"]:
        out["enum"] = [*out["enum"], None]
    if "type" in out:
        types = json_types(out["type"])
        out["type"] = [*types, "null"] if "null" not in types else types
        if not ({"$ref", "allOf", "oneOf", "anyOf"} & out.keys()):
            return
    if {"$ref", "allOf", "oneOf", "anyOf"} & out.keys():
        inner = {key: out.pop(key) for key in list(out) if key not in ("title", "description", "default", "examples")}
        out["anyOf"] = [inner, {"type": "null"}]


def _has_default(node: Any) -> bool:
    return isinstance(node, dict) and node.get("default") is not None


def _is_of_fastapi(root: dict[str, Any]) -> bool:
    """Whether a document is one that FastAPI makes: its services write out a field whose value is its default, too."""
    components = root.get("components")
    schemas = components.get("schemas") if isinstance(components, dict) else None
    return isinstance(schemas, dict) and {"HTTPValidationError", "ValidationError"} <= schemas.keys()


def _fits(value: Any, types: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, (int, float)):
        return "number" in types or ("integer" in types and float(value).is_integer())
    return ("string" if isinstance(value, str) else "array" if isinstance(value, list) else "object") in types


def _values_in(schema: Any) -> int:
    count, waiting = 0, [schema]
    while waiting:
        node = waiting.pop()
        count += 1
        if isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node
    return count
