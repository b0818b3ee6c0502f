"""Operations of a document → protocols and request plans.

The effect of an operation is what its author declares, else what its method and its names suggest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from atc.errors import ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.names import function_name, tool_name
from atc.schemas.protocol import Example, Link, Protocol, Provenance, Source, Status, origin_of
from atc.schemas.telltales import promises_read, telltale
from atc.schemas.validate import problems
from atc.tools.openapi import swagger2
from atc.tools.openapi.arguments import ArgumentReader, check_listed
from atc.tools.openapi.examples import MISSING, Examples, completed
from atc.tools.openapi.load import Document, Resolver
from atc.tools.openapi.plan import (
    ContentKind,
    Operation,
    best_first,
    binary_schema,
    content_kind,
    is_binary,
    is_media_type,
    value_schema,
)
from atc.tools.openapi.schema import SchemaConverter
from atc.tools.openapi.security import Scheme
from atc.tools.openapi.servers import other_place, server_url
from atc.tools.openapi.text import clean

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that HTTP calls safe."""

EXTENSION = "x-atc-effect"
"""The key by which a document declares an operation's effect."""


def effect_of(node: Mapping[str, Any], original: str, method: str, path: str) -> Effect:
    """The effect of one operation.

    A safe method makes a read, unless the operation's name or path suggests an effect: then the effect is unknown. A
    summary that begins with a reading verb (``"Lists …"``) is the author's word for a read all the same."""
    declared = node.get(EXTENSION)
    if isinstance(declared, str) and declared in list(Effect):
        return Effect(declared)
    if method.upper() not in READING:
        return Effect.WRITE
    named = named_effect(original, method, path)
    summary = clean(node.get("summary"), 200) or clean(node.get("description"), 200)
    return Effect.UNKNOWN if named and not promises_read(summary) else Effect.READ


def named_effect(original: str, method: str, path: str) -> str:
    """The verb in an operation's name or path that suggests an effect; empty where there is none."""
    return telltale(function_name(original, method, path)) or telltale(f"{method.upper()} {path}")


def checked_effects(given: Mapping[str, str] | None) -> dict[str, Effect]:
    """The user's own word on effects: pattern → effect.

    Raises:
        UsageError: a value that is no effect.
    """
    for pattern, effect in (given or {}).items():
        if effect not in list(Effect):
            raise UsageError(f"effects[{pattern!r}] is {effect!r}: take {', '.join(Effect)}")
    return {pattern: Effect(effect) for pattern, effect in (given or {}).items()}


METHODS = ("get", "head", "options", "post", "put", "patch", "delete")
MAX_OPERATIONS = 5_000
"""Operations of one document."""

MAX_SECURITY, MAX_TOGETHER = 100, 20
"""Alternatives of an operation's security that are looked at, and schemes of one."""

MAX_CHECKED = 5_000_000
"""Values of schemas that examples are held to, of one document; further examples are taken without arguments."""

MAX_TOOL_TEXT = 4_000
"""Characters of a tool's description."""

MAX_LINKS = 100
"""Links of one response, and arguments of one link, that are read."""

_MAX_STATUS_TEXT = 300
_OF_BODY = "$response.body#/"


@dataclass(frozen=True)
class Found:
    """One operation of a document before it is read: where it stands and what it says.

    Attributes:
        shared: the parameters of its path.
        servers: its own or its path's servers, if there are any.
        problem: why it cannot be read at all, or ``""``.
    """

    method: str
    path: str
    node: dict[str, Any] = field(default_factory=dict)
    shared: list[Any] = field(default_factory=list)
    servers: Any = None
    problem: str = ""

    @property
    def label(self) -> str:
        """Method and path: ``GET /pets``."""
        return f"{self.method.upper()} {self.path}".strip()

    @property
    def original(self) -> str:
        """Its ``operationId``, else its label."""
        given = self.node.get("operationId")
        return given.strip() if isinstance(given, str) and given.strip() else self.label


def find_operations(document: Document, resolver: Resolver) -> Iterator[Found]:
    """Walk over the paths of a document and yield each operation, those with a problem too."""
    for path, raw in document.root["paths"].items():
        if path.startswith("x-"):
            continue
        try:
            item = resolver.mapping(raw, "a path")
        except ToolImportError as error:
            yield Found("", path, problem=str(error))
            continue
        shared = item["parameters"] if isinstance(item.get("parameters"), list) else []
        for method in METHODS:
            node = item.get(method)
            if node is None:
                continue
            if not isinstance(node, dict):
                yield Found(method, path, problem=f"it is a {type(node).__name__}, not a mapping")
            elif not path.startswith("/"):
                yield Found(method, path, node, problem="its path does not start with '/'")
            else:
                yield Found(method, path, node, shared, node.get("servers") or item.get("servers"))
        if "trace" in item:
            yield Found("trace", path, problem="the TRACE method is not supported")


