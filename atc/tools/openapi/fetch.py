"""Documents over HTTP: one that is named, and what one origin answers while a document is looked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

from atc._host.http_body import ENCODINGS, unpacker
from atc.errors import EnvironmentProblem, ToolError, ToolImportError
from atc.tools.openapi.servers import is_open_to_others
from atc.tools.parse import MAX_BYTES, too_large

MAX_REQUESTS = 50
"""Requests that looking for a document may take, redirects among them."""

MAX_SECONDS = 30.0
"""Seconds that looking for a document may take."""

MAX_PAGE_BYTES = 2_000_000
"""Bytes of a page or a script that are read; the rest of it is left."""

MAX_REDIRECTS = 5
_MAX_FAILURES = 3
_MAX_ELSEWHERE = 20
_HEADERS = {"Accept": "application/json, application/yaml, */*;q=0.5", "Accept-Encoding": ENCODINGS}
_TRY_S, _CHUNK = 10.0, 65_536
_TEXTS = ("text/html", "application/xhtml", "text/javascript", "application/javascript", "application/x-javascript")
_PORTS = {"http": 80, "https": 443}


class NotThere(ToolImportError):
    """The server answered, and not with a document."""


class Unreachable(ToolImportError, EnvironmentProblem):
    """The server did not answer, or its answer broke off: later it may be there."""


def fetch(url: str, timeout_s: float, max_bytes: int = MAX_BYTES) -> bytes:
    """Download a document that somebody named; redirects are followed.

    Raises:
        NotThere: the server answers with an error.
        Unreachable: it does not answer.
        ToolImportError: it sends more than ``max_bytes``, or what cannot be unpacked.
    """
    where, body = public_url(url), bytearray()
    try:
        with (
            httpx.Client(follow_redirects=True, max_redirects=MAX_REDIRECTS, timeout=timeout_s) as client,
            client.stream("GET", url, headers=_HEADERS) as response,
        ):
            if not response.is_success:
                raise NotThere(f"{where} answered with status {response.status_code}: check the URL")
            unpack = unpacker(response, max_bytes)
            for chunk in response.iter_raw(_CHUNK):
                body += unpack(chunk)
                if len(body) > max_bytes:
                    raise too_large(where, max_bytes)
    except (httpx.HTTPError, httpx.InvalidURL, ToolError) as error:
        raise _unreadable(where, error) from None
    return bytes(body)


def public_url(url: str) -> str:
    """The URL without what may be a credential: user, password, query and fragment.

    Raises:
        ToolImportError: it is no URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ToolImportError("the document's URL is not valid: check its brackets") from None
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _unreadable(where: str, error: Exception) -> ToolImportError:
    down = isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol)
    made = Unreachable if down else ToolImportError
    return made(f"{where} cannot be read ({type(error).__name__}): check the URL and the network")


@dataclass(frozen=True)
class Page:
    """What one place answers.

    Attributes:
        url: where it was read, after redirects.
        body: its content; of a page or a script the beginning.
        is_text: whether it calls itself a page or a script.
        links: the targets of its ``Link`` header with their relations.
    """

    url: str
    body: bytes
    is_text: bool = False
    links: tuple[tuple[str, str], ...] = ()


