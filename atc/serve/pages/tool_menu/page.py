"""The menu as one page: groups that open, a search over names, what each tool does. Bounded for tens of thousands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.menu import Entry, Menu
from atc.catalogue.index.menu import Path as Place
from atc.catalogue.index.snapshot import Progress
from atc.serve.pages.kit import page_of

MOST_TOOLS = 60_000
"""Tools that are listed by name; of larger catalogues each group lists a part of its tools, and says so."""
MOST_TEXT = 6_000_000
"""Characters of all names and descriptions together, about: of many tools each is described in fewer."""
_NAME, _DESCRIBED = 120, 240
_EVERY = 500


def html_of(index: ToolIndex, menu: Menu, progress: Progress | None = None) -> tuple[str, int]:
    """The page, and how many tools are only counted in it.

    Raises:
        ToolIndexError: the document of a tool is damaged.
    """
    here = Path(__file__).parent
    data, left_out = data_of(index, menu, progress)
    text = page_of(
        here / "page.html.jinja",
        title="Tools",
        styles=[here / "page.css"],
        script=here / "page.js",
        data=data,
        tools=f"{len(menu):,} tool{'' if len(menu) == 1 else 's'}",
        left_out=f"{left_out:,}" if left_out else "",
    )
    return text, left_out


def data_of(index: ToolIndex, menu: Menu, progress: Progress | None = None) -> tuple[dict[str, Any], int]:
    """What the page's script shows, and how many tools it leaves out.

    A tool is ``[name, what it does]``, a group ``[name, tools, entries, tools that are left out of these]``.
    """
    share = min(1.0, MOST_TOOLS / max(1, len(menu)))
    described = min(_DESCRIBED, max(0, MOST_TEXT // max(1, min(len(menu), MOST_TOOLS)) - 60))
    done = left_out = 0

    def page(place: Place) -> tuple[list[list[Any]], int]:
        nonlocal done, left_out
        entries = menu.children(place)
        tools = [entry for entry in entries if entry.id]
        kept = tools if share == 1.0 else tools[: max(1, int(len(tools) * share))]
        made = [group(entry) for entry in entries if not entry.id] + [tool(entry) for entry in kept]
        left_out += len(tools) - len(kept)
        before, done = done, done + len(tools)
        if progress is not None and done // _EVERY != before // _EVERY:
            progress("naming", done, len(menu))
        return made, len(tools) - len(kept)

    def group(entry: Entry) -> list[Any]:
        below, left = page(entry.path)
        return [entry.name, entry.count, below, left]

    def tool(entry: Entry) -> list[Any]:
        name = entry.id if len(entry.id) <= _NAME else f"{entry.id[: _NAME - 1]}…"
        text = " ".join(index.protocol(entry.id).description[: 4 * described].split()) if described else ""
        return [name, text if len(text) <= described else f"{text[: described - 1]}…"]

    top, left = page(())
    return {"tools": len(menu), "entries": top, "left": left}, left_out
