"""``atc mcp``: one MCP server in front of all tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from atc.cli import options
from atc.cli.console import guarded
from atc.errors import EnvironmentProblem
from atc.settings import Settings

if TYPE_CHECKING:
    from atc.faces.mcp_server.gateway import Gateway
    from atc.faces.mcp_server.server import Face

Enrich = Annotated[
    bool,
    typer.Option(
        "--enrich",
        help="Serve the tools themselves, with output schemas filled in from what they answered; no programs.",
    ),
]

ProbeReads = Annotated[
    bool,
    typer.Option(
        "--probe-reads",
        help="At the start, call each tool once that surely reads, needs no argument and has no known response.",
    ),
]

app = typer.Typer(help="One MCP server in front of all tools: a client's own model writes programs over them.")


@app.callback(invoke_without_command=True)
@guarded
def mcp(
    context: typer.Context,
    tools: Annotated[list[str] | None, options.Tools.__metadata__[0]] = None,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    openapi: options.OpenApi = None,
    documents: options.Documents = None,
    enrich: Enrich = False,
    probe_reads: ProbeReads = False,
) -> None:
    """Serve your tools to an MCP client over pipes: it looks tools up, and writes one program over them."""
    if context.invoked_subcommand is not None:
        return
    try:
        import mcp as _  # noqa: F401
    except ImportError:
        raise EnvironmentProblem("the package `mcp` is not installed: pip install 'atc-runtime[mcp]'") from None
    from atc.faces.mcp_server.gateway import Gateway
    from atc.faces.mcp_server.stdio import serve_stdio

    opened = options.opened(
        tools or [], only=only, service_url=service_url, auth=auth, documents=documents, openapi=openapi
    )
    gateway = Gateway(opened, Settings.load())
    serve: partial[Any] = partial(serve_stdio, gateway, enriched(gateway) if enrich else None)
    if probe_reads:
        from atc.faces.mcp_server.probing import beside

        serve = partial(beside, gateway, serve)
    anyio.run(serve)


def enriched(gateway: Gateway) -> Face:
    """The face of ``--enrich``."""
    from atc.faces.mcp_server.enrich import EnrichedFace

    return EnrichedFace(gateway)
