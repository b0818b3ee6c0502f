"""The MCP server: requests of a client → the gateway, and its answers back."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

import atc
from atc.errors import AtcError, UsageError
from atc.models.messages import bounded_tokens
from atc.serve.mcp.client import Client, ClientId, principal_of, session_of
from atc.serve.mcp.direct_calls import DirectTools
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.own_tools import (
    EXTRAS,
    HANDLERS,
    OWN_NAMES,
    arguments_of,
    run_program,
    search_tools,
    sources_of,
    tool_docs,
)
from atc.serve.mcp.requests import Answer, Handler, ToolRequest, answer
from atc.serve.mcp.single_calls import tokens_of
from atc.serve.mcp.values import listed_resources, resource, resource_templates
from atc.wording.prompting import prompt

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
    """Serves one gateway to any number of clients."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[int, ServerSession] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self.direct = DirectTools(gateway, OWN_NAMES)
        self.server: Server[Any] = _Server(
            "atc",
            version=atc.__version__,
            instructions=prompt("mcp_instructions", direct=self.direct.may_be_there),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        gateway.on_kept = self.change_tools
        if gateway.live is not None:
            gateway.live.on_change(self.change_tools)

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def offered(self, client: Client) -> list[types.Tool]:
        """The tools that a client sees: ``run_program``, those that look up where its description has no room for all
        stubs, and those that are called directly."""
        stubs = await self.gateway.few_stubs(client)
        made = [run_program(stubs or "")]
        if stubs is None:
            made = [search_tools(self.gateway.visible(client)), tool_docs(), *made]
        extras = [EXTRAS[name].definition() for name in self.gateway.options.extras]
        return [*made, *extras, *await self.direct.definitions(client)]

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
        await self.direct.aclose()

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        await self.gateway.listed()
        await self.direct.prepare()
        self.direct.tell()
        return types.ListToolsResult(tools=await self.offered(self._client(context)))

    def _remember(self, context: ServerRequestContext[Any]) -> None:
        if (known := context.session.client_params) is not None:
            self._sessions[id(known)] = context.session
            while len(self._sessions) > MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

    async def _call_tool(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Answer:
        await self.gateway.listed()
        await self.direct.prepare()
        try:
            request = ToolRequest(self.gateway, self._client(context), context, params, params.arguments or {})
            return await self._handler(request)(request)
        except AtcError as error:
            return _failed(type(error).__name__, self.gateway.redactor.text(str(error))[:MAX_ERROR])
        except (MCPError, asyncio.CancelledError):
            raise
        except Exception as error:  # a client gets no traceback; whoever runs the server does
            _log.exception("a call of %s failed", params.name[:80])
            return _failed("InternalError", f"the server failed: {type(error).__name__}; nothing more is known")

    def _handler(self, request: ToolRequest) -> Handler:
        name = request.params.name
        own = EXTRAS[name].handler if name in self.gateway.options.extras else HANDLERS.get(name)
        if own is not None:
            _check_names(request.params)
            return own
        if name in self.direct.of(request.client):
            return self.direct.called
        raise UsageError(f"there is no tool {name[:80]!r} here: tools of programs are no tools")

    # -- resources -----------------------------------------------------------------------------------------------------

    async def _list_resources(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return listed_resources(self.gateway.values(self._client(context)))

    async def _list_templates(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return resource_templates()

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        client = self._client(context)
        self.gateway.shows_kept(client)
        try:
            return resource(self.gateway.values(client), params.uri)
        except AtcError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)[:MAX_ERROR]) from None

    def _client(self, context: ServerRequestContext[Any]) -> Client:
        """Who calls; its name is its own word."""
        known = context.session.client_params
        name = known.client_info.name[:60] if known is not None and known.client_info is not None else ""
        return self.gateway.client(ClientId(principal_of(context), name), session_of(context))


def _check_names(params: types.CallToolRequestParams) -> None:
    """Raises UsageError where an argument is none of the tool's own: what it was meant to be would be left out."""
    known = arguments_of(params.name)
    if unknown := [name for name in params.arguments or {} if name not in known]:
        named = ", ".join(repr(name[:80]) for name in unknown[:5])
        raise UsageError(f"{params.name} has no argument {named}; its arguments are {', '.join(known)}")


def _failed(kind: str, message: str) -> types.CallToolResult:
    return answer({"error": {"kind": kind, "message": message}}, is_error=True)


# -- what a client would see, and about how many tokens of its context that takes --------------------------------------


@dataclass(frozen=True)
class Offered:
    """One of the server's own tools. ``tokens``: of its whole definition; an upper bound, three characters each."""

    name: str
    description: str
    tokens: int


@dataclass(frozen=True)
class Behind:
    """A source of tools, by the name that people know, and how many tools it has."""

    name: str
    tools: int


@dataclass(frozen=True)
class Footprint:
    """What stands in a client's context before it does anything.

    Attributes:
        behind: tools that programs can call.
        sources: of these tools, the largest first.
        offered: the server's own tools.
        instructions: how to work with them.
        plain_tokens: of all definitions, if every tool behind were offered by itself; without output schemas.
        notices: what else there is to know.
    """

    behind: int
    sources: tuple[Behind, ...]
    offered: tuple[Offered, ...]
    instructions: str
    plain_tokens: int
    notices: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Of the definitions and the instructions; an upper bound."""
        return sum(each.tokens for each in self.offered) + bounded_tokens(self.instructions)


async def footprint(gateway: Gateway) -> Footprint:
    """What a client sees of a gateway."""
    face = Face(gateway)
    shown = await face.offered(Client(ClientId("local")))
    offered = tuple(Offered(each.name, each.description or "", tokens_of(each)) for each in shown)
    plain = 0
    for tool in gateway.tools.values():
        protocol = tool.protocol
        described = {"name": protocol.name, "description": protocol.description, "inputSchema": protocol.parameters}
        plain += bounded_tokens(json.dumps(described, ensure_ascii=False, default=str))
    sources = tuple(Behind(*each) for each in sources_of(gateway.tools.values()))
    return Footprint(
        len(gateway.tools),
        sources,
        offered,
        face.server.instructions or "",
        plain,
        (*gateway.notices, *face.direct.notices),
    )
