"""Media types: what an answer is read as, and how a body is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from atc.tools.openapi.plan import BodyKind, ContentKind

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+*-]{1,80}/[A-Za-z0-9!#$&^_.+*-]{1,120}(\s*;[\x20-\x7e]{0,200})?\Z")
_TEXTUAL = frozenset(
    """
    application/javascript application/js application/sql application/graphql application/x-turtle
    application/turtle application/rtf application/toml application/jose application/jwt application/xhtml+xml
    image/svg+xml
    """.split()
)
_KINDS: dict[str, ContentKind] = {
    **dict.fromkeys(("application/json", "text/json", "application/x-json"), "json"),
    **dict.fromkeys(
        (
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
            "application/jsonlines",
            "application/json-seq",
            "text/x-ndjson",
        ),
        "ndjson",
    ),
    **dict.fromkeys(
        ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"),
        "yaml",
    ),
    **dict.fromkeys(
        ("text/csv", "application/csv", "text/comma-separated-values", "text/tab-separated-values"),
        "csv",
    ),
    **dict.fromkeys(("application/xml", "text/xml"), "xml"),
}
_ENDINGS: dict[str, ContentKind] = {"+json": "json", "+json-seq": "ndjson", "+yaml": "yaml", "+xml": "xml"}

NAMES: dict[ContentKind, str] = {
    "json": "JSON",
    "ndjson": "NDJSON",
    "yaml": "YAML",
    "csv": "CSV",
    "xml": "XML",
    "text": "text",
    "binary": "binary data",
}
"""What messages call each kind."""

_BEST: tuple[ContentKind, ...] = ("json", "ndjson", "yaml", "csv", "xml", "text", "binary")


def essence(media_type: str) -> str:
    """The type without parameters, in lower case: ``text/html; charset=x`` → ``text/html``."""
    return media_type.partition(";")[0].strip().lower()


def is_media_type(text: object) -> bool:
    """Whether ``text`` may stand in a header as a media type."""
    return isinstance(text, str) and _MEDIA_TYPE.match(text) is not None


def content_kind(media_type: str) -> ContentKind:
    """What a body of this type is read as; a wildcard stands for JSON."""
    kind = essence(media_type)
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _TEXTUAL:
        return "text"
    found = next((kinds for ending, kinds in _ENDINGS.items() if kind.endswith(ending)), None)
    if found is not None or kind in ("*/*", "application/*", "*"):
        return found or "json"
    return "text" if kind.startswith(("text/", "message/")) else "binary"


def is_json(media_type: str) -> bool:
    """Whether a media type is one of JSON, without wildcards."""
    return content_kind(media_type) == "json" and "*" not in media_type


def body_kind(media_type: str) -> BodyKind:
    """How a request body of this type is written."""
    kind = essence(media_type)
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind in ("multipart/form-data", "multipart/x-www-form-urlencoded"):
        return "multipart"
    content = content_kind(kind)
    return content if content in ("json", "binary") else "text"


def best_first(media_types: Iterable[str]) -> tuple[str, ...]:
    """Media types in the order in which their answers say most to a program: JSON first, binary data last."""
    return tuple(sorted(dict.fromkeys(media_types), key=lambda media_type: _BEST.index(content_kind(media_type))))


def accept_header(declared: tuple[str, ...]) -> str:
    """The media type to ask for among those of an operation's answers: JSON where there is any."""
    json_types = [media_type for media_type in declared if is_json(media_type)][:3]
    if json_types or not declared:
        return ", ".join([*(json_types or ["application/json"]), "*/*;q=0.1"])
    return ", ".join([declared[0], *(f"{media_type};q=0.5" for media_type in declared[1:5] if ";" not in media_type)])


def best_body(media_types: Iterable[str]) -> tuple[str, BodyKind] | None:
    """The media type to send, of those that an operation takes: JSON first, then forms, text, binary data."""
    order: tuple[BodyKind, ...] = ("json", "form", "multipart", "text", "binary")
    kinds = [(media_type, body_kind(media_type)) for media_type in media_types if is_media_type(media_type)]
    return min(kinds, key=lambda item: order.index(item[1]), default=None)
