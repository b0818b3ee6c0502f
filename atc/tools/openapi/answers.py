"""A service's answer → plain JSON values or bytes, or a ToolError that says what went wrong."""

from __future__ import annotations

import email.utils
import json
import math
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from atc.errors import TRANSIENT_STATUSES, Cause, Outcome, ToolError
from atc.tools.openapi.contents import Unreadable, charset_in, decoded, is_read, value_in
from atc.tools.openapi.media import NAMES, content_kind, essence
from atc.tools.openapi.plan import ContentKind, Operation
from atc.tools.openapi.security import Credentials
from atc.tools.openapi.text import clean
from atc.tools.tool import NextPage

MAX_ERROR_TEXT = 500
"""Characters of a service's own words in an error."""

MAX_URL = 8_000
"""Characters of a URL in a header."""

_SHOWN = 200
_DOWN = frozenset({502, 503, 504})
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


def value_of(operation: Operation, response: httpx.Response, body: bytes, credentials: Credentials) -> Any:
    """The value of a successful answer, by its content type (:func:`~atc.tools.openapi.contents.value_in`).

    Returns:
        JSON values; ``bytes`` where the document declares binary data.

    Raises:
        ToolError: it is not what the document declares, or cannot be read.
    """
    if response.status_code in (204, 205) or operation.method == "HEAD":
        return None
    if operation.returns == "binary":
        return credentials.redacted_bytes(body)
    if not body:
        return None
    label = response.headers.get("content-type", "")
    kind = content_kind(label) if label else "text"
    charset = charset_in(label)
    text = decoded(body, charset, is_xml=kind == "xml")
    declared = {content_kind(media_type) for media_type in operation.accepts}
    anything = not declared or any("*" in media_type for media_type in operation.accepts)
    if kind == "binary" and kind in declared:
        return credentials.redacted_bytes(body)
    if text is not None and kind == "json":
        return _value(operation, response, kind, text, credentials)
    if text is not None and kind not in ("text", "binary") and (kind in declared or anything):
        return _value(operation, response, kind, text, credentials)
    if text is None or kind == "binary":
        raise _unreadable(operation, response, text, credentials)
    is_page = essence(label) in ("text/html", "application/xhtml+xml", "")
    text_expected = operation.returns == "text" or "text" in declared or (anything and not is_page)
    if (not declared or "json" in declared) and operation.returns != "text":  # JSON under a wrong label is common
        try:
            return _value(operation, response, "json", text, credentials)
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
    message += credentials.hint(operation.security) if status in (401, 403) else ""
    cause: Cause | None = "unreachable" if status in _DOWN else None
    if status == 401 or (status == 403 and _is_about_the_credential(operation, credentials)):
        cause = "credential"
    return ToolError(
        credentials.redacted(message),
        status=status,
        outcome="refused" if 400 <= status < 500 else "unknown",
        retry_after=retry_after(response.headers.get("retry-after", "")),
        transient=status in TRANSIENT_STATUSES,
        cause=cause,
        service_message=credentials.redacted(words) or None,
    )


def _is_about_the_credential(operation: Operation, credentials: Credentials) -> bool:
    """Whether a 403 is about the credential, as far as one call tells: it lacks, or the path names no one resource.

    The broker knows the other calls of the run (:mod:`atc.calls.responses`).
    """
    if credentials.sent(operation.security):
        return not any(parameter.location == "path" for parameter in operation.parameters)
    return credentials.lacking(operation.security) is not None


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


def _value(
    operation: Operation, response: httpx.Response, kind: ContentKind, text: str, credentials: Credentials
) -> Any:
    try:
        return credentials.redacted_value(value_in(kind, text, response.headers.get("content-type", "")))
    except Unreadable as error:
        raise ToolError(
            credentials.redacted(f"{operation.label} answered with {NAMES[kind]} that cannot be used: {error}"),
            status=response.status_code,
            outcome=_outcome(operation),
            cause="bad_response",
        ) from None


def _unreadable(
    operation: Operation, response: httpx.Response, text: str | None, credentials: Credentials
) -> ToolError:
    kind = response.headers.get("content-type", "no content type")[:100]
    expected = NAMES[operation.returns or "json"]
    charset = charset_in(kind) or "utf-8"
    nothing = " (binary)" if is_read(charset) else f" (in the character set {charset[:40]!r}, which is not read)"
    shown = f": {clean(credentials.redacted(text), _SHOWN)!r}" if text is not None else nothing
    return ToolError(
        credentials.redacted(f"{operation.label} answered with {kind} instead of {expected}{shown}"),
        status=response.status_code,
        outcome=_outcome(operation),
        cause="bad_response",
    )


def _service_words(text: str, credentials: Credentials) -> str:
    """The service's own message about an error, in at most :data:`MAX_ERROR_TEXT` characters."""
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
