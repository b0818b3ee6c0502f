"""``allOf`` made one schema, where that means the same.

``allOf`` is how documents write inheritance. One flat object reads better and lets the properties of a request body
become arguments; a merge that would change what is valid is not made.
"""

from __future__ import annotations

from typing import Any

from atc.tools.openapi.keywords import ANNOTATIONS

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
    result: dict[str, Any] = {}
    for schema in schemas:
        if schema is True:
            continue
        if not isinstance(schema, dict) or not _join(result, schema):
            return None
    return result


def _join(result: dict[str, Any], schema: dict[str, Any]) -> bool:
    if result and schema and (_BOUND_TO_NEIGHBOURS & (result.keys() | schema.keys())):
        return False
    if not _extras_agree(result, schema):
        return False
    for key, value in schema.items():
        if key not in result or key in ANNOTATIONS:
            result[key] = dict(value) if key == "properties" else value
        elif key == "properties":
            for name, item in value.items():
                known = result["properties"].get(name, item)
                both = known if known == item else merged([known, item])
                if both is None:
                    return False
                result["properties"][name] = both
        elif key == "required":
            result[key] = list(dict.fromkeys([*result[key], *value]))
        elif result[key] != value:
            return False
    return True


def _extras_agree(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether ``additionalProperties`` of one says nothing about the properties of the other."""
    for limited, other in ((first, second), (second, first)):
        if limited.get("additionalProperties", True) in (True, {}):
            continue
        if not other.get("properties", {}).keys() <= limited.get("properties", {}).keys():
            return False
    return True
