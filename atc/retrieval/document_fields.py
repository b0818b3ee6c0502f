"""The fields of a tool's protocol that are indexed, each a capped text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from atc.graph.suppliers import fields_of
from atc.tools.protocol import Protocol

MAX_FIELD = 4_000
"""Characters of a field that count: no tool gains by a description without end."""

MAX_PARAMETERS = 64
"""Parameters that count, and response fields: twice as many."""

_ENCODED, _DESCRIBED = 1_000, 20
"""Characters that the encoder is given, about what it reads; and those of a description that speaks for itself."""


@dataclass(frozen=True)
class DocumentFields:
    """The texts of one tool that are indexed.

    Attributes:
        name: the tool's name, and the one it has at its source where that differs.
        service: the parts of the id before its last: ``toolbench/Finance/yahoo/quote`` is of ``Finance yahoo``.
        description: what the tool does.
        parameters: the names of its parameters.
        details: the descriptions of its parameters.
        returns: the names of its response's fields.
    """

    name: str
    service: str
    description: str
    parameters: str
    details: str
    returns: str


def document_fields(id: str, protocol: Protocol) -> DocumentFields:
    """Take a protocol apart.

    Args:
        id: the id of the tool in its index; the parts before its last ``/`` name the service.
        protocol: what is known about the tool.
    """
    given = protocol.parameters.get("properties")
    parameters = list(given.items())[:MAX_PARAMETERS] if isinstance(given, dict) else []
    returned = dict.fromkeys(step for step in _returned(protocol))
    return DocumentFields(
        name=_name(protocol)[:MAX_FIELD],
        service=" ".join(id.split("/")[:-1])[:MAX_FIELD],
        description=protocol.description[:MAX_FIELD],
        parameters=" ".join(str(name) for name, _ in parameters)[:MAX_FIELD],
        details=" ".join(_described(schema) for _, schema in parameters)[:MAX_FIELD],
        returns=" ".join(returned)[:MAX_FIELD],
    )


def service_of(id: str, protocol: Protocol) -> str:
    """The service of a tool: by its id, else by the source of its protocol."""
    return id.rpartition("/")[0] or protocol.source.service


def text_for_encoder(found: DocumentFields) -> str:
    """One short text: the name and the description, and more only of a tool that is hardly described.

    Longer texts find less and take a third longer to encode (docs/benchmarks/search.md).
    """
    name = _spaced(found.name.split()[0])
    if len(found.description) >= _DESCRIBED:
        return f"{name}: {found.description}"[:_ENCODED]
    parts = (name, _spaced(found.service), found.description, _spaced(found.parameters))
    return ": ".join(part for part in parts if part)[:_ENCODED]


def _name(protocol: Protocol) -> str:
    original = protocol.source.operation
    return protocol.name if not original or original == protocol.name else f"{protocol.name} {original}"


def _returned(protocol: Protocol) -> Iterator[str]:
    for path in islice(fields_of(protocol.returns), 2 * MAX_PARAMETERS):
        yield path[-1]


def _described(schema: Any) -> str:
    text = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return text[:MAX_FIELD] if isinstance(text, str) else ""


def _spaced(text: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_/\s]+", " ", text).strip()
