"""Which tool can supply which argument: the data flow between tools, read off their schemas alone.

A parameter is linked to a response field of the same name, or to the ``id`` of a thing of that name (``city_id`` ↔
``city.id``). This is the "input-output dependency" that the protocols let a model learn (ATC §3.2), said outright.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from atc.tools.parameters import parameters_of
from atc.tools.protocol import Effect, JsonSchema, Protocol
from atc.tools.schemas import resolve, types_of

MAX_DEPTH = 5
ID_ENDINGS = ("id", "ids", "code", "iata", "icao", "key", "slug", "token", "uuid", "handle", "symbol", "number", "reference")


def fields_of(schema: JsonSchema | None) -> Iterator[tuple[str, ...]]:
    """The paths of all named fields of a response; ``[]`` stands for the items of a list."""
    if schema is not None:
        yield from _fields(schema, schema, (), 0)


def _fields(root: JsonSchema, schema: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    schema = resolve(root, schema)
    if depth > MAX_DEPTH:
        return
    for member in (m for k in ("allOf", "anyOf", "oneOf") for m in schema.get(k, ()) if isinstance(m, dict)):
        yield from _fields(root, member, path, depth + 1)
    if isinstance(schema.get("properties"), dict):
        for name, value in schema["properties"].items():
            yield (*path, name)
            yield from _fields(root, value, (*path, name), depth + 1)
    if "items" in schema:
        yield from _fields(root, schema["items"], (*path, "[]"), depth + 1)


def hints_for(protocols: Sequence[Protocol]) -> dict[str, dict[str, str]]:
    """For every tool, for those of its parameters that another tool's response can supply: a short sentence."""
    supply: dict[str, list[tuple[str, str]]] = {}
    for protocol in protocols:
        if protocol.effect is Effect.READ or protocol.returns:
            for path in fields_of(protocol.returns):
                for name in _names(path):
                    supply.setdefault(name, []).append((protocol.name, _expression(protocol.name, path)))
    hints: dict[str, dict[str, str]] = {}
    for protocol in protocols:
        for parameter in parameters_of(protocol):
            if not _looks_given(parameter.original, parameter.schema):
                continue
            found = [text for tool, text in supply.get(parameter.original.lower(), ()) if tool != protocol.name]
            if found:
                hints.setdefault(protocol.name, {})[parameter.original] = f"from {' or '.join(dict.fromkeys(found[:2]))}"
    return hints


def _looks_given(name: str, schema: JsonSchema) -> bool:
    """Identifiers are handed out by tools; dates, amounts and words come from the task."""
    last = name.lower().rsplit("_", 1)[-1]
    return last in ID_ENDINGS and "enum" not in schema and not types_of(schema) & {"boolean", "object"}


def _names(path: tuple[str, ...]) -> list[str]:
    words = [step for step in path if step != "[]"]
    names = [words[-1].lower()]
    if names[0] == "id" and len(words) > 1:
        names.append(f"{words[-2].lower().removesuffix('s')}_id")
    return names


def _expression(tool: str, path: tuple[str, ...]) -> str:
    steps = "".join("[0]" if step == "[]" else f"['{step}']" for step in path)
    return f"{tool}(...){steps}"
