"""The keywords of JSON Schema that an imported schema keeps, and what a right value of each looks like.

Documents in the wild have numbers in strings, patterns of other dialects, ``required: true``. A wrong keyword is
dropped: it would make the whole schema refuse to compile, and says nothing that can be relied on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

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
}
"""Keywords that are kept as they are when their value passes the check."""
