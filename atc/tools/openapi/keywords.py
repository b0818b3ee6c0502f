"""The keywords of JSON Schema that an imported schema keeps, and what ``allOf`` and ``discriminator`` come to.

Documents in the wild have numbers in strings, patterns of other dialects, ``required: true``. A wrong keyword is
dropped: it would make the whole schema refuse to compile, and says nothing that can be relied on.

``allOf`` is how documents write inheritance. One flat object reads better and lets the properties of a request body
become arguments; a merge that would change what is valid is not made (:func:`merged`).

OpenAPI 3.0 and Swagger 2.0 also inherit by ``discriminator`` ("Composition and Inheritance"): the base names the
property that tells, each heir names the base in its ``allOf``. Where a document names the base, any of its heirs may
stand. Nothing at the base lists them, so :class:`Heirs` looks for them once in a document.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from atc.schemas.types import EVIDENCE, OBSERVED

JSON_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

_TYPE_ALIASES = {
    "int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
    "float": "number", "double": "number", "decimal": "number",
    "bool": "boolean",
    "str": "string", "text": "string", "char": "string", "date": "string", "datetime": "string", "date-time": "string",
    "uuid": "string", "file": "string",
    "list": "array", "map": "object", "dict": "object", "hash": "object",
}  # fmt: skip

SUBSCHEMA = tuple(
    """
    items additionalProperties not contains propertyNames if then else unevaluatedItems unevaluatedProperties
    """.split()
)
"""Keywords that hold one schema."""

SUBSCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
"""Keywords that hold a list of schemas."""

SUBSCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas")
"""Keywords that hold a mapping of schemas."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "format", "readOnly", "writeOnly"}
)
"""Keywords that never make a value invalid here."""


def groups_of(schema: dict[str, Any]) -> Iterator[list[Any] | dict[str, Any]]:
    """The schemas directly inside ``schema``, in lists and mappings; never what only looks like one, in an enum or an
    example."""
    if alone := [schema[key] for key in SUBSCHEMA if key in schema]:
        yield alone
    for keys, kind in ((SUBSCHEMA_LISTS, list), (SUBSCHEMA_MAPS, dict)):
        for key in keys:
            if isinstance(group := schema.get(key), kind):
                yield group


def json_types(value: Any) -> list[str]:
    """The JSON types that a ``type`` keyword names, spelled right; those that JSON does not have are left out."""
    names = value if isinstance(value, list) else [value]
    lowered = [name.lower() for name in names if isinstance(name, str)]
    types = [_TYPE_ALIASES.get(name, name) for name in lowered]
    return list(dict.fromkeys(name for name in types if name in JSON_TYPES))


@lru_cache(maxsize=4096)
def is_pattern(pattern: str) -> bool:
    """Whether the linear-time engine can match the pattern."""
    try:
        jsonschema_rs.validator_for(
            {"type": "string", "pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(), offline=True
        )
    except jsonschema_rs.ValidationError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    )


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)

RIGHT_VALUE: dict[str, Callable[[Any], bool]] = {
    "format": _is_text,
    "contentMediaType": _is_text,
    "contentEncoding": _is_text,
    "const": lambda value: True,
    "default": lambda value: True,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "deprecated": lambda value: value is True,
    "uniqueItems": lambda value: value is True,
    "pattern": lambda value: isinstance(value, str) and is_pattern(value),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": _is_name_lists,
    **dict.fromkeys(_BOUNDS, _is_number),
    **dict.fromkeys(_COUNTS, _is_count),
    EVIDENCE: lambda value: isinstance(value, dict) and all(type(count) is int for count in value.values()),
    OBSERVED: lambda value: value is True or bool(json_types(value)),
}
"""Keywords that are kept as they are when their value passes the check."""


# Their meaning depends on the keywords beside them in their own schema: they cannot move into another.
_BOUND_TO_NEIGHBOURS = frozenset(
    """
    if then else contains minContains maxContains prefixItems unevaluatedItems unevaluatedProperties
    patternProperties
    """.split()
)


def merged(schemas: list[Any]) -> dict[str, Any] | None:
    """One schema that accepts what all of ``schemas`` accept, or ``None`` where that is not safe.

    Args:
        schemas: converted schemas; what the later ones say in annotations (description, default) wins.
    """
    return _Merger().whole(schemas)


