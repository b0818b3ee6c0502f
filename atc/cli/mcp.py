"""``atc mcp``: one MCP server in front of all tools; what a client would see of it; logins at other servers."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import anyio
import typer

from atc._host.extras import install_command
from atc.cli import CommandTable, LazyGroup, mcp_http, options
from atc.cli.console import ENVIRONMENT, INTERRUPTED, clean, err, guarded, leaving, out, print_json
from atc.cli.options import notes_on
from atc.errors import EnvironmentProblem, UsageError
from atc.settings import Settings
from atc.tools.mcp.spec import ServerSpec, read_specs

if TYPE_CHECKING:
    from atc.serve.mcp.gateway import Gateway
    from atc.serve.mcp.server import Footprint


ProbeReads = Annotated[
    bool,
    typer.Option(
        "--probe-reads",
        help="At the start, call each tool once that only reads, if its response is not known and its arguments are.",
    ),
]


class Mcp(LazyGroup):
    """The commands below; and those that write a client's configuration, by name."""

    table: ClassVar[CommandTable] = {
        "install": (
            "mcp_install:install",
            "Add ATC to an MCP client's configuration. Shows the change first.",
        ),
        "uninstall": (
            "mcp_install:uninstall",
            "Remove ATC from an MCP client's configuration, and put back the servers that moved behind it.",
        ),
    }


app = typer.Typer(cls=Mcp, help="Serve your tools to an MCP client: its own model writes programs that call them.")

