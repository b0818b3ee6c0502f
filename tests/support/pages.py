"""A service that answers in pages, over HTTP, in every way that pages are told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.http import Handler, served

THINGS = [{"id": f"t{n:02}", "size": n} for n in range(1, 24)]
_THING = {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}}
_LIST = {"type": "array", "items": _THING}
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}


def _parameter(name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **more}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@dataclass
class Service:
    """What came in, and where the service is."""

    url: str = ""
    targets: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


Asked = dict[str, str]
Reply = tuple[Any, dict[str, str]]


def _by_link(asked: Asked, url: str) -> Reply:
    page, size = int(asked.get("page", "1")), int(asked.get("per_page", "5"))
    items = THINGS[(page - 1) * size : page * size]
    links = []
    if page > 1:
        links.append(f'<{url}/linked?page={page - 1}&per_page={size}>; rel="prev"')
    if page * size < len(THINGS):
        links.append(f'<{url}/linked?page={page + 1}&per_page={size}&admin=1>; rel="next"')
    return items, {"Link": ", ".join(links)} if links else {}


def _by_cursor(asked: Asked, url: str) -> Reply:
    start = int(asked.get("page_token", "c0")[1:])
    body: dict[str, Any] = {"things": THINGS[start : start + 5]}
    if start + 5 < len(THINGS):
        body["nextPageToken"] = f"c{start + 5}"
    return body, {}


def _by_url(asked: Asked, url: str) -> Reply:
    start = int(asked.get("before", "0"))
    more = start + 5 < len(THINGS)
    following = f"http://169.254.169.254/elsewhere?before={start + 5}&limit=5&callback=x" if more else None
    return {"data": THINGS[start : start + 5], "links": {"next": following}}, {}


def _by_page(asked: Asked, url: str) -> Reply:
    page = int(asked.get("page", "0"))  # it counts from 0, and its document does not say so
    return {"results": THINGS[page * 5 : page * 5 + 5]}, {}


def _by_offset(asked: Asked, url: str) -> Reply:
    start = int(asked.get("offset", "0"))
    return {"items": THINGS[start : start + 5], "total": len(THINGS)}, {}


def _by_last(asked: Asked, url: str) -> Reply:
    ids = [thing["id"] for thing in THINGS]
    start = ids.index(asked["starting_after"]) + 1 if "starting_after" in asked else 0
    return {"data": THINGS[start : start + 5], "has_more": start + 5 < len(THINGS)}, {}


KINDS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Callable[[Asked, str], Reply]]] = {
    "linked": ([_parameter("page", _NUMBER), _parameter("per_page", _NUMBER)], _LIST, _by_link),
    "by_cursor": (
        [_parameter("page_token", _TEXT)],
        _object(things=_LIST, nextPageToken=_TEXT),
        _by_cursor,
    ),
    "by_url": (
        [_parameter("before", _TEXT), _parameter("limit", _NUMBER), _parameter("callback", _TEXT)],
        _object(data=_LIST, links=_object(next=_TEXT)),
        _by_url,
    ),
    "by_page": ([_parameter("page", _NUMBER)], _object(results=_LIST), _by_page),
    "by_offset": (
        [_parameter("offset", _NUMBER), _parameter("limit", _NUMBER)],
        _object(items=_LIST, total=_NUMBER),
        _by_offset,
    ),
    "by_last": (
        [_parameter("starting_after", _TEXT), _parameter("limit", _NUMBER)],
        _object(data=_LIST, has_more={"type": "boolean"}),
        _by_last,
    ),
}


def document() -> dict[str, Any]:
    paths = {
        f"/{name}": {
            "get": {
                "operationId": name,
                "parameters": parameters,
                "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": returns}}}},
            }
        }
        for name, (parameters, returns, _) in KINDS.items()
    }
    return {"openapi": "3.0.3", "info": {"title": "Things", "version": "1"}, "paths": paths}


@contextmanager
def paged_service() -> Iterator[tuple[Service, Toolset]]:
    """The service on the loopback, and its tools."""
    service = Service()

    class Paged(Handler):
        def do_GET(self) -> None:
            service.targets.append(self.path)
            parts = urlsplit(self.path)
            asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            try:
                (value, headers), status = KINDS[parts.path.strip("/")][2](asked, service.url), 200
            except ValueError as error:
                value, headers, status = {"message": str(error)}, {}, 500
            self.say_json(status, value, **headers)

    with served(Paged) as service.url:
        yield service, import_openapi(document(), base_url=service.url)
