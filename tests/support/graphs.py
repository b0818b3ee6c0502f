"""Tools with the fields that a test names, for graphs of them."""

from __future__ import annotations

from typing import Any

from atc.schemas.protocol import Protocol, Source


def a_tool(name: str, *parameters: str, description: str = "", service: str = "shop", **returns: Any) -> Protocol:
    """A tool with parameters that are strings, and fields of a response."""
    return Protocol(
        name=name,
        description=description,
        parameters={"properties": {each: {"type": "string"} for each in parameters}, "required": list(parameters)},
        returns={"type": "object", "properties": returns} if returns else None,
        source=Source(kind="openapi", location=service),
    )
