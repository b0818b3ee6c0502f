"""One call of a client to one of the server's own tools, and what it is answered with."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext

from atc.errors import UsageError
from atc.faces.mcp_server.client import Client
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.running import Running


@dataclass(frozen=True)
class ToolRequest:
    """A call of a client.

    Attributes:
        gateway: behind the server.
        client: who calls.
        context: of the SDK: the session for questions and progress, and the protocol's version.
        params: as they came: arguments, and in newer versions the answers to questions.
        running: the task that does the call's work, where its handler is carried (:mod:`.asking`).
    """

    gateway: Gateway
    client: Client
    context: ServerRequestContext[Any]
    params: types.CallToolRequestParams
    arguments: Mapping[str, Any] = field(default_factory=dict)
    running: Running[Any] | None = None

    def text(self, name: str, default: str | None = None) -> str:
        """A text among the arguments.

        Raises:
            UsageError: it is none, or missing without a default.
        """
        value = self.arguments.get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"`{name}` must be a text")
        return value

    def count(self, name: str, default: int, most: int) -> int:
        """A number from 1 among the arguments, ``most`` at most.

        Raises:
            UsageError: it is none.
        """
        value = self.arguments.get(name, default)
        if type(value) is not int or value < 1:
            raise UsageError(f"`{name}` must be a number from 1")
        return min(value, most)

    def texts(self, name: str, most: int) -> list[str]:
        """A list of texts among the arguments.

        Raises:
            UsageError: it is none, or has more than ``most``.
        """
        value = self.arguments.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(f"`{name}` must be a list of texts")
        if len(value) > most:
            raise UsageError(f"`{name}` has {len(value):,} texts: give {most} at most")
        return value

    def switch(self, name: str) -> bool:
        """A yes or no among the arguments; no where it is missing.

        Raises:
            UsageError: it is none.
        """
        value = self.arguments.get(name, False)
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` must be true or false")
        return value


Answer = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[ToolRequest], Awaitable[Answer]]


def answer(
    value: dict[str, Any],
    text: str | None = None,
    *,
    beside: Sequence[types.ContentBlock] = (),
    is_error: bool = False,
) -> types.CallToolResult:
    """An answer with structured content, and the same as text for clients that read no other.

    Args:
        value: a JSON object that fits the declared output schema.
        text: to be read in its place.
        beside: what stands after the text: links, images, sounds.
        is_error: the client's model shall see that it went wrong.
    """
    shown = json.dumps(value, ensure_ascii=False) if text is None else text
    content = [types.TextContent(type="text", text=shown), *beside]
    return types.CallToolResult(content=content, structured_content=value, is_error=is_error)
