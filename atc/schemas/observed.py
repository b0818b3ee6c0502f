"""Responses that were observed and that no document describes: marked, so that nothing enforces what is shown.

One answer shows what is there, not what else may be. So a type that was only seen stands under
:data:`~atc.schemas.types.OBSERVED` in place of ``type``: a stub shows it and says so, and to the checks it is open.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.types import EVIDENCE, OBSERVED
from atc.schemas.validate import types_of

MAX_DEPTH, MAX_KEYS, MAX_NODES = 8, 200, 2_000
"""Levels, keys of one object and schemas of an observed response that are kept: a stranger's tool answered it."""
SAID = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000)
"""Answers that are counted in words; what lies between is "over" the last one. A stub that changed with every answer
would be read anew by a model that keeps what it read."""
_SAYS = ("properties", "items", "prefixItems", "additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf",
         "$ref", "enum", "const")  # fmt: skip
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def says_nothing(returns: JsonSchema | None) -> bool:
    """Whether a response schema tells no more than that it is an object or a list, any of them."""
    if not returns or not types_of(returns) <= {"object", "array", "null"}:
        return not returns
    return not any(returns.get(keyword) for keyword in _SAYS if returns.get(keyword) is not True)


def is_documented(returns: JsonSchema | None) -> bool:
    """Whether a document says what a response looks like; what runs observed is no document."""
    return not says_nothing(returns) and not is_observed(returns)


def is_observed(returns: JsonSchema | None) -> bool:
    """Whether a response was only observed: no document describes it."""
    return bool(returns) and OBSERVED in (returns or {})


def times_seen(returns: JsonSchema | None) -> int:
    """In how many answers an observed response was seen; 0 where that is not known."""
    evidence = (returns or {}).get(EVIDENCE)
    count = evidence.get("seen") if isinstance(evidence, dict) else None
    return count if type(count) is int and count > 0 else 0


def times_text(returns: JsonSchema | None) -> str:
    """How often an observed response was seen, as a stub says it: `` (over 10 times)``; empty where nobody knows."""
    seen = times_seen(returns)
    said = max((number for number in SAID if number <= seen), default=0)
    if said <= 1 and seen <= 1:
        return " (once)" if seen else ""
    return f" ({said:,} times)" if said == seen else f" (over {said:,} times)"


def has_more(returns: JsonSchema | None) -> bool:
    """Whether an object of an observed response had other keys than those that are shown."""
    todo: list[Any] = [returns]
    for _ in range(MAX_NODES):
        if not todo:
            return False
        schema = todo.pop()
        if not isinstance(schema, dict):
            continue
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if properties and isinstance(others, dict):
            return True
        todo += [others, schema.get("items"), *(properties.values() if isinstance(properties, dict) else ())]
    return False


def with_shape(protocol: Protocol, shape: JsonSchema) -> Protocol:
    """The protocol with an observed shape as its response, marked, and with the number of answers that it rests on.

    Args:
        protocol: of a tool that documents no response.
        shape: a JSON Schema of keys and types; whatever else stands in it is left out.
    """
    marked = _Marker().mark(shape)
    if not marked:
        return protocol
    if seen := times_seen(shape):
        marked[EVIDENCE] = {"seen": seen}
    return protocol.model_copy(update={"returns": marked})


class _Marker:
    """Copies a schema of keys and types, each type as one that was seen. Anything else does not pass."""

    def __init__(self) -> None:
        self._nodes = 0

    def mark(self, schema: Any, depth: int = 0) -> JsonSchema:
        self._nodes += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {}
        named = types_of(schema) or types_of({"type": schema.get(OBSERVED)})
        types = [each for each in _TYPES if each in named]
        made: JsonSchema = {OBSERVED: types[0] if len(types) == 1 else types} if types else {}
        if isinstance(properties := schema.get("properties"), dict):
            kept = {key: value for key, value in islice(properties.items(), MAX_KEYS) if isinstance(key, str)}
            made["properties"] = {key: self.mark(value, depth + 1) for key, value in kept.items()}
            listed = schema.get("required")
            if isinstance(listed, list):
                made["required"] = [key for key in kept if key in listed]
        for keyword in ("items", "additionalProperties"):
            if isinstance(schema.get(keyword), dict) and (below := self.mark(schema[keyword], depth + 1)):
                made[keyword] = below
        if isinstance(members := schema.get("anyOf"), list):
            marked = [self.mark(member, depth + 1) for member in members[:MAX_KEYS]]
            made["anyOf"] = [member for member in marked if member] or [{}]
        return {OBSERVED: True, **made} if made else {}
