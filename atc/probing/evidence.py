"""Declared arguments and those that evidence tells of, as one schema."""

from __future__ import annotations

from typing import Any

from atc.probing.record import Record
from atc.tools.protocol import Protocol


def merged_arguments(protocol: Protocol, record: Record) -> dict[str, Any]:
    """What the source declares of the arguments, bettered by what was accepted and refused.

    Declared types stand. Declared as required stays so; what evidence shows to be required is added where the source
    does not declare its arguments at all.
    """
    declared, learnt = protocol.parameters, record.arguments.schema()
    said, seen = declared.get("properties", {}), learnt.get("properties", {})
    properties: dict[str, Any] = {}
    for name in {**said, **seen}:
        known = said.get(name) if isinstance(said.get(name), dict) else {}
        typed = bool(known.get("type") or "$ref" in known or "enum" in known or "anyOf" in known)
        properties[name] = {**seen.get(name, {}), **known} if typed else {**known, **seen.get(name, {})}
    required = [name for name in properties if name in protocol.required]
    if not said:
        required += [name for name in learnt.get("required", ()) if name in properties]
    made = {key: value for key, value in declared.items() if key not in ("properties", "required")}
    if not said and properties:
        made["additionalProperties"] = False  # what is known is all that a program should use
    made |= {"type": "object", "properties": properties}
    return made | ({"required": required} if required else {})
