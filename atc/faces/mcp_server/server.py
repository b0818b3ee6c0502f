"""The MCP server: requests of a client → the gateway, and its answers back."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext

import atc
from atc.errors import AtcError
from atc.faces.mcp_server import definitions
from atc.faces.mcp_server.auth import principal_of
from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.handlers import HANDLERS
from atc.faces.mcp_server.requests import Answer, ToolRequest, answer

FEW_CHARACTERS = 8_000
"""Characters of stubs up to which all tools stand in the description of ``run_program``."""


class Face:
    """Serves one gateway to any number of clients.

    Args:
        gateway: behind it.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.server: Server[Any] = Server(
            "atc", version=atc.__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def aclose(self) -> None:
        """Let go of what this face alone holds."""

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await self.offered(self._client(context)))

    async def offered(self, client: Client) -> list[types.Tool]:
        """The tools that a client sees: ``run_program`` alone where its description has room for all stubs."""
        tools = self.gateway.tools
        if len(tools) <= self.gateway.settings.max_tools:
            stubs = await self.gateway.docs(client, [*tools], FEW_CHARACTERS)
            if len(stubs) <= FEW_CHARACTERS:
                return [definitions.run_program(stubs)]
        return [definitions.search_tools(len(tools)), definitions.tool_docs(), definitions.run_program()]

    async def _call_tool(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Answer:
        handler = HANDLERS.get(params.name)
        if handler is None:
            return _failed("UsageError", f"there is no tool {params.name[:80]!r} here")
        request = ToolRequest(self.gateway, self._client(context), context, params, params.arguments or {})
        try:
            return await handler(request)
        except AtcError as error:
            return _failed(type(error).__name__, str(error)[:2000])

    def _client(self, context: ServerRequestContext[Any]) -> Client:
        """Who calls; its name is its own word."""
        known = context.session.client_params
        name = known.client_info.name[:60] if known is not None and known.client_info is not None else ""
        return self.gateway.client(ClientId(principal_of(context), name))


def _failed(kind: str, message: str) -> types.CallToolResult:
    return answer({"error": {"kind": kind, "message": message}}, is_error=True)
