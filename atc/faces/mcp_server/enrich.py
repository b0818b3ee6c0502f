"""``atc mcp --enrich``: the upstream tools themselves, with an output schema where their servers declare none.

For clients that write no programs. Calls pass the broker as those of programs do: arguments are checked, effects are
approved, credentials masked. What tools answer is learnt as shapes (:mod:`atc.graph.lessons`), which fill the schemas.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext

from atc.calls.contract import CallReply
from atc.errors import AtcError, UsageError
from atc.faces.mcp_server.asking import carried
from atc.faces.mcp_server.client import Client, ClientId
from atc.faces.mcp_server.filled_schemas import filled_schema, fitted
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.requests import Answer, ToolRequest
from atc.faces.mcp_server.server import Face
from atc.faces.mcp_server.single_calls import Approves, approval_of, single_call, visible_tools
from atc.packing import pack
from atc.result import Effect
from atc.schemas.validate import types_of
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.mcp.transport import HEARD, McpTransport
from atc.tools.observed import is_documented
from atc.tools.protocol import JsonSchema, Protocol
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import new_run_id

PAGE = 200
"""Tools on one page of the list."""
LEARNT_S = 2.0
"""Seconds that an answer with news waits until it is learnt, so that the client reads the new list and not the old."""
LEFT_OUT = "atc/left-out"
"""In ``_meta`` of an answer: places of the structured content that did not fit the schema which the client has."""
MAX_CLIENTS, MAX_TOLD = 200, 10_000
"""Clients whose lists are remembered, and schemas of which clients were told that they changed."""
_OF_THE_PROTOCOL = "io.modelcontextprotocol/"
"""How keys of ``_meta`` begin that speak of the server itself, which the client does not speak to."""


class EnrichedFace(Face):
    """Serves the tools of a gateway under the names that they have at their servers.

    Args:
        gateway: behind it.
        approves: the rule for each call.

    Raises:
        UsageError: the gateway learns nothing, so there would be nothing to fill in.
    """

    def __init__(self, gateway: Gateway, approves: Approves = approval_of) -> None:
        if not gateway.settings.learns:
            raise UsageError("--enrich fills in what was observed, and `learn` is off: switch it on (ATC_LEARN)")
        super().__init__(gateway)
        self._approves, self._carried = approves, carried(self.called)
        self._named: tuple[Toolset, dict[str, Tool]] | None = None
        self._filled: dict[str, tuple[Protocol, JsonSchema | None]] = {}
        self._listed: OrderedDict[ClientId, dict[str, JsonSchema | None]] = OrderedDict()
        self._told: OrderedDict[tuple[ClientId, str], JsonSchema | None] = OrderedDict()
        self._stack, self._entered = AsyncExitStack(), set[Any]()

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._stack.aclose()

    # -- the list ------------------------------------------------------------------------------------------------------

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        await self.gateway.listed()
        client = self._client(context)
        seen = visible_tools(self.gateway, client)
        named = [(name, tool) for name, tool in self._by_name().items() if tool.name in seen]
        begin = _offset(params.cursor if params is not None else None, len(named))
        shown = await self._shapes()
        page = named[begin : begin + PAGE]
        listed = [self._definition(name, tool, shown.get(tool.name, tool.protocol)) for name, tool in page]
        self._schemas_of(client).update({each.name: each.output_schema for each in listed})
        end = begin + len(page)
        return types.ListToolsResult(tools=listed, next_cursor=str(end) if end < len(named) else None)

    async def _shapes(self) -> Mapping[str, Protocol]:
        """The tools with the responses that were observed; none where no server is up."""
        if not self.gateway.tools:
            return {}
        return (await self.gateway.catalogue.current_graph()).protocols_with_shapes

    def _by_name(self) -> dict[str, Tool]:
        """The tools by the names that they have at their servers; equal ones by those that tell them apart."""
        tools = self.gateway.tools
        if self._named is None or self._named[0] is not tools:
            own = {tool.name: _own_name(tool) for tool in tools.values()}
            counts = Counter(own.values())
            apart = {name for name in own if counts[own[name]] > 1}
            named: dict[str, Tool] = {name: tools[name] for name in apart}
            for name in [each for each in own if each not in apart]:
                named[own[name] if own[name] not in named else name] = tools[name]
            order = {id(tool): number for number, tool in enumerate(tools.values())}
            self._filled = {name: kept for name, kept in self._filled.items() if name in tools}
            self._named = tools, dict(sorted(named.items(), key=lambda each: order[id(each[1])]))
        return self._named[1]

    def _definition(self, name: str, tool: Tool, shown: Protocol) -> types.Tool:
        protocol = tool.protocol
        reads = None if protocol.effect is Effect.UNKNOWN else protocol.effect is Effect.READ
        return types.Tool(
            name=name,
            description=protocol.description or None,
            input_schema=protocol.parameters,
            output_schema=self._schema(tool, shown),
            annotations=None if reads is None else types.ToolAnnotations(read_only_hint=reads),
        )

    def _schema(self, tool: Tool, shown: Protocol) -> JsonSchema | None:
        """The output schema of a tool: its own, else one of what was observed."""
        if _declares(tool):
            return tool.protocol.returns
        kept = self._filled.get(tool.name)
        if kept is None or kept[0] is not shown:
            kept = self._filled[tool.name] = shown, filled_schema(shown.returns)
        return kept[1]

    def _schemas_of(self, client: Client) -> dict[str, JsonSchema | None]:
        """The schemas that a client has, as it was last told."""
        known = self._listed.setdefault(client.id, {})
        self._listed.move_to_end(client.id)
        while len(self._listed) > MAX_CLIENTS:
            self._listed.popitem(last=False)
        return known

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def _call_tool(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Answer:
        request = ToolRequest(self.gateway, self._client(context), context, params, params.arguments or {})
        await self.gateway.listed()
        try:
            return await self._carried(request)
        except AtcError as error:
            return _failed(str(error)[:2000])

    async def called(self, request: ToolRequest) -> Answer:
        """Make one call and answer it with what the tool answered.

        Raises:
            UsageError: there is no such tool.
        """
        name = request.params.name
        tool = self._by_name().get(name)
        if tool is None or tool.name not in visible_tools(self.gateway, request.client):
            raise UsageError(f"there is no tool {name[:80]!r} here")
        heard: list[Any] = []
        reply = await self._made(request, tool, heard.append)
        raw = heard[-1] if heard and isinstance(heard[-1], types.CallToolResult) else None
        if reply.error is not None and not (reply.done and raw is not None):
            return self._masked(tool, raw) if raw is not None and raw.is_error else _failed(reply.error)
        made = _shown(reply.value) if raw is None else self._masked(tool, raw)
        if _declares(tool):
            return made
        return await self._structured(request, tool, made, reply.value)

    async def _made(self, request: ToolRequest, tool: Tool, heard: Callable[[Any], None]) -> CallReply:
        """Let a call pass the broker. Each is a run of its own, so a write equal to an earlier one is asked about."""
        approval = self._approves(request, new_run_id())
        redactor, timeout_s = self.gateway.redactor, self.gateway.settings.call_timeout_s
        token = HEARD.set(heard)
        try:
            async with self._opened(tool):
                return await single_call(tool, request.arguments, approval, redactor, timeout_s)
        finally:
            HEARD.reset(token)

    @asynccontextmanager
    async def _opened(self, tool: Tool) -> AsyncIterator[None]:
        """Hold what a tool's calls need: a server or an HTTP client stays until the end."""
        manager = tool.transport.opened() if tool.transport is not None else None
        if isinstance(manager, HeldPerLoop):
            if manager not in self._entered:
                self._entered.add(manager)
                await self._stack.enter_async_context(manager)
            yield
            return
        async with manager or nullcontext():
            yield

    async def _structured(
        self, request: ToolRequest, tool: Tool, made: types.CallToolResult, value: Any
    ) -> types.CallToolResult:
        """The answer with structured content that fits the schema which the client has, if it has one."""
        value = pack(value)
        has = self._schemas_of(request.client)
        if request.params.name not in has:  # it has asked for no list, or will ask now
            shown = await self._shapes()
            has[request.params.name] = self._schema(tool, shown.get(tool.name, tool.protocol))
        schema = has[request.params.name]
        left_out: list[str] = []
        if schema is not None:
            content, left_out = fitted(value, schema)
            meta = {**(made.meta or {}), LEFT_OUT: left_out} if left_out else made.meta
            made = made.model_copy(update={"structured_content": content, "meta": meta})
        elif made.structured_content is not None and not isinstance(made.structured_content, dict):
            made = made.model_copy(update={"structured_content": {"result": value}})
        await self._learn(request, tool, value, schema, new=bool(left_out))
        return made

    async def _learn(self, request: ToolRequest, tool: Tool, value: Any, schema: JsonSchema | None, new: bool) -> None:
        """Learn an answer. Where that changes the schema that the client has, the client is told so."""
        learnt = self.gateway.catalogue.observe(tool.name, value, new=new) if self.gateway.tools else None
        if learnt is None or not (new or (schema is None and isinstance(value, dict | list))):
            return
        await asyncio.wait([asyncio.wrap_future(learnt)], timeout=LEARNT_S)
        shown = await self._shapes()
        now = self._schema(tool, shown.get(tool.name, tool.protocol))
        told = request.client.id, request.params.name
        if now != schema and now != self._told.get(told):
            self._told[told] = now
            while len(self._told) > MAX_TOLD:
                self._told.popitem(last=False)
            await self._tell_of_change()

    def _masked(self, tool: Tool, result: types.CallToolResult) -> types.CallToolResult:
        """An answer as it came, without the credentials that we know."""
        dumped = result.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if isinstance(tool.transport, McpTransport):
            dumped = tool.transport.server.spec.secrets.value(dumped)
        made = types.CallToolResult.model_validate(self.gateway.redactor.value(dumped))
        meta = {key: each for key, each in (made.meta or {}).items() if not key.startswith(_OF_THE_PROTOCOL)}
        return made.model_copy(update={"meta": meta or None})


def _own_name(tool: Tool) -> str:
    source = tool.protocol.source
    return source.operation if source.kind == "mcp" and source.operation else tool.name


def _declares(tool: Tool) -> bool:
    """Whether its server declares an output schema that any client takes."""
    protocol = tool.protocol
    if protocol.source.kind != "mcp" or protocol.returns is None:
        return False
    return is_documented(protocol.returns) and types_of(protocol.returns) == {"object"}


def _offset(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9 or int(cursor) > count:
        raise MCPError(types.INVALID_PARAMS, "this cursor is not one of ours: read the list from its beginning")
    return int(cursor)


def _shown(value: Any) -> types.CallToolResult:
    """The answer of a tool that is no MCP server's."""
    value = pack(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