class OperationReader:
    """Reads operations one at a time.

    ``undeclared``: a ``GET`` of which no argument is declared takes any, in its query.
    """

    def __init__(
        self,
        document: Document,
        resolver: Resolver,
        schemes: dict[str, Scheme],
        base_url: str | None,
        server_variables: dict[str, str],
        undeclared: bool = False,
    ) -> None:
        self._undeclared = undeclared
        self._document = document
        self._resolver = resolver
        self._base_url = base_url
        self._variables = server_variables
        self._converter = SchemaConverter(resolver)
        self._examples = Examples(resolver)
        self._arguments = ArgumentReader(resolver, self._converter, schemes)
        root = document.root
        self._checking = MAX_CHECKED
        self._server_urls: dict[int, tuple[str | None, str]] = {}
        self._alternatives: dict[int, tuple[tuple[str, ...], ...]] = {}
        self._servers = swagger2.servers(root) if document.is_swagger2 else root.get("servers")

    def read(self, found: Found) -> tuple[Protocol, Operation]:
        """Read one operation. The protocol's name is made of the original name and not yet unique.

        Raises:
            ToolImportError: it cannot be imported; the message says why.
            UsageError: a server variable that the document does not allow.
        """
        if found.problem:
            raise ToolImportError(found.problem)
        node, shared = found.node, found.shared
        check_listed(shared, node)
        if self._document.is_swagger2:
            node, shared = swagger2.operation(self._document.root, node, shared, self._resolver)
        arguments = self._arguments.read(found.path, shared, node)
        responses = self._responses(node)
        success = _success(responses)
        contents = [(m, media) for _, response in success for m, media in _content(response).items()]
        returns_kind, returns, response_example = self._returns(found.method, success, contents)
        server, problem = self._server(found)
        undeclared = self._undeclared and found.method == "get" and not arguments.properties
        effect = effect_of(node, found.original, found.method, found.path)
        operation = Operation(
            method=found.method.upper(),
            path=found.path,
            parameters=tuple(arguments.parameters),
            body=arguments.body,
            server=server,
            server_problem=problem,
            found_at="" if self._base_url is not None else other_place(server, self._document.url),
            security=self._security(node, arguments.key_schemes),
            accepts=best_first(m for m, _ in contents if is_media_type(m)),
            returns=returns_kind,
            undeclared=undeclared,
            reads=effect is Effect.READ,
            key_header=arguments.key_header,
            links_pages=any(_has_header(response, "link") for _, response in success),
        )
        parameters = self._converter.closed(arguments.schema(), "request")
        if undeclared:
            parameters = {"type": "object", "properties": {}, "additionalProperties": True}
        protocol = Protocol(
            name=tool_name(found.original),
            description=_description(node, found),
            parameters=parameters,
            returns=None if returns is None else self._described(returns, response_example),
            statuses=_statuses(responses),
            effect=effect,
            examples=self._given(parameters, arguments.example, response_example),
            links=self._links(success),
            source=Source(
                kind="openapi",
                location=self._document.location,
                operation=found.original,
                title=self._document.title,
                path=found.label,
                server=origin_of(server or ""),
            ),
            provenance=Provenance.IMPORTED,
        )
        return protocol, operation

    def _given(self, parameters: dict[str, Any], arguments: dict[str, Any], response: Any) -> tuple[Example, ...]:
        if arguments:
            self._checking -= self._converter.size_of(parameters)
        fits = bool(arguments) and self._checking >= 0 and not problems(parameters, arguments)
        given = arguments if fits else {}
        if response is MISSING and not given:
            return ()
        return (Example(arguments=given, response=None if response is MISSING else response),)

    def _described(self, returns: dict[str, Any], example: Any) -> dict[str, Any]:
        closed = self._converter.closed(returns, "response")
        described: dict[str, Any] = closed if example is MISSING else completed(closed, closed, example)
        return described

    def _responses(self, node: dict[str, Any]) -> dict[str, dict[str, Any]]:
        raw = node["responses"] if isinstance(node.get("responses"), dict) else {}
        return {
            str(code).upper(): self._resolver.mapping(response, f"the response {code}")
            for code, response in raw.items()
            if not code.lower().startswith("x-")
        }

    def _links(self, success: list[tuple[str, dict[str, Any]]]) -> tuple[Link, ...]:
        found: list[Link] = []
        for _, response in success:
            links = response.get("links")
            for raw in list(links.values())[:MAX_LINKS] if isinstance(links, dict) else ():
                with suppress(ToolImportError):  # a broken link is no reason to go without the operation
                    found += _links_of(self._resolver.mapping(raw, "a link"))
        return tuple(found)

    def _returns(
        self, method: str, success: list[tuple[str, dict[str, Any]]], contents: list[tuple[str, dict[str, Any]]]
    ) -> tuple[ContentKind | None, dict[str, Any] | None, Any]:
        if method == "head":
            return None, {"type": "null"}, MISSING
        by_type = dict(reversed(contents))
        best = next(iter(best_first(media_type for media_type, _ in contents)), None)
        if best is None:
            nothing = bool(success) and all(code in ("204", "205") for code, _ in success)
            return None, ({"type": "null"} if nothing else None), MISSING
        kind, media = content_kind(best), by_type[best]
        schema = self._converter.convert(media["schema"], "response") if "schema" in media else {}
        if kind == "binary" or (kind == "json" and is_binary(schema)):
            return "binary", binary_schema(schema), MISSING
        example = self._examples.of_media(media)
        if kind in ("text", "xml", "csv"):
            example = example if isinstance(example, str) and kind == "text" else MISSING
        bare = kind == "json" and schema.get("type") == "string"  # many say JSON where they send the text itself
        return "text" if bare else kind, value_schema(kind, schema), example

    def _server(self, found: Found) -> tuple[str | None, str]:
        if self._base_url is not None:
            return self._base_url, ""
        servers = found.servers or self._servers
        if id(servers) not in self._server_urls:  # of the document, which outlives this
            self._server_urls[id(servers)] = server_url(servers, self._document.url, self._variables)
        return self._server_urls[id(servers)]

    def _security(self, node: dict[str, Any], key_schemes: list[str]) -> tuple[tuple[str, ...], ...]:
        raw = node.get("security", self._document.root.get("security"))
        if id(raw) not in self._alternatives:
            some = raw[:MAX_SECURITY] if isinstance(raw, list) else []
            listed = [tuple(item) for item in some if isinstance(item, dict) and len(item) <= MAX_TOGETHER]
            self._alternatives[id(raw)] = tuple(dict.fromkeys(listed))
        alternatives = self._alternatives[id(raw)]
        if key_schemes and not any(alternatives):  # the key is only declared as a parameter
            return (tuple(key_schemes), ())
        return alternatives


