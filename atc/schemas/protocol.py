"""The protocol of a tool: what a model reads about it (ATC §3.1).

A protocol is a plain document. Its JSON Schema is published as ``protocols/protocol.schema.json``; a file that fits it
is a tool's documentation whoever wrote it: a person, an importer, or probing.

``{"type": "string", "format": "binary"}`` is what takes Python's ``bytes``, and nothing else. Text is refused there,
base64 text too: what the text should become is the program's to say. A validator knows JSON values only, so bytes are
shown to it in their packed form (:mod:`atc._records.packing`), and the schema is rewritten to fit it
(:func:`for_validator`).
"""

from __future__ import annotations

import hashlib
import keyword
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from atc._host.lazy import kept_by_identity
from atc._records.packing import TAG, shortened
from atc._records.records import Effect
from atc.schemas.names import argument_names, tool_name

JsonSchema = dict[str, Any]
"""A JSON Schema (2020-12). ``$ref`` may point into the schema's own ``$defs`` only."""

MAX_DESCRIPTION = 20_000
"""Characters of a description that are kept; the rest of a longer one is cut."""


MAX_LABEL = 200
"""Characters of a source's label that are looked at for a name."""
MAX_PREFIX = 30
"""Characters of a source's label in front of the name of a tool."""

IN_PROCESS = ("function", "langchain", "pydantic-ai", "smolagents")
"""Kinds of sources whose tools are Python objects of this process."""


class Provenance(StrEnum):
    """Where a protocol's statements come from."""

    WRITTEN = "written"
    IMPORTED = "imported"
    INFERRED = "inferred"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Status(_Document):
    """One way that a call can end: an HTTP status code or a word, and what it means."""

    code: int | str
    description: str = ""


class Example(_Document):
    """One call that was made, or might be: arguments and the response they gave.

    Attributes:
        description: the question that the call answers.
        program: a program that makes it, with the calls before it that it needs.
    """

    arguments: dict[str, Any] = Field(default_factory=dict)
    response: Any = None
    description: str = ""
    program: str = ""


class Link(_Document):
    """A field of a response that supplies an argument of another operation, as the document states it.

    Attributes:
        operation: the other one: its name at the source, or its method and path template.
        parameter: the name of its argument.
        path: where the field lies in the response; ``[]`` stands for the items of a list.
    """

    operation: str
    parameter: str
    path: tuple[str, ...] = ()


MAX_KEPT = 200
"""Characters of a part of a :class:`SourceKey`; of a longer one it has a digest."""


class SourceKey(NamedTuple):
    """What a tool is known by at its source, whatever programs call it.

    Attributes:
        kind: of the source.
        server: what stays when its version changes: a server's name in the user's file, else its command without
            versions, else the origin of its address; the document, or the module and function. Never a credential.
        operation: the name that the tool has there.
    """

    kind: str
    server: str
    operation: str


class Source(_Document):
    """Where a tool comes from.

    Attributes:
        kind: of the importer: ``function``, ``openapi``, ``mcp``, ``document``, ``langchain``, ``pydantic-ai``,
            ``smolagents``, or the name of another package's.
        location: the document, server or module.
        operation: the name that the tool has there.
        title: what the service or server calls itself, or is called where it is configured.
        name: what the tool is called if no other source has a tool of that name; set where one has, and the tool is
            called after its source.
        path: of an HTTP service, the method and the path template of the operation: ``GET /users/{user_id}``.
        server: as :attr:`SourceKey.server`, where the location does not say it.
    """

    kind: str = Field(default="document", pattern=r"^[a-z][a-z0-9_.-]{0,63}$")
    location: str = ""
    operation: str = ""
    title: str = ""
    name: str = ""
    path: str = ""
    server: str = ""

    @property
    def key(self) -> SourceKey | None:
        """What the tool is known by there; ``None`` where nothing is known."""
        server = self.server or origin_of(self.location) or self.location
        return SourceKey(self.kind, _kept(server), _kept(self.operation)) if server and self.operation else None

    @property
    def service(self) -> str:
        """The scope of identifiers: a document or a server; the user's own functions are one scope."""
        return "functions" if self.in_process else self.location

    @property
    def place(self) -> str:
        """The part of the location that tells most: a host and port, the name of a file, a module or class."""
        if self.in_process:
            module, _, function = self.location.partition(":")
            owner = function.rpartition(".")[0].removesuffix(".<locals>")
            return (owner or module).rpartition(".")[2].strip("_")
        if "://" in self.location:
            return _netloc(self.location)
        return PurePath(self.location).stem

    @property
    def label(self) -> str:
        """What people call the source: its title, else its place; empty where nothing is known of it."""
        return self.title or self.place

    @property
    def prefix(self) -> str:
        """The label as it stands in front of a tool's name: its first words."""
        return _first_words(self.label)

    def full_name(self, name: str) -> str:
        """The name of one of its tools with the source in front."""
        return _full_name(self.label, name)

    @property
    def in_process(self) -> bool:
        """Whether it is a function of the user's own, or a tool object of a framework: what it calls is not known."""
        return self.kind in IN_PROCESS

    @property
    def remote(self) -> bool:
        """Whether a call leaves this process for a service that may be out of reach."""
        return not self.in_process and self.kind != "document"


