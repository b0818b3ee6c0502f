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
    """Whether ``additionalProperties`` of one says nothing about the properties of the other."""
    for limited, other in ((first, second), (second, first)):
        if limited.get("additionalProperties", True) in (True, {}):
            continue
        if not other.get("properties", {}).keys() <= limited.get("properties", {}).keys():
            return False
    return True
