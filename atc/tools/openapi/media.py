"""Media types: which are JSON, which are text, which can be sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from atc.tools.openapi.plan import BodyKind

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+*-]{1,80}/[A-Za-z0-9!#$&^_.+*-]{1,120}(\s*;[\x20-\x7e]{0,200})?\Z")
_TEXTUAL = frozenset({
    "application/xml", "application/yaml", "application/x-yaml", "application/jsonl", "application/x-ndjson",
    "application/ndjson", "application/javascript", "application/js", "application/csv", "application/sql",
    "application/graphql", "application/x-turtle", "application/turtle", "application/rtf", "application/toml",
    "application/jose", "application/jwt", "application/json-seq",
})  # fmt: skip


def essence(media_type: str) -> str:
    """The type without parameters, in lower case: ``text/html; charset=x`` → ``text/html``."""
    return media_type.partition(";")[0].strip().lower()


def is_media_type(text: object) -> bool:
    """Whether ``text`` may stand in a header as a media type."""
    return isinstance(text, str) and _MEDIA_TYPE.match(text) is not None


def is_json(media_type: str) -> bool:
    kind = essence(media_type)
    return kind in ("application/json", "text/json", "application/x-json") or kind.endswith("+json")


def is_text(media_type: str) -> bool:
    """Whether a body of this type is text that a program can read as one string."""
    kind = essence(media_type)
    return kind.startswith(("text/", "message/")) or kind.endswith(("+xml", "+yaml")) or kind in _TEXTUAL


def body_kind(media_type: str) -> BodyKind | None:
    """How a request body of this type is written; ``None`` for what cannot be sent (binary data)."""
    kind = essence(media_type)
    if is_json(kind) or kind in ("*/*", "application/*"):
        return "json"
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind in ("multipart/form-data", "multipart/x-www-form-urlencoded"):
        return "multipart"
    return "text" if is_text(kind) else None


def accept_header(declared: tuple[str, ...]) -> str:
    """What to ask for, of the types that an operation declares for its answers: JSON wherever there is any."""
    json_types = [media_type for media_type in declared if is_json(media_type)][:3]
    if json_types or not declared:
        return ", ".join([*(json_types or ["application/json"]), "*/*;q=0.1"])
    return ", ".join(declared[:5])


def best_body(media_types: Iterable[str]) -> tuple[str, BodyKind] | None:
    """The media type to send, of those that an operation takes: JSON first, then forms, then text."""
    order: tuple[BodyKind, ...] = ("json", "form", "multipart", "text")
    kinds = [(media_type, body_kind(media_type)) for media_type in media_types if is_media_type(media_type)]
    usable = [(media_type, kind) for media_type, kind in kinds if kind is not None]
    return min(usable, key=lambda item: order.index(item[1]), default=None)
