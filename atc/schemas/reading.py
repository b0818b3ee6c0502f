"""Read a schema whose parts hold of one value together: each as what a value may be.

Whoever shows a schema, or asks what fields a value has, meets three forms and no others: a bare reference, a choice of
schemas, or one schema with all its fields. :class:`Reader` makes them as they are looked at, so that what is never
shown costs nothing; :func:`alternatives` answers for one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from atc.schemas.protocol import JsonSchema
from atc.schemas.validate import both, common_types, pointed, types_of

CHOICES = ("anyOf", "oneOf")
MAX_ALTERNATIVES = 60
"""Schemas that one place may be; of more, one schema is made that lets through what any of them does."""
MAX_PARTS, MAX_DEPTH = 2_000, 100
"""Schemas that are looked at for one place, and how deep they may stand in one another."""
MAX_COPIED = 200_000
"""Fields that are copied for one place; what would take more is anything."""
_ABOUT = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_FIELDS = frozenset(
    """
    properties required items prefixItems enum const allOf anyOf oneOf $ref patternProperties additionalProperties
    """.split()
)
"""Keywords that tell more of a value than a reference or a choice beside them does."""
_MARK = "+"
"""Ends the name of a definition that was made here; what stands before it is for readers."""


class Alternative(NamedTuple):
    """One schema that a value may fit: without ``$ref``, ``allOf``, ``anyOf`` and ``oneOf``.

    Attributes:
        schema: with the fields of all that holds of the value.
        name: of the definition that it is; empty where it is none.
    """

    schema: JsonSchema
    name: str = ""


def alternatives(root: JsonSchema, schema: Any) -> list[Alternative]:
    """The schemas of which a value fits at least one, at least one schema; ``{}`` stands for anything.

    Args:
        root: the schema whose ``$defs`` references point into.
        schema: in it.
    """
    return _told_apart(_Expansion(root).of(schema))


def whole(root: JsonSchema, schema: Any) -> JsonSchema:
    """One schema with all fields that a value may have; required is what every alternative requires."""
    return loosest([each.schema for each in alternatives(root, schema)])


def loosest(schemas: Sequence[JsonSchema]) -> JsonSchema:
    """One schema that lets through what any of several does, and names every field that one of them names."""
    if len(schemas) == 1:
        return schemas[0]
    made: JsonSchema = {}
    fields: dict[str, list[Any]] = {}
    for schema in schemas:
        for key, value in _properties(schema).items():
            known = fields.setdefault(key, [])
            if not any(value is each or value == each for each in known[-MAX_ALTERNATIVES:]):
                known.append(value)
        for key in ("items", "description"):
            if key in schema:
                made.setdefault(key, schema[key])
    if all(types_of(schema) for schema in schemas):
        made["type"] = sorted(frozenset().union(*map(types_of, schemas)))
    if fields:
        made["properties"] = {k: v[0] if len(v) == 1 else {"anyOf": v[:MAX_ALTERNATIVES]} for k, v in fields.items()}
    objects = [schema for schema in schemas if _properties(schema) or types_of(schema) & {"object"}]
    if needed := [key for key in _required(objects[0]) if all(key in _required(o) for o in objects)] if objects else []:
        made["required"] = needed
    if any(_is_open(schema) for schema in schemas):
        made["additionalProperties"] = True
    return made


def allows_more(schema: JsonSchema) -> bool:
    """Whether an object's schema says that it may have keys which it does not name. One that says nothing does not."""
    return schema.get("additionalProperties", False) is not False or bool(schema.get("patternProperties"))


