"""``atc mcp install`` and ``atc mcp uninstall``: ATC in the configuration of an MCP client, and out of it again."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from atc._host.extras import install_command
from atc._host.invisible import visible
from atc.cli import options
from atc.cli.console import NOT_SOLVED, clean, err, guarded, out, print_json, print_table
from atc.errors import UsageError

if TYPE_CHECKING:  # a server of the same group starts without them
    from atc.cli.clients.clients import Machine
    from atc.cli.clients.plan import Plan

Scope = Annotated[
    Literal["user", "project"],
    typer.Option("--scope", help="Your own configuration, or the one of the project in this folder."),
]
Config = Annotated[Path | None, typer.Option("--config", help="The client's file, if it is not in its usual place.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write it without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change; write nothing.")]


@guarded
def install(
    client: Annotated[str | None, typer.Argument(help="The client: --list names all.")] = None,
    extra: Annotated[
        list[str] | None, typer.Argument(metavar="[-- OPTIONS]", help="More options for `atc mcp`, as they are.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of ATC in the client (default `atc`).")] = None,
    scope: Scope = "user",
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            "-t",
            help="Where the tools are: `atc help sources` lists the forms. May be given several times.",
        ),
    ] = None,
    move_servers: Annotated[
        bool,
        typer.Option(
            "--move-servers", help="Move the client's servers behind ATC: its model then sees only ATC's tools."
        ),
    ] = False,
    config: Config = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the clients, which are here, and which have ATC.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Add ATC to an MCP client's configuration. Shows the change first.

    Everything else in the file keeps its meaning, comments and order: where they cannot be kept, nothing is written,
    and you get the entry to paste. `atc mcp uninstall CLIENT` undoes it.
    """
    from atc.cli.clients.clients import Machine, client_named, clients, own_command, place_of
    from atc.cli.clients.plan import Wanted, plan_install
    from atc.cli.clients.state import alone

    machine = Machine()
    if list_:
        _list(machine, scope, as_json=as_json)
        return
    if client is None:
        raise UsageError(f"name a client: {', '.join(clients())}")
    known = client_named(client)
    wanted = Wanted(own_command(), name, tuple(tools or ()), tuple(extra or ()), move_servers)
    place = place_of(known, machine, scope=scope, config=config)
    with nullcontext() if dry_run else alone(machine.state):
        plan = plan_install(known, place, machine, wanted)
        if find_spec("mcp") is None:
            plan.notes.append(f"{known.title} cannot start it before you run `{install_command('mcp')}`")
        _finish(plan, "install", yes=yes, dry_run=dry_run, as_json=as_json)


@guarded
def uninstall(
    client: Annotated[str, typer.Argument(help="The client: `atc mcp install --list` names all.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of ATC in the client.")] = None,
    scope: Scope = "user",
    config: Config = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Remove ATC from an MCP client's configuration, and put back the servers that moved behind it.

    The file is edited as it is now: what you changed since the installation stays.
    """
    from atc.cli.clients.clients import Machine, client_named, place_of
    from atc.cli.clients.plan import plan_uninstall
    from atc.cli.clients.state import alone

    machine, known = Machine(), client_named(client)
    place = place_of(known, machine, scope=scope, config=config)
    with nullcontext() if dry_run else alone(machine.state):
        plan = plan_uninstall(known, place, machine, name=name)
        _finish(plan, "uninstall", yes=yes, dry_run=dry_run, as_json=as_json)
        if plan.kept:
            raise typer.Exit(NOT_SOLVED)


def _finish(plan: Plan, what: str, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    import asyncio

    from atc.calls import question

    diff = plan.diff()
    if not as_json:
        _show(plan, what, diff)
    written, copy = False, None
    if not dry_run and (plan.changes or plan.record is None):
        if plan.changes and not yes:
            if as_json or not question.has_terminal():
                raise UsageError("no one is available to confirm the change: add --yes, or look at it with --dry-run")
            if not asyncio.run(question.ask(f"write {visible(str(plan.file.target))}?", {})):
                err.print("atc: nothing was written")
                raise typer.Exit(NOT_SOLVED)
        copy = plan.carry_out()
        written = plan.changes
    if as_json:
        print_json(_document(plan, diff, written=written, copy=copy))
    elif written:
        kept = f"; the file as it was: {copy}" if copy else ""
        out.print(clean(f"written{kept}"), markup=False)
        out.print(f"restart {plan.client.title}. {plan.client.notes}".rstrip(), markup=False)
    elif dry_run and plan.changes:
        out.print("a dry run: nothing was written", markup=False)


def _show(plan: Plan, what: str, diff: str) -> None:
    from rich.text import Text

    if not diff:
        there = "already has it" if what == "install" else "does not have ATC"
        out.print(clean(f"{plan.client.title} {there}: {plan.place.path}"), markup=False)
    for line in diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(Text(clean(line), style=style))
    if plan.moved:
        where = f"behind ATC, to {plan.state.servers_path}" if what == "install" else "back"
        out.print(clean(f"moves {where}: {', '.join(plan.moved)}"), markup=False)
    for name, why in plan.kept.items():
        out.print(clean(f"stays: {name!r}: {why}"), markup=False)
    for note in plan.notes:
        out.print(clean(f"note: {note}"), markup=False)


def _document(plan: Plan, diff: str, *, written: bool, copy: Path | None) -> dict[str, Any]:
    return {
        "client": plan.client.id,
        "path": str(plan.place.path),
        "name": plan.name,
        "changes": plan.changes,
        "written": written,
        "diff": diff,
        "moved": plan.moved,
        "stay": plan.kept,
        "notes": plan.notes,
        "servers": str(plan.state.servers_path) if plan.servers else None,
        "copy": str(copy) if copy else None,
        "restart": plan.client.title if written else None,
    }


def _list(machine: Machine, scope: Literal["user", "project"], *, as_json: bool) -> None:
    from rich.table import Table

    from atc.cli.clients.clients import clients
    from atc.cli.clients.plan import look

    has = [each for each in clients().values() if (each.user if scope == "user" else each.project)]
    rows = [look(each, machine, scope) for each in has]
    if as_json:
        print_json(rows)
        return
    table = Table("client", "name", "here", "ATC", "behind", "file", box=None, header_style="bold")
    for row in rows:
        state = "cannot be read" if row["problem"] else row["entry"] or "-"
        here, behind = "yes" if row["here"] else "-", str(row["behind"] or "-")
        table.add_row(row["client"], row["title"], here, clean(state), behind, clean(row["path"]))
    print_table(table)
