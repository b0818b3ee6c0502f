"""Tools that clients call one at a time, without a program: how they are listed, and how a call of one is made.

A call passes the broker as those of programs do: arguments are checked, effects are approved, credentials masked. What
is answered is learnt as a shape (:mod:`atc.catalogue.graph.lessons`), which fills the output schema where a server
declares none; a client whose schema an answer does not fit is told that the list changed.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import mcp_types as types

from atc._host.invisible import legible
from atc._records.packing import pack
from atc.calls.contract import CallReply
from atc.models.messages import bounded_tokens
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol
from atc.serve.mcp.client import Client, ClientId
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.output_schemas import filled_schema, fitted
from atc.serve.mcp.probing import Approves, approval_of, client_call
from atc.serve.mcp.requests import ToolRequest
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.mcp.transport import HEARD
from atc.tools.tool import Tool
from atc.traces.stores.base import new_run_id

LEARNT_S = 2.0
"""Seconds that an answer with news waits until it is learnt, so that the client reads the new list and not the old."""
LEFT_OUT = "atc/left-out"
"""In ``_meta`` of an answer: places of the structured content that did not fit the schema which the client has."""
MAX_CLIENTS, MAX_TOLD = 200, 10_000
"""Clients whose lists are remembered, and schemas of which clients were told that they changed."""


def definition_of(name: str, protocol: Protocol, output: JsonSchema | None) -> types.Tool:
    """A tool as clients see it: its own description and arguments, under a name.

    Args:
        name: that clients call it by.
        protocol: of the tool.
        output: its output schema, if it has one.
    """
    reads = None if protocol.effect is Effect.UNKNOWN else protocol.effect is Effect.READ
    return types.Tool(
        name=name,
        description=legible(protocol.description) or None,
        input_schema=protocol.parameters,
        output_schema=output,
        annotations=None if reads is None else types.ToolAnnotations(read_only_hint=reads),
    )


def tokens_of(tool: types.Tool) -> int:
    """Of a tool's definition as JSON, with its schemas; an upper bound, three characters each."""
    return bounded_tokens(json.dumps(tool.model_dump(by_alias=True, exclude_none=True), ensure_ascii=False))


class SingleCalls:
    """Lists tools of a gateway, and makes calls of them.

    Args:
        gateway: whose tools they are.
        changed: tells the clients that the list changed.
        approves: the rule for a call; that of the clients' programs when not given.
        declares: whether a tool is listed with the schema that its server declares, as it is. Else each has a lenient
            one (:mod:`.output_schemas`), also of what is declared.
    """

    def __init__(
        self,
        gateway: Gateway,
        changed: Callable[[], Awaitable[None]],
        approves: Approves = approval_of,
        declares: Callable[[Tool], bool] = lambda tool: False,
    ) -> None:
        self._gateway, self._changed, self._approves, self._declares = gateway, changed, approves, declares
        self._filled: dict[str, tuple[Protocol, JsonSchema | None]] = {}
        self._listed: OrderedDict[ClientId, dict[str, JsonSchema | None]] = OrderedDict()
        self._told: OrderedDict[tuple[ClientId, str], JsonSchema | None] = OrderedDict()
        self._stack, self._entered = AsyncExitStack(), set[Any]()

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._stack.aclose()

    # -- the list ------------------------------------------------------------------------------------------------------

    async def definitions(self, client: Client, named: Iterable[tuple[str, Tool]]) -> list[types.Tool]:
        """Tools as a client sees them, by the names that it calls them by; it is remembered what it saw."""
        shown = await self._shapes()
        made = []
        for name, tool in named:
            output = self._schema(tool, shown.get(tool.name, tool.protocol))
            made.append(definition_of(name, tool.protocol, output))
        self._schemas_of(client).update({each.name: each.output_schema for each in made})
        return made

    async def _shapes(self) -> Mapping[str, Protocol]:
        """The tools with the responses that were observed; none where no server is up."""
        if not self._gateway.tools:
            return {}
        return (await self._gateway.catalogue.current_graph()).protocols_with_shapes

    def _schema(self, tool: Tool, shown: Protocol) -> JsonSchema | None:
        """The output schema of a tool: its own, else one of what was observed."""
        if self._declares(tool):
            return tool.protocol.returns
        kept = self._filled.get(tool.name)
        if kept is None or kept[0] is not shown:
            if len(self._filled) >= MAX_TOLD:
                self._filled.clear()
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

    async def made(self, request: ToolRequest, tool: Tool, heard: Callable[[Any], None] | None = None) -> CallReply:
        """Let a call pass the broker. Each is a run of its own, so a write equal to an earlier one is asked about.

        Args:
            request: of the client, with its arguments; its handler must be :func:`.asking.carried`.
            tool: that is called.
            heard: is given what an MCP server answered, as it came.
        """
        if request.running is not None:
            request.running.single = True
        approval = self._approves(request, new_run_id())
        redactor, timeout_s = self._gateway.redactor, self._gateway.settings.call_timeout_s
        token = HEARD.set(heard) if heard is not None else None
        try:
            async with self._opened(tool):
                return await client_call(tool, request.arguments, approval, redactor, timeout_s, request.client.past)
        finally:
            if token is not None:
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

    async def structured(
        self, request: ToolRequest, tool: Tool, made: types.CallToolResult, value: Any, shown: Any = None
    ) -> types.CallToolResult:
        """The answer with structured content that fits the schema which the client has, if it has one.

        Args:
            request: of the client.
            tool: that answered.
            made: the answer without structured content, or with that of an MCP server.
            value: what the tool answered: it is learnt.
            shown: what the client is shown of it; all of it when not given.
        """
        value = await asyncio.to_thread(pack, value)
        made, schema = await self.shaped(request, tool, made, value if shown is None else shown)
        await self._learn(request, tool, value, schema, new=bool((made.meta or {}).get(LEFT_OUT)))
        return made

    async def shaped(
        self, request: ToolRequest, tool: Tool, made: types.CallToolResult, shown: Any
    ) -> tuple[types.CallToolResult, JsonSchema | None]:
        """As :meth:`structured`, and nothing is learnt; with the schema that the client has."""
        has = self._schemas_of(request.client)
        if request.params.name not in has:  # it has asked for no list, or will ask now
            known = await self._shapes()
            has[request.params.name] = self._schema(tool, known.get(tool.name, tool.protocol))
        schema = has[request.params.name]
        if schema is not None:
            content, left_out = fitted(shown, schema)
            meta = {**(made.meta or {}), LEFT_OUT: left_out} if left_out else made.meta
            made = made.model_copy(update={"structured_content": content, "meta": meta})
        elif made.structured_content is not None and not isinstance(made.structured_content, dict):
            made = made.model_copy(update={"structured_content": {"result": shown}})
        return made, schema

    async def _learn(self, request: ToolRequest, tool: Tool, value: Any, schema: JsonSchema | None, new: bool) -> None:
        """Learn an answer. Where that changes the schema that the client has, the client is told so."""
        learnt = self._gateway.catalogue.observe(tool.name, value, new=new) if self._gateway.tools else None
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
            await self._changed()