class Reader:
    """Reads the schemas of one document in the three forms, each made once.

    Args:
        root: the schema whose ``$defs`` references point into; it must not change meanwhile.
    """

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._read: dict[int, tuple[JsonSchema, JsonSchema]] = {}
        self._targets: dict[str, JsonSchema] = {}

    def read(self, schema: Any) -> JsonSchema:
        """A schema in one of the three forms: itself, or a bare reference to what is made of it."""
        if not isinstance(schema, dict):
            return {}
        if not self._is_joined(schema):
            return schema
        if id(schema) not in self._read:  # the entry keeps its schema, so the id stays its own
            reference = schema.get("$ref")
            kept = self._keep(self._plain(alternatives(self._root, schema)), name_of(reference))
            about = {key: schema[key] for key in _ABOUT if key in schema}
            self._read[id(schema)] = (schema, {**about, "$ref": kept})
        return self._read[id(schema)][1]

    def target(self, reference: str) -> JsonSchema:
        """What a bare reference names, in one of the three forms."""
        if reference not in self._targets:
            found = pointed(self._root, reference)
            found = found if isinstance(found, dict) else {}
            if self._is_joined(found):
                found = self._plain(alternatives(self._root, {"$ref": reference}))
            self._targets[reference] = found
        return self._targets[reference]

    def follow(self, schema: Any) -> tuple[JsonSchema, str]:
        """A choice or one schema with its fields, and the name of the definition that it is; empty where it is none."""
        name = ""
        for _ in range(20):
            schema = self.read(schema)
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema, name
            name, schema = name_of(reference), self.target(reference)
        return {}, ""

    def about(self, schema: Any, keyword: str) -> Any:
        """What a schema says of itself, else what it refers to."""
        for _ in range(20):
            if not isinstance(schema, dict) or keyword in schema:
                break
            reference = schema.get("$ref")
            schema = self.target(reference) if isinstance(reference, str) else None
        return schema.get(keyword) if isinstance(schema, dict) else None

    def _is_joined(self, schema: JsonSchema) -> bool:
        """Whether several schemas hold of one value here."""
        if isinstance(reference := schema.get("$ref"), str):
            if not (schema.keys() & _FIELDS) - {"$ref"}:
                return "type" in schema and not types_of(_dict(pointed(self._root, reference)))
            return True
        if isinstance(schema.get("allOf"), list):
            return True
        choices = [key for key in CHOICES if isinstance(schema.get(key), list)]
        return len(choices) > 1 or bool(choices and (schema.keys() & _FIELDS) - {*choices, "additionalProperties"})

    def _plain(self, found: list[Alternative]) -> JsonSchema:
        if len(found) == 1:
            return found[0].schema
        return {"anyOf": [{"$ref": self._keep(each.schema, each.name)} for each in found]}

    def _keep(self, schema: JsonSchema, name: str) -> str:
        reference = f"#/$defs/{name}{_MARK}{len(self._targets)}"
        self._targets[reference] = schema
        return reference


def name_of(reference: Any) -> str:
    """The name of the definition that a reference leads to, for readers; empty where it has none."""
    return reference.rsplit("/", 1)[-1].partition(_MARK)[0] if isinstance(reference, str) else ""


class _Expansion:
    """Expands one place of a schema.

    Args:
        root: the schema whose ``$defs`` references point into.
    """

    def __init__(self, root: JsonSchema) -> None:
        self._root, self._parts, self._room = root, 0, MAX_COPIED

    def of(self, schema: Any, above: tuple[str, ...] = (), depth: int = 0) -> list[Alternative]:
        """The alternatives of a schema; ``above``: the references that were followed to it."""
        self._parts += 1
        if not isinstance(schema, dict) or self._parts > MAX_PARTS or depth > MAX_DEPTH:
            return [Alternative({})]
        groups: list[list[Alternative]] = []
        if isinstance(reference := schema.get("$ref"), str) and reference not in above:
            found = self.of(pointed(self._root, reference), (*above, reference), depth + 1)
            name = name_of(reference)
            groups.append([each._replace(name=name if len(found) == 1 else each.name or name) for each in found])
        if isinstance(parts := schema.get("allOf"), list):
            for part in parts:
                found = self.of(part, above, depth + 1)
                groups.append([found[0]._replace(name="")] if len(found) == 1 else found)
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", *CHOICES)}
        groups.append([Alternative(own)])
        for keyword in CHOICES:
            if isinstance(members := schema.get(keyword), list) and members:
                groups.append([each for member in members for each in self.of(member, above, depth + 1)])
        about = {key: own[key] for key in _ABOUT if key in own}
        return [each._replace(schema={**each.schema, **about}) for each in self._all_of(groups)]

    def _all_of(self, groups: list[list[Alternative]]) -> list[Alternative]:
        """What is of one alternative of each group. By halves, so that nothing is copied for each further group."""
        if len(groups) == 1:
            return groups[0]
        half = len(groups) // 2
        return self._joined(self._all_of(groups[:half]), self._all_of(groups[half:]))

    def _joined(self, first: list[Alternative], second: list[Alternative]) -> list[Alternative]:
        if len(first) * len(second) > MAX_ALTERNATIVES:
            first, second = ([Alternative(loosest([each.schema for each in some]))] for some in (first, second))
        pairs = [(a, b) for a in first for b in second]
        self._room -= sum(len(_properties(each.schema)) for pair in pairs for each in pair)
        if self._room < 0:
            return [Alternative({})]
        possible = [(a, b) for a, b in pairs if not _excluded(a.schema, b.schema)] or pairs
        return [
            Alternative(both(a.schema, b.schema), (b.name or a.name) if len(second) > 1 else (a.name or b.name))
            for a, b in possible
        ]


