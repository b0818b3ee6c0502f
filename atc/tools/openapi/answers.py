"""A service's answer → plain JSON values or bytes, or a ToolError that says what went wrong.

Whatever a service sends costs time linear in its size.
"""

from __future__ import annotations

import csv
import email.utils
import functools
import io
import json
import math
import re
import time
from collections.abc import Callable
from email.message import Message
from typing import Any
from urllib.parse import urlsplit
from xml.parsers import expat

import httpx
import xmltodict

from atc._records.packing import shortened
from atc.errors import TRANSIENT_STATUSES, Cause, ToolError, ToolImportError
from atc.schemas.names import UniqueNames
from atc.tools.lenient_json import Oddities, Path
from atc.tools.openapi.plan import NAMES, ContentKind, Operation, content_kind, essence
from atc.tools.openapi.security import Credentials
from atc.tools.openapi.text import clean
from atc.tools.parse import parse_document
from atc.tools.tool import NextPage

MAX_DEPTH = 200
"""Levels of nesting of an answer."""

MAX_LABEL = 1_000
"""Characters of a content type in which its character set is looked for."""

MAX_YAML, MAX_XML = 1_000_000, 2_000_000
"""Characters of an answer of these kinds, which take a second or two each."""

# The codecs that services use. Others (`punycode`, `unicode_escape`) take quadratic time or do more than decode.
_CODECS = {
    "utf-8": "utf-8-sig", "utf8": "utf-8-sig", "us-ascii": "ascii", "ascii": "ascii",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "iso-8859-1": "latin-1", "latin-1": "latin-1", "latin1": "latin-1", "windows-1252": "cp1252", "cp1252": "cp1252",
    "iso-8859-2": "iso8859-2", "iso-8859-15": "iso8859-15", "windows-1250": "cp1250", "windows-1251": "cp1251",
    "koi8-r": "koi8-r", "shift-jis": "cp932", "sjis": "cp932", "windows-31j": "cp932", "euc-jp": "euc_jp",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5", "euc-kr": "euc_kr",
}  # fmt: skip
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_XML_ENCODING = re.compile(rb"""\A\s{0,20}<\?xml[^<>]{0,80}\bencoding=["']([A-Za-z0-9._-]{1,30})["']""")
_DELIMITERS = ",;\t|"
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


class Unreadable(ValueError):
    """What is wrong with an answer. Never leaves the transport."""


class _PlainXml:
    """Makes parsers that take no declared attributes: each is compared with all others, and added to every element."""

    @staticmethod
    def ParserCreate(encoding: str | None, separator: str | None) -> Any:
        parser = expat.ParserCreate(encoding, separator)
        parser.AttlistDeclHandler = _no_declarations
        return parser


def _no_declarations(*_: object) -> None:
    raise ValueError("it declares attributes of its own, which is not read")


def decoded(body: bytes, charset: str | None, *, is_xml: bool = False) -> str | None:
    """The text of a body; ``None`` if it is none, or in a character set that is not read.

    Args:
        body: the bytes.
        charset: what the ``Content-Type`` says; else what an XML declaration says; else UTF-8.
        is_xml: look for such a declaration.
    """
    if charset is None and is_xml and (declared := _XML_ENCODING.match(body)):
        charset = declared[1].decode()
    codec = _codec(charset or "utf-8")
    try:
        return body.decode(codec) if codec else None
    except UnicodeDecodeError:
        return None


def charset_in(label: str) -> str | None:
    """The character set that a ``Content-Type`` names."""
    return _charset_in(label[:MAX_LABEL])


@functools.lru_cache
def _charset_in(label: str) -> str | None:
    header = Message()
    header["content-type"] = label
    return header.get_content_charset()


def is_read(charset: str) -> bool:
    """Whether texts in a character set are read."""
    return _codec(charset) is not None


def _codec(charset: str) -> str | None:
    return _CODECS.get(charset.strip("\"' ").lower().replace("_", "-"))


def value_in(kind: ContentKind, text: str, media_type: str = "", odd: Oddities | None = None) -> Any:
    """The value that a text of this kind holds; what is odd in its JSON is noted in ``odd``.

    JSON and YAML give their values, NDJSON a list of them, CSV a list of records (column → text), XML nested mappings
    with ``@name`` for attributes and ``#text`` for text beside them, all else the text.

    Raises:
        Unreadable: the text is not of its kind, or over a limit.
    """
    odd = Oddities() if odd is None else odd
    read = _READERS.get(kind)
    if kind not in ("json", "ndjson", "csv") and read is None:
        return text
    try:
        if read is not None:
            value = read(text)
        elif kind == "csv":
            value = _csv(text, "\t" if "tab-separated" in media_type else "")
        else:
            value = _json(text, odd) if kind == "json" else _ndjson(text, odd)
        if text.count("[") + text.count("{") > MAX_DEPTH or kind in ("xml", "yaml"):
            _check_depth(value)
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except (ValueError, csv.Error, expat.ExpatError, ToolImportError) as error:
        raise Unreadable(str(error)[:_SHOWN]) from None
    return value


