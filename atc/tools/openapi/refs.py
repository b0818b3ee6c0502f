"""Following ``$ref``: inside the document always, to other documents only where the caller allowed it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from atc.errors import ToolImportError
from atc.tools.openapi.load import Document, fetch, public_url
from atc.tools.parse import MAX_BYTES, parse_document

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
    """The content of another document with its references as seen from this one."""
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
