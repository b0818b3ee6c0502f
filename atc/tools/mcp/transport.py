"""Calls of one tool of a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from mcp import Client, MCPError

from atc.errors import ToolError
from atc.tools.mcp.answers import value_of
from atc.tools.mcp.connection import Connection, McpServer
from atc.tools.mcp.failures import UNAUTHORIZED, Unreachable, failed, is_closed, reason_of, too_slow, unreachable
from atc.tools.mcp.http import NOT_SENT, Exchange
from atc.tools.openapi.text import clean
from atc.tools.tool import AnnouncingTransport, Answered, GradedTransport, Sending

HEARD: ContextVar[Callable[[Any], None] | None] = ContextVar("atc_mcp_heard", default=None)
"""Is given each answer as it came, with what no value of a program has: images, and annotations of blocks."""


@dataclass(frozen=True, eq=False)
class McpTransport(AnnouncingTransport, GradedTransport):
    """Calls one tool over the server's conversation. It never retries: that is the broker's business.

    Attributes:
        name: the tool's name at the server.
        reads: whether the tool is taken for a read.
        server: the conversation, which all tools of the server share.
    """

    name: str
    reads: bool
    server: McpServer = field(repr=False)

    @property
    def label(self) -> str:
        """The name for messages: a server may call its tools what it likes."""
        return clean(self.name, 100).replace("\n", " ")

    def graded(self, *, reads: bool) -> McpTransport:
        """The same, for a tool that is taken for a read, or is not."""
        return replace(self, reads=reads)

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """The server: tools of one import share it."""
        return self.server

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Make one call.

        Raises:
            ToolError: as :meth:`announced`.
        """
        return (await self.announced(arguments, lambda: None)).value

    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        """Make one call; ``sending`` is called once the server is ready.

        Raises:
            ToolError: the server cannot be reached, refuses, dies, takes too long, or says that the tool failed.
        """
        _ensure_sendable(self.label, arguments)
        server, sent = self.server, False
        try:
            async with asyncio.timeout(server.timeout_s), server.connected() as (connection, client):
                sent = True
                sending()
                return Answered(await self._made(connection, client, arguments))
        except Unreachable as error:
            raise unreachable(self.label, error, server.spec) from None
        except TimeoutError:
            if not sent:
                late = Unreachable(f"is not ready after {server.timeout_s:g} s")
                raise unreachable(self.label, late, server.spec) from None
            raise too_slow(self.label, server.timeout_s) from None

    async def _made(self, connection: Connection, client: Client, arguments: dict[str, Any]) -> Any:
        server, exchange = self.server, Exchange()
        spec = server.spec
        try:
            result = await connection.call(client, self.name, arguments, exchange)
        except TimeoutError:
            raise
        except Exception as error:  # whatever the SDK raises, the run goes on
            if is_closed(error):
                connection.lost = True
                await connection.settled()
            elif isinstance(error, MCPError) and error.message == "Session terminated":
                connection.lost = True
            elif isinstance(exchange.problem, NOT_SENT) or exchange.status == UNAUTHORIZED:
                server.unreached(Unreachable(reason_of(error, exchange, spec), exchange))
            if connection.log.too_large:
                raise self._too_large() from None
            summary = connection.log.summary(spec)
            raise failed(self.label, error, exchange, summary, spec, self.reads) from None
        server.answered()
        if (heard := HEARD.get()) is not None:
            heard(result)
        return value_of(self.label, result, spec, self.reads)

    def _too_large(self) -> ToolError:
        limit = self.server.max_bytes
        return ToolError(
            f"{self.label} answered with more than {limit:,} bytes: ask for less",
            status="too_large",
            outcome="refused" if self.reads else "unknown",
            received=limit,
        )


def _ensure_sendable(label: str, arguments: dict[str, Any]) -> None:
    """Raise ToolError for what JSON does not have: half characters, NaN."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError(
            f"{label} cannot be sent these arguments: {str(error)[:200]}", status="invalid_arguments"
        ) from None
