"""``atc mcp``: one MCP server in front of all tools."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from atc.cli import mcp_http, mcp_login, options
from atc.cli.console import INTERRUPTED, guarded
from atc.cli.leaving import leaving
from atc.cli.mcp_check import check as check_server
from atc.cli.mcp_check import told
from atc.cli.mcp_install import install, uninstall
from atc.errors import EnvironmentProblem, UsageError
from atc.extras import install_command
from atc.settings import Settings

if TYPE_CHECKING:
    from atc.faces.mcp_server.gateway import Gateway

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

app = typer.Typer(help="Serve your tools to an MCP client: its own model writes programs that call them.")

With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        help="Offer this, too: run_task (ATC's own model solves a task), resume (go on with a run that was cut off), "
        "probe (call a tool to see what it answers). May be given several times.",
    ),
]
StubTokens = Annotated[
    int,
    typer.Option(
        min=0,
        help="Most tokens of all tools in the description of run_program; with more, a client searches for tools.",
    ),
]
ValueCharacters = Annotated[
    int, typer.Option(min=200, help="Characters of an answer's JSON above which a client gets a preview and a link.")
]
Check = Annotated[bool, typer.Option("--check", help="Show what a client would see, with tokens, and end.")]
AsJson = Annotated[bool, typer.Option("--json", help="With --check: print one JSON document instead.")]


@app.callback(invoke_without_command=True)
@guarded
@options.takes("read_only")
def mcp(
    context: typer.Context,
    given: options.Given,
    source: options.Source = options.NOWHERE,
    enrich: Enrich = False,
    extras: With = None,
    stub_tokens: StubTokens = 450,
    value_characters: ValueCharacters = 8_000,
    probe_reads: ProbeReads = False,
    check: Check = False,
    as_json: AsJson = False,
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
    """Serve your tools to an MCP client, over pipes or HTTP: it looks tools up, and writes one program over them.

    Over pipes a client starts this command itself. Try it by hand with --check.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json and not check:
        raise UsageError("--json belongs to --check: a server's standard output is its client's")
    if http and (enrich or probe_reads):
        raise UsageError("--enrich and --probe-reads serve over pipes: leave --http out")
    if enrich and (check or extras):
        raise UsageError("--enrich serves the tools alone: --check and --with are for the server that runs programs")
    mcp_http.check(context, http)
    try:
        import mcp as _  # noqa: F401
    except ImportError:
        raise EnvironmentProblem(f"the package `mcp` is not installed: {install_command('mcp')}") from None
    from atc.faces.mcp_server.extras import EXTRAS
    from atc.faces.mcp_server.gateway import Gateway
    from atc.faces.mcp_server.options import Options
    from atc.faces.mcp_server.pipes import taken

    if unknown := [name for name in extras or () if name not in EXTRAS]:
        raise UsageError(f"--with does not know {unknown[0]!r}: there are {', '.join(EXTRAS)}")
    if not source.tools:
        raise UsageError("no tools are given: name where they are with --tools, such as --tools servers.json")
    # Before the tools are loaded: a module of tools may print.
    outgoing = 1 if check or http else context.with_resource(taken(1))
    settings = Settings.load(**given)
    live = options.opened_live(source, settings)
    served = Options(stub_tokens, value_characters, tuple(dict.fromkeys(extras or ())))
    gateway = Gateway(live.tools, settings, live=live, options=served)
    if check:
        check_server(gateway, as_json=as_json)
        return
    told(gateway.notices)
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
    _serve_over_pipes(gateway, outgoing, enrich=enrich, probe_reads=probe_reads)


def _serve_over_pipes(gateway: Gateway, outgoing: int, *, enrich: bool, probe_reads: bool) -> None:
    from atc.faces.mcp_server.stdio import serve_stdio

    face = None
    if enrich:
        from atc.faces.mcp_server.enrich import EnrichedFace

        face = EnrichedFace(gateway)
    serve: partial[Any] = partial(serve_stdio, gateway, face, outgoing=outgoing)
    if probe_reads:
        from atc.faces.mcp_server.probing import beside

        serve = partial(beside, gateway, serve)
    with leaving(INTERRUPTED):
        anyio.run(serve)


app.command("login")(mcp_login.login)
app.command("logout")(mcp_login.logout)
app.command("install")(install)
app.command("uninstall")(uninstall)
