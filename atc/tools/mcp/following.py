"""What a server says unasked: that its list has changed, and how far a call has come.

What it *asks* is refused: this side declares neither sampling nor roots nor elicitation, and the SDK answers a server
that asks all the same with an error that says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage, MessageHandlerFnT
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from atc.tools.mcp.http import EXCHANGE, Exchange
from atc.tools.mcp.spec import ServerSpec
from atc.tools.openapi.text import clean
from atc.tools.tool import PROGRESS, Progress

LISTEN_AGAIN_S = 5.0
"""Seconds before a subscription that was lost is opened again; ten times as many at most."""

MAX_REPORTS = 1_000
"""Reports of progress that one call may make; the rest is not passed on."""

_MAX_MESSAGE = 200


def handler_of(changed: Callable[[], None]) -> MessageHandlerFnT:
    """The handler of the notifications of a server of an older version."""

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    return handle


@asynccontextmanager
async def following(client: Client, changed: Callable[[], None] | None) -> AsyncIterator[None]:
    """Subscribe, for the length of the block, to changes of the list of a server of a newer version."""
    if changed is None or client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _announces(client):
        yield
        return
    task = asyncio.create_task(_listen(client, changed))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _announces(client: Client) -> bool:
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    EXCHANGE.set(Exchange())  # how the subscription's request ends says nothing about the conversation
    wait_s = LISTEN_AGAIN_S
    while True:
        try:
            async with client.listen(tools_list_changed=True) as events:
                wait_s = LISTEN_AGAIN_S
                async for _ in events:
                    changed()
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            if isinstance(error, MCPError) and error.code == types.METHOD_NOT_FOUND:
                return
        await asyncio.sleep(wait_s)
        wait_s = min(10 * LISTEN_AGAIN_S, 2 * wait_s)
        changed()  # what happened in between was not heard


def forwarding(name: str, spec: ServerSpec) -> ProgressFnT | None:
    """What passes a call's progress on to who listens; ``None`` where nobody does, and the server need not report."""
    listener = PROGRESS.get()
    if listener is None:
        return None
    reports, heard = 0, listener

    async def forward(progress: float, total: float | None, message: str | None) -> None:
        nonlocal reports
        reports += 1
        if reports > MAX_REPORTS or not math.isfinite(progress) or (total is not None and not math.isfinite(total)):
            return
        said = " ".join(clean(spec.secrets.text(message or ""), 4 * _MAX_MESSAGE).split())[:_MAX_MESSAGE]
        heard(Progress(name, progress, total, said))

    return forward
