"""Protocol documenting (ATC §4.1): evidence → d = ((q, C), s, t), a protocol document like any other."""

from __future__ import annotations

import re
from typing import Any

from atc.probing.evidence import enforced, merged_arguments
from atc.probing.record import Instance, Record
from atc.schemas.infer.mask import MASKED, masked_text
from atc.schemas.infer.text import may_be_name
from atc.tools.protocol import Example, Protocol, Provenance, Status

EXAMPLES = 2
_LABEL = re.compile(r"[A-Z]+ /\S*")
MAX_ITEMS, MAX_TEXT = 2, 200
"""Bounds of lists and texts in an example's response."""
_WORDS = {"404": "nothing has this id or name", "422": "the arguments are wrong", "400": "the arguments are wrong"}


def protocol_of(declared: Protocol, record: Record) -> Protocol:
    """The protocol of a tool: what its source declares and what its calls showed.

    A declared description and declared types stand; probing adds what is missing, with its evidence.

    Args:
        declared: from the importer.
        record: of its probing.
    """
    returns = record.shape.schema() if record.shape.count else None
    examples = tuple(_example(instance) for instance in record.instances[:EXAMPLES])
    if any(example.program for example in declared.examples):
        examples = ()
    return declared.model_copy(
        update={
            "description": declared.description if described(declared) else record.description or declared.description,
            "parameters": enforced(merged_arguments(declared, record)),
            "returns": returns if returns is not None and _vague(declared.returns) else declared.returns,
            "statuses": _statuses(declared, record),
            "examples": declared.examples + examples,
            "provenance": Provenance.INFERRED,
        }
    )


def described(declared: Protocol) -> bool:
    """Whether the source describes what the tool does, and not only its method and path."""
    return bool(declared.description) and not _LABEL.fullmatch(declared.description)


def _vague(schema: dict[str, Any] | None) -> bool:
    """Whether a declared response is empty of detail: none, ``{}``, or an object of which no field is known."""
    if not schema:
        return True
    known = {key for key in schema if key not in ("description", "title", "$schema")}
    return not known or (known <= {"type", "additionalProperties"} and schema.get("type") in ("object", "array", None))


def _statuses(declared: Protocol, record: Record) -> tuple[Status, ...]:
    """The declared statuses and those that were seen besides."""
    known = {str(status.code) for status in declared.statuses} | {"ok"}
    seen = [code for code in record.statuses if code not in known]
    return declared.statuses + tuple(
        Status(
            code=int(code) if code.isdecimal() else code,
            description=f"{_WORDS.get(code, 'refused')} (seen {record.statuses[code]} times)",
        )
        for code in seen
    )


def _example(instance: Instance) -> Example:
    secret = MASKED in repr(instance.arguments) or masked_text(instance.program) != instance.program
    return Example(
        arguments=instance.arguments,
        response=shortened(instance.response),
        description=instance.question,
        program="" if secret else instance.program,  # what is masked in the arguments may stand in it
    )


def shortened(value: Any) -> Any:
    """An example of a response that a person can read: short lists, short texts, keys that may be names."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in list(value.items())[:60] if may_be_name(key)}
    if isinstance(value, list):
        return [shortened(item) for item in value[:MAX_ITEMS]]
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return value[:MAX_TEXT] + "…"
    return value
