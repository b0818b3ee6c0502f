"""The tools that a server lists, read over a conversation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from atc.errors import Cause, ToolImportError
from atc.tools.mcp.connection import Connection, McpServer
from atc.tools.mcp.failures import Unreachable, reason_of
from atc.tools.mcp.usable_lists import MAX_NOTES

MAX_TOOLS = 5_000
"""Tools of one server."""

MAX_PAGES = 500
"""Pages of one server's list."""

MAX_LIST_BYTES = 20_000_000
"""Bytes of one server's list, all pages together."""


class ListUnread(ToolImportError):
    """A server's list cannot be read.

    Args:
        server: as messages call it.
        reason: why, to stand after that.
        cause: ``credential`` where the server wants one.
    """

    def __init__(self, server: str, reason: str, cause: Cause | None = None) -> None:
        super().__init__(f"the MCP server {server} {reason}")
        self.reason, self.cause = reason, cause


@dataclass(frozen=True)
class Listed:
    """A list as it came.

    Attributes:
        tools: each an ``mcp_types.Tool``.
        page_bytes: of its largest page.
        notes: lines about what was wrong with it, for the user.
    """

    tools: list[Any]
    page_bytes: int
    notes: tuple[str, ...] = ()


async def all_listed(servers: list[McpServer], timeout_s: float) -> list[Listed]:
    """The lists of all servers, read at once.

    Raises:
        ListUnread: one of the lists cannot be read.
    """
    tasks = [asyncio.create_task(listed(server, timeout_s)) for server in servers]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def listed(server: McpServer, timeout_s: float) -> Listed:
    """All tools of one server, over a conversation of its own.

    Raises:
        ListUnread: the list cannot be read.
    """
    connection = server.connect(max(server.max_bytes, MAX_LIST_BYTES))
    try:
        return await listed_over(connection, timeout_s)
    finally:
        await connection.close()


async def listed_over(connection: Connection, timeout_s: float) -> Listed:
    """All tools of one server, over a conversation that somebody else ends.

    Args:
        connection: need not be ready yet.
        timeout_s: seconds that the list may take once it is.

    Raises:
        ListUnread: the list cannot be read.
    """
    spec = connection.spec
    try:
        await connection.ready()
        async with asyncio.timeout(timeout_s):
            return await _pages(connection)
    except Unreachable as error:
        raise ListUnread(spec.location, str(error), error.cause) from None
    except TimeoutError:
        summary = connection.log.summary(spec)
        raise ListUnread(spec.location, f"did not list its tools within {timeout_s:g} s{summary}") from None
    except (ToolImportError, asyncio.CancelledError):
        raise
    except Exception as error:  # whatever the SDK raises about what a stranger sent
        await connection.settled()
        reason = reason_of(error, connection.exchange, spec) + connection.log.summary(spec)
        raise ListUnread(spec.location, f"gave no usable list of tools: it {reason}") from None


async def _pages(connection: Connection) -> Listed:
    where = connection.spec.location
    found: dict[str, Any] = {}
    notes: list[str] = []
    connection.looked.notes.clear()
    cursor, seen, size, largest = None, set[str](), 0, 0
    for _ in range(MAX_PAGES):
        page = await connection.page(cursor)
        for tool in page.tools:
            if found.setdefault(tool.name, tool) != tool and len(notes) < MAX_NOTES:
                notes.append(f"two tools are named {tool.name[:80]!r}: the first of them stays")
        of_page = len(page.model_dump_json())
        size, largest = size + of_page, max(largest, of_page)
        if len(found) > MAX_TOOLS:
            raise ListUnread(where, f"lists more than {MAX_TOOLS:,} tools: let it offer fewer")
        if size > MAX_LIST_BYTES:
            raise ListUnread(where, f"has a list of tools of more than {MAX_LIST_BYTES:,} bytes: let it say less")
        cursor = page.next_cursor
        if cursor in seen:
            notes.append(f"its list goes in a circle: page {cursor[:80]!r} comes twice, and what came before is taken")
        if cursor is None or cursor in seen:
            return Listed(
                list(found.values()), largest, tuple(dict.fromkeys([*connection.looked.notes, *notes]))[:MAX_NOTES]
            )
        seen.add(cursor)
    raise ListUnread(where, f"has more than {MAX_PAGES} pages of tools: let it put more on one")
