"""A service's address → its document: what its pages name, the usual places, and roots that list paths.

All of it is data: no script is run, and a page can only name further places of its own origin, within the bounds of
:class:`~atc.tools.openapi.fetch.Site`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from atc.errors import ToolImportError
from atc.schemas.names import function_name
from atc.schemas.telltales import telltale
from atc.tools.openapi.fetch import Page, Site, public_url
from atc.tools.openapi.listings import MAX_LISTED, document_of, item_path, links_of, operation_of
from atc.tools.parse import parse_document
from atc.tools.tool import FoundDocument

Parse = Callable[[bytes, str], dict[str, Any] | None]
"""What was read → a document that can be read; ``None`` for anything else."""

PLACES = (
    "openapi.json",  # FastAPI, Litestar, many by hand
    "openapi.yaml",
    "swagger.json",  # Flask-RESTX, drf-yasg, ASP.NET of old
    "v3/api-docs",  # Spring
    "v2/api-docs",
    "swagger/v1/swagger.json",  # ASP.NET
    "api/openapi.json",  # Django Ninja
    "api/schema/",  # Django REST framework with drf-spectacular
    "api-docs",
    "schema/openapi.json",  # Litestar
    "apispec_1.json",  # Flasgger
    "api-json",  # NestJS
)
"""Where a document is looked for, below the address that was given; the first nine also below its host."""

PAGES = ("docs", "swagger-ui/index.html", "redoc", "api/docs", "swagger/", "apidocs/", "ui/")
"""Pages of reference that name the document they show."""

CATALOG = ".well-known/api-catalog"
"""The list of a host's documents (RFC 9727)."""

ROOTS = ("api/", "api/v1/", "v1/", "rest/")
"""Where a service may list its paths, beside its address."""

FOLLOWED = 12
"""Places of a listing that are read: they may list more, and their items may name paths of their own."""

_SPARE = 8
"""Requests that the usual places leave to what pages name."""

_NAMED = re.compile(
    r"""(?:\b(?P<sure>config_?url|spec-?url|data-url|api-?description-?url)["']?\s{0,4}[:=]
        |(?P<desc>service-desc)["'][^<>]{0,80}href=|\burl["']?\s{0,4}:)\s{0,4}["'](?P<url>[^"'<>\s]{1,300})["']""",
    re.IGNORECASE | re.VERBOSE,
)
_DESC = re.compile(r"""<link[^<>]{0,80}href=["']([^"'<>\s]{1,300})["'][^<>]{0,80}service-desc""", re.IGNORECASE)
_SCRIPT = re.compile(r"""<script[^<>]{0,100}\ssrc=["']([^"'<>\s]{1,300})["']""", re.IGNORECASE)
_OWN_SCRIPT = re.compile(r"(?:initializer|swagger-ui-init|swagger|redoc|index)[\w.-]{0,20}\.js", re.IGNORECASE)
_BUNDLE = re.compile(r"bundle|preset|standalone|\.min\.", re.IGNORECASE)
_INLINE = re.compile(r"""["']?\b(?:swaggerDoc|spec)["']?\s{0,4}[:=]\s{0,4}(?=\{)""")
_LIKELY = re.compile(r"openapi|swagger|api-?docs?|schema|spec|\.json|\.ya?ml", re.IGNORECASE)
_RELATIONS = {"service-desc", "api-catalog", "describedby"}
_PAGE_CHARS = 300_000
_MAX_NAMED, _MAX_ROOTS = 8, 3


@dataclass(frozen=True)
class _Lead:
    url: str
    named_by: str
    base: str = ""


Found = tuple[dict[str, Any], str, FoundDocument]
"""A document's content, the URL that it was read from, and how it was found."""


async def discover(site: Site, first: Page | None, parse: Parse) -> Found:
    """Find the document of a service whose address holds none itself.

    Args:
        site: reads its places.
        first: what the address answers; ``None`` where it answers with an error.
        parse: tells documents from anything else.

    Raises:
        ToolImportError: nothing was found; the message says what was asked, and what to do.
    """
    search = _Search(site, parse)
    found = await search.take(first, "") if first is not None else None
    found = found or await search.usual() or await search.listing()
    if found is None:
        raise ToolImportError(_nothing(site))
    return found


