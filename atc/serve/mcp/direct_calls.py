"""The tools that are listed beside ``run_program`` (:mod:`.direct`), and what a call of one does.

It is made as ``--enrich`` makes one: a run of its own, of one call. Its value is the one that a program would see, so a
large one comes back as a preview and a link, and goes on to a program by that. What its client's model has seen by it
counts as seen, for the programs that it writes later.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types

from atc.errors import UsageError
from atc.serve.mcp.asking import carried
from atc.serve.mcp.client import Client
from atc.serve.mcp.direct import Choice, choice_of
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.requests import Answer, Handler, ToolRequest
from atc.serve.mcp.running import PER_PRINCIPAL
from atc.serve.mcp.single_calls import SingleCalls
from atc.serve.mcp.values import Link, content_blocks
from atc.tools.tool import Tool

MAX_ERROR = 2_000
"""Characters of an error's message."""
AT_ONCE = PER_PRINCIPAL - 1
"""Direct calls of one principal at the same time: further ones wait. A model makes many at once, and one place is left
for a program."""
_log = logging.getLogger(__name__)


class DirectTools:
    """Some tools of a gateway, for one call at a time.

    Args:
        gateway: whose options say which.
        changed: tells the clients that the list changed.
        own: names of the server's own tools.

    Raises:
        UsageError: the options name a tool as one of the server's own is named.
    """

    def __init__(self, gateway: Gateway, changed: Callable[[], Awaitable[None]], own: Collection[str]) -> None:
        self._gateway, self._own = gateway, own
        self._calls = SingleCalls(gateway, changed)
        self._turns = _Turns(AT_ONCE)
        self._choice: Choice | None = None
        self._told = False
        self._carried: Handler = carried(self._called)
        if gateway.tools and not (gateway.live is not None and gateway.live.coming):
            self._choose()

    @property
    def choice(self) -> Choice:
        """Which tools are listed. It is made once there are tools, and stays."""
        if self._choice is None and self._gateway.tools:
            self._choose()
        return self._choice or Choice()

    @property
    def may_be_there(self) -> bool:
        """Whether a client may find some: what it is told of them is said before the servers have listed theirs."""
        wanted = self._gateway.options.direct
        return bool(wanted) and (self._choice is None or bool(self._choice.named or self._choice.chosen))

    def of(self, client: Client) -> dict[str, Tool]:
        """Those that a client may call now, by name."""
        if not self._gateway.options.direct:
            return {}
        seen = self._gateway.visible(client)
        return {name: tool for name, tool in self.choice.tools(self._gateway.tools).items() if name in seen}

    async def definitions(self, client: Client) -> list[types.Tool]:
        """Those that a client may call now, as it sees them."""
        return await self._calls.definitions(client, self.of(client).items())

    def tell(self) -> None:
        """Say once in the log which they are."""
        if not self._told and (notices := self.notices):
            self._told = True
            for notice in notices:
                _log.warning("atc mcp: %s", notice)

    @property
    def notices(self) -> list[str]:
        """Lines about them for whoever runs the server."""
        return [*self.choice.notices(self._gateway.tools)]

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._calls.aclose()

    def _choose(self) -> None:
        options, catalogue = self._gateway.options, self._gateway.catalogue
        if not options.direct:
            return
        self._choice = choice_of(catalogue.tools, catalogue.graph, options.direct, options.direct_tokens, self._own)

    async def called(self, request: ToolRequest) -> Answer:
        """Make one call, and answer it with the tool's value, when its turn has come.

        Raises:
            UsageError: the client may call no such tool.
        """
        if request.params.request_state is not None:  # it has begun, and its answer has come
            return await self._carried(request)
        async with self._turns.of(request.client.id.principal):
            return await self._carried(request)

    async def _called(self, request: ToolRequest) -> Answer:
        name, gateway = request.params.name, self._gateway
        tool = self.of(request.client).get(name)
        if tool is None:
            raise UsageError(f"there is no tool {name[:80]!r} here any more: read the list again")
        reply = await self._calls.made(request, tool)
        if reply.error is not None:
            text = gateway.redactor.text(reply.error)[:MAX_ERROR]
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        values = gateway.values(request.client)
        shown = await asyncio.to_thread(values.shown, gateway.redactor.value(reply.value), name)
        links: list[Link] = shown["links"]
        brief = {"preview": shown.get("preview"), "links": [each.model_dump() for each in links]}
        value: Any = shown.get("value", brief)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        blocks = [types.TextContent(type="text", text=text), *content_blocks(links, values)]
        made = types.CallToolResult(content=blocks)
        return await self._calls.structured(request, tool, made, reply.value, value)


class _Turns:
    """Lets so many of one principal's calls go on at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting = Counter[str]()
        self._slots: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def of(self, principal: str) -> AsyncIterator[None]:
        slots = self._slots.setdefault(principal, asyncio.Semaphore(self._most))
        self._waiting[principal] += 1
        try:
            async with slots:
                yield
        finally:
            self._waiting[principal] -= 1
            if not self._waiting[principal]:
                del self._waiting[principal], self._slots[principal]
