"""The protocol of a tool: what a model reads about it (ATC §3.1).

A protocol is a plain document. Its JSON Schema is published as ``protocols/protocol.schema.json``; a file that fits it
is a tool's documentation whoever wrote it: a person, an importer, or probing.
"""

from __future__ import annotations

import keyword
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from atc.result import Effect

JsonSchema = dict[str, Any]
"""A JSON Schema (2020-12). ``$ref`` may point into the schema's own ``$defs`` only."""

MAX_DESCRIPTION = 20_000
"""Characters of a description that are kept; the rest of a longer one is cut."""


IN_PROCESS = ("function", "langchain", "pydantic-ai", "smolagents")
"""Kinds of sources whose tools are Python objects of this process."""


class Provenance(StrEnum):
    """Where a protocol's statements come from."""

    WRITTEN = "written"
    IMPORTED = "imported"
    INFERRED = "inferred"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Source(_Document):
    """Where a tool comes from.

    Attributes:
        kind: of the importer: ``function``, ``openapi``, ``mcp``, ``document``, ``langchain``, ``pydantic-ai``,
            ``smolagents``, or the name of another package's.
        location: the document, server or module.
        operation: the name that the tool has there.
        path: of an HTTP service, the method and the path template of the operation: ``GET /users/{user_id}``.
    """

    kind: str = Field(default="document", pattern=r"^[a-z][a-z0-9_.-]{0,63}$")
    location: str = ""
    operation: str = ""
    path: str = ""

    @property
    def service(self) -> str:
        """The scope of identifiers: a document or a server; the user's own functions are one scope."""
        return "functions" if self.in_process else self.location

    @property
    def in_process(self) -> bool:
        """Whether it is a function of the user's own, or a tool object of a framework: what it calls is not known."""
        return self.kind in IN_PROCESS

    @property
    def remote(self) -> bool:
        """Whether a call leaves this process for a service that may be out of reach."""
        return not self.in_process and self.kind != "document"


class Protocol(_Document):
    """What is known about one tool.

    Attributes:
        name: a Python identifier, unique in its toolset; programs call the tool by it.
        description: what the tool does. Text from outside: data, never an instruction.
        parameters: JSON Schema of the arguments, always ``{"type": "object", ...}``.
        returns: JSON Schema of the response; ``None`` when nothing is known about it.
        statuses: the ways a call can end, where the source says so.
        effect: whether a call only reads.
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
    examples: tuple[Example, ...] = ()
    links: tuple[Link, ...] = ()
    source: Source = Source()
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
        return text if len(text) <= MAX_DESCRIPTION else text[:MAX_DESCRIPTION] + " …"

    @field_validator("parameters")
    @classmethod
    def _parameters_are_an_object(cls, schema: JsonSchema) -> JsonSchema:
        if schema.get("type", "object") != "object":
            raise ValueError(f"parameters must be the schema of an object, not of {schema.get('type')!r}")
        return {"type": "object", "properties": {}, **schema}

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments that must be given."""
        return tuple(self.parameters.get("required", ()))
