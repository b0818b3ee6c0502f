"""Arguments → the parts of a request. An argument only ever fills its own place: all is encoded for where it stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from atc._host.header_syntax import is_header_value
from atc.errors import ToolError
from atc.tools.openapi.plan import Body, Field, Operation, Parameter

Pairs = list[tuple[str, str]]
Part = tuple[str, tuple[str | None, bytes, str | None]]

_LITERAL = "/:@!$&'()*+,;=-._~%"
# Reserved characters that `allowReserved` leaves alone; '&', '#' and '+' would end or change the value.
_RESERVED = ":/?[]@!$'()*,;="
_TEMPLATE = re.compile(r"\{([^{}/]{1,200})\}")
_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}
_SEGMENT_ENDS = re.compile(r"[/\\]")


@dataclass
class Request:
    """The parts of one request, ready for the client; no credential among them.

    Attributes:
        path: percent-encoded, with a leading slash.
        query: percent-encoded name and value pairs.
        content: the body, or ``None``; ``parts`` for a multipart body.
    """

    path: str
    query: Pairs = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cookies: Pairs = field(default_factory=list)
    content: bytes | None = None
    parts: list[Part] | None = None


def encode(operation: Operation, arguments: dict[str, Any]) -> Request:
    """Write the arguments into a request.

    Raises:
        ToolError: an argument that the request cannot hold. Nothing was sent.
    """
    known = {parameter.argument for parameter in operation.parameters} | _body_arguments(operation.body)
    unknown = sorted(arguments.keys() - known)
    if unknown and not operation.undeclared:
        raise ToolError(f"{operation.label} has no argument {unknown[0]!r}")
    given = [(p, arguments[p.argument]) for p in operation.parameters if arguments.get(p.argument) is not None]
    in_path = {p.name: _in_path(p, value) for p, value in given if p.location == "path"}
    request = Request(_path(operation, in_path), _static_query(operation, in_path))
    for parameter, value in given:
        if parameter.location == "query":
            request.query += in_query(parameter, value)
        elif parameter.location == "header":
            request.headers[parameter.name] = _in_header(parameter, value)
        elif parameter.location == "cookie":
            request.cookies += in_query(parameter, value)
    for name in unknown:
        if arguments[name] is not None:
            request.query += in_query(Parameter(name, name, "query", "form", True), arguments[name])
    if operation.body is not None:
        _write_body(request, operation.body, arguments)
    return request


def in_query(parameter: Parameter, value: Any) -> Pairs:
    """Write one value as encoded query pairs, by the parameter's style."""
    name, safe = quote(parameter.name, safe=""), _RESERVED if parameter.allow_reserved else ""

    def encoded(item: Any) -> str:
        return quote(scalar(item), safe=safe)

    if parameter.style == "json":
        return [(name, quote(to_json(value), safe=safe))]
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return _deep(parameter.name, value, safe)
        if parameter.explode:
            return [(quote(key, safe=""), encoded(item)) for key, item in value.items() if item is not None]
        flat = [part for key, item in value.items() for part in (key, item)]
        return [(name, _delimiter(parameter).join(map(encoded, flat)))] if flat else []
    if isinstance(value, list):
        if parameter.explode or parameter.style == "deepObject":
            return [(name, encoded(item)) for item in value]
        return [(name, _delimiter(parameter).join(map(encoded, value)))] if value else []
    return [(name, encoded(value))]


def scalar(value: Any) -> str:
    """A value as text: ``true``, ``3``, ``abc``; objects and lists inside others as JSON."""
    if not isinstance(value, str):
        return to_json(value) if value is not None else ""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ToolError("an argument holds half a character (a lone surrogate), which cannot be sent") from None
    return value


