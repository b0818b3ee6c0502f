"""Documents whose requests go wrong in other clients of OpenAPI: the smallest of each kind."""

from __future__ import annotations

import asyncio
import json

from atc.schemas.names import MAX_NAME
from atc.schemas.validate import problems
from atc.tools.openapi.importer import import_openapi
from tests.support.openapi import Server, call, document, one_tool, operation

TEXT = {"type": "string"}
REFS = [{"$ref": "#/components/schemas/Comparison"}, {"$ref": "#/components/schemas/Compound"}]
COMPARISON = {"type": "object", "properties": {"key": TEXT, "value": {}}, "required": ["key"]}
COMPOUND = {
    "type": "object",
    "required": ["filters"],
    "properties": {"filters": {"type": "array", "items": {"anyOf": REFS}}},
}
FILTERS = {"components": {"schemas": {"Comparison": COMPARISON, "Compound": COMPOUND}}}


def test_a_required_field_that_may_be_null_is_sent_as_null(server: Server) -> None:
    note = {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}
    node = operation(body={"type": "object", "required": ["note"], "properties": {"note": note}})
    call(one_tool("/a", "post", node, server.url), note=None)
    assert server.last.body == b'{"note":null}'


def test_a_filter_of_filters_fits_at_every_depth_and_a_wrong_one_is_named(server: Server) -> None:
    body = {"type": "object", "properties": {"filters": {"$ref": "#/components/schemas/Compound"}}}
    tools = one_tool("/a", "post", operation(body=body), server.url, root=FILTERS)
    nested = {"filters": [{"key": "a", "value": 1}, {"filters": [{"key": "b"}, {"filters": []}]}]}
    call(tools, filters=nested)
    assert json.loads(server.last.body) == {"filters": nested}
    (tool,) = tools.values()
    (found,) = problems(tool.protocol.parameters, {"filters": {"filters": [{"filters": [5]}]}})
    assert found.path == ("filters", "filters", 0)


def test_operations_whose_names_are_alike_are_called_apart(server: Server) -> None:
    """Separators alone tell two of them apart, and the last of 94 characters the two others."""
    ids = ["foo/list", "foo.list", "x" * 93 + "a", "x" * 93 + "b"]
    paths = {f"/{number}": {"get": operation(operationId=each)} for number, each in enumerate(ids)}
    tools = import_openapi(document(paths), base_url=server.url)
    assert len(tools) == 4
    assert all(len(name) <= MAX_NAME for name in tools)

    async def called() -> list[tuple[str, str]]:
        targets = []
        for tool in tools.values():
            assert tool.transport is not None
            await tool.transport({})
            targets.append((tool.protocol.source.operation, server.last.path))
        return targets

    assert asyncio.run(called()) == [(each, f"/{number}") for number, each in enumerate(ids)]
