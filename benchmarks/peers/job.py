"""What the peers' scripts share: the job, its tools as a peer may want them, and the answer.

Of the standard library alone: it is loaded beside packages of all ages.
"""

from __future__ import annotations

import ast
import inspect
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional

Schema = dict[str, Any]
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}
_DEPTH = 12
"""Of references into references that are followed."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Said:
    """What came of a job; a script fills it in as it goes, so that an exception leaves what is known.

    Attributes:
        value: the answer. ``error``: why there is none.
        gave_up: it used up its steps.
        program: what was written last, code or calls, for whoever reads failures.
        steps: replies of the model. ``crashes``: steps that ended in an error.
    """

    value: Any = None
    error: str = ""
    gave_up: bool = False
    program: str = ""
    steps: int = 0
    crashes: int = 0


@dataclass(frozen=True)
class Tool:
    """A tool behind the gateway. ``returns`` is the schema of its response, ``None`` where nothing is known."""

    name: str
    description: str
    parameters: Schema
    returns: Schema | None
    url: str

    @property
    def properties(self) -> dict[str, Schema]:
        """The parameters' schemas without references, the required ones first."""
        known, required = self.parameters.get("properties", {}), self.required
        inlined = {name: inline(schema, self.parameters.get("$defs", {})) for name, schema in known.items()}
        return dict(sorted(inlined.items(), key=lambda item: item[0] not in required))

    @property
    def required(self) -> list[str]:
        return list(self.parameters.get("required", ()))

    @property
    def returned(self) -> Schema | None:
        """The response's schema without references."""
        return None if self.returns is None else inline(self.returns, self.returns.get("$defs", {}))

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call it, as a client library would. ``None`` for what may be left out is left out, unless the tool takes it:
        peers show such a parameter as one that may be ``None``.

        Raises:
            RuntimeError: the tool refused or failed; the message is the tool's.
            TypeError: the arguments cannot be written as JSON.
        """
        given = {name: value for name, value in arguments.items() if not self._left_out(name, value)}
        body, headers = json.dumps(given).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body, headers)
        try:
            with _OPENER.open(request) as reply:
                reply_body = json.load(reply)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{self.name} failed: HTTP {error.code}") from None
        if "error" in reply_body:
            raise RuntimeError(reply_body["error"]["message"])
        return reply_body["value"]

    def function(self) -> Callable[..., Any]:
        """The tool as a function that a program may read: a typed signature, and a docstring."""
        signature = self._signature()

        def call(*positional: Any, **named: Any) -> Any:
            return self.call(signature.bind(*positional, **named).arguments)

        call.__name__ = call.__qualname__ = self.name
        call.__doc__ = self._docstring()
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        call.__annotations__["return"] = signature.return_annotation
        return call

    def _left_out(self, name: str, value: Any) -> bool:
        known = self.properties
        return value is None and name in known and name not in self.required and "null" not in types_of(known[name])

    def _signature(self) -> inspect.Signature:
        parameters = []
        for name, schema in self.properties.items():
            kind = annotation(schema)
            default: Any = inspect.Parameter.empty
            if name not in self.required:
                default = schema.get("default")
                kind = Optional[kind] if default is None else kind  # noqa: UP045 - `str | None` cannot hold Any
            made = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
            parameters.append(made)
        return inspect.Signature(parameters, return_annotation=annotation(self.returned or {}))

    def _docstring(self) -> str:
        parts = [self.description.strip() or self.name]
        if self.properties:
            lines = (f"    {name}: {described(schema)}" for name, schema in self.properties.items())
            parts.append("\n".join(["Args:", *map(str.rstrip, lines)]))
        if self.returned:
            parts.append(f"Returns:\n    {json.dumps(self.returned, ensure_ascii=False)}")
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Job:
    """A task, a model behind ``base_url`` and tools. ``mode``: which of a script's agents. ``steps``: replies."""

    mode: str
    task: str
    model: str
    base_url: str
    steps: int
    tools: tuple[Tool, ...]

    @classmethod
    def read(cls, document: dict[str, Any]) -> Job:
        tools, url = document.pop("tools"), document.pop("tools_url")
        return cls(**document, tools=tuple(Tool(**tool, url=f"{url}/{tool['name']}") for tool in tools))


def inline(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """A schema with its references into ``$defs`` replaced by what they stand for."""
    if isinstance(schema, list):
        return [inline(part, definitions, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {name: inline(part, definitions, depth) for name, part in schema.items() if name not in ("$ref", "$defs")}
    if "$ref" not in schema or depth >= _DEPTH:
        return rest
    return inline(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions, depth + 1) | rest


def types_of(schema: Schema) -> list[str]:
    """The JSON types that a schema names; empty for any."""
    if "type" in schema:
        return [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    members = [types_of(member) for member in schema.get("anyOf") or schema.get("oneOf") or ()]
    return list(dict.fromkeys(kind for member in members for kind in member)) if all(members) else []


def annotation(schema: Schema) -> Any:
    """A schema as a Python type, as far as Python's types go."""
    if schema.get("enum"):
        return Literal[tuple(schema["enum"])]
    kinds = types_of(schema)
    if kinds == ["array"] and schema.get("items"):
        return list[annotation(schema["items"])]  # type: ignore[misc]
    made: Any = _TYPES.get(kinds[0], Any) if kinds else Any
    for kind in kinds[1:]:
        made = made | _TYPES.get(kind, Any) if made is not None else Optional[_TYPES.get(kind, Any)]  # noqa: UP045
    return made


def described(schema: Schema) -> str:
    """A parameter in words, with what a Python type does not tell about it."""
    description = " ".join(str(schema.get("description") or "").split())
    rest = {name: part for name, part in schema.items() if name not in ("description", "type", "title")}
    return f"{description} {json.dumps(rest, ensure_ascii=False)}".strip() if rest else description


def read_value(text: str) -> Any:
    """The value that an answer in words holds: JSON, Python's way of writing it, or the text itself."""
    text = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def plain(value: Any) -> Any:
    """A value as JSON can hold it; what it cannot hold as text."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    return str(value)
