"""``atc mcp``: one MCP server in front of all tools."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from atc.cli import options
from atc.cli.console import guarded
from atc.cli.mcp_install import install, uninstall
from atc.errors import EnvironmentProblem
from atc.settings import Settings

app = typer.Typer(help="Serve your tools to an MCP client: its own model writes programs over them.")


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
    anyio.run(serve_stdio, gateway)


app.command("install")(install)
app.command("uninstall")(uninstall)
