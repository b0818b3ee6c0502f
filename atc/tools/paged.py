"""What one response of a paged tool says: its items, where the next page begins, and whether there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from atc.schemas.protocol import Protocol
from atc.tools.paging import (
    ADDRESS,
    DONE,
    MAX_KEYS,
    MORE,
    NEXT,
    WRAPPERS,
    Paging,
    chosen_list,
    flat,
    is_positional,
    paging_fields,
)

_OF_PAGE = frozenset({"next", "nextpage", "nextpagenumber"})
_OF_OFFSET = frozenset({"next", "nextoffset", "nextstart", "nextstartat", "offset"})
"""Fields whose number is a page's, or an offset."""
_TOTAL = frozenset(
    """
    total totalcount totalresults totalitems totalrecords totalelements totalhits totalentries nbhits recordstotal
    """.split()
)
_PAGES = frozenset({"totalpages", "pagecount", "lastpage", "pages", "numpages", "nbpages", "pagestotal"})
_CURRENT = frozenset({"page", "currentpage", "pagenumber", "pageindex", "number"})
MAX_QUERY = 100
"""Parameters of a URL that are looked at."""


class NoList(ValueError):
    """A response has no list where the items of a page should be."""


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        items: what stands on it. ``path``: the way to them in the response.
        next: what the next page is asked for with: a cursor, a number or a URL; ``None`` where nothing says so.
        more: whether there is a next page, as far as the response says.
        total, pages: how many items or pages there are in all, where it says so.
        current: the number of this page, where it says so.
    """

    items: list[Any]
    path: tuple[str, ...] = ()
    next: str | int | None = None
    more: bool | None = None
    total: int | None = None
    pages: int | None = None
    current: int | None = None


def read_page(paging: Paging, tool: str, value: Any) -> Page:
    """Read one response.

    Raises:
        NoList: it has no list, or several and none is surely the one that is paged.
    """
    path = paging.items if paging.items is not None and not isinstance(value, list) else _path(value, tool)
    items = _at(value, path)
    if items is None and isinstance(value, Mapping) and not any(isinstance(part, list) for part in value.values()):
        items = []  # some services leave an empty list out
    if not isinstance(items, list):
        raise NoList(f"its response has no list at {'.'.join(path) or 'its top'}")
    if not isinstance(value, Mapping):
        return Page(items, path)
    stated = list(paging_fields(value))
    following, more = _next(paging, value, stated)
    return Page(
        items,
        path,
        following,
        more,
        total=_number(stated, _TOTAL),
        pages=_number(stated, _PAGES),
        current=_number(stated, _CURRENT),
    )


def is_url(text: Any) -> bool:
    """Whether what names the next page is a URL, whole or relative, and no cursor."""
    return isinstance(text, str) and (text.startswith(("http://", "https://", "/", "?")) and "?" in text)


def arguments_of_url(url: str, protocol: Protocol) -> dict[str, str]:
    """The arguments of a tool that stand in the query of a URL. The URL itself is never asked for.

    Only arguments that speak of pages are taken: a response has no say in what else is asked.
    """
    try:
        pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True, max_num_fields=MAX_QUERY)
    except ValueError:
        return {}
    known = {flat(name): name for name in protocol.parameters.get("properties", {}) if is_positional(name)}
    return {known[flat(name)]: text for name, text in pairs if flat(name) in known}


def _next(
    paging: Paging, value: Mapping[str, Any], stated: list[tuple[str, Any]]
) -> tuple[str | int | None, bool | None]:
    flags = [field for name, field in stated if name in MORE and isinstance(field, bool)]
    flags += [not field for name, field in stated if name in DONE and isinstance(field, bool)]
    more = flags[0] if flags else None
    fields = [(name, field) for name, field in stated if name in NEXT and not isinstance(field, bool)]
    if paging.next is not None:
        name = paging.next[-2] if len(paging.next) > 1 and paging.next[-1] in ADDRESS else paging.next[-1]
        fields = [(flat(name), _at(value, paging.next))]  # where it is left out, this was the last page
    for name, field in fields:
        if field in (None, "", 0):
            continue
        if is_url(field) or _fits(paging, name, field):
            return field, more
        more = True if more is None else more  # it names the next page in a way that this tool cannot take
    return None, False if fields and more is None else more


def _fits(paging: Paging, name: str, field: Any) -> bool:
    if paging.by == "cursor":
        return isinstance(field, str | int)
    names = {"page": _OF_PAGE, "offset": _OF_OFFSET}.get(paging.by, frozenset())
    return name in names and (isinstance(field, int) or (isinstance(field, str) and field.isdecimal()))


def _number(stated: list[tuple[str, Any]], names: frozenset[str]) -> int | None:
    return next((field for name, field in stated if name in names and type(field) is int), None)


def _path(value: Any, tool: str) -> tuple[str, ...]:
    if isinstance(value, list):
        return ()
    if isinstance(value, Mapping):
        if found := _list_in(value, tool):
            return (found,)
        below = [(key, _list_in(inner, tool)) for key, inner in list(value.items())[:MAX_KEYS] if _wraps(key, inner)]
        if len(inside := [path for path in below if path[1]]) == 1:
            return inside[0]
    raise NoList("its response is no list and holds not one that is surely paged")


def _wraps(key: str, inner: Any) -> bool:
    return flat(key) in WRAPPERS and isinstance(inner, Mapping)


def _list_in(value: Mapping[str, Any], tool: str) -> str:
    return chosen_list([key for key in list(value)[:MAX_KEYS] if isinstance(value[key], list)], tool)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
