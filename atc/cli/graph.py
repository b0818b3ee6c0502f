"""``atc graph``: look at what the tools feed each other and what runs taught, draw it, and correct it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from atc.cli import options
from atc.cli.console import NOT_SOLVED, SOLVED, clean, err, guarded, out, print_json
from atc.cli.files import Force, writable, write
from atc.errors import UsageError
from atc.graph.edge_text import known_tool, place_text, read_feed, read_parameter
from atc.graph.tool_graph import ToolGraph
from atc.settings import Settings
from atc.tools.protocol import Protocol

if TYPE_CHECKING:
    from atc.graph.store import GraphStore

app = typer.Typer(help="Show which tool feeds which, and why; draw it; correct it.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The tool's name.")]
MaybeTools = Annotated[
    list[str] | None, typer.Option("--tools", "-t", help="Where the tools are; as for `atc run --tools`.")
]


@app.callback()
def graph() -> None:
    """Show which tool feeds which, and why; draw it; correct it. No model is needed."""


@app.command()
@guarded
def show(
    tool: Name,
    tools: options.Tools,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Show what feeds a tool, what it feeds, what can take its place, and why."""
    from atc.cli.graph_view import described, print_tool

    opened = _graph(tools, only, service_url, auth, documents, openapi)
    found = described(opened, known_tool(tool, opened.protocols))
    if as_json:
        print_json(found)
    else:
        print_tool(found)


