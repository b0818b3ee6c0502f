"""``atc mcp --enrich``: the upstream tools themselves, with an output schema where their servers declare none.

For clients that write no programs. Calls are made by :class:`.single_calls.SingleCalls`; a server's answers are passed
on as they came.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext

from atc._records.packing import pack
from atc.errors import AtcError, UsageError
from atc.schemas.observed import is_documented
from atc.schemas.validate import types_of
from atc.serve.mcp.asking import carried
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.probing import Approves, approval_of
from atc.serve.mcp.requests import Answer, ToolRequest
from atc.serve.mcp.server import Face
from atc.serve.mcp.single_calls import SingleCalls
from atc.tools.mcp.transport import McpTransport
from atc.tools.tool import Tool, Toolset

PAGE = 200
"""Tools on one page of the list."""
_OF_THE_PROTOCOL = "io.modelcontextprotocol/"
"""How keys of ``_meta`` begin that speak of the server itself, which the client does not speak to."""


class EnrichedFace(Face):
    """Serves the tools of a gateway under the names that they have at their servers.

    Raises:
        UsageError: the gateway learns nothing, so there would be nothing to fill in.
    """

    def __init__(self, gateway: Gateway, approves: Approves = approval_of) -> None:
        if not gateway.settings.learns:
            raise UsageError("--enrich fills in what was observed, and `learn` is off: switch it on (ATC_LEARN)")
        super().__init__(gateway)
        self._calls, self._carried = (
            SingleCalls(gateway, self._tell_of_change, approves, _declares),
            carried(self.called),
        )
        self._named: tuple[Toolset, dict[str, Tool]] | None = None

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._calls.aclose()
        await super().aclose()

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        await self.gateway.listed()
        client = self._client(context)
        seen = self.gateway.visible(client)
        named = [(name, tool) for name, tool in self._by_name().items() if tool.name in seen]
        begin = _offset(params.cursor if params is not None else None, len(named))
        listed = await self._calls.definitions(client, named[begin : begin + PAGE])
        end = begin + len(listed)
        return types.ListToolsResult(tools=listed, next_cursor=str(end) if end < len(named) else None)

    def _by_name(self) -> dict[str, Tool]:
        """The tools by the names that they have at their servers; equal ones by those that tell them apart."""
        tools = self.gateway.tools
        if self._named is None or self._named[0] is not tools:
            own = {tool.name: _own_name(tool) for tool in tools.values() if tool.kept is None}
            counts = Counter(own.values())
            apart = {name for name in own if counts[own[name]] > 1}
            named: dict[str, Tool] = {name: tools[name] for name in apart}
            for name in [each for each in own if each not in apart]:
                named[own[name] if own[name] not in named else name] = tools[name]
            order = {id(tool): number for number, tool in enumerate(tools.values())}
            self._named = tools, dict(sorted(named.items(), key=lambda each: order[id(each[1])]))
        return self._named[1]

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
        if tool is None or tool.name not in self.gateway.visible(request.client):
            raise UsageError(f"there is no tool {name[:80]!r} here")
        heard: list[Any] = []
        reply = await self._calls.made(request, tool, heard.append)
        raw = heard[-1] if heard and isinstance(heard[-1], types.CallToolResult) else None
        if reply.error is not None and not (reply.done and raw is not None):
            return self._masked(tool, raw) if raw is not None and raw.is_error else _failed(reply.error)
        made = _shown(reply.value) if raw is None else self._masked(tool, raw)
        if _declares(tool):
            return made
        return await self._calls.structured(request, tool, made, reply.value)

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
