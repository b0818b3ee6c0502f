"""The MCP server: requests of a client → the gateway, and its answers back."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

import atc
from atc.errors import AtcError, UsageError
from atc.faces.mcp_server import definitions, resources
from atc.faces.mcp_server.auth import principal_of
from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.extras import EXTRAS
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.handlers import HANDLERS
from atc.faces.mcp_server.requests import Answer, Handler, ToolRequest, answer
from atc.prompting import prompt

MAX_ERROR = 2_000
"""Characters of an error's message."""
MAX_SESSIONS = 256
"""Connections that are told when the tools change; the latest."""
_log = logging.getLogger(__name__)


class _Server(Server[Any]):
    """Says on every transport that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **others: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, *more, **others)


class Face:
    """Serves one gateway to any number of clients.

    Args:
        gateway: behind it.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[int, ServerSession] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self.server: Server[Any] = _Server(
            "atc",
            version=atc.__version__,
            instructions=prompt("mcp_instructions"),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        if gateway.live is not None:
            gateway.live.on_change(self.change_tools)

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def offered(self, client: Client) -> list[types.Tool]:
        """The tools that a client sees: ``run_program`` alone where its description has room for all stubs."""
        stubs = await self.gateway.few_stubs(client)
        made = [definitions.run_program(stubs or "")]
        if stubs is None:
            made = [definitions.search_tools(self.gateway.visible(client)), definitions.tool_docs(), *made]
        return [*made, *(EXTRAS[name].definition() for name in self.gateway.options.extras)]

    def change_tools(self, tools: Any) -> None:
        """Serve other tools from now on, and tell the clients that they changed."""
        self.gateway.change_tools(tools)
        task = asyncio.get_running_loop().create_task(self._tell_of_change())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_of_change(self) -> None:
        await self._bus.publish(ToolsListChanged())
        for number, session in [*self._sessions.items()]:
            try:
                await session.send_tool_list_changed()
            except Exception:  # that connection is gone
                self._sessions.pop(number, None)

    async def aclose(self) -> None:
        """Let go of what this face alone holds."""

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        await self.gateway.listed()
        return types.ListToolsResult(tools=await self.offered(self._client(context)))

    def _remember(self, context: ServerRequestContext[Any]) -> None:
        """Tell this connection when the tools change."""
        if (known := context.session.client_params) is not None:
            self._sessions[id(known)] = context.session
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    async def _call_tool(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Answer:
        handler = self._handler(params.name)
        if handler is None:
            return _failed("UsageError", f"there is no tool {params.name[:80]!r} here: tools of programs are no tools")
        await self.gateway.listed()
        try:
            _check_names(params)
            request = ToolRequest(self.gateway, self._client(context), context, params, params.arguments or {})
            return await handler(request)
        except AtcError as error:
            return _failed(type(error).__name__, self.gateway.redactor.text(str(error))[:MAX_ERROR])
        except (MCPError, asyncio.CancelledError):
            raise
        except Exception as error:  # a client gets no traceback; whoever runs the server does
            _log.exception("a call of %s failed", params.name[:80])
            return _failed("InternalError", f"the server failed: {type(error).__name__}; nothing more is known")

    def _handler(self, name: str) -> Handler | None:
        if name in self.gateway.options.extras:
            return EXTRAS[name].handler
        return HANDLERS.get(name)

    # -- resources -----------------------------------------------------------------------------------------------------

    async def _list_resources(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return resources.listed(self.gateway.values(self._client(context)))

    async def _list_templates(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return resources.templates()

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return resources.read(self.gateway.values(self._client(context)), params.uri)
        except AtcError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)[:MAX_ERROR]) from None

    def _client(self, context: ServerRequestContext[Any]) -> Client:
        """Who calls; its name is its own word."""
        known = context.session.client_params
        name = known.client_info.name[:60] if known is not None and known.client_info is not None else ""
        return self.gateway.client(ClientId(principal_of(context), name))


def _check_names(params: types.CallToolRequestParams) -> None:
    """Raises UsageError where an argument is none of the tool's own: what it was meant to be would be left out."""
    extra = EXTRAS.get(params.name)
    schema = extra.definition().input_schema if extra is not None else {}
    known = definitions.arguments_of(params.name) if extra is None else tuple(schema["properties"])
    if unknown := [name for name in params.arguments or {} if name not in known]:
        named = ", ".join(repr(name[:80]) for name in unknown[:5])
        raise UsageError(f"{params.name} has no argument {named}; its arguments are {', '.join(known)}")


def _failed(kind: str, message: str) -> types.CallToolResult:
    return answer({"error": {"kind": kind, "message": message}}, is_error=True)
