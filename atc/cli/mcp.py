"""``atc mcp``: one MCP server in front of all tools."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from atc.cli import mcp_http, options
from atc.cli.console import guarded
from atc.errors import EnvironmentProblem
from atc.settings import Settings

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
    http: mcp_http.Http = False,
    host: mcp_http.Host = "127.0.0.1",
    port: mcp_http.Port = 8790,
    token_file: mcp_http.TokenFile = None,
    tokens: mcp_http.Tokens = None,
    no_auth: mcp_http.NoAuth = False,
    allow_host: mcp_http.AllowHost = None,
    allow_origin: mcp_http.AllowOrigin = None,
    tls_cert: mcp_http.TlsCert = None,
    tls_key: mcp_http.TlsKey = None,
    drain_s: mcp_http.DrainS = 30.0,
    resource_url: mcp_http.ResourceUrl = "",
    oauth_self: mcp_http.OauthSelf = False,
    oauth_issuer: mcp_http.OauthIssuer = "",
    oauth_audience: mcp_http.OauthAudience = None,
    oauth_scope: mcp_http.OauthScope = None,
    oauth_client: mcp_http.OauthClient = "",
) -> None:
    """Serve your tools to an MCP client, over pipes or HTTP: it looks tools up, and writes one program over them."""
    if context.invoked_subcommand is not None:
        return
    mcp_http.check(context, http)
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
    if http:
        mcp_http.serve(
            gateway,
            mcp_http.HttpOptions(
                host=host,
                port=port,
                token_file=token_file,
                tokens=tokens,
                no_auth=no_auth,
                allow_host=tuple(allow_host or ()),
                allow_origin=tuple(allow_origin or ()),
                tls_cert=tls_cert,
                tls_key=tls_key,
                drain_s=drain_s,
                resource_url=resource_url,
                oauth_self=oauth_self,
                oauth_issuer=oauth_issuer,
                oauth_audience=tuple(oauth_audience or ()),
                oauth_scope=tuple(oauth_scope or ()),
                oauth_client=oauth_client,
            ),
        )
        return
    anyio.run(serve_stdio, gateway)