def _excluded(one: JsonSchema, other: JsonSchema) -> bool:
    return "type" in one and "type" in other and not common_types(one["type"], other["type"])


def _told_apart(found: list[Alternative]) -> list[Alternative]:
    """Alternatives that differ in what they require alone are one, which requires what all of them do."""
    kept: list[Alternative] = []
    for each in found:
        said = _said(each.schema)
        for at, other in enumerate(kept):
            if _said(other.schema) == said:
                needed = [key for key in _required(other.schema) if key in _required(each.schema)]
                rest = {key: value for key, value in other.schema.items() if key != "required"}
                kept[at] = Alternative({**rest, "required": needed} if needed else rest, other.name)
                break
        else:
            kept.append(each)
    return kept


def _said(schema: JsonSchema) -> JsonSchema:
    return {key: value for key, value in schema.items() if key not in _ABOUT and key not in ("required", "not")}


def _is_open(schema: JsonSchema) -> bool:
    """Whether a value may be an object of which not all fields are known."""
    may_be_object = not types_of(schema) or "object" in types_of(schema)
    return may_be_object and (not _properties(schema) or allows_more(schema))


def _required(schema: JsonSchema) -> list[str]:
    listed = schema.get("required")
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []


def _properties(schema: JsonSchema) -> JsonSchema:
    return _dict(schema.get("properties"))


def _dict(value: Any) -> JsonSchema:
    return value if isinstance(value, dict) else {}


MAX_PATTERN = 30
"""Characters of a pattern that is shown; a longer one is noise to a reader."""
_MAX_NUMBER = 10**6
"""A larger bound is the end of a machine's range rather than a rule of the service."""


def limits_of(schema: JsonSchema) -> str:
    """``1 to 100``, ``at most 20 characters``, ``pattern ^a+$``; empty where there is none that is short.

    The text comes from outside: write it with :func:`atc.schemas.types.one_line`.
    """
    parts = [
        _beyond("more than", _number(schema, "exclusiveMinimum")),
        _range(_number(schema, "minimum"), _number(schema, "maximum")),
        _beyond("less than", _number(schema, "exclusiveMaximum")),
        _range(_number(schema, "minLength"), _number(schema, "maxLength"), "character"),
        _range(_number(schema, "minItems"), _number(schema, "maxItems"), "item"),
    ]
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= MAX_PATTERN:
        parts.append(f"pattern {pattern}")
    return ", ".join(filter(None, parts))


def _number(schema: JsonSchema, keyword: str) -> float | int | None:
    value: Any = schema.get(keyword)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_NUMBER
    return value if usable else None


def _range(least: float | int | None, most: float | int | None, unit: str = "") -> str:
    """The demand that a value is not negative, or not empty, is left out."""
    if most is None:
        if least is None or 0 <= least <= 1:
            return ""
        text, last = f"at least {least}", least
    elif least is None or (unit and least <= 1 != most):
        text, last = f"at most {most}", most
    else:
        text, last = (f"{least} to {most}" if least != most else f"{least}"), most
    return f"{text} {unit}{'' if last == 1 else 's'}" if unit else text


def _beyond(word: str, bound: float | int | None) -> str:
    return "" if bound is None else f"{word} {bound}"