def _json(text: str, odd: Oddities, within: Path = ()) -> Any:
    value = odd.read(text, within)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _ndjson(text: str, odd: Oddities) -> list[Any]:
    lines = text.replace("\x1e", "\n").split("\n")  # RFC 7464 begins each value with a record separator
    return [_json(line, odd, (number,)) for number, line in enumerate(filter(str.strip, lines))]


def _yaml(text: str) -> Any:
    if len(text) > MAX_YAML:
        raise Unreadable(f"YAML of more than {MAX_YAML:,} characters: ask for less, or for JSON")
    return parse_document(text, "the answer")


def _xml(text: str) -> Any:
    if len(text) > MAX_XML:
        raise Unreadable(f"XML of more than {MAX_XML:,} characters: ask for less, or for JSON")
    return xmltodict.parse(text, disable_entities=True, expat=_PlainXml)


def _csv(text: str, delimiter: str = "") -> list[dict[str, str]]:
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = delimiter or max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names = UniqueNames()  # a second `total` is `total_2`, and a column without a name has its place: `column_3`
    header = [names.take(name or f"column_{n}") for n, name in enumerate(next((row for row in rows if row), []), 1)]
    records, missing = [], 0
    for row in rows:
        if not row:
            continue
        if len(row) > len(header):
            raise Unreadable(f"line {rows.line_num} has {len(row)} cells for {len(header)} columns")
        missing += len(header) - len(row)
        if missing > len(text):  # short rows under a long header would grow to far more than was sent
            raise Unreadable("most of its cells are missing")
        records.append(dict(zip(header, row + [""] * (len(header) - len(row)), strict=True)))
    return records


_READERS: dict[str, Callable[[str], Any]] = {"yaml": _yaml, "xml": _xml}


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


MAX_ERROR_TEXT = 500
"""Characters of a service's own words in an error."""

MAX_URL = 8_000
"""Characters of a URL in a header."""


def value_of(
    operation: Operation, response: httpx.Response, body: bytes, credentials: Credentials, odd: Oddities | None = None
) -> Any:
    """The value of a successful answer, by its content type (:func:`~atc.tools.openapi.answers.value_in`); what is odd
    in its JSON is noted in ``odd``.

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
    if text is not None and kind == "json":
        return _value(operation, response, kind, text, credentials, odd)
    declared = {content_kind(media_type) for media_type in operation.accepts}
    anything = not declared or any("*" in media_type for media_type in operation.accepts)
    if kind == "binary" and kind in declared:
        return credentials.redacted_bytes(body)
    if text is not None and kind not in ("text", "binary") and (kind in declared or anything):
        return _value(operation, response, kind, text, credentials, odd)
    if text is None or kind == "binary":
        raise _unreadable(operation, response, text, credentials)
    is_page = essence(label) in ("text/html", "application/xhtml+xml", "")
    text_expected = operation.returns == "text" or "text" in declared or (anything and not is_page)
    if (not declared or "json" in declared) and operation.returns != "text":  # JSON under a wrong label is common
        try:
            return _value(operation, response, "json", text, credentials, odd)
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
    message += credentials.hint(operation) if status in (401, 403) else ""
    cause: Cause | None = "unreachable" if status in _DOWN else None
    if status == 401 or (status == 403 and _is_about_the_credential(operation, credentials)):
        cause = "credential"
    return ToolError(
        credentials.redacted(message),
        status=status,
        retry_after=retry_after(response.headers.get("retry-after", "")),
        transient=status in TRANSIENT_STATUSES,
        cause=cause,
        service_message=credentials.redacted(words) or None,
    )


def _is_about_the_credential(operation: Operation, credentials: Credentials) -> bool:
    """As far as one call tells: the broker knows the other calls of the run (:mod:`atc.calls.responses`)."""
    if credentials.sent(operation):
        return not any(parameter.location == "path" for parameter in operation.parameters)
    return credentials.lacking(operation) is not None


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


def _value(
    operation: Operation,
    response: httpx.Response,
    kind: ContentKind,
    text: str,
    credentials: Credentials,
    odd: Oddities | None,
) -> Any:
    try:
        return credentials.redacted_value(value_in(kind, text, response.headers.get("content-type", ""), odd))
    except Unreadable as error:
        raise ToolError(
            credentials.redacted(f"{operation.label} answered with {NAMES[kind]} that cannot be used: {error}"),
            status=response.status_code,
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
        cause="bad_response",
    )


def _service_words(text: str, credentials: Credentials) -> str:
    try:  # a credential goes before anything is cut: half of one would not be found any more
        found = _message_in(credentials.redacted_value(json.loads(text)), 0)
    except (ValueError, RecursionError):
        found = clean(credentials.redacted(text), MAX_ERROR_TEXT)
    return shortened(found, MAX_ERROR_TEXT)


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