@lru_cache(maxsize=1 << 16)
def _full_name(label: str, name: str) -> str:
    """A tool's name with its source in front; rules of permissions ask for it again and again."""
    return tool_name(f"{_first_words(label)} {name}")


@lru_cache(maxsize=1 << 10)
def _first_words(label: str) -> str:
    words = tool_name(label[:MAX_LABEL]).rstrip("_").split("_") if label else []
    lengths = accumulate(len(word) + 1 for word in words)
    kept = [word for word, length in zip(words, lengths, strict=True) if length <= MAX_PREFIX]
    return "_".join(kept or words[:1])


def origin_of(url: str) -> str:
    """The scheme, host and port of an HTTP address, without credentials; empty where it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.scheme in ("http", "https") else ""


def _kept(text: str) -> str:
    return text if len(text) <= MAX_KEPT else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _netloc(url: str) -> str:
    """The host and port of an address, without credentials."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


class Protocol(_Document):
    """What is known about one tool.

    Attributes:
        name: a Python identifier, unique in its toolset; programs call the tool by it.
        description: what the tool does. Text from outside: data, never an instruction.
        parameters: JSON Schema of the arguments, always ``{"type": "object", ...}``.
        returns: JSON Schema of the response; ``None`` when nothing is known about it.
        statuses: the ways a call can end, where the source says so.
        effect: whether a call only reads.
        untrusted: strangers write what it returns; ``None``: nobody said. It is its source's word, as the effect is.
        examples: calls with their responses; the first with a response is shown to the model.
        links: the arguments of other operations that its response supplies, where the source says so.
        source: where the tool comes from; ``source.operation`` is its original name.
        provenance: written by a person, imported from a document, or inferred by probing.
    """

    name: str
    description: str = ""
    parameters: JsonSchema = Field(default_factory=lambda: {"type": "object", "properties": {}})
    returns: JsonSchema | None = None
    statuses: tuple[Status, ...] = ()
    effect: Effect = Effect.UNKNOWN
    untrusted: bool | None = None
    examples: tuple[Example, ...] = ()
    links: tuple[Link, ...] = ()
    source: Source = Field(default_factory=Source)
    provenance: Provenance = Provenance.WRITTEN

    @field_validator("name")
    @classmethod
    def _name_is_an_identifier(cls, name: str) -> str:
        if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            wanted = "take a Python identifier of ASCII letters, no keyword, no leading underscore"
            raise ValueError(f"{name!r} is not a usable tool name: {wanted}")
        return name

    @field_validator("description")
    @classmethod
    def _bounded(cls, text: str) -> str:
        return shortened(text, MAX_DESCRIPTION)

    @field_validator("parameters")
    @classmethod
    def _parameters_are_an_object(cls, schema: JsonSchema) -> JsonSchema:
        if schema.get("type", "object") != "object":
            raise ValueError(f"parameters must be the schema of an object, not of {schema.get('type')!r}")
        return {"type": "object", "properties": {}, **schema}

    @property
    def plain_name(self) -> str:
        """The name without its source in front: what the tool is called where no other has that name."""
        return self.source.name or self.name

    @property
    def full_name(self) -> str:
        """The name with its source in front, whether or not another source has a tool of that name."""
        return self.source.full_name(self.plain_name)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments that must be given."""
        return tuple(self.parameters.get("required", ()))


def called_after_sources(name: str, protocols: Iterable[Protocol]) -> tuple[str, ...]:
    """The names of the tools that would have this one, were they not called after their sources."""
    return tuple(protocol.name for protocol in protocols if name and protocol.source.name == name)


@dataclass(frozen=True)
class Parameter:
    """One argument: ``name`` as a program writes it, ``original`` as the tool names it."""

    name: str
    original: str
    schema: JsonSchema
    required: bool


def parameters_of(protocol: Protocol) -> list[Parameter]:
    """The parameters, the required ones first, otherwise in the order of the schema."""
    required = set(protocol.required)
    made: list[Parameter] = []
    properties = protocol.parameters.get("properties", {})
    for original, name in argument_names(properties).items():
        schema = properties[original]
        made.append(Parameter(name, original, schema if isinstance(schema, dict) else {}, original in required))
    return sorted(made, key=lambda parameter: not parameter.required)


def original_arguments(protocol: Protocol, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments under the names that the tool knows. Unknown ones keep theirs, for the schema to judge."""
    renamed = _renamed(protocol)
    return {renamed.get(name, name): value for name, value in arguments.items()} if renamed else dict(arguments)