class _Merger:
    """Merges into schemas of its own, so that what was merged is not copied for each further member."""

    def __init__(self) -> None:
        self._own: dict[int, dict[str, Any]] = {}
        self._required: dict[int, dict[str, None]] = {}

    def whole(self, schemas: list[Any]) -> dict[str, Any] | None:
        result = self._new()
        for schema in schemas:
            if schema is True:
                continue
            if not isinstance(schema, dict) or not self._join(result, schema):
                return None
        for key, names in self._required.items():
            self._own[key]["required"] = list(names)
        return result

    def _new(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._own[id(made)] = made
        return made

    def _join(self, result: dict[str, Any], schema: dict[str, Any]) -> bool:
        if result and schema and (_BOUND_TO_NEIGHBOURS & (result.keys() | schema.keys())):
            return False
        if not _extras_agree(result, schema):
            return False
        for key, value in schema.items():
            if key == "required":
                result.setdefault(key, value)
                self._required.setdefault(id(result), {}).update(dict.fromkeys(value))
            elif key not in result or key in ANNOTATIONS:
                result[key] = dict(value) if key == "properties" else value
            elif key == "properties":
                if not all(self._property(result[key], name, item) for name, item in value.items()):
                    return False
            elif result[key] != value:
                return False
        return True

    def _property(self, properties: dict[str, Any], name: str, item: Any) -> bool:
        known = properties.setdefault(name, item)
        if known is item or known == item:
            return True
        if id(known) not in self._own:
            whole = self._new()
            if known is not True and not (isinstance(known, dict) and self._join(whole, known)):
                return False
            properties[name] = known = whole
        return item is True or (isinstance(item, dict) and self._join(known, item))


def _extras_agree(first: dict[str, Any], second: dict[str, Any]) -> bool:
    for limited, other in ((first, second), (second, first)):
        if limited.get("additionalProperties", True) in (True, {}):
            continue
        if not other.get("properties", {}).keys() <= limited.get("properties", {}).keys():
            return False
    return True


MAX_HEIRS, MAX_ALL_HEIRS = 30, 500
"""Heirs of one base, and of all bases of a document, that are written out; of more, the base is one of unknown keys."""

CHOICES = ("oneOf", "anyOf")
_MOST = MAX_HEIRS + 2  # one of them may be the base itself


@dataclass(frozen=True)
class Base:
    """A schema that others inherit from.

    Attributes:
        tells: the property that tells which heir a value is.
        lists: it lists its heirs itself, as a choice.
        heirs: the reference of each, with the values of the property that belong to it.
        many: there are too many of them to be written out.
    """

    tells: str
    lists: bool
    heirs: Mapping[str, tuple[str, ...]]
    many: bool = False


class Heirs:
    """The bases of one document."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._prefix, self._schemas = _definitions(root)
        self._below: dict[str, list[str]] = {}
        for name, node in self._schemas.items():
            for above in _named_in(node.get("allOf"), self._prefix):
                self._below.setdefault(above, []).append(name)
        self._heirs: set[int] = set()
        self._bases = {self._prefix + name: base for name, base in self._families()}
        if sum(len(base.heirs) for base in self._bases.values()) > MAX_ALL_HEIRS:
            self._bases = {ref: Base(base.tells, base.lists, {}, True) for ref, base in self._bases.items()}

    def base(self, reference: Any) -> Base | None:
        """What inherits from what a reference names; ``None`` where nothing does."""
        return self._bases.get(unquote(reference)) if isinstance(reference, str) else None

    def is_heir(self, node: dict[str, Any]) -> bool:
        """Whether a schema of the document is one that inherits: its ``allOf`` means the base alone."""
        return id(node.get("allOf")) in self._heirs  # the document outlives this, so the id stays its own

    def _families(self) -> Iterator[tuple[str, Base]]:
        """Each schema that others inherit from; the property that tells them may be named by one above it."""
        tops = {
            name: (tells, _values(node, self._prefix))
            for name, node in self._schemas.items()
            if (tells := _tells(node))
        }
        waiting, family = deque(tops), dict(tops)
        while waiting:
            name = waiting.popleft()
            tells, listed = family[name]
            for heir in self._below.get(name, ()):
                self._heirs.add(id(self._schemas[heir]["allOf"]))
                if heir not in family:
                    family[heir] = (tells, listed)
                    waiting.append(heir)
            own = tops[name][1] if name in tops else {}
            below = dict.fromkeys(
                [*self._all_below(name), *islice((each for each in own if each in self._schemas), _MOST)]
            )
            below.pop(name, None)
            if below:
                lists = any(isinstance(self._schemas[name].get(key), list) for key in CHOICES)
                heirs = {self._prefix + heir: self._values_of(heir, listed) for heir in below}
                many = len(below) > MAX_HEIRS
                yield name, Base(tells, lists, {} if many else heirs, many)

    def _values_of(self, heir: str, listed: Mapping[str, list[str]]) -> tuple[str, ...]:
        stated = self._schemas[heir].get("x-ms-discriminator-value")
        return tuple(listed.get(heir) or [stated if isinstance(stated, str) else heir])

    def _all_below(self, name: str) -> list[str]:
        """The names of the schemas below one, each once, and no more than it takes to know that there are too many."""
        found: dict[str, None] = {}
        waiting = deque(islice(self._below.get(name, ()), _MOST))
        while waiting and len(found) < _MOST:
            if (each := waiting.popleft()) not in found:
                found[each] = None
                waiting += islice(self._below.get(each, ()), _MOST)
        return list(found)


def _definitions(root: dict[str, Any]) -> tuple[str, dict[str, dict[str, Any]]]:
    if "swagger" in root:
        prefix, found = "#/definitions/", root.get("definitions")
    else:
        components = root.get("components") if "openapi" in root else None
        prefix, found = "#/components/schemas/", components.get("schemas") if isinstance(components, dict) else None
    listed = found if isinstance(found, dict) else {}
    return prefix, {name: node for name, node in listed.items() if isinstance(node, dict)}


def _named_in(members: Any, prefix: str) -> Iterator[str]:
    for member in members if isinstance(members, list) else ():
        reference = member.get("$ref") if isinstance(member, dict) else None
        if isinstance(reference, str) and unquote(reference).startswith(prefix):
            yield unquote(reference).removeprefix(prefix)


def _tells(node: dict[str, Any]) -> str:
    stated = node.get("discriminator")
    name = stated.get("propertyName") if isinstance(stated, dict) else stated
    return name if isinstance(name, str) else ""


def _values(node: dict[str, Any], prefix: str) -> dict[str, list[str]]:
    stated = node.get("discriminator")
    mapping = stated.get("mapping") if isinstance(stated, dict) else None
    values: dict[str, list[str]] = {}
    for value, target in mapping.items() if isinstance(mapping, dict) else ():
        if isinstance(value, str) and isinstance(target, str):
            values.setdefault(unquote(target).removeprefix(prefix), []).append(value)
    return values
