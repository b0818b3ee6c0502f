"""The plan of one operation: how its arguments become a request. Plain data, never a secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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

    @property
    def label(self) -> str:
        """How messages name it: ``GET /users/{id}``."""
        return f"{self.method} {self.path}"

    @property
    def is_safe(self) -> bool:
        """Whether its method is one that a redirect leaves as it is."""
        return self.method in ("GET", "HEAD", "OPTIONS")
