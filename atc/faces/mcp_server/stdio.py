"""The server over pipes: one client, which started this process."""

from __future__ import annotations

from mcp.server import NotificationOptions
from mcp.server.stdio import stdio_server

from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.server import Face


async def serve_stdio(gateway: Gateway, face: Face | None = None) -> None:
    """Serve until the client closes its end.

    Args:
        gateway: behind it.
        face: what clients see of it; the tools that look up and run programs when not given.
    """
    face = face or Face(gateway)
    options = face.server.create_initialization_options(NotificationOptions(tools_changed=True))
    try:
        async with stdio_server() as (incoming, outgoing):
            await face.server.run(incoming, outgoing, options)
    finally:
        await face.aclose()
        await gateway.aclose()
