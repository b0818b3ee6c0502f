"""Going through the menu of the tools on a terminal: a number goes down, ``..`` up, ``/words`` searches."""

from __future__ import annotations

import warnings

from rich.text import Text

from atc.cli.browse import found, names_of, print_part, print_tool
from atc.cli.console import clean, err, out, short
from atc.errors import LexicalOnly, UsageError
from atc.retrieval.code_words import Menu
from atc.retrieval.code_words import Path as Place
from atc.retrieval.index import ToolIndex

_HITS = 10


def walk(index: ToolIndex, menu: Menu) -> None:
    """Ask where to go until it is enough."""
    place: Place = ()
    hits: list[str] = []
    print_part(index, menu, place, 1, 1_000)
    while True:
        try:
            said = out.input(Text("number or name, .. up, /words to search, q to end: ", "dim")).strip()
        except EOFError:
            out.print()
            return
        if said in ("q", "quit", "exit"):
            return
        if not said:
            continue
        if said.startswith("/"):
            hits = _searched(index, said[1:])
            continue
        try:
            if hits and said.isascii() and said.isdigit() and 0 < int(said[:9]) <= len(hits):
                place = menu.path_of(hits[int(said) - 1])
            elif said == "..":
                place = place[:-1]
            else:
                place = found(menu, said, place if menu.children(place) else place[:-1])  # beside a tool
        except UsageError as error:
            err.print(clean(str(error)), style="yellow", markup=False)
            continue
        hits = []
        if place and not menu.children(place):
            print_tool(index, menu.children(place[:-1])[place[-1]].id)
            group = clean(" / ".join(names_of(menu, place[:-1])) or "all tools")
            out.print(Text(f"it is in {group}: .. shows that", "dim"))
        else:
            print_part(index, menu, place, 1, 1_000)


def _searched(index: ToolIndex, words: str) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LexicalOnly)
        hits = [hit.id for hit in index.search(words, _HITS)]
    for number, id in enumerate(hits, 1):
        line = Text(f"{number:3} ", "dim").append(short(id, 60))
        out.print(
            line.append(f"  {short(index.protocol(id).description, 100)}", "dim"), no_wrap=True, overflow="ellipsis"
        )
    if not hits:
        err.print("no tool has anything in common with that; try other words", markup=False)
    return hits
