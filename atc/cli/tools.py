"""``atc tools``: look at tools before an agent uses them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli import browse, find, options
from atc.cli.console import clean, err, guarded, out, print_json, print_table, short
from atc.models.base import bounded_tokens
from atc.schemas.protocol import parameters_of
from atc.tools.kept_tools import is_unbound, where_they_are
from atc.tools.short_stubs import WHOLE
from atc.tools.stub_budget import SEPARATOR, Fit, Fitter
from atc.tools.stubs import render_stub
from atc.tools.tool import Tool, Toolset
from atc.wording.sketches import known_tool

app = typer.Typer(help="List, show and find tools, and print the stub that a model is shown.", no_args_is_help=True)
app.command("search")(find.search)
app.command("index")(find.index)
app.command("browse")(browse.browse)
Source = Annotated[str, typer.Argument(help="Where the tools are; as for `atc run --tools`.")]
Sources = Annotated[list[str], typer.Argument(help="Where the tools are, one or several; as for `atc run --tools`.")]
Beside = Annotated[
    list[str] | None,
    typer.Option("--tools", "-t", help="Where the tools are that kept programs call. May be given several times."),
]
Name = Annotated[str, typer.Argument(help="The tool's name.")]


@app.command("list")
@guarded
def list_tools(
    sources: Sources,
    only: options.Only = None,
    beside: Beside = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """List the tools of one or several sources: name, effect, arguments, what it does."""
    tools = options.opened([*(beside or ()), *sources], only=only, openapi=openapi, look=True)
    for told in options.notes_on(tools):
        err.print(Text(clean(f"note: {told}"), style="yellow"))
    _note_unbound(tools)
    if as_json:
        print_json([_data(tool) for tool in tools.values()])
        return
    table = Table("tool", "effect", "arguments", "what it does", box=None, header_style="bold")
    for tool in tools.values():
        protocol = tool.protocol
        arguments = ", ".join(p.name + ("" if p.required else "?") for p in parameters_of(protocol))
        effect = "needs its tools (kept)" if is_unbound(tool) else options.effect_text(protocol)
        table.add_row(protocol.name, effect, Text(arguments), Text(short(protocol.description, 100)))
    print_table(table)


@app.command()
@guarded
def show(source: Source, name: Name, openapi: options.OpenApi = None) -> None:
    """Print one tool's protocol as a JSON document."""
    tool = _one(options.opened([source], openapi=openapi, look=True), name)[name]
    if base := getattr(getattr(tool.transport, "operation", None), "server", None):
        told = f"note: its path is below {base} (--openapi service_url=URL takes the place of all of it)"
        err.print(Text(clean(told), style="dim"))
    print_json(_data(tool))


@app.command()
@guarded
def stub(
    source: Source,
    names: Annotated[list[str] | None, typer.Argument(help="The tools' names; default: all tools.")] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=1, help="Most tokens (characters / 3) of the stubs; the rest is cut."),
    ] = None,
    task: Annotated[str, typer.Option("--task", help="With --budget: a task, whose words say what is kept.")] = "",
    beside: Beside = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Print the Python stubs of tools, exactly as a model reads them."""
    tools = options.opened([*(beside or ()), source], openapi=openapi, look=True)
    for name in names or ():
        _one(tools, name)
    _note_unbound(tools.only(*dict.fromkeys(names)) if names else tools)
    if budget is not None:
        chosen = (tools.only(*dict.fromkeys(names)) if names else tools).protocols
        fitter = Fitter(chosen, ToolGraph(chosen).suppliers, task, pages=True, plain=True)
        shown = asyncio.run(fitter.fit(budget, _bound))
    else:
        hints = ToolGraph(tools.protocols).hints
        protocols = (tools.only(*dict.fromkeys(names)) if names else tools).protocols
        stubs = [render_stub(protocol, hints.get(protocol.name), pages=True, plain=True) for protocol in protocols]
        grades = {protocol.name: WHOLE.name for protocol in protocols}
        shown = Fit(SEPARATOR.join(stubs), grades, tokens=bounded_tokens(SEPARATOR.join(stubs)))
    if as_json:
        print_json(
            {"text": shown.text, "tokens": shown.tokens, "grades": shown.grades, "left_out": list(shown.left_out)}
        )
        return
    out.print(Text(clean(shown.text)), end="\n\n")
    if budget is not None:
        for name, grade in [*shown.grades.items(), *((name, "left out") for name in shown.left_out)]:
            err.print(f"{clean(name)}: {grade}", markup=False, highlight=False)


def _note_unbound(tools: Toolset) -> None:
    """Say of which kept programs the effect is not known, and what to write so that it is."""
    unbound = [tool for tool in tools.values() if is_unbound(tool)]
    if uses := [used for tool in unbound for used in (tool.kept.uses if tool.kept is not None else ())]:
        names = ", ".join(tool.protocol.name for tool in unbound[:5]) + (" …" if len(unbound) > 5 else "")
        told = f"note: the effect of {names} is not known without the tools that it calls: {where_they_are(uses)}"
        err.print(Text(clean(told), style="yellow"))


def _data(tool: Tool) -> dict[str, Any]:
    """A tool's protocol as JSON; with a kept program's file, run, program, and what it calls."""
    made = tool.protocol.model_dump(mode="json")
    if tool.kept is None:
        return made
    calls = [used.name for used in tool.kept.uses]
    file = tool.protocol.source.location
    return made | {"kept": {"file": file, "run": tool.kept.run, "calls": calls, "program": tool.kept.program}}


async def _bound(text: str) -> int:
    return bounded_tokens(text)


def _one(tools: Toolset, name: str) -> Toolset:
    known_tool(name, {each: tool.protocol for each, tool in tools.items()})
    return tools
