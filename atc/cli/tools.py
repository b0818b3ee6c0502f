"""``atc tools``: look at tools before an agent uses them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from atc.cli import find, options
from atc.cli.console import clean, guarded, out, print_json, print_table, short
from atc.errors import UsageError
from atc.tools.links import hints_for
from atc.tools.parameters import parameters_of
from atc.tools.stubs import render_stub
from atc.tools.tool import Toolset

app = typer.Typer(help="List, show and find tools, and print the stub that a model is shown.", no_args_is_help=True)
app.command("search")(find.search)
app.command("index")(find.index)
Source = Annotated[str, typer.Argument(help="Where the tools are; as for `atc run --tools`.")]
Name = Annotated[str, typer.Argument(help="The tool's name.")]


@app.command("list")
@guarded
def list_tools(
    source: Source, only: options.Only = None, openapi: options.OpenApi = None, as_json: options.Json = False
) -> None:
    """List the tools of a source: name, effect, arguments, what it does."""
    tools = options.opened([source], only=only, openapi=openapi)
    if as_json:
        print_json([protocol.model_dump(mode="json") for protocol in tools.protocols])
        return
    table = Table("tool", "effect", "arguments", "what it does", box=None, header_style="bold")
    for protocol in tools.protocols:
        arguments = ", ".join(p.name + ("" if p.required else "?") for p in parameters_of(protocol))
        table.add_row(protocol.name, protocol.effect.value, Text(arguments), Text(short(protocol.description, 100)))
    print_table(table)


@app.command()
@guarded
def show(source: Source, name: Name, openapi: options.OpenApi = None) -> None:
    """Print one tool's protocol as a JSON document."""
    print_json(_one(options.opened([source], openapi=openapi), name).only(name).protocols[0].model_dump(mode="json"))


@app.command()
@guarded
def stub(
    source: Source,
    name: Annotated[str | None, typer.Argument(help="The tool's name; all tools without it.")] = None,
    openapi: options.OpenApi = None,
) -> None:
    """Print the typed Python stub of a tool, exactly as a model reads it."""
    tools = options.opened([source], openapi=openapi)
    hints = hints_for(tools.protocols)
    for protocol in (_one(tools, name).only(name) if name else tools).protocols:
        out.print(Text(clean(render_stub(protocol, hints.get(protocol.name), pages=True))), "\n")


def _one(tools: Toolset, name: str) -> Toolset:
    if name not in tools:
        raise UsageError(f"there is no tool {name!r}; the tools are {', '.join(list(tools)[:40])}")
    return tools
