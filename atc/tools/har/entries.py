"""A HAR 1.2 file → its calls, one at a time, and why each other entry is none.

A recording of an hour has tens of megabytes. Its entries are parsed one after the other, and of what is no call only
its kind is kept, so what is held is about as large as the answers in JSON.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from atc.errors import ToolImportError
from atc.tools.openapi.plan import essence, is_json

MAX_BYTES = 200_000_000
"""Bytes of one recording, unless the user sets another bound."""
MAX_ENTRIES = 200_000
MAX_BODY = 5_000_000
"""Characters of a body that is looked at, as many as an answer may have."""
MAX_SEGMENTS, MAX_SEGMENT, MAX_FIELDS = 30, 1_000, 300
"""Parts of a path, characters of one, and headers, cookies and arguments of one entry."""

Kind = Literal[
    "call", "document", "static file", "redirect", "preflight", "websocket", "cached answer", "call without an answer",
    "answer that is no JSON", "odd address", "broken entry", "GraphQL call", "entry beyond the first 200,000",
]  # fmt: skip
"""What an entry is: a call, or why it is none."""
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|[0-9a-f:.]{2,45}")
_STATIC_TYPES = frozenset({"script", "stylesheet", "image", "font", "media", "texttrack", "manifest"})
_BEACONS = frozenset({"ping", "beacon", "cspviolationreport", "csp_report"})
_STATIC = re.compile(
    r"(?:image|font|audio|video)/|text/(?:css|(?:x-)?javascript|ecmascript)|application/(?:(?:x-)?javascript|wasm|x-font"
    r"|font-|vnd\.ms-fontobject|pdf|zip|octet-stream|manifest\+json|vnd\.apple\.mpegurl|dash\+xml)"
)
_STATIC_ENDINGS = tuple(
    ".js .mjs .css .map .png .jpg .jpeg .gif .svg .webp .avif .ico .woff .woff2 .ttf .otf .mp4 .webm .mp3 .wasm".split()
)
_READABLE = re.compile(r"\s{0,20}[{\[]")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request: its media type, and its text or the fields of a form.

    Attributes:
        files: those of the fields that were files.
    """

    media_type: str
    text: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of a recording.

    Attributes:
        kind: see :data:`Kind`; the other attributes are those of a call, and may be empty for what is none.
        host: in lower case; of an IPv6 address without brackets.
        segments: of the path, percent-decoded; the last is empty where the path ends in a slash.
        headers: of the request, by name in lower case.
        cookies: that were sent.
        set_cookies: the values of the answer's ``Set-Cookie`` headers.
        answer: the text of the body; ``None`` where the recording has none.
        page: the page of the recording that it belongs to.
    """

    kind: Kind
    method: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0
    segments: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = field(default=None, repr=False)
    status: int = 0
    media_type: str = ""
    answer: str | None = field(default=None, repr=False)
    set_cookies: tuple[str, ...] = field(default=(), repr=False)
    at: datetime | None = None
    page: str = ""


def read_entries(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[Entry]:
    """Yield the entries of a recording in their order.

    Raises:
        ToolImportError: it cannot be read, is too large, or is no HAR.
    """
    text = _text(path, max_bytes)
    decoder = json.JSONDecoder(strict=False)
    try:
        at = _value_of("log", text, 0, decoder)
        at = _value_of("entries", text, at, decoder) if at is not None else None
        if at is None or text[at : at + 1] != "[":
            raise ToolImportError(f"{path} is no recording of a browser: a HAR file has a list log.entries")
        for number, raw in enumerate(_items(text, at, decoder)):
            if number >= MAX_ENTRIES:
                yield Entry("entry beyond the first 200,000")
            else:
                yield _entry(raw)
    except RecursionError:
        raise ToolImportError(f"{path} is nested too deep for a recording of a browser") from None
    except ToolImportError:
        raise
    except ValueError as error:  # also a number of more digits than Python reads
        raise ToolImportError(f"{path} is not valid JSON ({error}): save the recording again, as a HAR file") from None


def _text(path: Path, max_bytes: int) -> str:
    try:
        if path.stat().st_size > max_bytes:
            raise ToolImportError(
                f"{path} is larger than {max_bytes:,} bytes: record less, or let recordings be larger with "
                "max_document_bytes= (on the command line: --openapi max_mb=500)"
            )
        return path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise ToolImportError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


_BLANK = re.compile(r"[ \t\r\n]*")


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value_of(wanted: str, text: str, at: int, decoder: json.JSONDecoder) -> int | None:
    at = _after_blank(text, at)
    if text[at : at + 1] != "{":
        return None
    at = _after_blank(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = decoder.raw_decode(text, at)
        at = _after_blank(text, at)
        if text[at : at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        at = _after_blank(text, at + 1)
        if key == wanted:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _after_blank(text, at)
        if text[at : at + 1] != ",":
            return None
        at = _after_blank(text, at + 1)
    return None


def _items(text: str, at: int, decoder: json.JSONDecoder) -> Iterator[Any]:
    at = _after_blank(text, at + 1)
    while text[at : at + 1] != "]":
        item, at = decoder.raw_decode(text, at)
        yield item
        at = _after_blank(text, at)
        if text[at : at + 1] == ",":
            at = _after_blank(text, at + 1)
        elif text[at : at + 1] != "]":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)


# -- one entry ---------------------------------------------------------------------------------------------------------


def _entry(raw: Any) -> Entry:
    request, response = _mapping(raw, "request"), _mapping(raw, "response")
    url, method, status = request.get("url"), request.get("method"), response.get("status")
    if not isinstance(url, str) or not isinstance(method, str):
        return Entry("broken entry")
    page = raw.get("pageref")
    page = page if isinstance(page, str) else ""
    place = _place(url)
    if place is None:
        return Entry("websocket" if url[:6].lower().startswith(("ws:", "wss:")) else "odd address", page=page)
    scheme, host, port, segments, query = place
    content = _mapping(response, "content")
    media_type = _media_type(content, response)
    found = Entry(
        "call", method.upper()[:20], scheme, host, port, segments,
        status=status if type(status) is int else 0, media_type=media_type, page=page,
    )  # fmt: skip
    kind = _kind(found, raw, response)
    set_cookies, at = _set_cookies(response), _time(raw.get("startedDateTime"))
    if kind != "call":
        return replace(found, kind=kind, segments=(), set_cookies=set_cookies, at=at)
    headers = _headers(request)
    body = _body(request, headers)
    answer = _answer(content)
    if reason := _no_call(found.method, found.status, media_type, answer, body):
        return replace(found, kind=reason, segments=(), set_cookies=set_cookies, at=at)
    return replace(
        found, query=query, headers=headers, cookies=_cookies(request, headers), body=body, answer=answer,
        set_cookies=set_cookies, at=at,
    )  # fmt: skip


def _mapping(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


_Place = tuple[str, str, int, tuple[str, ...], tuple[tuple[str, str], ...]]


def _place(url: str) -> _Place | None:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        scheme = parts.scheme
        if scheme not in ("http", "https") or not _HOST.fullmatch(host):
            return None
        path = parts.path or "/"
        if path.count("/") > MAX_SEGMENTS or len(parts.query) > MAX_BODY:
            return None
        read = (lambda part: unquote(part, errors="replace")) if "%" in path else str
        segments = tuple(map(read, path[1:].split("/")))
        query = _form(parts.query)
    except ValueError:
        return None
    odd = any(each in (".", "..") or len(each) > MAX_SEGMENT for each in segments) or "" in segments[:-1]
    usual = 443 if scheme == "https" else 80
    return None if odd or not path.startswith("/") else (scheme, host, port or usual, segments, query)


def _form(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=MAX_FIELDS)) if text else ()


def _media_type(content: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    given = content.get("mimeType")
    if not isinstance(given, str) or not given or given == "x-unknown":
        given = _headers(response).get("content-type", "")
    return essence(given[:200])


def _kind(entry: Entry, raw: Mapping[str, Any], response: Mapping[str, Any]) -> Kind:
    resource = str(raw.get("_resourceType", "")).lower()
    if resource == "websocket" or entry.status == 101 or "_webSocketMessages" in raw:
        return "websocket"
    if entry.method == "OPTIONS":
        return "preflight"
    if entry.status < 200 or entry.status > 599:
        return "call without an answer"
    from_cache = raw.get("_fromCache") or response.get("_fromCache") or str(raw.get("_fetchType")).endswith("Cache")
    if entry.status == 304 or from_cache:
        return "cached answer"
    if 300 <= entry.status < 400:
        return "redirect"
    shown = resource in ("document", "subdocument") and not is_json(entry.media_type)
    if shown or entry.media_type in ("text/html", "application/xhtml+xml"):
        return "document"
    ending = entry.segments[-1].lower()[-8:] if entry.segments else ""
    if resource in _STATIC_TYPES or _STATIC.match(entry.media_type) or ending.endswith(_STATIC_ENDINGS):
        return "static file"
    return "answer that is no JSON" if resource in _BEACONS else "call"


def _no_call(method: str, status: int, media_type: str, answer: str | None, body: Body | None) -> Kind | None:
    if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        return "answer that is no JSON"
    media = essence(body.media_type) if body is not None else ""
    if body is not None and (media == "application/graphql" or (is_json(media) and _is_graphql(body.text))):
        return "GraphQL call"
    if is_json(media_type) if media_type else bool(answer and _READABLE.match(answer)):
        return None
    nothing = method != "GET" and not answer and (status == 204 or not media_type or status in (200, 201, 202))
    return None if nothing else "answer that is no JSON"


def _is_graphql(text: str) -> bool:
    if not _READABLE.match(text) or not ('"query"' in text or "persistedQuery" in text):
        return False
    try:
        value = json.loads(text[:MAX_BODY])
    except (ValueError, RecursionError):
        return False
    each = value[0] if isinstance(value, list) and value else value
    if not isinstance(each, dict):
        return False
    query, extensions = each.get("query"), each.get("extensions")
    persisted = isinstance(extensions, dict) and "persistedQuery" in extensions
    return persisted or (isinstance(query, str) and "{" in query and bool(each.keys() & {"variables", "operationName"}))


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    return {name.lower()[:200]: value for name, value in _pairs(message.get("headers")) if not name.startswith(":")}


def _pairs(listed: Any) -> Iterator[tuple[str, str]]:
    for each in listed[:MAX_FIELDS] if isinstance(listed, list) else ():
        name, value = (each.get("name"), each.get("value")) if isinstance(each, dict) else (None, None)
        if isinstance(name, str) and name:
            yield name, value if isinstance(value, str) else ""


def _cookies(request: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, str]:
    """The cookies that were sent: by the header, else by the list that some recorders write instead."""
    pairs = [each.partition("=") for each in headers.get("cookie", "").split(";", MAX_FIELDS)[:MAX_FIELDS]]
    found = {name.strip(): value.strip() for name, sign, value in pairs if sign and name.strip()}
    return found or dict(_pairs(request.get("cookies")))


def _set_cookies(response: Mapping[str, Any]) -> tuple[str, ...]:
    listed = response.get("headers")
    found = [
        each["value"]
        for each in (listed[:MAX_FIELDS] if isinstance(listed, list) else ())
        if isinstance(each, dict)
        and str(each.get("name")).lower() == "set-cookie"
        and isinstance(each.get("value"), str)
    ]
    if found:
        return tuple(line for each in found for line in each.split("\n"))  # Chrome joins several with line breaks
    cookies = response.get("cookies")
    made = []
    for each in cookies[:MAX_FIELDS] if isinstance(cookies, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            expires = each.get("expires")
            until = f"; Expires={expires}" if isinstance(expires, str) and expires else ""
            made.append(f"{each['name']}={each.get('value') or ''}{until}")
    return tuple(made)


def _body(request: Mapping[str, Any], headers: Mapping[str, str]) -> Body | None:
    data = _mapping(request, "postData")
    text, listed = data.get("text"), data.get("params")
    media_type = data.get("mimeType") or headers.get("content-type") or ""
    media_type = media_type[:300] if isinstance(media_type, str) else ""
    text = text if isinstance(text, str) and len(text) <= MAX_BODY else ""
    pairs = list(_pairs(listed))
    files = frozenset(each["name"] for each in (listed or ())[:MAX_FIELDS] if _is_file(each)) if pairs else frozenset()
    if text and essence(media_type) == "application/x-www-form-urlencoded":  # the list may be percent-encoded still
        with suppress(ValueError):
            pairs = list(_form(text))
    return Body(media_type, text, tuple(pairs), files) if text or pairs else None


def _is_file(field: Any) -> bool:
    return isinstance(field, dict) and isinstance(field.get("name"), str) and bool(field.get("fileName"))


def _answer(content: Mapping[str, Any]) -> str | None:
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") == "base64":
        try:
            text = base64.b64decode(text[: 2 * MAX_BODY]).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return None
    return text if len(text) <= MAX_BODY else None


def _time(given: Any) -> datetime | None:
    try:
        made = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        return None
    return made if made.tzinfo else made.replace(tzinfo=UTC)
