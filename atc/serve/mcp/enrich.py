"""``atc mcp --enrich``: the upstream tools themselves, with an output schema where their servers declare none.

For clients that write no programs. Calls pass the broker as those of programs do: arguments are checked, effects are
approved, credentials masked. What tools answer is learnt as shapes (:mod:`atc.catalogue.graph.lessons`), which fill
the schemas.

A client may refuse an answer that does not fit the declared schema, and what was seen is no promise. So in a filled
schema nothing is required, every field may be null, other fields are allowed, and numbers are numbers, whole or not. It
is always of an object: any other answer stands under ``result``.
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

from atc._records.packing import pack
from atc.calls.contract import CallReply
from atc.errors import AtcError, UsageError
from atc.result import Effect
from atc.schemas.observed import MAX_DEPTH, MAX_NODES, is_documented
from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.types import OBSERVED
from atc.schemas.validate import resolve, types_of
from atc.serve.mcp.asking import carried
from atc.serve.mcp.client import Client, ClientId
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.probing import Approves, approval_of, single_call
from atc.serve.mcp.requests import Answer, ToolRequest
from atc.serve.mcp.server import Face
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.mcp.transport import HEARD, McpTransport
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import new_run_id

# -- lenient schemas of what was observed, and answers made to fit them ------------------------------------------------

RESULT = "result"
"""Where an answer stands that is no object."""
MAX_LEFT_OUT = 20
"""Places that are named of an answer that does not fit."""
_NOTHING = object()


def filled_schema(shape: JsonSchema | None) -> JsonSchema | None:
    """The output schema for a response of a shape; ``None`` where that says no more than that it is text or nothing.

    Args:
        shape: of keys and types (:mod:`atc.schemas.observed`); whatever else stands in it is left out.
    """
    root = resolve(shape, shape) if shape else {}
    kinds = _types(root)
    if shape is None or not kinds & {"object", "array"}:
        return None
    maker = _Maker(shape)
    made: JsonSchema = {"type": "object"}
    properties: dict[str, Any] = {}
    if "object" in kinds:
        inner = maker.loose({**root, OBSERVED: "object", "type": "object"})
        properties = inner.get("properties", {})
        if "additionalProperties" in inner:
            made["additionalProperties"], properties = inner["additionalProperties"], {RESULT: {}}
    if others := sorted(kinds - {"object", "null"}):
        under = maker.loose({**root, OBSERVED: others, "type": others})
        properties = {**properties, RESULT: {} if RESULT in properties else under}
    return made | ({"properties": properties} if properties else {})


def _types(schema: JsonSchema) -> set[str]:
    return set(types_of(schema) or types_of({"type": schema.get(OBSERVED)}))


class _Maker:
    """Makes schemas of types alone, each of which may be null."""

    def __init__(self, root: JsonSchema) -> None:
        self._root, self._left = root, MAX_NODES

    def loose(self, schema: Any, depth: int = 0) -> JsonSchema:
        self._left -= 1
        schema = resolve(self._root, schema) if isinstance(schema, dict) else {}
        kinds = _types(schema) - {"null"}
        if not kinds or depth > MAX_DEPTH or self._left < 0:
            return {}
        if "integer" in kinds:
            kinds = kinds - {"integer"} | {"number"}
        made: JsonSchema = {"type": [*sorted(kinds), "null"]}
        properties, others, items = (schema.get(name) for name in ("properties", "additionalProperties", "items"))
        if "object" in kinds and isinstance(properties, dict) and properties:
            made["properties"] = {str(key): self.loose(part, depth + 1) for key, part in properties.items()}
        elif "object" in kinds and isinstance(others, dict) and (below := self.loose(others, depth + 1)):
            made["additionalProperties"] = below
        if "array" in kinds and isinstance(items, dict) and (below := self.loose(items, depth + 1)):
            made["items"] = below
        return made


def fitted(value: Any, schema: JsonSchema) -> tuple[dict[str, Any], list[str]]:
    """An answer as structured content that fits a filled schema, and the places that were left out for that.

    Linear in the answer.

    Args:
        value: a JSON value.
        schema: of :func:`filled_schema`.
    """
    left_out: list[str] = []
    whole = value if isinstance(value, dict) else {RESULT: value}
    made = _fitted(whole, schema, "$", left_out)
    assert isinstance(made, dict)  # the root allows every object
    return made, left_out


def _fitted(value: Any, schema: Any, place: str, left_out: list[str]) -> Any:
    if not schema:
        return value
    if not _is_of(value, schema["type"]):
        if len(left_out) < MAX_LEFT_OUT:
            left_out.append(place)
        return _NOTHING
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        made = {
            key: _fitted(part, properties.get(key, others), f"{place}.{key}", left_out) for key, part in value.items()
        }
        return {key: part for key, part in made.items() if part is not _NOTHING}
    if isinstance(value, list) and (items := schema.get("items")):
        parts = [_fitted(item, items, f"{place}[]", left_out) for item in value]
        return [None if part is _NOTHING else part for part in parts]  # the others keep their places
    return value


_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
}  # fmt: skip


def _is_of(value: Any, kinds: str | list[str]) -> bool:
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind == "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return True
        elif isinstance(value, _KINDS[kind]):
            return True
    return False


# -- the server --------------------------------------------------------------------------------------------------------

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
        seen = self.gateway.visible(client)
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
        if tool is None or tool.name not in self.gateway.visible(request.client):
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
                return await single_call(tool, request.arguments, approval, redactor, timeout_s, request.client.past)
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
