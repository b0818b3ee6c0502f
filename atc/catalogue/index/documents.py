"""The documents of an index: the fields of a tool's protocol that are indexed, and the protocols by row."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from typing import Protocol as Interface

from atc.catalogue.graph.suppliers import fields_of
from atc.schemas.protocol import Protocol

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
    """Return the service of a tool: by its id, else by the source of its protocol."""
    return id.rpartition("/")[0] or protocol.source.service


def text_for_encoder(found: DocumentFields) -> str:
    """Return one short text: the name and the description, and more only of a tool that is hardly described.

    Longer texts find less and take a third longer to encode.
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


# -- protocols by row --------------------------------------------------------------------------------------------------

Document = Protocol | bytes
"""A protocol, or its line of JSON."""


class Documents(Interface):
    """The documents by row."""

    def __getitem__(self, row: int) -> Document: ...

    def __len__(self) -> int: ...


class HeldDocuments:
    """The protocols of a toolset, with the keys of their schemas sorted, as lines of JSON have them.

    What protocols share stays shared. The tools of a large OpenAPI document share its definitions: written out, the 452
    protocols of Stripe are 169 MB; together they are little more than the document of 2.5 MB.
    """

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self._protocols = protocols
        self._made: dict[int, Protocol] = {}
        self._sorted: dict[int, tuple[Any, Any]] = {}  # by id, beside the value itself, so that the id stays its own
        self._lock = threading.Lock()  # no other thread takes what is half filled

    def __getitem__(self, row: int) -> Protocol:
        with self._lock:
            if row not in self._made:
                protocol = self._protocols[row]
                schemas = {name: self._in_order(getattr(protocol, name)) for name in ("parameters", "returns")}
                self._made[row] = Protocol.model_validate({**dict(protocol), **schemas})
            return self._made[row]

    def __len__(self) -> int:
        return len(self._protocols)

    def _in_order(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        if id(value) not in self._sorted:
            made: Any = type(value)()
            self._sorted[id(value)] = (value, made)  # first: it may contain itself
            if isinstance(value, dict):
                made.update((key, self._in_order(value[key])) for key in sorted(value, key=str))
            else:
                made.extend(map(self._in_order, value))
        return self._sorted[id(value)][1]
