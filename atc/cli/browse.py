"""``atc tools browse``: the tools as a menu of a few words a page."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.menu import WIDTH, Entry, Menu
from atc.catalogue.index.menu import Path as Place
from atc.cli import options
from atc.cli.console import Force, clean, err, guarded, out, print_json, short, stages, writable, write
from atc.cli.find import index_of
from atc.errors import UsageError
from atc.settings import Settings
from atc.tools.kept import KIND

_LISTED = 1_000
_DESCRIBED = 100


@guarded
def browse(
    tools: options.Tools = None,
    folder: Annotated[
        Path | None, typer.Option("--index", "-i", help="Folder of an index (`atc tools index`).")
    ] = None,
    path: Annotated[
        str, typer.Option("--path", "-p", help="Where to begin: names, their beginnings or numbers, with / between.")
    ] = "",
    tool: Annotated[str | None, typer.Option("--tool", help="Show where this tool stands.")] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", "-d", min=1, max=40, help="Depth of the menu to show.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Lines to show.")] = _LISTED,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write all of it as one page to this file.")
    ] = None,
    force: Force = False,
    openapi: options.OpenApi = None,
    as_json: options.Json = False,
) -> None:
    """Browse the tools as a menu: groups of similar tools, each named by its typical words.

    It prints the first page; --path goes down, --depth shows more levels at once, and --tool shows where a tool stands.
    """
    if path and tool is not None:
        raise UsageError("--path and --tool both say where to begin: give one of them")
    if output is not None:
        writable(output, force)
    index = _opened(tools, folder, openapi)
    menu = index.menu(WIDTH)
    begin = _place_of(menu, index, tool)[:-1] if tool is not None else found(menu, path)
    if output is not None:
        _write_page(index, menu, output, as_json)
    elif as_json:
        print_json(_data(index, menu, begin, depth, limit, tool))
    else:
        print_part(index, menu, begin, depth or 1, limit, tool)


def found(menu: Menu, text: str, place: Place = ()) -> Place:
    """The page, or the tool, that a path names.

    Args:
        text: steps with ``/`` between; each is a name, its beginning, the beginning of one of its words, or a number.
        place: the page that they begin at.

    Raises:
        UsageError: a step names nothing, or several entries; what there is is named.
    """
    rest = text.strip().strip("/")
    while rest:
        entries = menu.children(place)
        if not entries:
            raise UsageError(f"{_names(menu, place)} is a tool: nothing is below it, also not {rest!r}")
        entry, rest = _step(entries, rest)
        place = entry.path
    return place


def _step(entries: tuple[Entry, ...], text: str) -> tuple[Entry, str]:
    """The entry that the beginning of a path names, and the rest of the path."""
    asked = text.casefold()
    whole = [entry for entry in entries if f"{asked}/".startswith(f"{entry.name.casefold()}/")]
    if whole:  # an id has slashes of its own
        longest = max(whole, key=lambda entry: len(entry.name))
        return longest, text[len(longest.name) :].strip("/ ")
    step, _, rest = text.partition("/")
    step = " ".join(step.casefold().split())
    if step.isascii() and step.isdigit() and len(step) < 10 and 0 < int(step) <= len(entries):
        return entries[int(step) - 1], rest.strip("/ ")
    for fits in (
        [entry for entry in entries if entry.name.casefold().startswith(step)],
        [entry for entry in entries if any(word.startswith(step) for word in entry.name.casefold().split(", "))],
        [entry for entry in entries if step in entry.name.casefold()],
    ):
        if len(fits) == 1:
            return fits[0], rest.strip("/ ")
        if fits:
            raise UsageError(f"{step!r:.60} may be {_listed(fits)}: give more of the name, or its number")
    raise UsageError(f"there is no {step!r:.60} here; there is {_listed(entries)}")


def _listed(entries: tuple[Entry, ...] | list[Entry]) -> str:
    shown = "; ".join(f"{entry.path[-1] + 1} {entry.name}" for entry in entries[:WIDTH])
    return shown + (f" and {len(entries) - WIDTH:,} more" if len(entries) > WIDTH else "")


def _place_of(menu: Menu, index: ToolIndex, tool: str) -> Place:
    if tool not in index:
        near = "; ".join(hit.id for hit in index.search(tool, 5, "lexical"))
        raise UsageError(f"there is no tool {tool!r}" + (f"; by its words it may be {near}" if near else ""))
    return menu.path_of(tool)


def names_of(menu: Menu, place: Place) -> list[str]:
    """The names on the way to a place."""
    return [menu.children(place[:at])[step].name for at, step in enumerate(place)]


def _names(menu: Menu, place: Place) -> str:
    return " / ".join(names_of(menu, place)) or "all tools"


def _opened(sources: list[str] | None, folder: Path | None, openapi: list[str] | None) -> ToolIndex:
    settings = Settings.load()
    if folder is None and not sources and settings.tool_index:
        folder = Path(settings.tool_index)
    if folder is None and not sources:
        sources = options.default_tools()
    if (folder is None) == (not sources):
        raise UsageError("give an index with --index DIR, or tools with --tools SOURCE: one of the two, not both")
    if folder is not None:
        return ToolIndex.load(folder)
    return index_of(options.opened(sources or [], openapi=openapi, look=True), settings.retrieval)


# -- data --------------------------------------------------------------------------------------------------------------


def _data(
    index: ToolIndex, menu: Menu, begin: Place, depth: int | None, limit: int, tool: str | None
) -> dict[str, Any]:
    """A part of the menu as plain data: the upper pages whole before the lower ones."""
    top: list[dict[str, Any]] = []
    waiting = deque([(begin, top, 1)])
    shown, left_out = 0, 0
    while waiting:
        place, into, level = waiting.popleft()
        entries = menu.children(place)
        if shown + len(entries) > limit and shown:
            left_out += len(menu.rows(place))
            continue
        shown += len(entries)
        for entry in entries:
            into.append(_entry(index, entry))
            if not entry.id and (depth is None or level < depth):
                into[-1]["entries"] = []
                waiting.append((entry.path, into[-1]["entries"], level + 1))
    data: dict[str, Any] = {"tools": len(menu), "path": names_of(menu, begin), "below": len(menu.rows(begin))}
    if tool is not None:
        data |= {"tool": tool, "number": _place_of(menu, index, tool)[-1] + 1}
    note = f"{left_out:,} tools are below pages that --limit {limit} leaves out" if left_out else ""
    return data | {"entries": top, "left_out": left_out, "note": note}


def _entry(index: ToolIndex, entry: Entry) -> dict[str, Any]:
    made: dict[str, Any] = {"number": entry.path[-1] + 1, "name": entry.name, "tools": entry.count}
    if not entry.id:
        return made | {"such_as": list(entry.sample)}
    protocol = index.protocol(entry.id)
    kept = {"kept": True} if protocol.source.kind == KIND else {}
    return made | {"id": entry.id, "effect": protocol.effect.value, "description": protocol.description} | kept


# -- terminal ----------------------------------------------------------------------------------------------------------


def print_part(index: ToolIndex, menu: Menu, place: Place, depth: int, limit: int, tool: str | None = None) -> None:
    """Print a page and those below it, as a tree; of a tool what it is."""
    entries = menu.children(place)
    if not entries and place:
        print_tool(index, menu.children(place[:-1])[place[-1]].id)
        return
    out.print(Text(f"{_names(menu, place)}: {_many(len(menu.rows(place)))}", "bold"))
    left = limit
    for line in _lines(index, menu, place, depth, 0, tool):
        if left == 0:
            err.print(f"more than {limit:,} lines: give --limit, or go down with --path", style="yellow", markup=False)
            return
        left -= 1
        out.print(line, no_wrap=out.is_terminal, overflow="ellipsis")


def _lines(index: ToolIndex, menu: Menu, place: Place, depth: int, inward: int, tool: str | None) -> Iterator[Text]:
    for entry in menu.children(place):
        mark = "bold green" if tool is not None and entry.id == tool else ""
        line = Text("   " * inward).append(f"{entry.path[-1] + 1:3} ", "dim").append(clean(entry.name), mark)
        if entry.id:
            line.append(f"  {short(index.protocol(entry.id).description, _DESCRIBED)}", "dim")
        else:
            line.append(f"  {entry.count:,}", "cyan")
            if inward + 1 == depth:
                line.append(f"  {', '.join(short(_last(id), 30) for id in entry.sample)}", "dim")
        yield line
        if depth > inward + 1 and not entry.id:
            yield from _lines(index, menu, entry.path, depth, inward + 1, tool)


def print_tool(index: ToolIndex, id: str) -> None:
    """Print what a tool does, and what it takes."""
    protocol = index.protocol(id)
    given = protocol.parameters.get("properties")
    out.print(Text(f"{short(id, 200)} ({options.effect_text(protocol)})", "bold"))
    out.print(Text(short(protocol.description, 1_000) or "it is not described"))
    if isinstance(given, dict) and given:
        out.print(Text(f"takes {short(', '.join(map(str, given)), 300)}", "dim"))


def _last(id: str) -> str:
    return id.rpartition("/")[2] or id


def _many(tools: int) -> str:
    return "1 tool" if tools == 1 else f"{tools:,} tools"


# -- page --------------------------------------------------------------------------------------------------------------


def _write_page(index: ToolIndex, menu: Menu, file: Path, as_json: bool) -> None:
    from atc.serve.pages.tool_menu.page import html_of

    with stages() as report:
        text, left_out = html_of(index, menu, report)
    write(file, text)
    if as_json:
        print_json({"file": str(file), "tools": len(menu), "bytes": len(text.encode()), "left_out": left_out})
        return
    out.print(Text(clean(f"{_many(len(menu))} are in {file}")))
    if left_out:
        err.print(f"{left_out:,} of them by their number alone: the page would be too large", style="yellow")
