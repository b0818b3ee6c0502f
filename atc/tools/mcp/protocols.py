"""A tool as a server describes it → a protocol."""

from __future__ import annotations

import logging
from typing import Any

from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.reading import whole
from atc.schemas.validate import ensure_valid_schema
from atc.tools.openapi.load import Document, Resolver
from atc.tools.openapi.schema import Direction, SchemaConverter
from atc.tools.openapi.text import clean
from atc.tools.parse import json_copy
from atc.tools.protocol import MAX_DESCRIPTION, JsonSchema, Protocol, Provenance, Source, without_bytes

_LOG = logging.getLogger(__name__)
_MAX_TITLE = 200

MAX_ORIGINAL = 200
"""Characters of a tool's name at its server."""


def protocol_of(
    tool: Any, name: str, location: str, *, trust_hints: bool, title: str = "", server: str = ""
) -> Protocol:
    """The protocol of one tool of a server's list.

    Args:
        tool: an ``mcp_types.Tool``.
        name: what programs call it.
        location: the server, as it may be shown.
        trust_hints: whether the server's word about effects counts.
        title: what the server is called.
        server: its :attr:`atc.tools.mcp.spec.ServerSpec.identity`.

    Raises:
        ToolImportError: the schema of its arguments, or its name, cannot be used.
    """
    if len(tool.name) > MAX_ORIGINAL:
        raise ToolImportError(f"its name has more than {MAX_ORIGINAL} characters")
    parameters = converted(tool.input_schema, "request", "its inputSchema")
    if parameters.get("type", "object") != "object":
        raise ToolImportError("its inputSchema is not of an object")
    fields = whole(parameters, parameters)  # those of its alternatives, too: each is an argument
    parameters |= {key: fields[key] for key in ("properties", "required") if key in fields}
    return Protocol(
        name=name,
        description=_description(tool),
        parameters=parameters,
        returns=_returns(tool),
        effect=effect_of(tool.annotations) if trust_hints else Effect.UNKNOWN,
        source=Source(kind="mcp", location=location, operation=tool.name, title=title, server=server),
        provenance=Provenance.IMPORTED,
    )


def effect_of(hints: Any) -> Effect:
    """The effect by a tool's annotations. They are claims of the server, and nothing enforces them.

    The other hints mean something for tools that do more than read, so one that has them is a write; where nothing is
    said, nothing is known.
    """
    if hints is None:
        return Effect.UNKNOWN
    if hints.read_only_hint is not None:
        return Effect.READ if hints.read_only_hint else Effect.WRITE
    declared = hints.destructive_hint is not None or hints.idempotent_hint is not None
    return Effect.WRITE if declared else Effect.UNKNOWN


def _description(tool: Any) -> str:
    title = clean(tool.title or (tool.annotations.title if tool.annotations else None), _MAX_TITLE)
    detail = clean(tool.description, MAX_DESCRIPTION - _MAX_TITLE - 2)
    return detail if title in detail else "\n\n".join(filter(None, (title, detail)))


def _returns(tool: Any) -> JsonSchema | None:
    if tool.output_schema is None:
        return None
    try:
        return converted(tool.output_schema, "response", "its outputSchema")
    except ToolImportError as error:
        _LOG.warning("%s: nothing is known about its response: %s", tool.name[:100], error)
        return None


def converted(schema: dict[str, Any], direction: Direction, what: str) -> JsonSchema:
    """A schema that stands alone, with the keywords that we know; references lead into its own ``$defs`` only.

    Raises:
        ToolImportError: it is no usable JSON Schema.
    """
    root = without_bytes(json_copy(schema, what))
    converter = SchemaConverter(Resolver(Document(root, what)))
    made = converter.closed(converter.convert(root, direction), direction)
    ensure_valid_schema(made, what)
    return made
