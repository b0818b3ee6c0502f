"""A service's address → its document: the places where frameworks publish it, and what a page of reference names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

from atc.errors import ToolImportError

PLACES = (
    "openapi.json",  # FastAPI, Litestar, many by hand
    "openapi.yaml",
    "swagger.json",  # Flask-RESTX, ASP.NET of old
    "v3/api-docs",  # Spring
    "v2/api-docs",
    "swagger/v1/swagger.json",  # ASP.NET
    "api/openapi.json",
    "api/schema/",  # Django REST framework with drf-spectacular
    "api-docs",
)
"""Where a document is looked for, below the address that was given and below the host."""

PAGES = ("docs", "swagger-ui/index.html", "redoc")
"""Pages of reference that name the document they show."""

MAX_TRIES = 24
"""Requests that looking for a document may take."""

_PAGE_CHARS = 300_000
_NAMED = re.compile(
    r"""(?:\burl["']?\s{0,4}[:=]|spec-?url\s{0,4}=|service-desc["'][^<>]{0,80}href=)\s{0,4}["']([^"'<>\s]{1,300})["']"""
)
_LIKELY = re.compile(r"openapi|swagger|api-docs|schema|\.json|\.ya?ml", re.IGNORECASE)


class NotThere(ToolImportError):
    """The server answered, and not with a document."""


def discover(url: str, first_page: bytes, read: Callable[[str], bytes], is_document: Callable[[bytes], bool]) -> str:
    """Find the document of a service.

    Args:
        url: the address that was given; it holds no document itself.
        first_page: what it answers with.
        read: fetches a URL.
        is_document: whether what was fetched is a document of any kind that can be read.

    Returns:
        The document's URL, on the same server.

    Raises:
        ToolImportError: nothing was found; the message lists what was tried. Also whatever ``read`` raises, except
            :class:`NotThere`.
    """
    tried: list[str] = []
    waiting = [*_named_in(first_page, url), *_usual(url, PLACES)]
    pages = list(_usual(url, PAGES))
    while (waiting or pages) and len(tried) < MAX_TRIES:
        is_page = not waiting
        place = pages.pop(0) if is_page else waiting.pop(0)
        if place in tried or place == url:
            continue
        tried.append(place)
        try:
            body = read(place)
        except NotThere:
            continue
        if is_page:
            waiting = list(_named_in(body, place))
        elif is_document(body):
            return place
    paths = ", ".join(urlsplit(place).path for place in tried)
    raise ToolImportError(
        f"{_origin(url)} publishes no OpenAPI document that could be found (tried {paths}): give the document's own URL"
    )


def _usual(url: str, places: tuple[str, ...]) -> Iterator[str]:
    base = url.partition("#")[0].partition("?")[0].rstrip("/") + "/"
    for root in dict.fromkeys((base, _origin(url) + "/")):
        for place in places:
            yield urljoin(root, place)


def _named_in(page: bytes, url: str) -> Iterator[str]:
    """The documents that a page names, of its own server only: a page leads nobody elsewhere."""
    text = page[:_PAGE_CHARS].decode("utf-8", "replace").replace("\\/", "/")
    for named in list(dict.fromkeys(_NAMED.findall(text)))[:5]:
        try:
            place = urljoin(url, named)
        except ValueError:
            continue
        if _LIKELY.search(named) and _origin(place) == _origin(url):
            yield place


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
