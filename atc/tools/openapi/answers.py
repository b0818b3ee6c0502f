"""A service's answer → plain JSON values, or a ToolError that says what went wrong."""

from __future__ import annotations

import codecs
import email.utils
import json
import math
import re
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx

from atc.errors import Outcome, ToolError
from atc.tools.openapi.media import essence, is_json, is_text
from atc.tools.openapi.plan import Operation
from atc.tools.openapi.security import Credentials
from atc.tools.openapi.text import clean
from atc.tools.tool import NextPage

MAX_ERROR_TEXT = 500
"""Characters of a service's own words in an error."""

MAX_URL = 8_000
"""Characters of a URL in a header."""

MAX_ANSWER_DEPTH = 200
"""Levels of nesting of an answer."""

_SHOWN = 200
_TRANSIENT = frozenset({408, 425, 429, 502, 503, 504})
_ERROR_KEYS = (
    "message",
    "error_description",
    "error_message",
    "detail",
    "status_message",
    "title",
    "error",
    "errors",
    "description",
)
_BESIDE_NEXT = frozenset({"prev", "previous", "first", "last"})
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_GZIP_OR_ZLIB = 47


class TooLarge(Exception):
    """A body is over its limit. Never leaves the transport."""


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes, decompressing in steps so that no bomb is ever unpacked.

    Raises:
        TooLarge: the body is longer.
        ToolError: it is compressed in a way that was not asked for, or broken.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return await _collect(response.aiter_raw(), limit)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(f"the answer is compressed as {encoding[:40]!r}, which cannot be read", outcome="unknown")
    return await _collect(_inflated(response.aiter_raw(), limit), limit)


async def _collect(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise TooLarge
    return bytes(body)


async def _inflated(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        async for chunk in chunks:
            yield inflater.decompress(chunk, limit + 1)
            if inflater.unconsumed_tail:
                raise TooLarge
    except zlib.error:
        raise ToolError("the answer's compression is broken", outcome="unknown") from None


def value_of(operation: Operation, response: httpx.Response, body: bytes, credentials: Credentials) -> Any:
    """The value of a successful answer.

    Raises:
        ToolError: it is neither JSON nor text where text is expected.
    """
    if response.status_code in (204, 205) or operation.method == "HEAD" or not body:
        return None
    kind = response.headers.get("content-type", "")
    text = _decoded(response, body)
    declared = {essence(media_type) for media_type in operation.accepts}
    wants_json = not declared or any(is_json(m) or "*" in m for m in declared)
    if text is not None and is_json(kind):
        return credentials.redacted_value(_json(operation, response, text))
    text_expected = operation.returns_text or essence(kind) in declared or "text/*" in declared or not wants_json
    if text is not None and (is_text(kind) or not kind):
        if wants_json and not operation.returns_text:  # JSON under a wrong label is common
            try:
                return credentials.redacted_value(_json(operation, response, text))
            except ToolError:
                if not text_expected:
                    raise _unreadable(operation, response, text, credentials) from None
        if text_expected:
            return credentials.redacted(text)
    raise _unreadable(operation, response, text, credentials)


def next_page(operation: Operation, response: httpx.Response) -> NextPage:
    """The arguments of the next page, by a ``Link`` header (RFC 8288); ``False`` where it shows that there is none.

    Only what the operation takes in its query is read from the URL, which itself goes no further.
    """
    links = response.links
    if "next" not in links:
        return False if operation.links_pages or not _BESIDE_NEXT.isdisjoint(links) else None
    try:
        query = dict(httpx.QueryParams(urlsplit(links["next"].get("url", "")[:MAX_URL]).query))
    except ValueError:
        return {}
    return {p.argument: query[p.name] for p in operation.parameters if p.location == "query" and p.name in query}


def error_of(operation: Operation, response: httpx.Response, body: bytes, credentials: Credentials) -> ToolError:
    """The ToolError for an answer with an error status."""
    status = response.status_code
    words = _service_words(body.decode("utf-8", "replace"), credentials)
    message = f"{operation.label} answered with status {status}"
    message += f": {words}" if words else f" {response.reason_phrase}".rstrip()
    if status in (401, 403):
        message += credentials.missing(operation.security)
    return ToolError(
        credentials.redacted(message),
        status=status,
        outcome="refused" if 400 <= status < 500 else "unknown",
        retry_after=retry_after(response.headers.get("retry-after", "")),
        transient=status in _TRANSIENT,
    )


def retry_after(header: str) -> float | None:
    """Seconds out of a ``Retry-After`` header, which holds seconds or a date; ``None`` if it holds neither."""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _outcome(operation: Operation) -> Outcome:
    """After a success that cannot be read: a write has acted."""
    return "refused" if operation.reads else "unknown"


def _decoded(response: httpx.Response, body: bytes) -> str | None:
    charset = response.charset_encoding or "utf-8"
    try:
        encoding = codecs.lookup(charset).name
        return body.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except (LookupError, UnicodeDecodeError, ValueError):
        return None


def _json(operation: Operation, response: httpx.Response, text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        if text.count("[") + text.count("{") > MAX_ANSWER_DEPTH:
            _check_depth(value)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:_SHOWN]
        raise ToolError(
            f"{operation.label} answered with JSON that cannot be used: {reason}",
            status=response.status_code,
            outcome=_outcome(operation),
        ) from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too big")
    return number


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_ANSWER_DEPTH):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_ANSWER_DEPTH} levels")


def _unreadable(
    operation: Operation, response: httpx.Response, text: str | None, credentials: Credentials
) -> ToolError:
    kind = response.headers.get("content-type", "no content type")[:100]
    shown = f": {clean(credentials.redacted(text), _SHOWN)!r}" if text is not None else " (binary)"
    return ToolError(
        credentials.redacted(f"{operation.label} answered with {kind} instead of JSON{shown}"),
        status=response.status_code,
        outcome=_outcome(operation),
    )


def _service_words(text: str, credentials: Credentials) -> str:
    """What the service itself says about an error, in at most :data:`MAX_ERROR_TEXT` characters."""
    try:  # a credential goes before anything is cut: half of one would not be found any more
        found = _message_in(credentials.redacted_value(json.loads(text)), 0)
    except (ValueError, RecursionError):
        found = clean(credentials.redacted(text), MAX_ERROR_TEXT)
    return found if len(found) <= MAX_ERROR_TEXT else found[:MAX_ERROR_TEXT] + " …"


def _message_in(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list) and value and depth < 4:
        return "; ".join(filter(None, (_message_in(item, depth + 1) for item in value[:5])))
    if isinstance(value, dict) and depth < 4:
        found = [_message_in(value[key], depth + 1) for key in _ERROR_KEYS if key in value]
        words = ": ".join(dict.fromkeys(part for part in reversed(found[:3]) if part))
        return words or json.dumps(value)[: MAX_ERROR_TEXT + 1]
    return "" if value is None else json.dumps(value)[: MAX_ERROR_TEXT + 1]
