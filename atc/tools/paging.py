"""Recognise tools that answer page by page: by their parameters and by what their responses hold.

A tool is *paged* where a parameter says which page is wanted (a number, an offset, a cursor, the last item seen) and
the response is, or holds, one list. Names alone are evidence, so both must fit; what is not sure is not paged.

The names were collected from public OpenAPI documents; ``benchmarks/documents/paging.py`` counts what they recognise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from atc.result import Effect
from atc.schemas.identifiers import words_of
from atc.schemas.names import ALL_PAGES as ALL_PAGES
from atc.schemas.protocol import JsonSchema, Protocol, parameters_of
from atc.schemas.reading import alternatives
from atc.schemas.validate import resolve, types_of

PAGE = frozenset({"page", "pagenumber", "pagenum", "pageno", "pageindex", "currentpage"})
OFFSET = frozenset({"offset", "skip", "pageoffset", "recordoffset", "startat", "startindex", "startrow", "firstresult"})
OFFSET_BESIDE_SIZE = frozenset({"start", "from"})
"""Names that mean an offset only where a page size stands beside them."""
SIZE = frozenset(
    """
    perpage pagesize limit size count maxresults pagelimit resultsperpage itemsperpage rows top max maxitems
    maxrecords numresults num take length pagelength maxkeys recordsperpage maxpagesize maxcount hitsperpage
    limitcount first
    """.split()
)
CURSOR = frozenset(
    """
    cursor pagetoken nextpagetoken nexttoken continuationtoken continuation continue paginationtoken pagingtoken
    nextcursor aftercursor pagecursor pageafter marker bookmark scrollid after startcursor startafter
    exclusivestartkey startkey skiptoken offset nextpage next pagekey nextpagekey start page startid from
    """.split()
)
AMBIGUOUS = frozenset({"after", "offset", "next", "start", "page", "startid", "from"})
"""Cursor names with other meanings: the response must have such a field, or the description must say cursor."""
SURE_CURSOR = frozenset(
    """
    cursor pagetoken nextpagetoken nexttoken continuationtoken paginationtoken pagingtoken nextcursor aftercursor
    pagecursor pageafter scrollid
    """.split()
)
"""Cursor names that mean a cursor even where no response is documented."""
LAST = frozenset({"startingafter", "afterid", "after", "sinceid", "since", "startafter", "lastid"})
"""Parameters that take the identifier of the last item of a page."""
NEXT = frozenset(
    """
    next nextpage nexturl nexturi nextlink nexthref nextpagetoken nexttoken nextcursor nextmarker nextoffset
    nextpageurl nextpageuri nextpagelink odatanextlink nextpagecursor nextcontinuationtoken nextpagepath nextkey
    nextpagekey nextpagenumber nextstart nextstartat nextrecordkey nextpaginationtoken nextstartkey endcursor
    aftercursor nextposition nextpageid
    """.split()
)
"""Response fields that say where the next page begins: a cursor, a number, or a URL."""
ADDRESS = ("href", "url", "uri")
"""Keys that hold the URL where such a field is an object."""
MORE = frozenset(
    """
    hasmore hasnext hasnextpage more hasmoreitems moreavailable istruncated truncated hasadditionalpages
    """.split()
)
DONE = frozenset({"islast", "islastpage", "last", "lastpage", "done"})
CONTAINERS = frozenset(
    """
    meta metadata pagination paging pageinfo links link responsemetadata page pages cursors cursor info pager
    paginationmetadata paginginfo listinfo resultinfo data result response pagingmetadata
    """.split()
)
"""Objects of a response that state its paging."""
WRAPPERS = frozenset(
    """
    data result response results embedded d payload body list page hits content collection resultset
    """.split()
)
"""Objects of a response in which its list may lie."""
ITEMS = tuple(
    """
    items data results result value values records entries list content rows elements objects hits resources
    resource docs members
    """.split()
)
ASIDE = frozenset(
    """
    errors warnings links included meta facets aggregations notices error schemas expand
    """.split()
)
POSITIONAL = frozenset(
    """
    page pagination paging cursor offset skip start starting limit after before since marker continue continuation
    next bookmark scroll per
    """.split()
)
CURSOR_WORDS = re.compile(
    r"(?i)\b(?:cursor|paginat|next page|start of the page|link header|previous (?:response|page|call|request))"
)
PAGE_WORDS = re.compile(r"(?i)\b(?:page (?:number|index)|number of the page|which page)\b|^\W*(?:the )?page of\b")
TOKEN_WORDS = re.compile(r"(?i)\b(?:cursor|token)\b")
TIME_WORDS = re.compile(r"(?i)\b(?:date|time|timestamp)\b")
ID_WORDS = re.compile(r"(?i)\bids?\b|\bidentifier\b|\bcursor\b")
FROM_ZERO = re.compile(
    r"(?i)\b(?:zero|0)[- ](?:based|indexed)|\b(?:starts?|starting|begins?) (?:at|from|with) (?:0|zero)\b"
)


def flat(name: str) -> str:
    """A name without case and signs: ``@odata.nextLink`` is ``odatanextlink``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


