"""The tools that are listed beside ``run_program`` (:mod:`.direct`), and what a call of one does.

It is a run of its own, of one call. One of a kept program is a program of one line.
Its value is the one that a program would see, so a large one comes back as a preview and a link, and goes on to a
program by that. What its client's model has seen by it counts as seen, for the programs that it writes later.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types

from atc.errors import UsageError
from atc.run.calling import checked_arguments, program_of
from atc.serve.mcp.asking import asker_of, carried, lapses, waits
from atc.serve.mcp.client import Client
from atc.serve.mcp.direct import Choice, choice_of
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.own_tools import answer_of
from atc.serve.mcp.requests import Answer, Handler, ToolRequest, told
from atc.serve.mcp.running import PER_PRINCIPAL
from atc.serve.mcp.single_calls import SingleCalls, definition_of
from atc.serve.mcp.values import Link, Values, content_blocks
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
        own: names of the server's own tools.

    Raises:
        UsageError: the options name a tool as one of the server's own is named.
    """

    def __init__(self, gateway: Gateway, own: Collection[str]) -> None:
        self._gateway, self._own = gateway, own
        self._calls = SingleCalls(gateway)
        self._turns = _Turns(AT_ONCE)
        self._choice: Choice | None = None
        self._told = False
        self._carried: Handler = carried(self._called)
        if not (gateway.live is not None and gateway.live.coming):
            self._choose()

    async def prepare(self) -> None:
        """Choose the tools, once there are some: the choice stays."""
        if self._choice is None:
            await asyncio.to_thread(self._choose)  # what runs taught is read from a disk

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
        return {name: tool for name, tool in self._listed.tools(self._gateway.tools).items() if name in seen}

    async def definitions(self, client: Client) -> list[types.Tool]:
        """Those that a client may call now, as it sees them."""
        await self.prepare()
        if not self._gateway.options.direct:
            return []
        return [definition_of(name, tool.protocol) for name, tool in self.of(client).items()]

    def tell(self) -> None:
        """Say once in the log which they are."""
        if not self._told and (notices := self.notices):
            self._told = True
            for notice in notices:
                _log.warning("atc mcp: %s", notice)

    @property
    def notices(self) -> list[str]:
        """Lines about them for whoever runs the server."""
        return [*self._listed.notices(self._gateway.tools)]

    @property
    def _listed(self) -> Choice:
        return self._choice or Choice()

    async def aclose(self) -> None:
        """Let go of the servers."""
        await self._calls.aclose()

    def _choose(self) -> None:
        options = self._gateway.options
        if not options.direct or not self._gateway.tools:
            return
        catalogue = self._gateway.catalogue
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
        if tool.kept is not None:
            return await self._program(request, tool)
        reply = await self._calls.made(request, tool)
        if reply.error is not None:
            block = types.TextContent(type="text", text=reply.error[:MAX_ERROR])
            return types.CallToolResult(content=[block], is_error=True)
        values = gateway.values(request.client)
        shown = await asyncio.to_thread(values.shown, reply.value, name)  # the broker has masked credentials
        return _answered(shown, values)

    async def _program(self, request: ToolRequest, tool: Tool) -> Answer:
        """A run of the client's, in which each of its calls is decided by itself."""
        gateway = self._gateway
        given = await asyncio.to_thread(checked_arguments, tool.protocol, request.arguments)
        source, inputs = program_of(tool.name, given, gateway.tools)
        async with told(request) as listener:
            report = await gateway.run_program(
                request.client,
                source,
                inputs=inputs,
                asker=asker_of(request),
                parks=waits(request),
                lapsed=lapses(request),
                listener=listener,
            )
        if report.status == "answered" and not report.remark:
            shown = {"preview": report.preview} if report.preview else {"value": report.value}
            return _answered({**shown, "links": report.links}, gateway.values(request.client))
        return answer_of(request, report)


def _answered(shown: Mapping[str, Any], values: Values) -> types.CallToolResult:
    links: list[Link] = shown["links"]
    brief = {"preview": shown.get("preview"), "links": [each.model_dump() for each in links]}
    value: Any = shown.get("value", brief)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    blocks = [types.TextContent(type="text", text=text), *content_blocks(links, values)]
    return types.CallToolResult(content=blocks)


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
