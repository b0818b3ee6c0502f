"""``atc mcp login`` and ``atc mcp logout``: logins at MCP servers that want one."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from typing import Annotated

import typer

from atc.cli import options
from atc.cli.console import clean, guarded
from atc.errors import EnvironmentProblem, UsageError
from atc.tools.mcp.spec import ServerSpec, read_specs

Server = Annotated[str, typer.Argument(help="The server's address, or its name in a file of --tools.")]
Tools = Annotated[list[str] | None, options.Tools.__metadata__[0]]


@guarded
def login(
    server: Server,
    tools: Tools = None,
    browser: Annotated[bool, typer.Option(help="Open the browser; else the address is only shown.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that it may take.")] = 300.0,
) -> None:
    """Log in at an MCP server that wants it (OAuth). The token is kept in a file that you alone can read."""
    from atc.tools.mcp.importer import need_sdk

    spec = spec_of(server, tools or [])
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
    kept = "it is renewed by itself" if made.renewable else "log in again when it has ended"
    typer.echo(clean(f"You are logged in at {spec.location}; {kept}."))


@guarded
def logout(server: Server, tools: Tools = None) -> None:
    """Delete what is kept of a login. The authorization server is not told: its own page ends the grant."""
    from atc.tools.mcp.logins import Logins

    spec = spec_of(server, tools or [])
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
        typer.echo(clean(f"{question} (nobody can be asked: the answer is no)"), err=True)
        return False
    return typer.confirm(clean(question), default=False)
