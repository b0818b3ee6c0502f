"""Which tools are paged, and what one response says of its pages."""

from __future__ import annotations

from typing import Any

import pytest

from atc.atlas import atlas_toolset
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.paged import NoList, arguments_of_url, is_url, read_page
from atc.tools.paging import Paging, paging_line, paging_of
from atc.tools.stubs import render_stub

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
THINGS = {"type": "array", "items": {"type": "object", "properties": {"id": TEXT}}}


def of(returns: dict[str, Any] | None = THINGS, effect: Effect = Effect.READ, **parameters: Any) -> Protocol:
    schema = {"type": "object", "properties": parameters}
    return Protocol(name="list_things", parameters=schema, returns=returns, effect=effect)


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def said(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


CONTINUED = {"metadata": obj(**{"continue": TEXT}), "items": THINGS}
PAGED = {
    "page and size": (of(page=NUMBER, per_page=NUMBER), Paging("page", "page", "per_page")),
    "page from 0": (
        of(obj(items=THINGS), page={**NUMBER, "default": 0}), Paging("page", "page", None, 0, ("items",)),
    ),
    "number in brackets": (of(**{"page[number]": NUMBER}), Paging("page", "page[number]")),
    "offset": (of(obj(total=NUMBER, rows=THINGS), offset=NUMBER, limit=NUMBER),
               Paging("offset", "offset", "limit", 0, ("rows",))),
    "offset that means a page": (of(offset=said(NUMBER, "The page of records to return")), Paging("page", "offset")),
    "nullable offset": (of(offset={"anyOf": [NUMBER, {"type": "null"}]}, limit=NUMBER),
                        Paging("offset", "offset", "limit", 0)),
    "start beside a size": (of(start={**NUMBER, "default": 0}, count=NUMBER), Paging("offset", "start", "count", 0)),
    "token": (of(obj(things=THINGS, nextPageToken=TEXT), pageToken=TEXT),
              Paging("cursor", "pageToken", None, None, ("things",), ("nextPageToken",))),
    "kubernetes": (of(obj(**CONTINUED), **{"continue": TEXT, "limit": NUMBER}),
                   Paging("cursor", "continue", "limit", None, ("items",), ("metadata", "continue"))),
    "a page that is a token": (of(obj(data=THINGS, next_page=TEXT), page=TEXT, limit=NUMBER),
                               Paging("cursor", "page", "limit", None, ("data",), ("next_page",))),
    "the last one's id": (of(obj(data=THINGS, has_more=FLAG), starting_after=TEXT, limit=NUMBER),
                          Paging("last", "starting_after", "limit", None, ("data",))),
    "since an id": (of(since=said(NUMBER, "A user ID. Only users with an ID greater than this.")),
                    Paging("last", "since")),
    "a link in the response": (
        of(obj(data=THINGS, links=obj(next=TEXT)), before=TEXT, limit=NUMBER),
        Paging("link", "", "limit", None, ("data",), ("links", "next")),
    ),
    "a link in an object": (
        of(obj(data=THINGS, _links=obj(next=obj(href=TEXT))), page=NUMBER),
        Paging("page", "page", None, None, ("data",), ("_links", "next", "href")),
    ),
    "nothing known of the response": (of(None, page=NUMBER, page_size=NUMBER),
                                      Paging("page", "page", "page_size", None, None)),
    "a list one level down": (of(obj(data=obj(things=THINGS), ok=FLAG), page=NUMBER),
                              Paging("page", "page", None, None, ("data", "things"))),
    "the list with the tool's name": (of(obj(things=THINGS, tags=THINGS), page=NUMBER),
                                      Paging("page", "page", None, None, ("things",))),
}  # fmt: skip


@pytest.mark.parametrize("case", PAGED)
def test_what_is_paged(case: str) -> None:
    protocol, paging = PAGED[case]
    assert paging_of(protocol) == paging
    first = f"{paging.parameter}=…, " if paging.first is None and paging.parameter in protocol.required else ""
    assert f"all_pages(list_things, {first}...) returns" in paging_line(protocol)


NOT_PAGED = {
    "a size alone": of(limit=NUMBER),
    "one thing": of(obj(id=TEXT, name=TEXT), page=NUMBER),
    "two lists": of(obj(left=THINGS, right=THINGS), page=NUMBER),
    "a page's name": of(
        obj(revisions=THINGS), page=said(TEXT, "title"), limit={"type": "object"}, start_page=FLAG
    ).model_copy(update={"returns": obj(text=TEXT)}),
    "a start date": of(start=said(TEXT, "first day"), limit=NUMBER),
    "an offset of which nothing more is known": of(None, offset=NUMBER),
    "a cursor that no response gives": of(obj(things=THINGS), after=TEXT),
    "a filter by sender": of(obj(calls=THINGS, next=TEXT), from_=said(TEXT, "source number")),
    "dates": of(obj(data=THINGS, has_more=FLAG), after={**TEXT, "format": "date-time"}),
    "a link with nothing to turn": of(obj(data=THINGS, nextLink=TEXT), start=said(TEXT, "Start date"), top=NUMBER),
    "a write": of(effect=Effect.WRITE, page=NUMBER),
    "of unknown effect": of(effect=Effect.UNKNOWN, page=NUMBER),
}


@pytest.mark.parametrize("case", NOT_PAGED)
def test_what_is_not_paged(case: str) -> None:
    assert paging_of(NOT_PAGED[case]) is None
    assert paging_line(NOT_PAGED[case]) == ""


def test_the_stub_of_what_is_not_paged_stays_as_it_was() -> None:
    for protocol in [*atlas_toolset().protocols, *NOT_PAGED.values()]:
        assert render_stub(protocol, pages=True) == render_stub(protocol)
    paged, _ = PAGED["page and size"]
    line = "Paged by page and per_page: all_pages(list_things, ...) returns the items of all pages as one list."
    assert line in render_stub(paged, pages=True)
    assert line not in render_stub(paged)


TOKEN = PAGED["token"][1]
SHOWN = Paging("page", "page", "size", None, None)


@pytest.mark.parametrize(
    ("paging", "value", "items", "following", "more"),
    [
        (TOKEN, {"things": [1], "nextPageToken": "b"}, [1], "b", None),
        (TOKEN, {"things": [1]}, [1], None, False),
        (TOKEN, {"things": [1], "nextPageToken": ""}, [1], None, False),
        (TOKEN, {}, [], None, False),
        (SHOWN, [1, 2], [1, 2], None, None),
        (SHOWN, {"data": [1], "tags": [2], "meta": {"next_page": 3}}, [1], 3, None),
        (SHOWN, {"result": {"rows": [1]}, "has_more": False}, [1], None, False),
        (SHOWN, {"rows": [1], "is_last": False}, [1], None, True),
        (SHOWN, {"rows": [1], "links": {"next": {"href": "/x?page=2"}}}, [1], "/x?page=2", None),
        (SHOWN, {"rows": [1], "next_page_token": "t"}, [1], None, True),
        (SHOWN, {"rows": [1], "next": None}, [1], None, False),
    ],
)
def test_what_a_response_says(paging: Paging, value: Any, items: list[Any], following: Any, more: bool | None) -> None:
    page = read_page(paging, "list_things", value)
    assert (page.items, page.next, page.more) == (items, following, more)


@pytest.mark.parametrize("value", [None, "text", 3, {"left": [1], "right": [2]}, {"things": {"a": 1}}])
def test_a_response_without_the_list_is_no_page(value: Any) -> None:
    with pytest.raises(NoList):
        read_page(TOKEN if isinstance(value, dict) and "things" in value else SHOWN, "count", value)


def test_of_a_url_nothing_is_taken_but_arguments_that_speak_of_pages() -> None:
    tool = of(cursor=TEXT, **{"page[size]": NUMBER}, repo=TEXT, callback=TEXT)
    url = "http://10.0.0.1/admin?cursor=b%3D&page%5Bsize%5D=9&repo=secret&callback=http://x&other=1"
    assert arguments_of_url(url, tool) == {"cursor": "b=", "page[size]": "9"}
    assert arguments_of_url("http://[::1/?cursor=b", tool) == {}
    assert arguments_of_url("?" + "&".join(f"cursor={n}" for n in range(101)), tool) == {}
    assert not is_url("abc?x")
    assert not is_url("/next")