MAX_KEYS = 400
"""Keys of one object that are looked at."""


@dataclass(frozen=True)
class Paging:
    """How a tool is paged. Parameter names are the tool's own.

    Attributes:
        by: ``page`` and ``offset`` count; ``cursor`` takes what the response says; ``last`` takes the id of the last
            item; ``link`` has nothing but a URL in the response.
        parameter: the one that selects the page; empty for ``link``.
        size: the one that sets the length of a page, if there is one.
        first: the number of the first page or item, where it is known.
        items: the way to the list in a response; ``None`` where only a response can show it.
        next: the way to the field that says where the next page begins; ``None`` where none is documented.
    """

    by: Literal["page", "offset", "cursor", "last", "link"]
    parameter: str = ""
    size: str | None = None
    first: int | None = None
    items: tuple[str, ...] | None = ()
    next: tuple[str, ...] | None = None


def paging_of(protocol: Protocol) -> Paging | None:
    """Return how a tool is paged; ``None`` where it is not, or not surely, or the tool may write."""
    if protocol.effect is not Effect.READ:
        return None
    known = protocol.parameters.get("properties", {})
    parameters = {name: resolved(protocol.parameters, known[name]) for name in list(known)[:MAX_KEYS]}
    if not any(_is_positional(name) for name in parameters):
        return None
    body = _body(protocol)
    items = _items(protocol, body)
    if items is None and body is not None:
        return None  # it answers no list, or several
    return _by_parameters(parameters, body, items)


def paging_line(protocol: Protocol) -> str:
    """One line for a stub: by which parameters a tool is paged and how all is read; empty where it is not paged."""
    paging = paging_of(protocol)
    if paging is None:
        return ""
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    named = " and ".join(names[name] for name in (paging.parameter, paging.size) if name)
    by = f" by {named}" if named else ""
    first = f"{names[paging.parameter]}=…, " if _must_be_given(protocol, paging) else ""
    return f"Paged{by}: {ALL_PAGES}({protocol.name}, {first}...) returns the items of all pages as one list."


def _must_be_given(protocol: Protocol, paging: Paging) -> bool:
    return paging.first is None and paging.parameter in protocol.required


def is_positional(name: str) -> bool:
    """Whether a parameter's name selects a page, so that a response may set it for the next one."""
    return flat(name) in SIZE or _is_positional(name)


