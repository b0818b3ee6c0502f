"""Declared and observed arguments as one schema."""

from __future__ import annotations

from typing import Any

from atc.probing.error_messages import read_error_message
from atc.probing.record import Record, Refusal
from atc.tools.protocol import Protocol
from atc.tools.types import OBSERVED


def missing_in(refusal: Refusal) -> list[str]:
    """The arguments that a refusal says are missing."""
    return [c.parameter for c in read_error_message(refusal.service_message) if c.problem == "missing" and c.parameter]


def merged_arguments(protocol: Protocol, record: Record) -> dict[str, Any]:
    """Merge the declared arguments with evidence from accepted and refused calls.

    Declared types stand. Declared as required stays so; added is what the service itself demanded, and where the source
    declares no arguments at all, whatever evidence shows to be required. No argument beyond those declared is made up.
    """
    declared, learnt = protocol.parameters, record.arguments.schema()
    properties_declared, observed = declared.get("properties", {}), learnt.get("properties", {})
    properties: dict[str, Any] = {}
    for name in properties_declared or observed:
        known = properties_declared.get(name) if isinstance(properties_declared.get(name), dict) else {}
        typed = bool(known.get("type") or "$ref" in known or "enum" in known or "anyOf" in known)
        properties[name] = {**observed.get(name, {}), **known} if typed else {**known, **observed.get(name, {})}
        if typed:
            properties[name].pop(OBSERVED, None)
    demanded = {refused for refusal in record.refusals for refused in missing_in(refusal)}
    learnt_required = [name for name in learnt.get("required", ()) if not properties_declared or name in demanded]
    required = [name for name in properties if name in protocol.required or name in learnt_required]
    made = {key: value for key, value in declared.items() if key not in ("properties", "required")}
    if not properties_declared and properties:
        made["additionalProperties"] = False  # what is known is all that a program should use
    made |= {"type": "object", "properties": properties}
    return made | ({"required": required} if required else {})


def enforced(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a document states them: a type that was only observed is no rule, and stays as a remark."""
    properties = {}
    for name, schema in arguments["properties"].items():
        kept = schema
        if isinstance(schema, dict) and schema.get(OBSERVED):
            kept = {**{key: value for key, value in schema.items() if key != "type"}, OBSERVED: schema.get("type")}
        properties[name] = kept
    return {**arguments, "properties": properties}
