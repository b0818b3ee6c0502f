"""Answers that are no JSON: values by their content type, bytes where the data is binary, and nothing that hangs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from atc.errors import ToolError
from atc.tools.openapi import answers
from atc.tools.openapi.answers import Unreadable, decoded, value_in
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import Toolset
from tests.support.openapi import Answer, Server, call, document, one_tool, operation

BINARY = {"type": "string", "format": "binary"}


def answering(server: Server, media_types: dict[str, Any], **options: Any) -> Toolset:
    node = operation(responses={"200": {"description": "", "content": media_types}})
    return one_tool("/a", "get", node, server.url, **options)


ROWS = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer", "description": "Key"}}}}


@pytest.mark.parametrize(
    ("kind", "schema", "body", "value", "returns"),
    [
        (
            "text/csv",
            ROWS,
            'id,name\r\n1,"Ann, B."\r\n\r\n2\r\n',
            [{"id": "1", "name": "Ann, B."}, {"id": "2", "name": ""}],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": {"type": "string", "description": "Key"}},
                    "additionalProperties": {"type": "string"},
                },
            },
        ),
        ("text/tab-separated-values", None, "a;b\tc\n1\t2\n", [{"a;b": "1", "c": "2"}], "array"),
        ("text/csv", None, "a,a,\n1,2,3\n", [{"a": "1", "a_2": "2", "column_3": "3"}], "array"),
        ("application/csv", None, "a;b\n1,5;2\n", [{"a": "1,5", "b": "2"}], "array"),
        ("application/xml", None, "<a x='1'><b>2</b><b>3</b></a>", {"a": {"@x": "1", "b": ["2", "3"]}}, "object"),
        ("application/atom+xml", ROWS, "<feed/>", {"feed": None}, "object"),
        ("application/yaml", ROWS, "- id: 1\n- id: no\n", [{"id": 1}, {"id": "no"}], ROWS),
        ("application/x-ndjson", ROWS["items"], '{"id": 1}\n\n{"id": 2}\n', [{"id": 1}, {"id": 2}], ROWS),
        ("application/json-seq", None, "\x1e1\n\x1e2\n", [1, 2], "array"),
        ("text/html", None, "<p>", "<p>", {"type": "string"}),
        ("image/svg+xml", None, "<svg/>", "<svg/>", {"type": "string"}),
    ],
)
def test_an_answer_is_read_by_its_content_type(
    server: Server, kind: str, schema: Any, body: str, value: Any, returns: Any
) -> None:
    tools = answering(server, {kind: {"schema": schema} if schema else {}})
    server.answer = Answer(body.encode(), kind=f"{kind}; charset=utf-8")
    assert call(tools) == value
    shown = tools["op"].protocol.returns
    assert shown is not None
    assert shown["type"] == returns if isinstance(returns, str) else shown == returns
    assert server.last.headers["accept"] == kind


def test_what_says_most_to_a_program_is_asked_for(server: Server) -> None:
    tools = answering(server, {"text/html": {}, "text/csv": {}, "application/xml": {}, "application/pdf": {}})
    server.answer = Answer(b"a\n1\n", kind="text/csv")
    assert call(tools) == [{"a": "1"}]
    expected = "text/csv, application/xml;q=0.5, text/html;q=0.5, application/pdf;q=0.5"
    assert server.last.headers["accept"] == expected


def test_an_operation_that_declares_no_content_takes_what_comes_but_no_page(server: Server) -> None:
    tools = one_tool("/a", "get", operation(responses={"200": {"description": ""}}), server.url)
    for kind, body, value in [
        ("text/csv", b"a\n1\n", [{"a": "1"}]),
        ("application/xml", b"<a>1</a>", {"a": "1"}),
        ("text/plain", b"hello", "hello"),
        ("text/plain", b'{"a": 1}', {"a": 1}),
    ]:
        server.answer = Answer(body, kind=kind)
        assert call(tools) == value
    server.answer = Answer(b"<html>Please log in", kind="text/html")
    with pytest.raises(ToolError, match="text/html instead of JSON"):
        call(tools)
    server.answer = Answer(b"\x89PNG\x00", kind="image/png")
    with pytest.raises(ToolError, match="image/png instead of JSON"):
        call(tools)
    either = answering(server, {"application/json": {}, "image/png": {}})
    assert call(either) == b"\x89PNG\x00"


def test_a_kind_that_is_not_declared_is_an_error(server: Server) -> None:
    server.answer = Answer(b"<a/>", kind="application/xml")
    with pytest.raises(ToolError, match="application/xml instead of JSON"):
        call(one_tool("/a", "get", operation(), server.url))
    server.answer = Answer(b"<html>", kind="text/html")
    with pytest.raises(ToolError, match="text/html instead of XML"):
        call(answering(server, {"application/xml": {}}))


LAUGHS = '<!DOCTYPE a [<!ENTITY l "lol"><!ENTITY m "&l;&l;">]><a>&m;</a>'


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("xml", LAUGHS, "entities are disabled"),
        ("xml", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "entities are disabled"),
        ("xml", "<a>", "no element found"),
        ("xml", "<a>" * 300 + "</a>" * 300, "nested deeper"),
        ("xml", "<a>" + " " * answers.MAX_XML + "</a>", "XML of more than"),
        ("yaml", "a: !!python/name:os.system x", "tag"),
        ("yaml", "a: &a [x, x]\n" + "\n".join(f"b{n}: &b{n} [*a, *a]" for n in range(3)) + "\nc: *d", "alias"),
        (
            "yaml",
            "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
            + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
            "values",
        ),
        (
            "yaml",
            "base: &b {"
            + ", ".join(f"k{n}: 1" for n in range(3000))
            + "}\n"
            + "\n".join(f"m{n}: {{<<: *b}}" for n in range(1000)),
            "by '<<'",
        ),
        ("yaml", "a" * (answers.MAX_YAML + 1), "YAML of more than"),
        ("csv", "a,b\n1,2,3\n", "3 cells for 2 columns"),
        ("csv", ",".join(f"c{n}" for n in range(2000)) + "\n1" * 2000, "cells are missing"),
        ("csv", 'a\n"b', "unexpected end"),
        ("csv", "a\n" + "x" * 200_000, "field larger"),
        ("ndjson", '{"a": 1}\n{"a": nan}', "Expecting value"),
        ("json", "[" * 201 + "]" * 201, "nested deeper"),
    ],
)
def test_what_cannot_be_trusted_is_refused(kind: Any, text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        value_in(kind, text)


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        (None, "é".encode(), "é"),
        (None, b"\xef\xbb\xbfa", "a"),
        ("UTF-8", "é".encode(), "é"),
        ("ISO-8859-1", b"\xe9\x81", "é\x81"),
        ("windows-1252", b"\x80", "€"),
        ("Shift_JIS", "日本".encode("shift_jis"), "日本"),
        ("utf-16", "a".encode("utf-16"), "a"),
        ("punycode", b"a-", None),
        ("unicode_escape", b"\\n", None),
        ("no-such", b"a", None),
        ("ascii", b"\xff", None),
    ],
)
def test_only_known_character_sets_are_read(charset: str | None, body: bytes, text: str | None) -> None:
    assert decoded(body, charset) == text


def test_an_xml_document_may_name_its_own_character_set() -> None:
    body = b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>'
    text = decoded(body, None, is_xml=True)
    assert text is not None
    assert value_in("xml", text) == {"a": "é"}


def test_an_answer_in_a_strange_character_set_is_an_error(server: Server) -> None:
    server.answer = Answer(b"abc-" + b"a" * 1000, kind="application/json; charset=punycode")
    with pytest.raises(ToolError, match="charset=punycode"):
        call(one_tool("/a", "get", operation(), server.url))


@pytest.mark.parametrize("kind", ["application/octet-stream", "image/png", "application/pdf"])
def test_binary_data_comes_as_bytes(server: Server, kind: str) -> None:
    tools = answering(server, {kind: {"schema": {**BINARY, "description": "A picture."}}})
    assert tools["op"].protocol.returns == {**BINARY, "description": "A picture."}
    data = bytes(range(256))
    for label in (kind, "application/json"):  # a file that happens to be JSON is the file all the same
        server.answer = Answer(data, kind=label)
        assert call(tools) == data
    server.answer = Answer(b"", kind=kind)
    assert call(tools) == b""


def test_json_that_is_declared_as_raw_bytes_is_binary_data(server: Server) -> None:
    server.answer = Answer(b'{"a": 1}')
    tools = answering(server, {"application/json": {"schema": BINARY}})
    assert (call(tools), tools["op"].protocol.returns) == (b'{"a": 1}', BINARY)


def test_binary_data_never_holds_a_credential(server: Server) -> None:
    root: dict[str, Any] = {
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
    }
    server.answer = Answer(b"\x00 my-long-secret \xff", kind="image/png")
    root["security"] = [{"key": []}]
    tools = answering(server, {"image/png": {}}, root=root, auth={"key": "my-long-secret"})
    assert call(tools) == b"\x00 [redacted] \xff"


@pytest.mark.parametrize("kind", ["application/octet-stream", "image/png", "*/*"])
def test_a_binary_body_is_sent_as_it_is(server: Server, kind: str) -> None:
    tools = one_tool("/a", "put", operation(body=BINARY, media_type=kind), server.url)
    assert tools["op"].protocol.parameters["properties"] == {"body": BINARY}
    call(tools, body=bytes(range(256)))
    assert server.last.body == bytes(range(256))
    assert server.last.headers["content-type"] == ("application/octet-stream" if "*" in kind else kind)
    with pytest.raises(ToolError, match="must be bytes"):
        call(tools, body=[1])


def test_files_of_a_form_are_bytes(server: Server) -> None:
    body = {
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "file": BINARY,
            "more": {"type": "array", "items": BINARY},
            "modern": {"contentMediaType": "image/png"},
        },
    }
    tools = one_tool("/a", "post", operation(body=body, media_type="multipart/form-data"), server.url)
    shown = tools["op"].protocol.parameters["properties"]
    assert shown["file"] == shown["modern"] == BINARY
    assert shown["more"] == {"type": "array", "items": BINARY}
    call(tools, note="n", file=b"\x00\xff", more=[b"\x01", b"\x02"])
    sent = server.last.body
    assert b'name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff\r\n' in sent
    assert sent.count(b'name="more"; filename="more"') == 2


def test_bytes_inside_json_are_no_binary_data(server: Server) -> None:
    body = {"type": "object", "properties": {"data": BINARY}}
    tools = one_tool("/a", "post", operation(body=body), server.url)
    assert "format" not in tools["op"].protocol.parameters["properties"]["data"]
    with pytest.raises(ToolError, match="JSON"):
        call(tools, data=b"x")


def test_a_swagger_2_file_is_bytes(server: Server) -> None:
    root = {
        "swagger": "2.0",
        "info": {"title": "T", "version": "1"},
        "paths": {
            "/f": {
                "get": {
                    "produces": ["application/json", "image/gif"],
                    "responses": {"200": {"description": "", "schema": {"type": "file"}}},
                },
                "post": {
                    "consumes": ["multipart/form-data"],
                    "responses": {"204": {"description": ""}},
                    "parameters": [{"name": "f", "in": "formData", "type": "file"}],
                },
            }
        },
    }
    tools = import_openapi(root, base_url=server.url)
    assert tools["get_f"].protocol.returns == BINARY
    server.answer = Answer(b"GIF8\xff", kind="image/gif")
    server.answer = Answer(b"", 204, None)
    transport = tools["post_f"].transport
    assert transport is not None
    asyncio.run(transport({"f": b"\xfe"}))
    assert b"\xfe" in server.last.body
    assert json.dumps(tools["post_f"].protocol.parameters).count('"binary"') == 1


def test_documents_of_every_kind_import() -> None:
    content = {"application/zip": {}, "video/*": {}}
    assert len(import_openapi(document({"/a": {"get": operation(responses={"200": {"content": content}})}}))) == 1


def test_what_is_odd_in_a_line_is_noted_with_its_number() -> None:
    odd = answers.Oddities()
    assert value_in("ndjson", '{"n": 1}\n\n{"n": Infinity}', odd=odd) == [{"n": 1}, {"n": None}]
    assert odd.notes() == ("1 number (NaN or infinite) became null: [1].n",)