def _links_of(link: dict[str, Any]) -> Iterator[Link]:
    operation, given = _linked_operation(link), link.get("parameters")
    for name, value in list(given.items())[:MAX_LINKS] if operation and isinstance(given, dict) else ():
        if isinstance(name, str) and isinstance(value, str) and value.startswith(_OF_BODY):
            steps = map(_unescaped, value.removeprefix(_OF_BODY).split("/"))
            path = tuple("[]" if step.isdecimal() else step for step in steps)
            parameter = re.sub(r"^(?:path|query|header|cookie)\.", "", name)
            yield Link(operation=operation, parameter=parameter, path=path)


def _linked_operation(link: dict[str, Any]) -> str:
    named, pointer = link.get("operationId"), link.get("operationRef")
    if isinstance(named, str):
        return named.strip()
    if not isinstance(pointer, str) or not pointer.startswith("#/paths/"):
        return ""
    path, _, method = pointer.removeprefix("#/paths/").rpartition("/")
    return f"{method.upper()} {_unescaped(path)}"


def _unescaped(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")


def _success(responses: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    good = sorted((code, response) for code, response in responses.items() if code.startswith("2"))
    return good or ([("default", responses["DEFAULT"])] if set(responses) == {"DEFAULT"} else [])


def _content(response: dict[str, Any]) -> dict[str, dict[str, Any]]:
    content = response.get("content")
    if not isinstance(content, dict):
        return {}
    return {media_type: media for media_type, media in content.items() if isinstance(media, dict)}


def _has_header(response: dict[str, Any], name: str) -> bool:
    headers = response.get("headers")
    return isinstance(headers, dict) and any(header.lower() == name for header in headers if isinstance(header, str))


def _statuses(responses: dict[str, dict[str, Any]]) -> tuple[Status, ...]:
    return tuple(
        Status(
            code=int(code) if code.isascii() and code.isdigit() else code.lower() if code == "DEFAULT" else code,
            description=clean(response.get("description"), _MAX_STATUS_TEXT),
        )
        for code, response in list(responses.items())[:50]
        if len(code) <= 20
    )


def _description(node: dict[str, Any], found: Found) -> str:
    summary = clean(node.get("summary"), 300)
    detail = clean(node.get("description"), MAX_TOOL_TEXT - len(summary) - 2)
    named = tool_name(function_name(found.original, found.method, found.path))
    if detail and (detail.casefold().startswith(summary.rstrip(".").casefold()) or tool_name(summary) == named):
        summary = ""
    return "\n\n".join(part for part in (summary, detail) if part) or found.label
