"""Where a document comes from: a file, a URL, or a dict that the caller has already read.

A service's address is not yet a document: :mod:`atc.tools.openapi.discover` finds it. A ``$ref`` is followed inside the
document always, into other documents only where the caller allowed it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from atc._host.blocking import wait_for
from atc.errors import ToolImportError
from atc.tools.openapi.discover import discover
from atc.tools.openapi.fetch import NotThere, Site, fetch, public_url
from atc.tools.openapi.text import clean
from atc.tools.parse import MAX_BYTES, json_copy, parse_document, too_large
from atc.tools.tool import FoundDocument

_MAX_TITLE = 100
_DOCUMENT = re.compile(rb"""^[\s{]{0,20}["']?(?:openapi|swagger)["']?\s{0,4}:""", re.MULTILINE)
_SAYS_SO = re.compile(rb"(?:openapi|swagger)[\"']?\s{0,20}:")
"""The key that each document has, wherever it stands."""


@dataclass(frozen=True)
class Document:
    """One OpenAPI document.

    Attributes:
        root: its content, plain JSON values.
        location: its path, URL (without credentials) or title: for messages and ``Protocol.source``.
        url: the URL that it was read from, against which relative server URLs count; ``None`` for files and dicts.
        found: how it was found, where the user named the service and not the document.
    """

    root: dict[str, Any]
    location: str
    url: str | None = None
    found: FoundDocument | None = None

    @property
    def title(self) -> str:
        """What the service calls itself; empty where the document does not say."""
        info = self.root.get("info")
        return clean(info.get("title"), _MAX_TITLE) if isinstance(info, dict) else ""

    @property
    def has_paths_alone(self) -> bool:
        """Whether it was made of paths that the service lists, and says nothing of arguments."""
        return self.found is not None and self.found.is_listing

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
    if is_named_as_document(url):
        return _parsed(fetch(url, timeout_s, max_bytes), url, max_bytes)

    def parse(body: bytes, place: str) -> dict[str, Any] | None:
        if _SAYS_SO.search(body) is None:
            return None  # to read a page of megabytes that is none may take a minute
        try:
            return _parsed(body, place, max_bytes).root
        except ToolImportError:
            return None

    async def found() -> Document:
        async with Site(url, timeout_s, max_bytes) as site:
            try:
                first = await site.first()
            except NotThere:
                first = None
            if first is not None and ((root := parse(first.body, first.url)) or _DOCUMENT.search(first.body[:5_000])):
                return Document(root, public_url(url), url) if root else _parsed(first.body, url, max_bytes)
            root, place, how = await discover(site, first, parse)
            return Document(root, public_url(place), place, how)

    return wait_for(found())


def _parsed(body: bytes, place: str, max_bytes: int) -> Document:
    location = public_url(place)
    return Document(_checked(parse_document(body, location, max_bytes), location), location, place)


def is_named_as_document(url: str) -> bool:
    """Whether a URL names a file, not a service."""
    return public_url(url).lower().endswith((".json", ".yaml", ".yml"))


def _read(path_text: str, max_bytes: int) -> bytes:
    if "\n" in path_text or path_text.lstrip().startswith("{"):
        raise ToolImportError(
            "this is the text of a document, not its path: pass the parsed dict, or write it to a file"
        )
    path = Path(path_text)
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)  # a device has no end
        if len(content) > max_bytes:
            raise too_large(str(path), max_bytes)
        return content
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


MAX_REMOTE_DOCUMENTS = 50
_MAX_CHAIN = 50


class Resolver:
    """Finds what a ``$ref`` names.

    Args:
        document: the document whose references are followed.
        allow_remote: whether references to http(s) documents may be downloaded.
        timeout_s: seconds for each download.
        max_bytes: bytes of each document.
    """

    def __init__(
        self, document: Document, *, allow_remote: bool = False, timeout_s: float = 30.0, max_bytes: int = MAX_BYTES
    ) -> None:
        self._document = document
        self._allow_remote = allow_remote
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._remote: dict[str, Any] = {}
        self._found: dict[str, Any] = {}

    @property
    def root(self) -> dict[str, Any]:
        """The document whose references are followed."""
        return self._document.root

    def lookup(self, ref: object) -> Any:
        """Return what ``ref`` names; it may be a reference again.

        Raises:
            ToolImportError: it leaves the document without permission, or names nothing.
        """
        if not isinstance(ref, str):
            raise ToolImportError(f"$ref must be a string, not {str(ref)[:80]!r}")
        if ref not in self._found:
            try:
                base, fragment = urldefrag(ref)
                url = urljoin(self._document.url or "", base)
            except ValueError:
                raise ToolImportError(f"$ref {ref[:200]!r} is no valid reference") from None
            root = self._other(url, ref) if base else self._document.root
            self._found[ref] = _at(root, fragment, ref)
        return self._found[ref]

    def follow(self, node: Any) -> Any:
        """Return ``node``, or what it refers to at the end of its chain of references.

        Raises:
            ToolImportError: as :meth:`lookup`; or the chain is a circle.
        """
        for _ in range(_MAX_CHAIN):
            if not (isinstance(node, dict) and "$ref" in node):
                return node
            node = self.lookup(node["$ref"])
        raise ToolImportError(f"$ref {node['$ref']!r} leads in a circle: let it name a definition")

    def mapping(self, node: Any, what: str) -> dict[str, Any]:
        """Like :meth:`follow`, for what must be a mapping.

        Raises:
            ToolImportError: also when it is none; ``what`` names it in the message.
        """
        found = self.follow(node)
        if not isinstance(found, dict):
            raise ToolImportError(f"{what} must be a mapping, not {type(found).__name__}")
        return found

    def _other(self, url: str, ref: str) -> Any:
        if not url.startswith(("http://", "https://")):
            raise ToolImportError(
                f"$ref {ref!r} names another file, which is never read: bundle the document into one file"
            )
        if not self._allow_remote:
            raise ToolImportError(
                f"$ref {ref!r} names another document: bundle the documents into one, or pass allow_remote_refs=True"
            )
        if url not in self._remote:
            if len(self._remote) >= MAX_REMOTE_DOCUMENTS:
                raise ToolImportError(
                    f"$ref {ref!r}: more than {MAX_REMOTE_DOCUMENTS} other documents: bundle them into one"
                )
            parsed = parse_document(fetch(url, self._timeout_s, self._max_bytes), public_url(url), self._max_bytes)
            self._remote[url] = _absolute(parsed, url)
        return self._remote[url]


def _absolute(node: Any, url: str) -> Any:
    if isinstance(node, dict):
        return {
            key: _joined(url, value) if key == "$ref" and isinstance(value, str) else _absolute(value, url)
            for key, value in node.items()
        }
    return [_absolute(item, url) for item in node] if isinstance(node, list) else node


def _joined(url: str, ref: str) -> str:
    try:
        return urljoin(url, ref)
    except ValueError:
        return ref  # refused, by its name, if it is ever followed


def _at(root: Any, fragment: str, ref: str) -> Any:
    if fragment and not fragment.startswith("/"):
        raise ToolImportError(f"$ref {ref!r} names an anchor: only JSON pointers (#/components/…) can be followed")
    node = root
    for raw in fragment.split("/")[1:]:
        token = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and token in node:
            node = node[token]
        elif (
            isinstance(node, list) and token.isascii() and token.isdigit() and len(token) < 8 and int(token) < len(node)
        ):
            node = node[int(token)]
        else:
            raise ToolImportError(f"$ref {ref!r} names nothing: there is no {token[:80]!r}")
    return node
