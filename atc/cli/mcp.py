"""``atc mcp``: one MCP server in front of all tools."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from atc.cli import options
from atc.cli.console import clean, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.settings import Settings

if TYPE_CHECKING:
    from atc.faces.mcp_server.checking import Footprint
    from atc.faces.mcp_server.gateway import Gateway

EXTRAS = ("run_task", "resume")
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
    extras: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="|".join(EXTRAS),
            help="Offer this, too: run_task (ATC's own model solves a task), resume (go on with a run that was cut "
            "off). May be given several times.",
        ),
    ] = None,
    stub_tokens: Annotated[
        int,
        typer.Option(
            min=0,
            help="Tokens that all tools may take in the description of run_program; more tools are searched.",
        ),
    ] = 600,
    value_characters: Annotated[
        int,
        typer.Option(min=200, help="Characters of an answer's JSON above which a client gets a preview and a link."),
    ] = 8_000,
    check: Annotated[bool, typer.Option("--check", help="Show what a client would see, with tokens, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print one JSON document instead.")] = False,
) -> None:
    """Serve your tools to an MCP client over pipes: it looks tools up, and writes one program over them.

    A client starts this command itself. Try it by hand with --check.
    """
    if context.invoked_subcommand is not None:
        return
    if as_json and not check:
        raise UsageError("--json belongs to --check: a server's standard output is the client's")
    try:
        import mcp as _  # noqa: F401
    except ImportError:
        raise EnvironmentProblem("the package `mcp` is not installed: pip install 'atc-runtime[mcp]'") from None
    from atc.faces.mcp_server.gateway import Gateway, Options
    from atc.faces.mcp_server.stdio import serve_stdio

    if unknown := [name for name in extras or () if name not in EXTRAS]:
        raise UsageError(f"--with does not know {unknown[0]!r}: there are {', '.join(EXTRAS)}")
    if not tools:
        raise UsageError("no tools are given: name where they are with --tools, such as --tools servers.json")
    opened = options.opened(tools, only=only, service_url=service_url, auth=auth, documents=documents, openapi=openapi)
    served = Options(stub_tokens, value_characters, tuple(dict.fromkeys(extras or ())))
    gateway = Gateway(opened, Settings.load(), options=served)
    if check:
        _show(anyio.run(_footprint, gateway), as_json=as_json)
        return
    for notice in gateway.notices:
        err.print(f"atc mcp: {clean(notice)}", markup=False)
    anyio.run(serve_stdio, gateway)


async def _footprint(gateway: Gateway) -> Footprint:
    from atc.faces.mcp_server.checking import footprint

    try:
        return await footprint(gateway)
    finally:
        await gateway.aclose()


def _show(found: Footprint, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found) | {"tokens": found.tokens})
        return
    out.print(f"{found.behind:,} tools behind {len(found.offered)} that a client sees:", markup=False)
    for each in found.offered:
        out.print(f"\n{each.name}, about {each.tokens:,} tokens with its schemas", markup=False)
        out.print(clean(each.description), markup=False)
    out.print(f"\ninstructions: {found.instructions}", markup=False)
    out.print(
        f"\nabout {found.tokens:,} tokens in a client's context; the {found.behind:,} tools by themselves would take "
        f"about {found.plain_tokens:,}",
        markup=False,
    )
    for notice in found.notices:
        err.print(f"atc mcp: {clean(notice)}", markup=False)