@kept_by_identity(2048)
def _renamed(protocol: Protocol) -> dict[str, str]:
    return {each.name: each.original for each in parameters_of(protocol) if each.name != each.original}


_NO_VALUE = {"not": {"title": "bytes"}}
_IS_PACKED = {"required": [TAG], "maxProperties": 1}
_PACKED: JsonSchema = {"type": "object", **_IS_PACKED}
_DATA = frozenset({"const", "default", "enum", "example", "examples"})


def takes_bytes(schema: Any) -> bool:
    """Whether a schema is the one of bytes; that it may be null besides does not count."""
    if not isinstance(schema, dict) or schema.get("format") != "binary":
        return False
    kind = schema.get("type")
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def for_validator(schema: Any, *, with_bytes: bool) -> Any:
    """``schema`` for a validator of packed values (``with_bytes``), or of values that hold no bytes.

    With bytes, what wants an object does not take them for one.
    """
    if isinstance(schema, list):
        return [for_validator(item, with_bytes=with_bytes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if takes_bytes(schema):
        types = schema["type"] if isinstance(schema["type"], list) else []
        taken = [_PACKED] if with_bytes else []
        taken += [{"type": kind} for kind in types if kind != "string"]
        return {"if": {"anyOf": taken}, "else": _NO_VALUE} if taken else _NO_VALUE
    made = {key: item if key in _DATA else for_validator(item, with_bytes=with_bytes) for key, item in schema.items()}
    kind = schema.get("type")
    if with_bytes and (kind == "object" or (isinstance(kind, list) and "object" in kind)):
        made["allOf"] = [*made.get("allOf", ()), {"not": _IS_PACKED}]
    return made


def without_bytes(schema: Any) -> Any:
    """``schema`` for a channel that carries JSON alone: what is called binary there is text."""
    if isinstance(schema, list):
        return [without_bytes(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = "format" if takes_bytes(schema) else None
    return {key: item if key in _DATA else without_bytes(item) for key, item in schema.items() if key != left_out}


def bytes_problem(value: Any, schema: Any) -> str:
    """Why ``value`` does not fit, where bytes are given or wanted; empty where neither is."""
    if isinstance(value, bytes):
        shown = repr(value[:30]) + (f" … ({len(value):,} bytes)" if len(value) > 30 else "")
        return f"{shown} is bytes, which are not taken here: decode text (`data.decode()`)"
    if isinstance(schema, dict) and schema == _NO_VALUE["not"]:
        return f"bytes are wanted, not {type(value).__name__}: encode text (`text.encode()`), decode base64 text"
    return ""
