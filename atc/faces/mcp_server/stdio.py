"""The server over pipes: one client, which started this process."""

from __future__ import annotations

import signal

import anyio

from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.pipes import pipes
from atc.faces.mcp_server.server import Face


async def serve_stdio(gateway: Gateway, face: Face | None = None, *, outgoing: int = 1) -> None:
    """Serve until the client closes its end, or the process is asked to end (SIGTERM, Ctrl-C). Nothing goes on then.

    Args:
        gateway: behind it.
        face: what clients see of it; the tools that look up and run programs when not given.
        outgoing: descriptor that the client reads; standard output when not given.

    Raises:
        KeyboardInterrupt: it was Ctrl-C.
    """
    await gateway.prepare()
    face = face or Face(gateway)
    server, asked = face.server, list[signal.Signals]()
    options = server.create_initialization_options()

    async def end_on_a_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                asked.append(number)
                scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(end_on_a_signal, group.cancel_scope)
            async with pipes(outgoing=outgoing) as (messages, answers):
                await server.run(messages, answers, options)
            group.cancel_scope.cancel()
    finally:
        await face.aclose()
        await gateway.aclose()
    if signal.SIGINT in asked:
        raise KeyboardInterrupt
