"""``atc tools``: look at tools before an agent uses them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import typer
from rich.table import Table
from rich.text import Text

from atc.cli import CommandTable, LazyGroup, options
from atc.cli.console import clean, err, guarded, print_json, print_table, short
from atc.schemas.protocol import parameters_of
from atc.tools.kept_tools import is_unbound, where_they_are
from atc.tools.tool import Tool, Toolset
from atc.wording.sketches import known_tool


class Tools(LazyGroup):
    """The commands below, and those that need the graph or an index of tools, by name."""

    table: ClassVar[CommandTable] = {
        "search": ("find:search", "Find the tools for a task, the likeliest first."),
        "call": ("call:call", "Call a tool without a model: a program that you kept, or any tool of --tools."),
        "stub": ("stub:stub", "Print the Python stubs of tools, exactly as a model reads them."),
        "index": ("find:index", "Index tools, so that the right ones are found among thousands."),
        "learn": ("learn:app", "Train something on your tools or runs."),
        "serve-demo": ("atlas:serve", "Serve the bundled tools over HTTP, to try an OpenAPI service."),
    }


app = typer.Typer(
    cls=Tools, help="List, show, find and call tools, and print the stub that a model is shown.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="The tool's name.")]


@app.command("list")
@guarded
def list_tools(
    tools: options.Tools = None,
    only: options.Only = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """List tools: name, effect, arguments, what each does."""
    opened = options.opened(options.named_tools(tools), only=only, openapi=openapi, look=True)
    for told in options.notes_on(opened):
        err.print(Text(clean(f"note: {told}"), style="yellow"))
    note_unbound(opened)
    if as_json:
        print_json([_data(tool) for tool in opened.values()])
        return
    table = Table("tool", "effect", "arguments", "what it does", box=None, header_style="bold")
    for tool in opened.values():
        protocol = tool.protocol
        arguments = ", ".join(p.name + ("" if p.required else "?") for p in parameters_of(protocol))
        effect = "needs its tools (kept)" if is_unbound(tool) else options.effect_text(protocol)
        table.add_row(protocol.name, effect, Text(arguments), Text(short(protocol.description, 100)))
    print_table(table)


@app.command()
@guarded
def show(name: Name, tools: options.Tools = None, openapi: options.OpenApi = None) -> None:
    """Print one tool's definition as a JSON document."""
    tool = known(options.opened(options.named_tools(tools), openapi=openapi, look=True), name)[name]
    if base := getattr(getattr(tool.transport, "operation", None), "server", None):
        told = f"note: its path is below {base} (--openapi service_url=URL takes the place of all of it)"
        err.print(Text(clean(told), style="dim"))
    print_json(_data(tool))


def note_unbound(tools: Toolset) -> None:
    """Say of which kept programs the effect is not known, and what to write so that it is."""
    unbound = [tool for tool in tools.values() if is_unbound(tool)]
    if uses := [used for tool in unbound for used in (tool.kept.uses if tool.kept is not None else ())]:
        names = ", ".join(tool.protocol.name for tool in unbound[:5]) + (" …" if len(unbound) > 5 else "")
        told = f"note: the effect of {names} is not known without the tools that it calls: {where_they_are(uses)}"
        err.print(Text(clean(told), style="yellow"))


def _data(tool: Tool) -> dict[str, Any]:
    made = tool.protocol.model_dump(mode="json")
    if tool.kept is None:
        return made
    calls = [used.name for used in tool.kept.uses]
    file = tool.protocol.source.location
    return made | {"kept": {"file": file, "run": tool.kept.run, "calls": calls, "program": tool.kept.program}}


def known(tools: Toolset, name: str) -> Toolset:
    """Return the tools.

    Raises:
        UsageError: none has this name.
    """
    known_tool(name, {each: tool.protocol for each, tool in tools.items()})
    return tools
