"""Tools that clients call one at a time, without a program: how they are listed, and how a call of one is made.

A call passes the broker as those of programs do: arguments are checked, effects are approved, credentials masked. What
is answered is learnt as a shape (:mod:`atc.catalogue.graph.lessons`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import mcp_types as types

from atc._host.invisible import legible
from atc._records.packing import pack
from atc.calls.contract import CallReply
from atc.models.messages import bounded_tokens
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.probing import approval_of, client_call
from atc.serve.mcp.requests import ToolRequest
from atc.tools.held_per_loop import HeldPerLoop
from atc.tools.tool import Tool
from atc.traces.stores.base import new_run_id


def definition_of(name: str, protocol: Protocol) -> types.Tool:
    """A tool as clients see it: its own description and arguments, under a name that clients call it by."""
    reads = None if protocol.effect is Effect.UNKNOWN else protocol.effect is Effect.READ
    return types.Tool(
        name=name,
        description=legible(protocol.description) or None,
        input_schema=protocol.parameters,
        annotations=None if reads is None else types.ToolAnnotations(read_only_hint=reads),
    )


def tokens_of(tool: types.Tool) -> int:
    """Of a tool's definition as JSON, with its schemas; an upper bound, three characters each."""
    return bounded_tokens(json.dumps(tool.model_dump(by_alias=True, exclude_none=True), ensure_ascii=False))


class SingleCalls:
    """Makes calls of a gateway's tools."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._stack, self._entered = AsyncExitStack(), set[Any]()

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._stack.aclose()

    async def made(self, request: ToolRequest, tool: Tool) -> CallReply:
        """Let a call pass the broker. Each is a run of its own, so a write equal to an earlier one is asked about.

        Args:
            request: of the client, with its arguments; its handler must be :func:`.asking.carried`.
            tool: that is called.
        """
        if request.running is not None:
            request.running.single = True
        approval = approval_of(request, new_run_id())
        redactor, timeout_s = self._gateway.redactor, self._gateway.settings.call_timeout_s
        async with self._opened(tool):
            reply = await client_call(tool, request.arguments, approval, redactor, timeout_s, request.client.past)
        if reply.error is None and self._gateway.tools:
            value = await asyncio.to_thread(pack, reply.value)
            self._gateway.catalogue.observe(tool.name, value)
        return reply

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
