"""The plan of one operation: how its arguments become a request, and its answer a value. Plain data, never a secret."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Location = Literal["path", "query", "header", "cookie"]
Style = Literal[
    "form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject", "json"
]
QUERY_STYLES: tuple[Style, ...] = ("form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject")
BodyKind = Literal["json", "form", "multipart", "text", "binary"]
ContentKind = Literal["json", "ndjson", "yaml", "csv", "xml", "text", "binary"]


@dataclass(frozen=True)
class Parameter:
    """One parameter outside the body.

    Attributes:
        argument: the tool's argument that holds its value.
        name: its name on the wire.
        style: how a value is written; ``"json"`` for one with a JSON content type.
    """

    argument: str
    name: str
    location: Location
    style: Style
    explode: bool
    allow_reserved: bool = False


@dataclass(frozen=True)
class Field:
    """One property of a form: how its value is written, whether it travels as a file, and its own media type."""

    style: Style | None = None
    explode: bool = True
    file: bool = False
    media_type: str | None = None


@dataclass(frozen=True)
class Body:
    """The request body.

    Attributes:
        media_type: its content type as the document writes it.
        argument: the argument that holds the whole body, or ``None`` when its properties are arguments.
        properties: argument → property, when the body is taken apart.
        required: a body is sent even if no argument fills it.
        fields: how the properties of a form are written, where the document says so.
    """

    kind: BodyKind
    media_type: str
    argument: str | None
    properties: dict[str, str] = field(default_factory=dict)
    required: bool = False
    fields: dict[str, Field] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One operation of a service.

    Attributes:
        method: the HTTP method in capitals.
        path: the path template, ``/users/{id}``.
        server: the base URL without a trailing slash, or ``None`` when the document gives none that can be used.
        server_problem: why there is none.
        found_at: the base URL at the place that the document was read from, where ``server`` may be a slip.
        security: alternatives of scheme names, each to be met as a whole; an empty one allows anonymous calls.
        accepts: media types of its successful answers, the one to ask for first.
        returns: what its answers are by the document; ``None`` where it does not say.
        undeclared: arguments that the document does not have are sent too, in the query.
        reads: a call changes nothing, so that one whose answer is lost did no harm.
        links_pages: whether its document declares a ``Link`` header in its answers.
        key_header: the header that its document declares for an idempotency key; empty without one.
    """

    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    server: str | None = None
    server_problem: str = ""
    found_at: str = ""
    security: tuple[tuple[str, ...], ...] = ()
    accepts: tuple[str, ...] = ()
    returns: ContentKind | None = None
    undeclared: bool = False
    reads: bool = False
    links_pages: bool = False
    key_header: str = ""

    @property
    def label(self) -> str:
        """How messages name it: ``GET /users/{id}``."""
        return f"{self.method} {self.path}"

    @property
    def is_safe(self) -> bool:
        """Whether its method is one that a redirect leaves as it is."""
        return self.method in ("GET", "HEAD", "OPTIONS")


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


@functools.lru_cache
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


_XML_NOTE = "An XML document as nested mappings: attributes are '@name', text beside elements is '#text'."


def is_binary(schema: Any) -> bool:
    """Whether a converted schema is that of raw bytes: ``format: binary``, or a media type of its own."""
    if not isinstance(schema, dict) or schema.get("type", "string") != "string" or "contentEncoding" in schema:
        return False
    inside = schema.get("contentMediaType")
    return isinstance(inside, str) and not inside.startswith("text/") and not inside.endswith(("json", "xml"))


def binary_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of bytes, with what ``schema`` says in words."""
    kept: dict[str, Any] = {key: schema[key] for key in ("title", "description", "deprecated") if key in schema}
    return {"type": "string", "format": "binary", **kept}


def value_schema(kind: ContentKind, schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the value that an answer of a kind becomes; ``None`` where nothing is known of it.

    Args:
        kind: what the answer is, but ``"binary"``.
        schema: what the document says of it, converted; ``{}`` for nothing.
    """
    if kind == "text":
        return {"type": "string"}
    if kind == "xml":
        return {"type": "object", "description": _XML_NOTE}
    if kind == "csv":
        return {"type": "array", "items": _record(schema)}
    if kind == "ndjson" and schema.get("type") != "array":
        return {"type": "array", "items": schema} if schema else {"type": "array"}
    return schema or None


def _record(schema: dict[str, Any]) -> dict[str, Any]:
    items = schema.get("items")
    columns = items.get("properties") if isinstance(items, dict) else schema.get("properties")
    record: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
    if isinstance(columns, dict) and columns:
        record["properties"] = {
            name: {"type": "string", **({"description": d} if isinstance(d := _described(column), str) else {})}
            for name, column in columns.items()
        }
    return record


def _described(column: Any) -> Any:
    return column.get("description") if isinstance(column, dict) else None
