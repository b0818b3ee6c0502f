"""The server over pipes: one client, which started this process."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.server import Face


async def serve_stdio(gateway: Gateway) -> None:
    """Serve until the client closes its end."""
    server = Face(gateway).server
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await gateway.aclose()