With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        help="Offer this, too: run_task (ATC's own model solves a task), resume (continue a run), probe (call a tool "
        "to see its response), keep (a run becomes a tool, if you agree). May be given several times.",
    ),
]
Direct = Annotated[
    list[str] | None,
    typer.Option(
        "--direct",
        metavar="NAME",
        help="List this tool itself besides run_program, for single calls; `auto` chooses small reads that runs called "
        "by themselves. May be given several times.",
    ),
]
DirectTokens = Annotated[
    int,
    typer.Option("--direct-tokens", min=0, help="Most tokens of the definitions of the tools that `auto` chooses."),
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
AsJson = Annotated[bool, typer.Option("--json", help="With --check: print JSON.")]


@app.callback(invoke_without_command=True)
@guarded
@options.takes(
    "read_only",
    settable=("drain_s", "stub_tokens", "value_characters", "oauth_audience", "oauth_scope", "oauth_client"),
)
def mcp(
    context: typer.Context,
    given: options.Given,
    source: options.Source = options.NOWHERE,
    extras: With = None,
    direct: Direct = None,
    direct_tokens: DirectTokens = 600,
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

    Over pipes a client starts this command itself. Try it by hand with --check: it exits with 3 if a server cannot be
    used.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json and not check:
        raise UsageError("--json belongs to --check: a server's standard output is its client's")
    if http and probe_reads:
        raise UsageError("--probe-reads is for a server over pipes: leave --http out")
    if http and "keep" in (extras or ()):
        raise UsageError("--with keep is for your own clients, over pipes: leave --http out, or use `atc runs keep`")
    mcp_http.check(context, http)
    try:
        import mcp as _  # noqa: F401
    except ImportError:
        raise EnvironmentProblem(f"the package `mcp` is not installed: {install_command('mcp')}") from None
    from atc.serve.mcp.gateway import Gateway, Options
    from atc.serve.mcp.own_tools import EXTRAS, OWN_NAMES
    from atc.serve.mcp.stdio import taken

    if unknown := [name for name in extras or () if name not in EXTRAS]:
        raise UsageError(f"--with does not know {unknown[0]!r}: there are {', '.join(EXTRAS)}")
    if clash := [name for name in direct or () if name in OWN_NAMES]:
        raise UsageError(f"--direct {clash[0]}: the server has a tool of its own of this name; leave it out")
    source = replace(source, tools=options.named_tools(source.tools))
    # Before the tools are loaded: a module of tools may print.
    outgoing = 1 if check or http else context.with_resource(taken(1))
    settings = Settings.load(**given)
    live = options.opened_live(source, settings)
    served = Options(
        stub_tokens, value_characters, tuple(dict.fromkeys(extras or ())), tuple(direct or ()), direct_tokens
    )
    gateway = Gateway(live.tools, settings, live=live, options=served)
    if check:
        _print_footprint(gateway, as_json=as_json)
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
    _serve_over_pipes(gateway, outgoing, probe_reads=probe_reads)


def _serve_over_pipes(gateway: Gateway, outgoing: int, *, probe_reads: bool) -> None:
    from atc.serve.mcp.stdio import serve_stdio

    serve: partial[Any] = partial(serve_stdio, gateway, outgoing=outgoing)
    if probe_reads:
        from atc.serve.mcp.probing import beside

        serve = partial(beside, gateway, serve)
    with leaving(INTERRUPTED):
        anyio.run(serve)


def _print_footprint(gateway: Gateway, *, as_json: bool) -> None:
    found, down = anyio.run(_footprint, gateway)
    _print_found(found, gateway, as_json=as_json)
    told(down)
    if down:
        raise typer.Exit(ENVIRONMENT)


def _print_found(found: Footprint, gateway: Gateway, *, as_json: bool) -> None:
    found = replace(found, notices=(*found.notices, *notes_on(gateway.tools)))
    if as_json:
        print_json(asdict(found) | {"tokens": found.tokens})
        return
    one = found.behind == 1
    lines = [f"{found.behind:,} {'tool' if one else 'tools'} behind {len(found.offered)} that a client sees:"]
    if found.sources:
        lines.insert(0, f"tools of {', '.join(f'{each.name} ({each.tools:,})' for each in found.sources)}")
    for each in found.offered:
        lines += ["", f"{each.name}, at most {each.tokens:,} tokens with its schemas", each.description]
    lines += ["", f"instructions: {found.instructions}", ""]
    lines.append(
        f"At most {found.tokens:,} tokens in a client's context; "
        f"{'the tool by itself' if one else f'the {found.behind:,} tools by themselves'}: "
        f"{found.plain_tokens:,}, {'its output schema' if one else 'their output schemas'} not counted"
    )
    out.print(clean("\n".join(lines)), markup=False)
    told(found.notices)


def told(notices: list[str] | tuple[str, ...]) -> None:
    """Print lines for whoever runs the server: on stderr, for a server's standard output is its client's."""
    for notice in notices:
        err.print(f"atc mcp: {clean(notice)}", markup=False)


async def _footprint(gateway: Gateway) -> tuple[Footprint, list[str]]:
    from atc.serve.mcp.server import footprint

    down: list[str] = []
    try:
        await gateway.prepare()
        if gateway.live is not None:
            await gateway.live.settled(WAIT_S)
            gateway.change_tools(gateway.live.tools)  # nothing is kept of servers that were never listed
            down = [*gateway.live.down.values()]
        return await footprint(gateway), down
    finally:
        await gateway.aclose()


WAIT_S = 30.0
"""Seconds that servers get to list their tools."""


Server = Annotated[str, typer.Argument(help="The server's address, or its name in a file of --tools.")]


@guarded
def login(
    server: Server,
    tools: options.Tools = None,
    browser: Annotated[bool, typer.Option(help="Open the browser; else the address is only shown.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that it may take.")] = 300.0,
) -> None:
    """Log in at an MCP server that requires it (OAuth). It keeps the token in a file that only you can read."""
    from atc.tools.mcp.importer import need_sdk

    spec = spec_of(server, tools or options.default_tools())
    need_sdk()
    from atc.tools.mcp.login import LoginFailed, Talk, log_in
    from atc.tools.mcp.logins import Logins

    talk = Talk(lambda line: typer.echo(clean(line)), _agree, webbrowser.open if browser else None)
    try:
        made = asyncio.run(log_in(spec, talk, timeout_s=timeout))
    except LoginFailed as error:
        raise UsageError(f"{spec.location}: {error}") from None
    if made is None:
        typer.echo(clean(f"{spec.location} wants no login."))
        return
    try:
        Logins.of_user().write(made)
    except OSError as error:
        raise EnvironmentProblem(f"the login cannot be kept: {error.strerror or type(error).__name__}") from None
    by_itself = spec.oauth is not None and spec.oauth.by_itself
    kept = "it is renewed by itself" if made.renewable or by_itself else "log in again when it has ended"
    typer.echo(clean(f"You are logged in at {spec.location}; {kept}."))


@guarded
def logout(server: Server, tools: options.Tools = None) -> None:
    """Delete the login that is kept here. To end the grant itself, use a page of the authorization server."""
    from atc.tools.mcp.importer import need_sdk

    spec = spec_of(server, tools or options.default_tools())
    need_sdk()
    from atc.tools.mcp.logins import Logins

    gone = Logins.of_user().forget(spec.url)
    typer.echo(clean(f"The login at {spec.location} is deleted." if gone else f"No login at {spec.location} is kept."))


def spec_of(server: str, tools: list[str]) -> ServerSpec:
    """The server that a word names.

    Raises:
        UsageError: there is none, or it is a program.
    """
    from atc.tools.mcp.importer import labels_of
    from atc.tools.sources import mcp_source

    sources = [source for word in tools if (source := mcp_source(word)) is not None]
    specs = [spec for source in sources for spec in read_specs(source)]
    found = {label: spec for label, spec in zip(labels_of(specs), specs, strict=True) if spec.url}
    by_address = {spec.url: spec for spec in found.values()}
    word = server.removeprefix("mcp:")
    if (known := found.get(server) or by_address.get(word)) is not None:
        return known
    if word.startswith(("http://", "https://")):
        return read_specs(word)[0]
    named = f"those of --tools with an address are {', '.join(found)}" if found else "name its file with --tools"
    raise UsageError(f"no MCP server with an address is called {server[:80]!r}: give its address; {named}")


def _agree(question: str) -> bool:
    if not sys.stdin.isatty():
        typer.echo(clean(f"{question} (no one is available to answer: the answer is no)"), err=True)
        return False
    return typer.confirm(clean(question), default=False)


app.command("login")(login)
app.command("logout")(logout)
