"""Atlas as an HTTP service: reads are ``GET`` with query parameters, writes are ``POST`` with a JSON body.

Its OpenAPI document is built from the tools' own protocols, so that it says neither more nor less than they do.
It can be had with less in it, to try what undocumented tools are like.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from atc._host.extras import install_command
from atc.atlas.catalogue import Atlas, atlas_toolset
from atc.errors import EnvironmentProblem, ToolError
from atc.result import Effect
from atc.schemas.protocol import JsonSchema, Protocol
from atc.tools.tool import Tool, Toolset, Transport

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise EnvironmentProblem(f"Atlas's service needs {error.name}: run `{install_command('atlas')}`") from None

Documented = Literal["full", "described", "bare"]

MAX_BODY = 1_000_000
"""Bytes of a request's body."""

_HTTP_STATUS = {"not_found": 404, "conflict": 409, "invalid_arguments": 422}
_DEFS, _COMPONENTS = "#/$defs/", "#/components/schemas/"
_ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"status": {"type": "string"}, "message": {"type": "string"}},
            "required": ["status", "message"],
        }
    },
    "required": ["error"],
}


def create_app(atlas: Atlas | None = None, *, documented: Documented = "full", base_url: str = "/") -> Starlette:
    """Build the service: one path a tool, and the document at ``/openapi.json``.

    Args:
        atlas: whose trips the calls change; a new one if none is given.
        documented: how much the document tells. ``"full"``: all that is known. ``"described"``: the names, and one
            line about each operation and parameter. ``"bare"``: the names of operations and parameters alone.
        base_url: the address that the document names as the server's.

    Raises:
        EnvironmentProblem: a data package is missing.
    """
    toolset = atlas_toolset(atlas)
    document = openapi_document(toolset, documented=documented, base_url=base_url)

    async def describe(_: Request) -> Response:
        return JSONResponse(document)

    routes = [Route("/openapi.json", describe, methods=["GET"])]
    routes += [
        Route(f"/{tool.name}", _endpoint(tool, tool.transport), methods=[_method(tool.protocol).upper()])
        for tool in toolset.values()
        if tool.transport is not None
    ]
    return Starlette(routes=routes)


# Requests -----------------------------------------------------------------------------------------------------------


def _method(protocol: Protocol) -> Literal["get", "post"]:
    return "get" if protocol.effect is Effect.READ else "post"


def _endpoint(tool: Tool, transport: Transport) -> Callable[[Request], Awaitable[Response]]:
    reads = _method(tool.protocol) == "get"

    async def handle(request: Request) -> Response:
        try:
            arguments = _from_query(request) if reads else await _from_body(request)
            return JSONResponse(await transport(arguments))
        except ToolError as error:
            code = _HTTP_STATUS.get(str(error.status), 500)
            status = str(error.status or "error")
            return JSONResponse({"error": {"status": status, "message": error.message}}, status_code=code)

    return handle


def _from_query(request: Request) -> dict[str, Any]:
    """The arguments in a query. An empty value is one that was not given: clients send null so."""
    return {name: value for name, value in request.query_params.items() if value}


async def _from_body(request: Request) -> dict[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise ToolError(f"the body is longer than {MAX_BODY} bytes", status="invalid_arguments")
    try:
        arguments = json.loads(body)
    except (ValueError, RecursionError):
        raise ToolError("the body is no JSON: send one JSON object", status="invalid_arguments") from None
    if not isinstance(arguments, dict):
        raise ToolError("the body is no JSON object", status="invalid_arguments")
    return arguments


# The document -------------------------------------------------------------------------------------------------------


def openapi_document(toolset: Toolset, *, documented: Documented = "full", base_url: str = "/") -> dict[str, Any]:
    """The OpenAPI 3.1 document of the tools; for the arguments see :func:`create_app`."""
    components: dict[str, JsonSchema] = {}
    paths = {
        f"/{tool.name}": {_method(tool.protocol): _operation(tool.protocol, documented, components)}
        for tool in toolset.values()
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Atlas", "version": "1", "description": "Places, times and trips, offline."},
        "servers": [{"url": base_url}],
        "paths": paths,
    }
    if components:
        document["components"] = {"schemas": components}
    return document


def _operation(protocol: Protocol, documented: Documented, components: dict[str, JsonSchema]) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": protocol.name}
    if documented != "bare":
        operation["summary"] = _first_line(protocol.description)
    if documented == "full":
        operation["description"] = protocol.description
    if _method(protocol) == "get":
        operation["parameters"] = _query_parameters(protocol, documented, components)
    else:
        schema = _body_schema(protocol, documented, components)
        content: dict[str, Any] = {"schema": schema}
        if documented == "full" and protocol.examples:
            content["example"] = protocol.examples[0].arguments
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    operation["responses"] = _responses(protocol, documented, components)
    return operation


def _query_parameters(
    protocol: Protocol, documented: Documented, components: dict[str, JsonSchema]
) -> list[dict[str, Any]]:
    example = protocol.examples[0].arguments if protocol.examples else {}
    parameters = []
    for name, schema in protocol.parameters["properties"].items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name in protocol.required, "schema": {}}
        description = schema.get("description")
        if documented != "bare" and description:
            parameter["description"] = description if documented == "full" else _first_line(description)
        if documented == "full":
            bare = {key: value for key, value in schema.items() if key != "description"}
            parameter["schema"] = _hoist(bare, protocol.parameters.get("$defs", {}), components)
            if name in example:
                parameter["example"] = example[name]
        parameters.append(parameter)
    return parameters


def _body_schema(protocol: Protocol, documented: Documented, components: dict[str, JsonSchema]) -> JsonSchema:
    if documented == "full":
        return _hoist(protocol.parameters, {}, components)
    properties: dict[str, JsonSchema] = {}
    for name, schema in protocol.parameters["properties"].items():
        description = schema.get("description") if documented == "described" else None
        properties[name] = {"description": _first_line(description)} if description else {}
    return {"type": "object", "properties": properties, "required": list(protocol.required)}


def _responses(protocol: Protocol, documented: Documented, components: dict[str, JsonSchema]) -> dict[str, Any]:
    if documented != "full":
        return {"200": {"description": "OK"}}
    returns = protocol.returns or {}
    content: dict[str, Any] = {"schema": _hoist(returns, {}, components)}
    if protocol.examples:
        content["example"] = protocol.examples[0].response
    responses = {"200": {"description": returns.get("description", "OK"), "content": {"application/json": content}}}
    for status in protocol.statuses:
        code = str(_HTTP_STATUS.get(str(status.code), 500))
        text = f"{status.code}: {status.description}"
        if code in responses:
            text = f"{responses[code]['description']} {text}"
        responses[code] = {"description": text, "content": {"application/json": {"schema": _ERROR}}}
    return responses


def _hoist(schema: JsonSchema, defs: dict[str, JsonSchema], components: dict[str, JsonSchema]) -> JsonSchema:
    own = {key: value for key, value in schema.items() if key != "$defs"}
    for name, definition in {**defs, **schema.get("$defs", {})}.items():
        moved = _repoint(definition)
        if components.setdefault(name, moved) != moved:
            raise ValueError(f"two types of Atlas are named {name!r}: rename one")
    repointed: JsonSchema = _repoint(own)
    return repointed


def _repoint(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: value.replace(_DEFS, _COMPONENTS) if key == "$ref" and isinstance(value, str) else _repoint(value)
            for key, value in node.items()
        }
    return [_repoint(item) for item in node] if isinstance(node, list) else node


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
