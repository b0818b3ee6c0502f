"""Documents whose requests go wrong in other clients of OpenAPI: the smallest of each kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from atc.schemas.names import MAX_NAME
from atc.schemas.validate import problems
from atc.tools.openapi.importer import import_openapi
from tests.support.openapi import Server, call, document, one_tool, operation, running_server

TEXT = {"type": "string"}
REFS = [{"$ref": "#/components/schemas/Comparison"}, {"$ref": "#/components/schemas/Compound"}]
COMPARISON = {"type": "object", "properties": {"key": TEXT, "value": {}}, "required": ["key"]}
COMPOUND = {
    "type": "object",
    "required": ["filters"],
    "properties": {"filters": {"type": "array", "items": {"anyOf": REFS}}},
}
FILTERS = {"components": {"schemas": {"Comparison": COMPARISON, "Compound": COMPOUND}}}
NODE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.reset()
    return running


def query(name: str, schema: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **rest}


def test_a_response_that_holds_itself_has_its_keys_at_every_depth() -> None:
    root = {"components": {"schemas": {"Node": NODE}}}
    nodes = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    (tool,) = one_tool("/nodes", "get", operation(returns=nodes), "http://x.example", root=root).values()
    returns = tool.protocol.returns
    assert returns is not None
    assert not problems(returns, [{"children": [{"children": [{"children": []}]}]}])
    assert problems(returns, [{"children": [{"children": 5}]}])


def test_a_deep_object_of_a_query_is_sent_with_its_inner_object(server: Server) -> None:
    node = operation(query("filter", {"type": "object"}, style="deepObject", explode=True))
    call(one_tool("/a", "get", node, server.url), filter={"eq": "1", "n": {"gt": 3}})
    assert server.last.query == "filter%5Beq%5D=1&filter%5Bn%5D%5Bgt%5D=3"


@pytest.mark.parametrize(
    ("style", "sent"),
    [("form", "ids=a%20b,c%2Cd"), ("pipeDelimited", "ids=a%20b%7Cc%2Cd"), ("spaceDelimited", "ids=a%20b%20c%2Cd")],
)
def test_a_list_in_one_parameter_keeps_what_its_values_hold_apart_from_what_stands_between(
    server: Server, style: str, sent: str
) -> None:
    node = operation(query("ids", {"type": "array", "items": TEXT}, style=style, explode=False))
    call(one_tool("/a", "get", node, server.url), ids=["a b", "c,d"])
    assert server.last.query == sent


def test_a_body_that_is_a_list_is_sent_as_one(server: Server) -> None:
    node = operation(body={"type": "array", "items": TEXT})
    call(one_tool("/a", "put", node, server.url), body=["a", "b"])
    assert server.last.body == b'["a","b"]'


def test_an_argument_of_the_path_and_a_field_of_the_body_may_have_one_name(server: Server) -> None:
    path = {"name": "id", "in": "path", "required": True, "schema": TEXT}
    node = operation(path, body={"type": "object", "properties": {"id": {"type": "integer"}, "note": TEXT}})
    call(one_tool("/a/{id}", "put", node, server.url), id="of-path", body={"id": 5, "note": "n"})
    assert (server.last.path, json.loads(server.last.body)) == ("/a/of-path", {"id": 5, "note": "n"})


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