class _Search:
    def __init__(self, site: Site, parse: Parse) -> None:
        self.site, self.parse = site, parse
        self.roots: dict[str, Any] = {}
        """Answers that list paths, by their URLs."""

    async def usual(self) -> Found | None:
        """Ask the usual places, and follow what their pages name."""
        for place in self._usual():
            if self.site.left <= _SPARE:
                return None
            page = await self.site.get(place)
            if page is not None and (found := await self.take(page, "")) is not None:
                return found
        return None

    def _usual(self) -> Iterator[str]:
        base = self.site.url.partition("#")[0].partition("?")[0].rstrip("/") + "/"
        root = urljoin(base, "/")
        yield urljoin(root, CATALOG)
        yield from (urljoin(base, place) for place in PLACES)
        yield from (urljoin(root, place) for place in PLACES[:9])
        yield from (urljoin(base, place) for place in (*PAGES, *ROOTS))
        yield from (urljoin(root, place) for place in (*PAGES, *ROOTS))

    async def take(self, page: Page, named_by: str) -> Found | None:
        """Take a page for a document, or follow what it names, nearest first."""
        waiting = deque([(page, _Lead(page.url, named_by))])
        leads: deque[_Lead] = deque()
        while waiting:
            page, lead = waiting.popleft()
            value = self.parse(page.body, page.url) if not page.is_text else None
            if value is None and page.is_text:
                value = self._inline(page)
            if value is not None:
                return self._found(value, page.url, lead, leads)
            leads.extend(self._leads(page, lead))
            while leads and not waiting and self.site.left > 0:
                lead = leads.popleft()
                if (answer := await self.site.get(lead.url)) is not None:
                    waiting.append((answer, lead))
        return None

    def _found(self, root: dict[str, Any], url: str, lead: _Lead, leads: deque[_Lead]) -> Found:
        others = [each.url for each in leads if each.named_by == lead.named_by and _LIKELY.search(each.url)]
        paths = tuple(urlsplit(other).path for other in dict.fromkeys(others) if other != url)
        return root, url, self._how(url, lead.named_by, paths)

    def _how(self, url: str, named_by: str, others: tuple[str, ...], *, listing: bool = False) -> FoundDocument:
        elsewhere, requests = tuple(self.site.elsewhere), len(self.site.asked)
        return FoundDocument(public_url(url), public_url(named_by), others, elsewhere, requests, listing)

    def _inline(self, page: Page) -> dict[str, Any] | None:
        """A document that stands in a script as a literal (NestJS): read as JSON, never run."""
        text = page.body.decode("utf-8", "replace")
        for match in list(_INLINE.finditer(text[:_PAGE_CHARS]))[:3]:
            try:
                _, end = json.JSONDecoder().raw_decode(text, match.end())
            except (ValueError, RecursionError):
                continue
            if (value := self.parse(text[match.end() : end].encode(), page.url)) is not None:
                return value
        return None

    # -- what a page names ---------------------------------------------------------------------------------------------

    def _leads(self, page: Page, lead: _Lead) -> list[_Lead]:
        base = lead.base or page.url
        named = [(url, page.url) for relation, url in page.links if relation in _RELATIONS]
        if page.is_text:
            named += [(url, base) for url in _named_in(page)]
        elif (value := _json(page)) is not None:
            named += [(url, base) for url in _named_by_json(value)]
            if len(self.roots) < _MAX_ROOTS and links_of(value):
                self.roots[page.url] = value
        made = {}
        for url, against in named[:_MAX_NAMED]:
            place = self.site.place(url, against)
            if place is not None and place not in self.site.asked:
                made[place] = _Lead(place, page.url, base if page.is_text else "")
        return [*made.values()]

    # -- roots that list paths -----------------------------------------------------------------------------------------

    async def listing(self) -> Found | None:
        """A document of the paths that roots list. Some that read are asked: they may list more, or have items."""
        listed: dict[str, tuple[str, ...]] = {}
        waiting, to_ask = deque(self.roots.items()), FOLLOWED
        while waiting:
            url, value = waiting.popleft()
            place, here = partial(self.site.place, base=url), urlsplit(url).path
            new = []
            if here in listed and (item := item_path(here, value, place)) is not None:
                listed.setdefault(item, ())
            for link in links_of(value) if isinstance(value, dict) or here not in listed else ():
                operation = operation_of(link, place)
                if operation is None or operation[0] == here or len(listed) >= MAX_LISTED:
                    continue
                if operation[0] not in listed:
                    listed[operation[0]] = operation[1]
                    new.append(operation[0])
            for path in [path for path in new if "{" not in path and not _tells_effect(path)][:to_ask]:
                to_ask -= 1
                page = await self.site.get(self.site.place(path, url) or url)
                if page is not None and not page.is_text and (answer := _json(page)) is not None:
                    waiting.append((self.site.place(path, url) or url, answer))
        if not listed:
            return None
        first = next(iter(self.roots))
        own = urlsplit(public_url(first))
        root = document_of(own.hostname or "", f"{own.scheme}://{own.netloc}", listed)
        return root, first, self._how(first, "", (), listing=True)


def _tells_effect(path: str) -> str:
    """The verb in a path that suggests an effect: such a place is listed, and not asked."""
    label = f"GET {path}"
    return telltale(function_name(label, "get", path)) or telltale(label)


def _json(page: Page) -> Any:
    if page.body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return parse_document(page.body, "the answer", json_alone=True)
    except ToolImportError:
        return None


def _named_in(page: Page) -> Iterator[str]:
    text = page.body[:_PAGE_CHARS].decode("utf-8", "replace").replace("\\/", "/")
    yield from _DESC.findall(text)[:2]
    for match in _NAMED.finditer(text):
        if match["sure"] or match["desc"] or _LIKELY.search(match["url"]):
            yield match["url"]
    for script in _SCRIPT.findall(text):
        if _OWN_SCRIPT.search(script) and not _BUNDLE.search(script):
            yield script


def _named_by_json(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    linkset, urls = value.get("linkset"), value.get("urls")
    for context in linkset[:20] if isinstance(linkset, list) else ():
        for relation in ("service-desc", "item") if isinstance(context, dict) else ():
            targets = context.get(relation)
            yield from _texts(targets, "href")
    yield from _texts(urls, "url")
    if isinstance(url := value.get("url"), str) and _LIKELY.search(url):
        yield url


def _texts(items: Any, key: str) -> list[str]:
    found = [item.get(key) for item in items[:20] if isinstance(item, dict)] if isinstance(items, list) else []
    return [text for text in found if isinstance(text, str)]


def _nothing(site: Site) -> str:
    paths = ", ".join(urlsplit(place).path or "/" for place in site.asked)
    locked = f"; {site.refused} of them ask for a credential" if site.refused else ""
    away = f"; it names {', '.join(site.elsewhere)}, which was not asked" if site.elsewhere else ""
    own = urlsplit(public_url(site.url))
    return (
        f"{own.scheme}://{own.netloc} publishes no OpenAPI document that could be found, and lists no paths (tried "
        f"{paths}{locked}{away}): give the document's own URL, the address of the page that shows "
        "the documentation, a file with its paths, or a recording (har:FILE)"
    )