def paging_fields(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a response that state its paging, by flat name: its own and its containers'."""
    todo: list[tuple[Mapping[str, Any], int]] = [(value, 0)]
    while todo:
        here, depth = todo.pop(0)
        for key in list(here)[:MAX_KEYS]:
            name, inner = flat(key), here[key]
            if isinstance(inner, Mapping) and name in NEXT:  # {"next": {"href": …}}
                yield name, next((inner[end] for end in ADDRESS if end in inner), None)
            elif isinstance(inner, Mapping) and depth < 2 and name in CONTAINERS:
                todo.append((inner, depth + 1))
            elif not isinstance(inner, Mapping | list):
                yield name, inner


# -- parameters ------------------------------------------------------------------------------------------------------


def _by_parameters(parameters: dict[str, JsonSchema], body: _Body | None, items: _Path | None) -> Paging | None:
    size = next((name for name in parameters if flat(name) in SIZE and _counts(parameters[name], text=True)), None)
    for name, schema in parameters.items():
        if flat(name) in CURSOR and _is_text(schema) and body is not None and (found := body.next_for(name, schema)):
            return Paging("cursor", name, size, None, items, found)
    for name, schema in parameters.items():
        if flat(name) in LAST and body is not None and _takes_last(name, schema, body, items):
            return Paging("last", name, size, None, items)
    following = body.next_of_any() if body is not None else None
    listed = items is not None
    for name, schema in parameters.items():
        is_page = flat(name) in PAGE or (flat(name) in OFFSET and _described_as(PAGE_WORDS, schema))
        if is_page and _counts(schema, text=size is not None or listed) and (listed or size):
            return Paging("page", name, size, _first(schema), items, following)
    for name, schema in parameters.items():
        beside = flat(name) in OFFSET_BESIDE_SIZE and size is not None and "integer" in types_of(schema)
        if (flat(name) in OFFSET and _counts(schema) and (listed or size)) or beside:
            first = _first(schema)
            if first is not None or not flat(name).startswith(("start", "from")):
                return Paging("offset", name, size, first or 0, items, following)
    for name, schema in parameters.items():
        counts = flat(name) in PAGE | OFFSET
        described = flat(name) in CURSOR | LAST and _described_as(TOKEN_WORDS if counts else CURSOR_WORDS, schema)
        if _is_text(schema) and (described or (flat(name) in SURE_CURSOR and (body is None or items == ()))):
            return Paging("cursor", name, size, None, items)
    if following is not None and any(_is_set_by_link(name, schema) for name, schema in parameters.items()):
        return Paging("link", "", size, None, items, following)
    return None


def _is_positional(name: str) -> bool:
    words = words_of(name)
    known = flat(name) in PAGE | OFFSET | CURSOR | LAST | OFFSET_BESIDE_SIZE
    return known or not POSITIONAL.isdisjoint(words) or flat(name) == "pagesize"


def resolved(root: JsonSchema, schema: Any) -> JsonSchema:
    """A schema with all that holds of its value joined, as its one alternative that is not null."""
    kinds = _kinds(root, schema)
    return kinds[0] if len(kinds) == 1 else resolve(root, schema)


def _kinds(root: JsonSchema, schema: Any) -> list[JsonSchema]:
    return [each.schema for each in alternatives(root, schema) if types_of(each.schema) != {"null"}]


def _counts(schema: JsonSchema, *, text: bool = False) -> bool:
    types = types_of(schema) - {"null"}
    return types <= ({"integer", "number", "string"} if text else {"integer", "number"}) and "enum" not in schema


def _is_text(schema: JsonSchema) -> bool:
    types = types_of(schema)
    return (not types or "string" in types) and not str(schema.get("format", "")).startswith("date")


def _is_set_by_link(name: str, schema: JsonSchema) -> bool:
    scalar = types_of(schema) <= {"string", "integer", "number", "null"}
    return (
        is_positional(name)
        and flat(name) not in SIZE | OFFSET_BESIDE_SIZE
        and scalar
        and not _described_as(TIME_WORDS, schema)
    )


def _described_as(words: re.Pattern[str], schema: JsonSchema) -> bool:
    return words.search(str(schema.get("description", ""))) is not None


def _first(schema: JsonSchema) -> int | None:
    for keyword in ("default", "minimum"):
        if type(schema.get(keyword)) in (int, float) and schema[keyword] in (0, 1):
            return int(schema[keyword])
    return 0 if _described_as(FROM_ZERO, schema) else None


def _takes_last(name: str, schema: JsonSchema, body: _Body, items: _Path | None) -> bool:
    if not body.items_have_id(items) or types_of(schema) - {"string", "integer", "null"}:
        return False
    if str(schema.get("format", "")).startswith("date"):
        return False
    described, sure = _described_as(ID_WORDS, schema), flat(name) in ("startingafter", "afterid", "sinceid")
    return (body.has_more_flag and (described or sure)) or (described and (sure or flat(name) == "since"))


# -- responses -------------------------------------------------------------------------------------------------------

_Path = tuple[str, ...]


class _Body:
    def __init__(self, root: JsonSchema, schema: JsonSchema) -> None:
        self._root, self.schema = root, schema
        self.fields = dict(self._fields(schema, (), 0))
        self.has_more_flag = any(flat(path[-1]) in MORE | DONE for path in self.fields)

    def _fields(self, schema: JsonSchema, above: _Path, depth: int) -> Iterator[tuple[_Path, JsonSchema]]:
        for key, value in list(_properties(schema).items())[:MAX_KEYS]:
            inner = resolved(self._root, value)
            if flat(key) in NEXT and _properties(inner):
                yield from (((*above, key, end), {}) for end in ADDRESS if end in _properties(inner))
            elif depth < 2 and flat(key) in CONTAINERS and _properties(inner):
                yield from self._fields(inner, (*above, key), depth + 1)
            elif not {"object", "array"} & types_of(inner):
                yield (*above, key), inner

    def next_for(self, cursor: str, described: JsonSchema) -> _Path | None:
        """The field that holds the next value of a cursor parameter."""
        wanted = {f"next{flat(cursor)}"} | ({flat(cursor)} - PAGE - OFFSET)  # a page or offset beside it is an echo
        for path, schema in self.fields.items():
            if flat(path[-1]) in wanted and _is_value(schema):
                return path
        counts = flat(cursor) in PAGE | OFFSET
        if flat(cursor) in AMBIGUOUS and not _described_as(TOKEN_WORDS if counts else CURSOR_WORDS, described):
            return None
        return self.next_of_any(cursor=True)

    def next_of_any(self, *, cursor: bool = False) -> _Path | None:
        """The field that says where the next page begins."""
        for path, schema in self.fields.items():
            name = flat(path[-2] if len(path) > 1 and path[-1] in ADDRESS else path[-1])
            if name in NEXT and _is_value(schema) and not (cursor and types_of(schema) == {"integer"}):
                return path
        return None

    def items_have_id(self, items: _Path | None) -> bool:
        place = self.schema
        for step in items or ():
            place = resolved(self._root, _properties(place).get(step))
        kinds = _kinds(self._root, place.get("items"))
        return items is not None and any("id" in _properties(kind) for kind in kinds)


def _body(protocol: Protocol) -> _Body | None:
    if not protocol.returns:
        return None
    schema = resolved(protocol.returns, protocol.returns)
    return _Body(protocol.returns, schema) if _properties(schema) or "array" in types_of(schema) else None


def _items(protocol: Protocol, body: _Body | None) -> _Path | None:
    if body is None:
        return None
    if "array" in types_of(body.schema):
        return ()
    root, top = protocol.returns or {}, _properties(body.schema)
    if found := _list_in(root, top, protocol.name):
        return (found,)
    inside = [
        (key, below)
        for key, value in list(top.items())[:MAX_KEYS]
        if flat(key) in WRAPPERS and (below := _list_in(root, _properties(resolved(root, value)), protocol.name))
    ]
    return inside[0] if len(inside) == 1 else None


def _list_in(root: JsonSchema, properties: Mapping[str, Any], tool: str) -> str:
    lists = [
        key
        for key, value in list(properties.items())[:MAX_KEYS]
        if flat(key) not in ASIDE and "array" in types_of(resolved(root, value))
    ]
    return chosen_list(lists, tool)


def chosen_list(keys: list[str], tool: str) -> str:
    """The key, among those of several lists, that holds a tool's items; empty where none surely does."""
    if len(keys) == 1:
        return keys[0]
    by_name = {flat(key): key for key in keys}
    usual = [by_name[name] for name in ITEMS if name in by_name]
    words = set(words_of(tool))
    named = [key for key in keys if words_of(key) and set(words_of(key)) <= words]
    return usual[0] if usual else named[0] if len(named) == 1 else ""


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _is_value(schema: JsonSchema) -> bool:
    return types_of(schema) - {"null"} <= {"string", "integer", "number"}
