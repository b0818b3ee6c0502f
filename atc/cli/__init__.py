"""The command line: its root, which imports a command's module when that command runs, and not to list it."""

from __future__ import annotations

import atexit
import gc
import io
import sys
from functools import cache
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

import atc

CommandTable = dict[str, tuple[str, str]]

COMMANDS: CommandTable = {
    "run": (
        "run:run",
        "Solve a task: write a program that calls the tools, run it in the sandbox, revise it if it fails.",
    ),
    "chat": ("run:chat", "Solve a series of tasks, each of which may refer to earlier ones."),
    "batch": (
        "batch:batch",
        "Solve the tasks of a file, several at a time, and write a line for each that has ended.",
    ),
    "resume": ("runs:resume", "Continue a run that was cut off, waited for your approval, or asks you something."),
    "tools": ("tools:app", "List, show, find and call tools, and print the stub that a model is shown."),
    "probe": ("probe:probe", "Call tools until they are documented: arguments, response fields, an example each."),
    "graph": ("graph:app", "Show which tool's response gives another tool's argument, and why; correct it."),
    "mcp": ("mcp:app", "Serve your tools to an MCP client: its own model writes programs that call them."),
    "runs": ("runs:app", "List runs, read one back, approve what waits, search, delete."),
    "ui": ("ui:ui", "Open a page of your runs: see them live, approve writes, begin and resume tasks."),
    "permissions": (
        "permissions:app",
        "Show which calls are made without approval, which need it, which are denied, and who approved what.",
    ),
    "trust": ("trust:trust", "Let the atc.toml of a folder decide where keys, data and programs go."),
    "model": ("model:app", "Get a language model, serve it, and see which one is used."),
    "sandbox": ("sandbox:app", "Check that a sandbox keeps its promises, or serve one to agents elsewhere."),
    "doctor": (
        "doctor:doctor",
        "Look at model, sandbox, Docker, store of runs and extras; name what is missing.",
    ),
    "help": ("help:explain", "Explain what options take: sources, strategies, exit-codes, rules."),
}
"""Name → module and attribute in :mod:`atc.cli` (a command, or a Typer of several).

The line is the one in ``atc --help``: the beginning of the command's own help."""

PANELS = {
    "Solve": ("run", "chat", "batch", "resume"),
    "Tools": ("tools", "probe", "graph"),
    "MCP clients": ("mcp",),
    "Runs": ("runs", "ui"),
    "Safety": ("permissions", "trust"),
    "This machine": ("model", "sandbox", "doctor"),
}
"""The panels of ``atc --help``. A command in none of them is not listed."""

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser raises; Typer does not export it, and its module differs from version to version."""


OBJECTS_A_SEARCH = 50_000
"""New objects after which garbage is searched for. Python's own number is 700, and a start makes half a million."""


class LazyGroup(TyperGroup):
    """A group whose commands of a table are imported when they run, and not to list them."""

    table: ClassVar[CommandTable] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: self._listed(name, line) for name, (_, line) in self.table.items()})

    def _listed(self, name: str, line: str) -> TyperCommand:
        return TyperCommand(name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command to run, imported. What only lists commands has enough of a name and a line."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _imported(name, self.table[name][0]) if name in self.table else command, rest


class Root(LazyGroup):
    """The commands of :data:`COMMANDS`."""

    table = COMMANDS

    def _listed(self, name: str, line: str) -> TyperCommand:
        panel = next((panel for panel, names in PANELS.items() if name in names), None)
        return TyperCommand(name, help=line, hidden=panel is None, rich_help_panel=panel)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[__name__] = "--json" in args
        if not args and not ctx.resilient_parsing and sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
            atc._imported("atc.cli.start").show_next_steps()
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for each in params:
            each.metavar = ""  # all of them are switches
        return params

    def invoke(self, ctx: Any) -> Any:
        """Run a command. With ``--json``, what the parser refuses is a JSON document on stdout, too."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            if ctx.meta[__name__]:
                from atc.cli.console import print_error

                where = getattr(error, "ctx", None) or ctx
                print_error("UsageError", error.format_message(), f"see `{where.command_path} --help`")  # type: ignore[attr-defined]
            raise


def loaded(name: str) -> Any:
    """A command of :data:`COMMANDS`, with its parameters or its own commands."""
    return _imported(name, COMMANDS[name][0])


@cache
def _imported(name: str, place: str) -> Any:
    """The command that stands at a place, such as ``run:run``. A process builds it once."""
    module, _, attribute = place.partition(":")
    return command_of(name, getattr(atc._imported(f"atc.cli.{module}"), attribute))


def commands_of(group: Any) -> dict[str, Any]:
    """The commands of a group by name, each imported; none of what is no group."""
    table = getattr(group, "table", {})
    return {
        name: _imported(name, table[name][0]) if name in table else command
        for name, command in getattr(group, "commands", {}).items()
    }


def command_of(name: str, found: Any, **attributes: Any) -> Any:
    """The command that a function or a Typer of several is, under a name.

    Args:
        name: as the user types it.
        found: the function or the Typer.
        attributes: of the command, if it is a function.
    """
    holder = typer.Typer(add_completion=False)
    holder.callback()(lambda: None)  # a group, also with one command
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name, **attributes)(found)
    made = typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]
    atc._imported("atc.cli.forms").unify(made)
    return made


app = typer.Typer(
    cls=Root,
    name="atc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`atc help sources`, `atc help strategies` and `atc help exit-codes` explain what the commands take.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"atc {atc.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A language model writes one program that calls your tools. A sandbox runs it. If it fails, it is revised."""


def main() -> None:
    """Entry point of the ``atc`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a letter gets a question mark for it
    # a command imports and ends: what it made stays until then, and most searches for garbage find nothing
    gc.set_threshold(OBJECTS_A_SEARCH)
    atexit.register(gc.freeze)  # not at the end either, when all of it goes
    app()