def to_json(value: Any) -> str:
    """Compact JSON.

    Raises:
        ToolError: a value that JSON does not have.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"an argument cannot be written as JSON: {str(error)[:200]}") from None
    return text


def _body_arguments(body: Body | None) -> set[str]:
    if body is None:
        return set()
    return {body.argument} if body.argument is not None else set(body.properties)


def _delimiter(parameter: Parameter) -> str:
    delimiter = _DELIMITERS.get(parameter.style, ",")
    return delimiter if delimiter == "," else quote(delimiter, safe="")


def _deep(prefix: str, value: Any, safe: str) -> Pairs:
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in _deep(f"{prefix}[{key}]", item, safe)]
    if isinstance(value, list):
        return [pair for item in value for pair in _deep(prefix, item, safe)]
    return [] if value is None else [(quote(prefix, safe=""), quote(scalar(value), safe=safe))]


def _path(operation: Operation, values: dict[str, str]) -> str:
    path = _filled(operation, operation.path.partition("#")[0].partition("?")[0], values)
    if any(segment in (".", "..") for segment in path.split("/")):
        raise ToolError(f"{operation.label}: an argument in the path may not be '.' or '..'")
    return path


def _static_query(operation: Operation, values: dict[str, str]) -> Pairs:
    """The query that some documents write into their paths: ``/search?kind={kind}``."""
    query = operation.path.partition("#")[0].partition("?")[2]
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return [(_filled(operation, name, values), _filled(operation, value, values)) for name, _, value in pairs]


def _filled(operation: Operation, template: str, values: dict[str, str]) -> str:
    pieces, position = [], 0
    for match in _TEMPLATE.finditer(template):
        value = values.get(match[1])
        if not value:
            raise ToolError(f"{operation.label} needs a value for {match[1]!r} that is not empty")
        pieces += [quote(template[position : match.start()], safe=_LITERAL), value]
        position = match.end()
    return "".join(pieces) + quote(template[position:], safe=_LITERAL)


def _in_path(parameter: Parameter, value: Any) -> str:
    for text in _texts(value):
        if any(piece in (".", "..") for piece in _SEGMENT_ENDS.split(text)):
            raise ToolError(f"the argument {parameter.argument!r} may not hold '.' or '..' as a step of a path")

    def encoded(item: Any) -> str:
        return quote(scalar(item), safe="")

    name = quote(parameter.name, safe="")
    if parameter.style == "json":
        return quote(to_json(value), safe="")
    start, joiner = {"label": (".", "."), "matrix": (";", ";")}.get(parameter.style, ("", ","))
    joiner = joiner if parameter.explode else ","
    if isinstance(value, dict):
        pairs = [(encoded(key), encoded(item)) for key, item in value.items()]
        text = joiner.join(f"{key}={item}" if parameter.explode else f"{key},{item}" for key, item in pairs)
        named = parameter.style == "matrix" and not parameter.explode
    elif isinstance(value, list) and parameter.style == "matrix" and parameter.explode:
        return "".join(f";{name}={encoded(item)}" for item in value)
    else:
        text = joiner.join(map(encoded, value)) if isinstance(value, list) else encoded(value)
        named = parameter.style == "matrix"
    if not text:
        return ""
    return f"{start}{name}={text}" if named else f"{start}{text}"


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_texts(item))]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else [scalar(value)]


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.style == "json":
        text = json.dumps(value)  # ASCII, so that any text fits
    elif isinstance(value, dict):
        pairs = [(key, scalar(item)) for key, item in value.items()]
        text = ",".join(f"{key}={item}" if parameter.explode else f"{key},{item}" for key, item in pairs)
    else:
        text = ",".join(map(scalar, value)) if isinstance(value, list) else scalar(value)
    if not is_header_value(text):
        raise ToolError(
            f"the argument {parameter.argument!r} has a line break or another character that a header cannot hold"
        )
    return text


def _write_body(request: Request, body: Body, arguments: dict[str, Any]) -> None:
    if body.argument is not None:
        if body.argument not in arguments:
            return
        value = arguments[body.argument]
    else:
        value = {name: arguments[arg] for arg, name in body.properties.items() if arg in arguments}
        if not value and not body.required:
            return
    if body.kind == "multipart" and isinstance(value, dict):
        request.parts = [
            part for name, item in value.items() for part in _parts(name, item, body.fields.get(name, Field()))
        ]
        return
    request.headers["Content-Type"] = body.media_type
    if body.kind == "json":
        request.content = to_json(value).encode()
    elif body.kind == "form" and isinstance(value, dict):
        request.content = _form(value, body.fields).encode()
    elif isinstance(value, bytes):
        request.content = value
    elif isinstance(value, str):
        request.content = scalar(value).encode()
    else:
        wanted = {"text": "a string", "binary": "bytes"}.get(body.kind, "an object")
        raise ToolError(f"the body must be {wanted} for {body.media_type}")


def _form(value: dict[str, Any], fields: dict[str, Field]) -> str:
    pairs: Pairs = []
    for name, item in value.items():
        how = fields.get(name, Field())
        if isinstance(item, dict) and how.style is None:
            pairs.append((quote(name, safe=""), quote(to_json(item), safe="")))
        elif item is not None:
            pairs += in_query(Parameter(name, name, "query", how.style or "form", how.explode), item)
    return "&".join(f"{name}={text}" for name, text in pairs)


def _parts(name: str, value: Any, how: Field) -> list[Part]:
    if value is None:
        return []
    if isinstance(value, list):
        return [part for item in value for part in _parts(name, item, how)]
    if isinstance(value, bytes):
        return [(name, (name, value, how.media_type or "application/octet-stream"))]
    if how.file:
        return [(name, (name, scalar(value).encode(), how.media_type or "text/plain; charset=utf-8"))]
    default = "application/json" if isinstance(value, dict) else None
    return [(name, (None, scalar(value).encode(), how.media_type or default))]
