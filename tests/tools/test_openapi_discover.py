"""The address of a service is enough: its document is looked for, in a few places, on the same server."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from dataclasses import replace

import pytest

from atc import wording
from atc.errors import ToolError, ToolImportError
from atc.tools.openapi.fetch import MAX_REQUESTS
from atc.tools.openapi.importer import import_openapi
from atc.tools.openapi.servers import other_place
from atc.tools.sources import open_tools
from tests.support.cli import atc
from tests.support.openapi import Answer, Server, document, operation
from tests.support.time import little_work

BODY = json.dumps(document({"/a": {"get": operation()}}, servers=[{"url": "/api"}])).encode()


@pytest.fixture
def server(server: Server) -> Server:
    server.answer = Answer(b"<h1>Not found</h1>", 404, "text/html")
    return server


@pytest.mark.parametrize("place", ["/openapi.json", "/openapi.yaml", "/swagger.json", "/v3/api-docs", "/api/schema/"])
def test_a_document_is_found_where_frameworks_publish_it(server: Server, place: str) -> None:
    server.answers[place] = Answer(BODY)
    tools = open_tools([server.url])
    assert list(tools) == ["op"]
    assert tools["op"].protocol.source.location == server.url + place
    assert tools["op"].transport.operation.server == f"{server.url}/api"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("page", "place"),
    [
        ("<script>SwaggerUIBundle({url: '/hidden/openapi.json', x: 1})</script>", "/hidden/openapi.json"),
        ('<script>const ui = {"url": "\\/v9\\/api-docs"}</script>', "/v9/api-docs"),
        ('<redoc spec-url="spec/openapi.yaml"></redoc>', "/spec/openapi.yaml"),
        ('<link rel="service-desc" href="/the.json">', "/the.json"),
    ],
)
def test_a_page_names_its_document(server: Server, page: str, place: str) -> None:
    server.answers[place] = Answer(BODY)
    server.answers["/"] = Answer(page.encode(), kind="text/html")
    assert list(import_openapi(server.url)) == ["op"]
    del server.answers["/"]
    server.answers["/docs"] = Answer(page.encode(), kind="text/html")
    assert list(import_openapi(server.url)) == ["op"]


def test_a_list_of_tools_says_where_their_document_was_found(server: Server) -> None:
    server.answers["/the.json"] = Answer(BODY)
    server.answers["/"] = Answer(b'<link rel="service-desc" href="/the.json">', kind="text/html")
    found = f"found an OpenAPI document at {server.url}/the.json"
    assert found in " ".join(atc("tools", "list", "-t", server.url).stderr.split())
    assert found not in " ".join(atc("tools", "list", "-t", f"{server.url}/the.json").stderr.split())


def test_a_page_below_the_root_is_looked_at_and_so_is_the_root(server: Server) -> None:
    server.answers["/openapi.json"] = Answer(BODY)
    server.answers["/docs"] = Answer(b"<html>", kind="text/html")
    assert list(import_openapi(f"{server.url}/docs?x=1#top")) == ["op"]


def test_a_tool_is_shown_with_the_whole_address_that_its_path_is_below(server: Server) -> None:
    server.answers["/openapi.json"] = Answer(BODY)
    shown = atc("tools", "show", "op", "-t", f"{server.url}/openapi.json")
    assert f"its path is below {server.url}/api (" in " ".join(shown.stderr.split())
    assert json.loads(shown.stdout)["name"] == "op"


def test_a_page_leads_to_no_other_server(server: Server) -> None:
    page = "<script>({url: 'http://127.0.0.1:1/openapi.json'}); ({url: 'file:///etc/passwd.json'})</script>"
    server.answers["/"] = Answer(page.encode(), kind="text/html")
    with pytest.raises(ToolImportError, match="publishes no OpenAPI document"):
        import_openapi(server.url)


def test_what_was_tried_is_said_and_bounded(server: Server) -> None:
    with pytest.raises(ToolImportError) as caught:
        import_openapi(server.url)
    assert all(place in str(caught.value) for place in ("/openapi.json", "/v3/api-docs", "/docs"))
    assert "the address of the page that shows the documentation" in str(caught.value)
    assert len(server.seen) <= MAX_REQUESTS
    server.seen.clear()
    names = " ".join(f"url: '/{n}.json'" for n in range(1000))
    server.answer = Answer(f"<script>{names}</script>".encode(), kind="text/html")
    with pytest.raises(ToolImportError):
        import_openapi(f"{server.url}/some/place")
    assert len(server.seen) <= MAX_REQUESTS


def test_a_document_that_was_named_is_not_replaced_by_another(server: Server) -> None:
    server.answers["/openapi.json"] = Answer(BODY)
    with pytest.raises(ToolImportError, match="status 404"):
        import_openapi(f"{server.url}/other.json")
    server.answers["/old"] = Answer(b'{"openapi": "4.0.0", "paths": {}}')
    with pytest.raises(ToolImportError, match=r"version '4\.0\.0'"):
        import_openapi(f"{server.url}/old")
    assert len(server.seen) == 2


def test_what_is_compressed_is_unpacked_once_and_as_far_as_is_read(server: Server) -> None:
    """An answer of some kilobytes must not become gigabytes."""
    once, twice = gzip.compress(BODY), gzip.compress(gzip.compress(BODY))
    place = f"{server.url}/openapi.json"
    for where in (server.url, place):
        server.answers["/openapi.json"] = Answer(once, headers={"Content-Encoding": "gzip"})
        assert list(import_openapi(where)) == ["op"]
        server.answers["/openapi.json"] = Answer(twice, headers={"Content-Encoding": "gzip, gzip"})
        with pytest.raises(ToolImportError):
            import_openapi(where)
    bomb = Answer(gzip.compress(b" " * 40_000_000), headers={"Content-Encoding": "gzip"})
    server.answers["/openapi.json"] = bomb
    with pytest.raises(ToolImportError, match="larger than 20,000,000 bytes"):
        import_openapi(place)
    del server.answers["/openapi.json"]
    server.answers["/docs"] = replace(bomb, kind="text/html")
    server.answers["/swagger.json"] = Answer(BODY)
    assert list(import_openapi(f"{server.url}/docs")) == ["op"]


@pytest.mark.parametrize("page", [b"a: [%s1]", b'{"a": [%s]', b"[%s"], ids=["YAML", "no JSON", "an open list"])
def test_a_page_that_is_no_document_costs_little(server: Server, page: bytes) -> None:
    server.answer = Answer(page.replace(b"%s", b"x, " * 400_000), kind="application/yaml")
    with little_work(5.0), pytest.raises(ToolImportError, match="publishes no OpenAPI document"):
        import_openapi(server.url)


def test_nobody_there_is_said_at_once() -> None:
    with pytest.raises(ToolImportError, match="cannot be read"):
        import_openapi("http://127.0.0.1:1")


def test_a_document_that_names_another_port_is_told_of_before_a_call_and_after(server: Server) -> None:
    named = "http://127.0.0.1:1/v1"  # where nothing listens
    body = json.dumps(document({"/a": {"get": operation()}}, servers=[{"url": named}])).encode()
    server.answers["/openapi.json"] = Answer(body)
    tools = open_tools([server.url])
    told = f"calls go to {named}, which the document names, and not to {server.url}/v1, where it was read: "
    way = f"to call that one, pass base_url='{server.url}/v1' (`atc run --openapi service_url={server.url}/v1`)"
    assert [wording.other_address(each.named, each.found) for each in tools.other_addresses()] == [told + way]
    with pytest.raises(ToolError, match=re.escape(f"cannot reach http://127.0.0.1:1 (ConnectError); {told}{way}")):
        asyncio.run(tools["op"].transport({}))
    listed, looked = atc("tools", "list", "-t", server.url), atc("doctor", "--tools", server.url, "--json")
    assert listed.stderr.endswith(f"\nnote: {told}{way}\n")
    check = json.loads(looked.stdout)[-1]
    assert (check["ok"], check["fix"]) == (False, told + way)
    assert f"atc mcp: {told}{way}\n" in atc("mcp", "--tools", server.url, "--check").stderr
    assert import_openapi(server.url, base_url=named).other_addresses() == []


@pytest.mark.parametrize(
    ("named", "document_url", "told"),
    [
        ("http://127.0.0.1:8800", "http://127.0.0.1:8801/openapi.json", "http://127.0.0.1:8801"),
        ("https://api.shop.example/v1", "http://localhost:8000/openapi.json", "http://localhost:8000/v1"),
        ("https://shop.example:8443", "https://me:secret@shop.example/openapi.json", "https://shop.example"),
        ("http://127.0.0.1:8800", "http://localhost:8800/openapi.json", ""),
        ("https://shop.example/v1", "http://shop.example/openapi.json", ""),
        ("https://api.shop.example/v1", "https://docs.shop.example/openapi.json", ""),
        ("https://api.shop.example/v1", None, ""),
        (None, "https://docs.shop.example/openapi.json", ""),
    ],
)
def test_only_a_place_that_looks_like_a_slip_is_told_of(named: str | None, document_url: str | None, told: str) -> None:
    assert other_place(named, document_url) == told
