"""Where a document comes from: a file, a URL, or a dict that the caller has already read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from atc.errors import ToolImportError
from atc.tools.openapi.parse import MAX_BYTES, parse_document, plain


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
    def is_swagger2(self) -> bool:
        return "swagger" in self.root


def load_document(source: str | Path | dict[str, Any], *, timeout_s: float = 30.0) -> Document:
    """Read a document and check that it is OpenAPI 3 or Swagger 2.0.

    Args:
        source: a path, an ``http(s)://`` URL, or the document itself.
        timeout_s: seconds for a download.

    Raises:
        ToolImportError: it cannot be read, is over a limit, or is no such document.
    """
    if isinstance(source, dict):
        root = _checked(plain(source, "the document"), "the document")
        return Document(root, _title(root))
    text = str(source)
    if text.startswith(("http://", "https://")):
        location = public_url(text)
        return Document(_checked(parse_document(fetch(text, timeout_s), location), location), location, text)
    return Document(_checked(parse_document(_read(text), text), text), text)


def fetch(url: str, timeout_s: float) -> bytes:
    """Download a document of at most :data:`MAX_BYTES`.

    Raises:
        ToolImportError: the server cannot be reached, answers with an error, or sends too much.
    """
    where = public_url(url)
    body = bytearray()
    try:
        with (
            httpx.Client(follow_redirects=True, max_redirects=5, timeout=timeout_s) as client,
            client.stream("GET", url, headers={"Accept": "application/json, application/yaml, */*;q=0.5"}) as response,
        ):
            if not response.is_success:
                raise ToolImportError(f"{where} answered with status {response.status_code}: check the URL")
            for chunk in response.iter_bytes(65_536):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ToolImportError(f"{where} is larger than {MAX_BYTES:,} bytes: cut the document down")
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


def _read(path_text: str) -> bytes:
    if "\n" in path_text or path_text.lstrip().startswith("{"):
        raise ToolImportError(
            "this is the text of a document, not its path: pass the parsed dict, or write it to a file"
        )
    path = Path(path_text)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ToolImportError(f"{path} is larger than {MAX_BYTES:,} bytes: cut the document down")
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
