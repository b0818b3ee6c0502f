"""The text of an answer → plain JSON values, by its kind. Whatever a service sends costs time linear in its size."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from email.message import Message
from typing import Any
from xml.parsers import expat

import xmltodict

from atc.errors import ToolImportError
from atc.tools.names import UniqueNames
from atc.tools.openapi.plan import ContentKind
from atc.tools.parse import parse_document

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
    header = Message()
    header["content-type"] = label[:MAX_LABEL]
    return header.get_content_charset()


def is_read(charset: str) -> bool:
    """Whether texts in a character set are read."""
    return _codec(charset) is not None


def _codec(charset: str) -> str | None:
    return _CODECS.get(charset.strip("\"' ").lower().replace("_", "-"))


def value_in(kind: ContentKind, text: str, media_type: str = "") -> Any:
    """The value that a text of this kind holds.

    JSON and YAML give their values, NDJSON a list of them, CSV a list of records (column → text), XML nested mappings
    with ``@name`` for attributes and ``#text`` for text beside them, all else the text.

    Raises:
        Unreadable: the text is not of its kind, or over a limit.
    """
    read = _READERS.get(kind)
    if read is None:
        return text
    try:
        value = _csv(text, "\t" if "tab-separated" in media_type else "") if kind == "csv" else read(text)
        if text.count("[") + text.count("{") > MAX_DEPTH or kind in ("xml", "yaml"):
            _check_depth(value)
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except (ValueError, csv.Error, expat.ExpatError, ToolImportError) as error:
        raise Unreadable(str(error)[:_SHOWN]) from None
    return value


def _json(text: str) -> Any:
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _ndjson(text: str) -> list[Any]:
    lines = text.replace("\x1e", "\n").split("\n")  # RFC 7464 begins each value with a record separator
    return [_json(line) for line in lines if line.strip()]


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


_READERS: dict[str, Callable[[str], Any]] = {"json": _json, "ndjson": _ndjson, "yaml": _yaml, "xml": _xml, "csv": _csv}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name[:80]!r} stands twice in one object")
            seen.add(name)
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
