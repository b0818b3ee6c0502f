"""Where a document comes from: a file, a URL, or a dict that the caller has already read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from atc.errors import ToolImportError
from atc.tools.openapi.discover import NotThere, discover
from atc.tools.openapi.text import clean
from atc.tools.parse import MAX_BYTES, json_copy, parse_document, too_large

_ACCEPT = "application/json, application/yaml, */*;q=0.5"
_TRY_S = 10.0
_MAX_TITLE = 100
_DOCUMENT = re.compile(rb"""^[\s{]{0,20}["']?(?:openapi|swagger)["']?\s{0,4}:""", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """One OpenAPI document.

    Attributes:
        root: its content, plain JSON values.
        location: its path, URL (without credentials) or title: for messages and ``Protocol.source``.
        url: the URL that it was read from, against which relative server URLs count; ``None`` for files and dicts.
    """

    root: dict[str, Any]
    location: str
    url: str | None = None

    @property
    def title(self) -> str:
        """What the service calls itself; empty where the document does not say."""
        info = self.root.get("info")
        return clean(info.get("title"), _MAX_TITLE) if isinstance(info, dict) else ""

    @property
    def is_swagger2(self) -> bool:
        """Whether it is a document of Swagger 2.0."""
        return "swagger" in self.root


def load_document(
    source: str | Path | dict[str, Any], *, timeout_s: float = 30.0, max_bytes: int = MAX_BYTES
) -> Document:
    """Read a document and check that it is OpenAPI 3 or Swagger 2.0.

    Args:
        source: a path, an ``http(s)://`` URL of a document or of a service that publishes one, or the document itself.
        timeout_s: seconds for a download.
        max_bytes: bytes that it may have.

    Raises:
        ToolImportError: it cannot be read, is over a limit, or is no such document.
    """
    if isinstance(source, dict):
        root = _checked(json_copy(source, "the document"), "the document")
        return Document(root, _title(root))
    text = str(source)
    if text.startswith(("http://", "https://")):
        return _from_url(text, timeout_s, max_bytes)
    return Document(_checked(parse_document(_read(text, max_bytes), text, max_bytes), text), text)


def _from_url(url: str, timeout_s: float, max_bytes: int) -> Document:
    def parsed(body: bytes, place: str) -> Document:
        location = public_url(place)
        return Document(_checked(parse_document(body, location, max_bytes), location), location, place)

    def is_document(body: bytes) -> bool:
        try:
            return bool(parsed(body, url))
        except ToolImportError:
            return False

    page = b""
    with _client(timeout_s) as client:
        try:
            page = _download(client, url, max_bytes)
            return parsed(page, url)
        except ToolImportError as error:
            answered = bool(page) or isinstance(error, NotThere)
            if not answered or is_named_as_document(url) or _DOCUMENT.search(page[:5_000]):
                raise  # nobody answers, or what was named is wrong: another place would be a guess
        client.timeout = httpx.Timeout(min(timeout_s, _TRY_S))
        place = discover(url, page, lambda place: _download(client, place, max_bytes), is_document)
        return parsed(_download(client, place, max_bytes), place)


def is_named_as_document(url: str) -> bool:
    """Whether a URL names a file, not a service."""
    return public_url(url).lower().endswith((".json", ".yaml", ".yml"))


def fetch(url: str, timeout_s: float, max_bytes: int = MAX_BYTES) -> bytes:
    """Download a document.

    Raises:
        NotThere: the server answers with an error.
        ToolImportError: the server cannot be reached, or sends more than ``max_bytes``.
    """
    with _client(timeout_s) as client:
        return _download(client, url, max_bytes)


def _client(timeout_s: float) -> httpx.Client:
    return httpx.Client(follow_redirects=True, max_redirects=5, timeout=timeout_s)


def _download(client: httpx.Client, url: str, max_bytes: int) -> bytes:
    where = public_url(url)
    body = bytearray()
    try:
        with client.stream("GET", url, headers={"Accept": _ACCEPT}) as response:
            if not response.is_success:
                raise NotThere(f"{where} answered with status {response.status_code}: check the URL")
            for chunk in response.iter_bytes(65_536):
                body += chunk
                if len(body) > max_bytes:
                    raise too_large(where, max_bytes)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolImportError(
            f"{where} cannot be read ({type(error).__name__}): check the URL and the network"
        ) from None
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


def _read(path_text: str, max_bytes: int) -> bytes:
    if "\n" in path_text or path_text.lstrip().startswith("{"):
        raise ToolImportError(
            "this is the text of a document, not its path: pass the parsed dict, or write it to a file"
        )
    path = Path(path_text)
    try:
        if path.stat().st_size > max_bytes:
            raise too_large(str(path), max_bytes)
        return path.read_bytes()
    except OSError as error:
        raise ToolImportError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


def _checked(root: Any, where: str) -> dict[str, Any]:
    if not isinstance(root, dict):
        raise ToolImportError(f"{where} is a {type(root).__name__} at its root: an OpenAPI document is a mapping")
    version = str(root.get("openapi", root.get("swagger", "")))
    if not version:
        raise ToolImportError(f"{where} has neither 'openapi' nor 'swagger' at its root: is it an OpenAPI document?")
    if not version.startswith("3." if "openapi" in root else "2"):
        raise ToolImportError(f"{where} is of version {version[:20]!r}: OpenAPI 3.0, 3.1 and Swagger 2.0 can be read")
    if not isinstance(root.get("paths"), dict):
        raise ToolImportError(f"{where} has no 'paths' mapping, so it describes no operation that could become a tool")
    return root


def _title(root: dict[str, Any]) -> str:
    info = root.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    return title[:200] if isinstance(title, str) and title else "document"
