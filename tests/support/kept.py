"""Kept programs made by hand, for tests that need no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atc.schemas.protocol import Protocol, Source
from atc.tools.kept import KeptProgram, used_tool
from atc.tools.tool import Tool, Toolset

TEXT = {"type": "string"}


def kept(
    name: str,
    program: str,
    *inner: Tool,
    parameters: dict[str, Any] | None = None,
    required: Sequence[str] | None = None,
) -> Tool:
    """Return a kept program as a tool.

    Args:
        name: of the tool.
        program: its source.
        inner: the tools that it calls.
        parameters: schemas by parameter; each is required, unless ``required`` says which are.
    """
    properties = parameters or {}
    protocol = Protocol(
        name=name,
        description=f"Does what {name} does.",
        parameters={
            "type": "object",
            "properties": properties,
            "required": [*properties] if required is None else [*required],
        },
        source=Source(kind="kept"),
    )
    uses = tuple(used_tool(each.name, each.protocol) for each in inner)
    return Tool(protocol, kept=KeptProgram(program, uses)).with_inner({each.name: each for each in inner})


def with_kept(tools: Toolset, *more: Tool) -> Toolset:
    """Return tools and kept programs."""
    return Toolset([*tools.values(), *more])