@dataclass
class Site:
    """Reads what one origin publishes: nothing of another origin is asked for, whatever a page or a redirect names.

    Args:
        url: the address that the user gave.
        timeout_s: seconds that the first answer may take; a later one has ten.
        max_bytes: bytes of one document. All answers together have twice as many.

    Attributes:
        asked: the URLs that were read, in their order.
        refused: answers that ask for a credential.
        elsewhere: the hosts that redirects and pages named, and that were not asked.
    """

    url: str
    timeout_s: float
    max_bytes: int = MAX_BYTES
    asked: dict[str, None] = field(default_factory=dict)
    refused: int = 0
    elsewhere: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        public_url(self.url)
        self._requests = self._failures = self._bytes = 0
        self._until = time.monotonic() + max(MAX_SECONDS, self.timeout_s)

    async def __aenter__(self) -> Site:
        self._client = httpx.AsyncClient(follow_redirects=False, timeout=self.timeout_s)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.aclose()

    @property
    def left(self) -> int:
        """Requests that may still be made; none where time, bytes or the server are at their end."""
        over = time.monotonic() >= self._until or self._bytes >= 2 * self.max_bytes or self._failures >= _MAX_FAILURES
        return 0 if over else MAX_REQUESTS - self._requests

    def place(self, named: str, base: str) -> str | None:
        """The URL of this origin that a page means; ``None`` for one of another origin, whose host is noted.

        Args:
            named: an absolute or a relative URL, as the page writes it.
            base: against which a relative one counts.
        """
        try:
            url = urljoin(base, named)
            parts, own = urlsplit(url), urlsplit(self.url)
            if parts.scheme not in _PORTS:
                return None
            if not _is_same_place(parts.scheme, url, self.url):
                if len(self.elsewhere) < _MAX_ELSEWHERE and parts.hostname:
                    self.elsewhere[ascii(parts.hostname[:100])[1:-1]] = None
                return None
        except ValueError:
            return None
        return urlunsplit((own.scheme, own.netloc, parts.path or "/", parts.query, ""))

    async def first(self) -> Page:
        """Read the address itself. From http to https of the same host, the origin moves along.

        Raises:
            NotThere: it answers with an error, or leads elsewhere.
            ToolImportError: it cannot be reached, takes too long, or sends too much.
        """
        return await self._read(self.url, max(self.timeout_s, _TRY_S))

    async def get(self, url: str) -> Page | None:
        """Read another place of this origin; ``None`` where nothing can be had there, or nothing more may be asked."""
        if url in self.asked or self.left <= 0:
            return None
        try:
            return await self._read(url, _TRY_S)
        except ToolImportError as error:
            self._failures = 0 if isinstance(error, NotThere) else self._failures + 1
            return None

    async def _read(self, url: str, seconds: float) -> Page:
        where = public_url(url)
        try:
            async with asyncio.timeout(min(seconds, self._until - time.monotonic())):
                for _ in range(MAX_REDIRECTS + 1):
                    self.asked[url] = None
                    self._requests += 1
                    async with self._client.stream("GET", url, headers=_HEADERS) as response:
                        if not response.is_redirect or self.left <= 0:
                            return await self._page(response, url)
                        url = self._redirected(response.headers.get("Location", ""), url)
        except TimeoutError:
            raise Unreachable(f"{where} takes too long to answer: give the document's own URL, or a file") from None
        except (httpx.HTTPError, httpx.InvalidURL, ToolError) as error:
            raise _unreadable(where, error) from None
        raise NotThere(f"{where} redirects {MAX_REDIRECTS} times and more: check the URL")

    def _redirected(self, named: str, url: str) -> str:
        secure = _secured(named, self.url)
        if secure is not None and len(self.asked) == 1:
            self.url = secure
        target = self.place(named, url)
        if target is None:
            leads = public_url(urljoin(url, named)) if _is_url(named) else "no URL"
            raise NotThere(f"{public_url(url)} leads to {leads[:200]!r}, which was not asked: give that address")
        return target

    async def _page(self, response: httpx.Response, url: str) -> Page:
        where = public_url(url)
        if not response.is_success:
            self.refused += response.status_code in (401, 403)
            raise NotThere(f"{where} answered with status {response.status_code}: check the URL")
        is_text = response.headers.get("Content-Type", "").lower().startswith(_TEXTS)
        body, unpack = bytearray(), unpacker(response, MAX_PAGE_BYTES if is_text else self.max_bytes)
        async for raw in response.aiter_raw(_CHUNK):
            chunk = unpack(raw)
            body += chunk
            self._bytes += len(chunk)
            if is_text and len(body) > MAX_PAGE_BYTES:
                break
            if len(body) > self.max_bytes:
                raise too_large(where, self.max_bytes)
        is_text = is_text or body[:100].lstrip()[:1] == b"<"
        return Page(url, bytes(body[:MAX_PAGE_BYTES] if is_text else body), is_text, tuple(_links(response)))


def _links(response: httpx.Response) -> Iterator[tuple[str, str]]:
    for link in list(response.links.values())[:20]:
        for relation in link.get("rel", "").lower().split()[:5]:
            yield relation, link["url"]


def _is_url(named: str) -> bool:
    try:
        return bool(urlsplit(named).netloc)
    except ValueError:
        return False


def _is_same_place(scheme: str, url: str, own_url: str) -> bool:
    """Whether two URLs are of one origin. A service behind a proxy writes http for https, and one that runs here calls
    this machine by any of its names: what is asked for is the origin that the user gave in either case."""
    parts, own = urlsplit(url), urlsplit(own_url)
    port, own_port = (parts.port or _PORTS[scheme]), (own.port or _PORTS[own.scheme])
    same_port = port == own_port or {port, own_port} == {*_PORTS.values()}
    both_here = not (is_open_to_others(f"http://{parts.netloc}") or is_open_to_others(f"http://{own.netloc}"))
    return same_port and ((parts.hostname or "") == (own.hostname or "") or both_here)


def _secured(named: str, own_url: str) -> str | None:
    """The user's address by https, where a redirect leads from http to https of the same host and usual ports."""
    own = urlsplit(own_url)
    try:
        parts = urlsplit(named)
        usual = parts.port in (None, 443) and own.port in (None, 80)
    except ValueError:
        return None
    if (own.scheme, parts.scheme) != ("http", "https") or parts.hostname != own.hostname or not usual:
        return None
    user = own.netloc.rpartition("@")
    return urlunsplit(("https", f"{user[0]}{user[1]}{own.hostname}", own.path, own.query, ""))
