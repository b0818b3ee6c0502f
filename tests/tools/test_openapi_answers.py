"""What a call gives back: JSON values, or a ToolError that tells what happened and whether the tool acted."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import socket
import time
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from atc.errors import ToolError
from atc.tools.openapi.answers import retry_after
from atc.tools.openapi.importer import import_openapi
from atc.tools.openapi.security import Credentials
from atc.tools.openapi.transport import MAX_CLIENTS, HttpService
from atc.tools.tool import Answered, Toolset, answer_of
from tests.support.openapi import Answer, Server, call, document, one_tool, operation


def tools_for(server: Server, method: str = "get", **options: Any) -> Toolset:
    return one_tool("/a", method, operation(), server.url, **options)


def failing(tools: Toolset) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call(tools)
    return caught.value


def test_json_comes_back_as_values(server: Server) -> None:
    server.answer = Answer('{"a": [1, 2.5, null, "é"]}'.encode())
    assert call(tools_for(server)) == {"a": [1, 2.5, None, "é"]}


@pytest.mark.parametrize("answer", [Answer(b"", 204, None), Answer(b"", 200), Answer(b"", 200, None)])
def test_no_content_is_none(server: Server, answer: Answer) -> None:
    server.answer = answer
    assert call(tools_for(server)) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": nan}', "JSON"),
        (b'{"a": 1', "JSON"),
        (b'"\\ud800"', "JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "deep"),
        (b"[" * 300 + b"]" * 300, "deep"),
        (b"\xff\xfe{", "binary"),
    ],
)
def test_json_that_cannot_be_trusted_is_an_error(server: Server, body: bytes, said: str) -> None:
    server.answer = Answer(body)
    assert said in failing(tools_for(server)).message


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    ("body", "value", "note"),
    [
        ('{"a": NaN}', {"a": None}, "1 number (NaN or infinite) became null: a"),
        ('[{"a": {"b": [1, -Infinity, 1e999]}}]', [{"a": {"b": [1, None, None]}}], "2 numbers"),
        ('{"a": {"k": 1, "k": 2, "l": 3}}', {"a": {"k": 2, "l": 3}}, "1 key stood twice, and the last value"),
    ],
)
def test_what_json_does_not_have_is_noted_and_ends_nothing(
    server: Server, method: str, body: str, value: Any, note: str
) -> None:
    server.answer = Answer(body.encode())
    (tool,) = tools_for(server, method).values()
    assert tool.transport is not None
    answered = asyncio.run(answer_of(tool.transport, {}))
    assert answered.value == value
    assert [note in each for each in answered.notes] == [True]


def test_the_place_of_what_is_noted_holds_no_secret(server: Server) -> None:
    server.answer = Answer(b'{"my-secret-key-0123": NaN, "my-secret-key-0123": NaN}')
    (tool,) = tools_for(server, headers={"X-Key": "my-secret-key-0123"}).values()
    assert tool.transport is not None
    answered = asyncio.run(answer_of(tool.transport, {}))
    assert (len(answered.notes), "my-secret" in str(answered)) == (2, False)


def test_other_content_is_an_error_that_shows_its_beginning(server: Server) -> None:
    server.answer = Answer(b"<html><body>" + b"Under maintenance. " * 100, kind="text/html; charset=utf-8")
    error = failing(tools_for(server))
    assert "text/html" in error.message
    assert "Under maintenance" in error.message
    assert len(error.message) < 350
    assert error.status == 200


def test_json_with_a_wrong_label_is_read(server: Server) -> None:
    server.answer = Answer(b'{"a": 1}', kind="text/html")
    assert call(tools_for(server)) == {"a": 1}


def test_text_is_text_where_the_document_says_so(server: Server) -> None:
    node = operation(responses={"200": {"description": "", "content": {"text/plain": {}}}})
    server.answer = Answer("a,b\n1,ü\n".encode("latin-1"), kind="text/plain; charset=latin-1")
    tools = one_tool("/a", "get", node, server.url)
    assert tools["op"].protocol.returns == {"type": "string"}
    assert call(tools) == "a,b\n1,ü\n"
    server.answer = Answer(b"12", kind="text/plain")
    assert call(one_tool("/a", "get", operation(returns={"type": "string"}), server.url)) == "12"


def test_a_body_over_the_limit_is_refused(server: Server) -> None:
    server.answer = Answer(b'"' + b"x" * 10_000 + b'"')
    assert "5,000 bytes" in failing(tools_for(server, max_bytes=5_000)).message


def test_a_compressed_bomb_is_never_unpacked(server: Server) -> None:
    bomb = gzip.compress(b'"' + b"x" * 50_000_000 + b'"')
    server.answer = Answer(bomb, headers={"Content-Encoding": "gzip"})
    assert "100,000 bytes" in failing(tools_for(server, max_bytes=100_000)).message
    server.answer = Answer(gzip.compress(b'{"a": 1}'), headers={"Content-Encoding": "gzip"})
    assert call(tools_for(server)) == {"a": 1}
    server.answer = Answer(b"??", headers={"Content-Encoding": "br"})
    assert "'br'" in failing(tools_for(server)).message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"errors": [{"title": "Bad", "detail": "no name"}, "second"]}', "no name"),
        (b'{"code": 3}', '{"code": 3}'),
        (b"<h1>Bad  Gateway</h1>", "Bad Gateway"),
        (b"", "Not Found"),
    ],
)
def test_an_error_repeats_the_services_own_words(server: Server, body: bytes, words: str) -> None:
    server.answer = Answer(body, 404)
    assert words in failing(tools_for(server)).message


def test_a_services_words_are_cut(server: Server) -> None:
    server.answer = Answer(b'{"message": "' + b"x" * 100_000 + b'"}', 400)
    assert len(failing(tools_for(server)).message) < 600


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("120") == 120
    assert retry_after("-5") == 0
    assert retry_after(email.utils.formatdate(time.time() + 60, usegmt=True)) == pytest.approx(60, abs=2)
    assert retry_after("soon") is retry_after("") is retry_after("nan") is retry_after("inf") is None


def test_a_service_that_cannot_be_reached_did_nothing() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = failing(one_tool("/a", "post", operation(), f"http://127.0.0.1:{port}"))
    assert (error.outcome, error.transient) == ("refused", True)
    assert "127.0.0.1" in error.message


def test_a_slow_service_may_have_acted(server: Server) -> None:
    server.answer = Answer(after=lambda: time.sleep(0.8))
    error = failing(tools_for(server, "post", timeout_s=0.3))
    assert (error.outcome, error.status) == ("unknown", "timeout")
    assert "0.3 s" in error.message


def test_redirects_on_the_same_server_are_followed(server: Server) -> None:
    server.answers = {
        "/a": Answer(b"", 302, None, {"Location": "/b?x=1"}),
        "/b": Answer(b"", 307, None, {"Location": "c"}),
        "/c": Answer(b'{"at": "c"}'),
    }
    assert call(tools_for(server)) == {"at": "c"}
    assert [seen.target for seen in server.seen] == ["/a", "/b?x=1", "/c"]


def test_redirects_of_a_write(server: Server) -> None:
    server.answers = {
        "/a": Answer(b"", 307, None, {"Location": "/b"}),
        "/b": Answer(b"", 303, None, {"Location": "/c"}),
    }
    call(one_tool("/a", "post", operation(body={"type": "array"}), server.url), body=[1])
    assert [(seen.method, seen.path, seen.body) for seen in server.seen] == [
        ("POST", "/a", b"[1]"),
        ("POST", "/b", b"[1]"),
        ("GET", "/c", b""),
    ]


@pytest.mark.parametrize(
    "target", ["http://localhost:1/x", "https://127.0.0.1/x", "//example.org/", "ftp://x/", "http://["]
)
def test_redirects_to_another_server_are_refused(server: Server, target: str) -> None:
    server.answer = Answer(b"", 302, None, {"Location": target})
    error = failing(tools_for(server))
    assert "redirects to" in error.message
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "target",
    ["http://shop:port/", "//shop:port", "http://[v1.x]/", "http://xn--/", "mailto:a@example.org", "\x01"],
)
def test_a_redirect_to_what_is_no_url_is_the_services_fault_and_not_worth_another_try(
    server: Server, target: str
) -> None:
    server.answer = Answer(b"", 302, None, {"Location": target})
    error = failing(tools_for(server))
    assert error.message.startswith("GET /a redirects to no valid URL: the Location header of its answer (302)")
    assert (error.status, error.outcome, error.transient) == (302, "refused", False)
    assert len(server.seen) == 1
    assert failing(tools_for(server, "post")).outcome == "unknown"  # it may have acted before it answered


def test_a_redirect_that_is_not_followed_is_seen_by_hooks_of_the_users(server: Server) -> None:
    seen: list[int] = []

    async def hook(response: httpx.Response) -> None:
        seen.append(response.status_code)

    def factory(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(event_hooks={"response": [hook]}, **options)

    server.answer = Answer(b"", 302, None, {"Location": "http://shop:port/"})
    assert "no valid URL" in failing(tools_for(server, client_factory=factory)).message
    assert seen == [302]


def test_a_circle_of_redirects_ends(server: Server) -> None:
    server.answer = Answer(b"", 302, None, {"Location": "/a"})
    assert "redirects more than" in failing(tools_for(server)).message
    assert len(server.seen) < 10


def test_cookies_of_one_call_are_not_sent_with_the_next(server: Server) -> None:
    server.answer = Answer(headers={"Set-Cookie": "session=1; Path=/"})
    tools = tools_for(server)

    async def twice() -> None:
        async with tools.opened():
            for _ in range(2):
                await tools["op"].transport({})  # type: ignore[misc]

    asyncio.run(twice())
    assert "cookie" not in server.last.headers


def test_all_tools_of_an_import_share_one_client_for_each_loop(server: Server) -> None:
    made: list[httpx.AsyncClient] = []

    def factory(**settings: Any) -> httpx.AsyncClient:
        made.append(httpx.AsyncClient(**settings))
        return made[-1]

    paths = {"/a": {"get": operation()}, "/b": {"get": {**operation(), "operationId": "op2"}}}
    tools = import_openapi(document(paths), base_url=server.url, client_factory=factory)
    assert tools["op"].transport.opened() == tools["op2"].transport.opened()  # type: ignore[union-attr]

    async def run(delay: float) -> None:
        async with tools.opened():
            await asyncio.sleep(delay)
            await tools["op"].transport({})  # type: ignore[misc]
            await tools["op2"].transport({})  # type: ignore[misc]

    async def two_runs() -> None:
        await asyncio.gather(run(0), run(0.05))
        assert made[0].is_closed

    asyncio.run(two_runs())
    assert len(made) == 1
    asyncio.run(run(0))
    assert len(made) == 2
    call(tools.only("op"))  # outside of any block: a client for this call alone
    assert len(made) == 3
    assert all(client.is_closed for client in made)


def test_calls_at_once_have_a_client_each_up_to_a_bound_and_all_are_closed() -> None:
    service = HttpService(Credentials({}, None, None))
    given = HttpService(Credentials({}, None, None), client_factory=httpx.AsyncClient)

    async def run(service: HttpService, calls: int) -> set[httpx.AsyncClient]:
        async with service:
            async with AsyncExitStack() as stack:
                made = {await stack.enter_async_context(service.client()) for _ in range(calls)}
            for _ in range(3):  # one by one, one of them does
                async with service.client() as client:
                    made.add(client)
        assert all(client.is_closed for client in made)
        return made

    assert len(asyncio.run(run(service, 3))) == 3
    assert len(asyncio.run(run(service, MAX_CLIENTS + 5))) == MAX_CLIENTS
    assert len(asyncio.run(run(given, 3))) == 1


@pytest.mark.parametrize(
    ("link", "documented", "said"),
    [
        ('<http://x/op?page=3&size=9>; rel="next"', False, {"page": "3"}),
        ('<?page=3>; rel=next, <?page=1>; rel="prev"', False, {"page": "3"}),
        ('<http://x/op?cursor=z>; rel="next"', False, {}),  # there is one, and no argument asks for it
        ('<http://x/op?page=1>; rel="prev"', False, False),
        ('<http://x/doc>; rel="help"', False, None),
        ('<http://x/doc>; rel="help"', True, False),
        ("<<<;;;", False, None),
        (None, True, False),
        (None, False, None),
    ],
)
def test_a_link_header_says_where_the_next_page_is(
    server: Server, link: str | None, documented: bool, said: object
) -> None:
    server.answer = Answer(body=b"[1]", headers={"Link": link} if link is not None else {})
    node = operation({"name": "page", "in": "query", "schema": {"type": "integer"}}, returns={"type": "array"})
    if documented:
        node["responses"]["200"]["headers"] = {"Link": {"schema": {"type": "string"}}}
    (tool,) = one_tool("/op", "get", node, server.url).values()
    assert tool.transport is not None
    assert asyncio.run(answer_of(tool.transport, {})) == Answered([1], said)  # type: ignore[arg-type]
    assert asyncio.run(tool.transport({})) == [1]  # type: ignore[arg-type]
