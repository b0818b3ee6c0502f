"""How arguments become a request: every style of the specification, and no way out of an argument's place."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import ToolError
from atc.tools.openapi.encode import encode
from atc.tools.openapi.importer import import_openapi
from atc.tools.openapi.plan import Operation, Parameter
from tests.support.openapi import Server, call, document, one_tool, operation

ARRAY = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"R": {"type": "integer"}, "G": {"type": "integer"}}}
COLORS = ["blue", "black"]
RGB = {"R": 100, "G": 200}


def parameter(location: str, schema: dict[str, Any], name: str = "color", **rest: Any) -> dict[str, Any]:
    return {"name": name, "in": location, "schema": schema, "required": location == "path", **rest}


@pytest.mark.parametrize(
    ("style", "explode", "value", "segment"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, COLORS, "blue,black"),
        ("simple", False, RGB, "R,100,G,200"),
        ("simple", True, RGB, "R=100,G=200"),
        ("label", False, "blue", ".blue"),
        ("label", False, COLORS, ".blue,black"),
        ("label", True, COLORS, ".blue.black"),
        ("label", False, RGB, ".R,100,G,200"),
        ("label", True, RGB, ".R=100.G=200"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, COLORS, ";color=blue,black"),
        ("matrix", True, COLORS, ";color=blue;color=black"),
        ("matrix", False, RGB, ";color=R,100,G,200"),
        ("matrix", True, RGB, ";R=100;G=200"),
    ],
)
def test_path_styles(server: Server, style: str, explode: bool, value: Any, segment: str) -> None:
    node = operation(parameter("path", {}, style=style, explode=explode))
    call(one_tool("/a/{color}/b", "get", node, server.url), color=value)
    assert server.last.target == f"/a/{segment}/b"


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, "blue", "color=blue"),
        ("form", True, COLORS, "color=blue&color=black"),
        ("form", False, COLORS, "color=blue,black"),
        ("form", True, RGB, "R=100&G=200"),
        ("form", False, RGB, "color=R,100,G,200"),
        ("spaceDelimited", False, COLORS, "color=blue%20black"),
        ("pipeDelimited", False, COLORS, "color=blue%7Cblack"),
        ("form", False, ["a b", "c,d"], "color=a%20b,c%2Cd"),  # what a value holds is no separator
        ("spaceDelimited", False, ["a b", "c,d"], "color=a%20b%20c%2Cd"),
        ("pipeDelimited", False, ["a b", "c,d"], "color=a%20b%7Cc%2Cd"),
        ("deepObject", True, RGB, "color%5BR%5D=100&color%5BG%5D=200"),
        ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2"),
        ("form", True, True, "color=true"),
        ("form", True, 1.5, "color=1.5"),
        ("form", True, "a&b=c#d/é", "color=a%26b%3Dc%23d%2F%C3%A9"),
        ("form", True, [], ""),
        ("form", True, None, ""),
    ],
)
def test_query_styles(server: Server, style: str, explode: bool, value: Any, query: str) -> None:
    node = operation(parameter("query", {}, style=style, explode=explode))
    call(one_tool("/a", "get", node, server.url), color=value)
    assert server.last.query == query


def test_reserved_characters_stay_where_the_document_allows_them_and_never_split_the_query(server: Server) -> None:
    node = operation(parameter("query", {"type": "string"}, allowReserved=True))
    call(one_tool("/a", "get", node, server.url), color="/x?y=[1]&z#w")
    assert server.last.query == "color=/x?y=[1]%26z%23w"


def test_headers_cookies_and_json_parameters(server: Server) -> None:
    node = operation(
        parameter("header", ARRAY, "X-Colors"),
        parameter("cookie", {"type": "string"}, "session"),
        {"name": "filter", "in": "query", "content": {"application/json": {"schema": OBJECT}}},
    )
    call(one_tool("/a", "get", node, server.url), x_colors=COLORS, session="a;b c", filter=RGB)
    assert server.last.headers["x-colors"] == "blue,black"
    assert server.last.headers["cookie"] == "session=a%3Bb%20c"
    assert dict(parse_qsl(server.last.query)) == {"filter": '{"R":100,"G":200}'}


def test_a_query_that_stands_in_the_path_is_kept_and_filled(server: Server) -> None:
    node = operation(parameter("path", {"type": "string"}), parameter("query", {"type": "string"}, "page"))
    tools = one_tool("/search?kind=all&color={color}#overload", "get", node, server.url)
    call(tools, color="a&b", page="2")
    assert server.last.target == "/search?kind=all&color=a%26b&page=2"


@pytest.mark.parametrize("value", ["..", ".", "../x", "a/../b", "..\\x", "", ["..", "a"]])
def test_a_path_argument_that_is_a_step_of_a_path_is_refused_before_anything_is_sent(
    server: Server, value: Any
) -> None:
    node = operation(parameter("path", {}))
    with pytest.raises(ToolError) as caught:
        call(one_tool("/users/{color}", "get", node, server.url), color=value)
    assert caught.value.outcome == "refused"
    assert server.seen == []


@given(st.text(st.characters() | st.sampled_from("./\\%?#&;\ud800"), min_size=1, max_size=30))
def test_a_path_argument_never_leaves_its_segment(value: str) -> None:
    plan = Operation("GET", "/users/{id}/posts", (Parameter("id", "id", "path", "simple", False),))
    try:
        request = encode(plan, {"id": value})
    except ToolError:
        return
    assert request.path.isascii()
    first, users, segment, posts = request.path.split("/")
    assert (first, users, posts) == ("", "users", "posts")
    assert not set(segment) & set("?#\\ \r\n")
    assert segment not in (".", "..")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", "snow ☃"])
def test_a_header_value_that_is_none_is_refused(server: Server, value: str) -> None:
    with pytest.raises(ToolError, match="x_color"):
        call(one_tool("/a", "get", operation(parameter("header", {}, "X-Color")), server.url), x_color=value)
    assert server.seen == []


def test_an_object_body_is_taken_apart_and_put_together_again(server: Server) -> None:
    body = {
        "type": "object",
        "required": ["first-name"],
        "properties": {"first-name": {"type": "string"}, "tags": ARRAY, "id": {"type": "integer", "readOnly": True}},
    }
    tools = one_tool("/users", "post", operation(body=body), server.url)
    assert list(tools["op"].protocol.parameters["properties"]) == ["first_name", "tags"]
    assert tools["op"].protocol.required == ("first_name",)
    call(tools, first_name="Zoë", tags=["a"])
    assert json.loads(server.last.body) == {"first-name": "Zoë", "tags": ["a"]}
    assert server.last.headers["content-type"] == "application/json"


def test_body_properties_with_names_that_meet_stay_apart(server: Server) -> None:
    tools = one_tool("/a", "post", operation(body={"properties": {"a-b": {}, "a_b": {}, "class": {}}}), server.url)
    assert list(tools["op"].protocol.parameters["properties"]) == ["a_b_2", "a_b", "class_"]
    call(tools, a_b=1, a_b_2=2, class_=3)
    assert json.loads(server.last.body) == {"a_b": 1, "a-b": 2, "class": 3}  # what is there has its name first


@pytest.mark.parametrize(
    "body",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"id": {}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
    ],
)
def test_a_body_that_cannot_be_taken_apart_is_one_argument(server: Server, body: dict[str, Any]) -> None:
    tools = one_tool("/users/{id}", "put", operation(parameter("path", {}, "id"), body=body), server.url)
    assert list(tools["op"].protocol.parameters["properties"]) == ["id", "body"]
    call(tools, id="1", body=[1, {"x": None}])
    assert json.loads(server.last.body) == [1, {"x": None}]


def test_an_optional_body_is_left_out_or_whole(server: Server) -> None:
    node = operation(body={"type": "object", "required": ["a", "b"], "properties": {"a": {}, "b": {}, "c": {}}})
    node["requestBody"]["required"] = False
    tools = one_tool("/a", "post", node, server.url)
    schema = tools["op"].protocol.parameters
    assert "required" not in schema
    assert schema["dependentRequired"] == {"a": ["b"], "b": ["a"], "c": ["a", "b"]}
    call(tools)
    assert server.last.body == b""
    assert "content-type" not in server.last.headers


def test_form_bodies(server: Server) -> None:
    body = {"type": "object", "properties": {"name": {}, "tags": ARRAY, "at": OBJECT, "deep": OBJECT}}
    node = operation(body=body, media_type="application/x-www-form-urlencoded")
    content = node["requestBody"]["content"]["application/x-www-form-urlencoded"]
    content["encoding"] = {"deep": {"style": "deepObject"}}
    call(one_tool("/a", "post", node, server.url), name="a b&c", tags=COLORS, at=RGB, deep=RGB)
    assert parse_qsl(server.last.body.decode()) == [
        ("name", "a b&c"),
        ("tags", "blue"),
        ("tags", "black"),
        ("at", '{"R":100,"G":200}'),
        ("deep[R]", "100"),
        ("deep[G]", "200"),
    ]


def test_multipart_bodies_hold_fields_and_text_files(server: Server) -> None:
    file = {"type": "string", "format": "binary", "description": "A list."}
    body = {"type": "object", "properties": {"note": {"type": "string"}, "meta": OBJECT, "file": file}}
    tools = one_tool("/a", "post", operation(body=body, media_type="multipart/form-data"), server.url)
    shown = tools["op"].protocol.parameters["properties"]["file"]
    assert shown == {"type": "string", "format": "binary", "description": "A list."}
    call(tools, note='say "hi"\r\n--x', meta=RGB, file="a,b\n1,2\n")
    sent = server.last.body.decode()
    assert server.last.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert 'name="note"\r\n\r\nsay "hi"\r\n--x\r\n' in sent
    assert 'name="meta"\r\nContent-Type: application/json\r\n\r\n{"R":100,"G":200}' in sent
    assert 'name="file"; filename="file"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\na,b\n1,2\n' in sent


def test_a_text_body_is_sent_as_it_is(server: Server) -> None:
    call(one_tool("/a", "post", operation(body={"type": "string"}, media_type="text/csv"), server.url), body="a,b")
    assert server.last.body == b"a,b"
    assert server.last.headers["content-type"] == "text/csv"


def test_numbers_that_json_does_not_have_are_refused(server: Server) -> None:
    tools = one_tool("/a", "post", operation(body={"type": "array"}), server.url)
    with pytest.raises(ToolError, match="JSON"):
        call(tools, body=[float("nan")])
    assert server.seen == []


def test_swagger_2_requests(server: Server) -> None:
    document_2 = {
        "swagger": "2.0",
        "host": server.url.removeprefix("http://"),
        "basePath": "/v1",
        "schemes": ["http"],
        "paths": {
            "/pets/{id}": {
                "parameters": [{"$ref": "#/parameters/Id"}],
                "post": {
                    "operationId": "op",
                    "consumes": ["application/x-www-form-urlencoded"],
                    "parameters": [
                        {"name": "tags", "in": "query", "type": "array", "items": {}, "collectionFormat": "pipes"},
                        {"name": "name", "in": "formData", "type": "string", "required": True},
                    ],
                    "responses": {"200": {"description": "ok", "schema": {"$ref": "#/definitions/Pet"}}},
                },
            }
        },
        "parameters": {"Id": {"name": "id", "in": "path", "type": "integer", "required": True}},
        "definitions": {"Pet": {"type": "object", "properties": {"id": {"type": "integer", "x-nullable": True}}}},
    }
    tools = import_openapi(document_2)
    assert tools["op"].protocol.required == ("id", "name")
    assert tools["op"].protocol.returns == {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}
    call(tools, id=7, tags=["a", "b"], name="Rex & Co")
    assert server.last.target == "/v1/pets/7?tags=a%7Cb"
    assert server.last.body == b"name=Rex%20%26%20Co"


def test_without_a_server_the_tools_import_and_a_call_says_what_to_pass() -> None:
    tools = import_openapi(document({"/a": {"get": operation()}}))
    with pytest.raises(ToolError, match="base_url"):
        call(tools)


def test_an_argument_that_the_operation_does_not_have_is_refused(server: Server) -> None:
    with pytest.raises(ToolError, match="no argument 'nope'"):
        call(one_tool("/a", "get", operation(), server.url), nope=1)
    assert server.seen == []