@app.command()
@guarded
def path(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The tool that is called first.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The tool whose arguments are to be fed.")],
    tools: options.Tools,
    many: Annotated[
        int, typer.Option("--many", "-k", min=1, max=50, help="Paths to show, those that only read first.")
    ] = 3,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Show which tools lead from one tool's response to another tool's arguments.

    Exit codes: 0 there is a path, 1 there is none, 2 wrong use, 3 something is missing in the environment.
    """
    from atc.cli.graph_view import path_facts, print_path
    from atc.graph.search import paths_between

    opened = _graph(tools, only, service_url, auth, documents, openapi)
    ends = known_tool(source, opened.protocols), known_tool(target, opened.protocols)
    if ends[0] == ends[1]:
        raise UsageError("FROM and TO are the same tool: name two")
    found = paths_between(opened, *ends, k=many)
    if as_json:
        print_json([path_facts(each, opened.protocols) for each in found])
    elif not found:
        err.print(f"no tool's response leads from {ends[0]} to {ends[1]}", markup=False)
    else:
        for each in found:
            print_path(path_facts(each, opened.protocols))
    raise typer.Exit(SOLVED if found else NOT_SOLVED)


@app.command()
@guarded
def draw(
    tools: options.Tools,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: a page (.html) or a drawing (.svg).")],
    around: Annotated[
        list[str] | None, typer.Option("--around", help="Draw only what is near this tool. May be given several times.")
    ] = None,
    hops: Annotated[int, typer.Option("--hops", min=0, max=20, help="With --around: edges to the farthest tool.")] = 2,
    force: Force = False,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Draw the graph: one page to zoom, search and filter in, without a server; or an SVG for papers."""
    if output.suffix.lower() not in (".html", ".svg"):
        raise UsageError(f"{output}: name a file that ends in .html (a page) or .svg (a drawing)")
    writable(output, force)
    from atc.pages.tool_graph.drawing import drawing_of
    from atc.pages.tool_graph.page import html_of
    from atc.pages.tool_graph.svg import svg_of

    opened = _graph(tools, only, service_url, auth, documents, openapi)
    chosen = [known_tool(each, opened.protocols) for each in around or ()]
    with err.status("drawing") if err.is_terminal else nullcontext():  # substitutes of thousands of tools take seconds
        drawing = drawing_of(opened, chosen, hops)
        write(output, (svg_of if output.suffix.lower() == ".svg" else html_of)(drawing))
    counts = {"tools": len(drawing.tools), "edges": len(drawing.edges), "substitutes": len(drawing.substitutes)}
    if as_json:
        print_json({"file": str(output), **counts, "left_out": drawing.left_out})
        return
    _say(f"{counts['tools']:,} tools and {counts['edges']:,} edges are drawn in {output}")
    for line in drawing.left_out:
        err.print(line, style="yellow", markup=False)


@app.command()
@guarded
def correct(
    one: Annotated[
        str, typer.Argument(metavar="FROM", help="TOOL.FIELD; with --instead: TOOL; with --same: TOOL.ARGUMENT.")
    ],
    other: Annotated[str, typer.Argument(metavar="TO", help="TOOL.ARGUMENT that is fed; with --instead: a tool.")],
    tools: options.Tools,
    there: Annotated[
        bool | None, typer.Option("--yes/--no", help="It is so, whatever runs and documents say; or it is not.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take your correction back.")] = False,
    instead: Annotated[bool, typer.Option("--instead", help="About tools: TO can take the place of FROM.")] = False,
    same: Annotated[bool, typer.Option("--same", help="About arguments of two tools: they mean the same.")] = False,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Say that a field feeds an argument, a tool can take another's place, or two arguments mean the same; or not.

    atc graph correct -t shop.yaml search_user.results[].id get_user.user_id --yes
    """
    if clear == (there is not None):
        raise UsageError("say one of three: --yes (it is so), --no (it is not) or --clear (take your correction back)")
    protocols = _protocols(tools, only, service_url, auth, documents, openapi)
    if instead and same:
        raise UsageError("--instead is about two tools, --same about two arguments: give one of them")
    edge: dict[str, object]
    if same:
        first, second = read_parameter(one, protocols, "the first"), read_parameter(other, protocols, "the second")
        with _store() as store:
            store.correct_same(protocols, first, second, there)
        edge = {"same": [".".join(first), ".".join(second)]}
        what = f"{'.'.join(first)} means the same as {'.'.join(second)}"
    elif instead:
        tool, by = known_tool(one, protocols), known_tool(other, protocols)
        if tool == by:
            raise UsageError("a tool cannot take its own place: name two")
        with _store() as store:
            store.correct_substitute(protocols, tool, by, there)
        edge, what = {"tool": tool, "by": by}, f"{by} in place of {tool}"
    else:
        with _store() as store:
            feed = read_feed(one, other, protocols, store.learnt(protocols).shapes)
            store.correct_feed(protocols, feed, there)
        supplier, place, consumer, parameter = feed
        edge = {"supplier": supplier, "path": list(place), "consumer": consumer, "parameter": parameter}
        what = f"{place_text(supplier, place)} → {consumer}.{parameter}"
    if as_json:
        print_json({**edge, "there": there})
    else:
        _say(f"{what}: {'your correction is taken back' if there is None else 'yes' if there else 'no'}")


@app.command()
@guarded
def forget(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOOL]...", help="The tools to forget; default: all of --tools.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget all tools, of all services.")] = False,
    tools: MaybeTools = None,
    only: options.Only = None,
    service_url: options.BaseUrl = None,
    auth: options.Auth = None,
    documents: options.Documents = None,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Forget what runs taught about tools, predictions, your corrections and the ranking that was learnt for them.

    With --tools alone it forgets all tools of that source, those that it has no more, too.
    """
    if everything and names:
        raise UsageError("--all forgets all tools of all services: leave the names out, or leave --all out")
    if everything and tools:
        raise UsageError("--all forgets all tools of all services: leave --all out to forget those of --tools alone")
    if not (everything or names or tools):
        raise UsageError("name the tools to forget, or a source with --tools, or give --all to forget everything")
    if names and not tools:
        raise UsageError("say with --tools where the tools are: a name may stand for tools of several services")
    chosen: dict[str, Protocol] | None = None
    if tools:
        protocols = _protocols(tools, only, service_url, auth, documents, openapi)
        chosen = {known_tool(name, protocols): protocols[name] for name in names or protocols}
    with _store() as store:
        facts = store.forget(chosen, whole=not (names or only))
    from atc.retrieval.adapter import OwnAdapters

    rankings = OwnAdapters(Settings.load().catalogue).forget(chosen)
    if as_json:
        more = {"rankings": rankings} if rankings else {}
        print_json({"forgotten": sorted(chosen) if chosen else "all", "facts": facts, **more})
    else:
        if rankings:
            _say(f"deleted {rankings} {'file' if rankings == 1 else 'files'} of ranking that was learnt for them")
        whose = (
            "all tools" if chosen is None else ", ".join(chosen) if names else f"all tools of {', '.join(tools or [])}"
        )
        _say(f"forgot {_many(facts)} about {whose}")


@app.command("export")
@guarded
def export_(
    file: Annotated[Path, typer.Argument(help="File to write, as JSON lines.")],
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Write what runs taught to a file that you can share: names, counts and types, no value of any call."""
    writable(file, force)
    with _store() as store:
        facts = store.export(file)
    if as_json:
        print_json({"file": str(file), "facts": facts})
    else:
        _say(f"wrote {_many(facts)} to {file}")


@app.command("import")
@guarded
def import_(
    file: Annotated[Path, typer.Argument(help="What `atc graph export` wrote.")], as_json: options.Json = False
) -> None:
    """Take in what somebody else's runs taught. It counts less than your own, and never as a correction."""
    if not file.is_file():
        raise UsageError(f"{file} is {'no file' if file.exists() else 'not there'}: name what `atc graph export` wrote")
    with _store() as store:
        facts = store.load_export(file)
    if as_json:
        print_json({"file": str(file), "facts": facts})
    else:
        _say(f"took in {_many(facts)} of {file}, as foreign")


def _protocols(
    tools: list[str],
    only: list[str] | None,
    service_url: str | None,
    auth: list[str] | None,
    documents: str | None,
    openapi: list[str] | None,
) -> dict[str, Protocol]:
    opened = options.opened(tools, only=only, service_url=service_url, auth=auth, documents=documents, openapi=openapi)
    return {name: tool.protocol for name, tool in opened.items()}


def _graph(
    tools: list[str],
    only: list[str] | None,
    service_url: str | None,
    auth: list[str] | None,
    documents: str | None,
    openapi: list[str] | None,
) -> ToolGraph:
    """The graph of these tools with what was learnt about them."""
    protocols = _protocols(tools, only, service_url, auth, documents, openapi)
    with _store() as store:
        return ToolGraph(protocols, store.learnt(protocols))


@contextmanager
def _store() -> Iterator[GraphStore]:
    """The user's own store. What is wrong with it is a line on stderr."""
    from atc.catalogue import store_in

    store = store_in(Settings.load().catalogue)
    try:
        yield store
    finally:
        store.close()
        if store.notice:
            err.print(f"atc: {clean(store.notice)}", markup=False, style="yellow")


def _many(facts: int) -> str:
    return f"{facts:,} fact{'' if facts == 1 else 's'}"


def _say(text: str) -> None:
    out.print(Text(clean(text)))
