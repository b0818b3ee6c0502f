"""A client's side of some MCP servers: what it shows its model, what the model asks for, and what its context holds.

Everything goes through the official SDK's client, as it would in a real one.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server import Server

Json = dict[str, Any]
TIMEOUT_S = 120.0


def as_shown(tool: types.Tool, *, output: bool = False) -> str:
    """A tool as clients put it before their model: name, description and input schema, as JSON.

    Args:
        output: with the output schema too, which most clients leave out.
    """
    shown: Json = {"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema}
    if output and tool.output_schema is not None:
        shown["output_schema"] = tool.output_schema
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Said:
    """An answer to one call, as the model reads it."""

    text: str
    structured: Json | None = None
    is_error: bool = False


@dataclass(frozen=True)
class Desk:
    """Opened servers.

    Attributes:
        tools: of all of them, by name.
        asked: questions of the servers that were answered with yes.
    """

    tools: Mapping[str, types.Tool]
    _clients: Mapping[str, Client]
    asked: list[str] = field(default_factory=list)

    async def call(self, name: str, arguments: Json) -> Said:
        """Call a tool. An error of the protocol is an answer too."""
        client = self._clients.get(name)
        if client is None:
            return Said(f"there is no tool {name!r}", is_error=True)
        try:
            result = await client.call_tool(name, arguments, read_timeout_seconds=TIMEOUT_S)
        except Exception as error:  # the SDK raises what it likes: a schema that an answer breaks, too
            return Said(f"{type(error).__name__}: {error}", is_error=True)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        return Said("\n".join(texts), result.structured_content, bool(result.is_error))


@asynccontextmanager
async def opened(*servers: Server[Any] | Mapping[str, Any], mode: str = "auto") -> AsyncIterator[Desk]:
    """A desk with these servers: objects in this process, or commands to start.

    The user behind it says yes to whatever is asked.
    """
    asked: list[str] = []

    async def yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        properties = params.requested_schema.get("properties", {}) if hasattr(params, "requested_schema") else {}
        content: dict[str, Any] = {name: True for name, schema in properties.items() if schema.get("type") == "boolean"}
        return types.ElicitResult(action="accept", content=content)

    async with AsyncExitStack() as stack:
        quiet = stack.enter_context(_nowhere())
        tools: dict[str, types.Tool] = {}
        clients: dict[str, Client] = {}
        for server in servers:
            transport = server if isinstance(server, Server) else stdio_client(_parameters(server), errlog=quiet)
            made = Client(transport, mode=mode, elicitation_callback=yes, read_timeout_seconds=TIMEOUT_S)
            client = await stack.enter_async_context(made)
            for tool in await listed(client):
                tools[tool.name], clients[tool.name] = tool, client
        yield Desk(tools, clients, asked)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


async def listed(client: Client) -> list[types.Tool]:
    """All pages of a server's tools."""
    found: list[types.Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found


def _parameters(server: Mapping[str, Any]) -> StdioServerParameters:
    return StdioServerParameters(command=server["command"], args=[*server.get("args", ())], env=server.get("env"))


@dataclass
class Context:
    """What a model has before it, turn by turn.

    Args:
        count: tokens of a text.
        definitions: of all tools that the client shows.
        text: of the task.

    Attributes:
        trips: turns in which the model asked for something.
        size: tokens now.
        billed: tokens that were read in all turns, the last one (the answer) included once it is closed.
        written: tokens that the model wrote.
    """

    count: Callable[[str], int]
    definitions: Sequence[str]
    text: str
    trips: int = 0
    billed: int = 0
    written: int = 0
    base: int = 0

    def __post_init__(self) -> None:
        self.base = self.count("\n".join(self.definitions))
        self.size = self.base + self.count(self.text)

    def turn(self, requests: Sequence[tuple[str, Json]], answers: Sequence[str]) -> None:
        """The model asked for these, and read what came."""
        asked = sum(self.count(json.dumps({"name": n, "arguments": a}, ensure_ascii=False)) for n, a in requests)
        self.billed += self.size
        self.written += asked
        self.trips += 1
        self.size += asked + sum(map(self.count, answers))

    def close(self) -> None:
        """The model reads all of it once more, and answers."""
        self.billed += self.size
