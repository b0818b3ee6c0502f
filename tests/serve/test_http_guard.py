"""What the HTTP server lets through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.serve.mcp import shares
from atc.serve.mcp.http import MAX_BODY, HttpSettings, Lock, Names, origins_of
from tests.support.mcp_http import ANN, BOB, LEGACY, Caller, calling, locked, message, opening

pytestmark = pytest.mark.anyio


def error_of(response: Any) -> str:
    body = response.json()
    assert body["jsonrpc"] == "2.0"
    assert body["id"] is None
    return str(body["error"]["message"])


async def test_both_protocols_are_served_to_who_shows_a_token() -> None:
    async with calling() as caller:
        listed = await caller.modern("tools/list")
        assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["run_program"]
        session = await caller.open()
        found = await caller.call("search_tools", {"query": "twice"}, session=session)
        assert '"double"' in found.text


@pytest.mark.parametrize("token", [None, "", "x", "token-of-eve-0123456789", ANN[:-1], "a" * 100_000])
async def test_without_a_known_token_nothing_is_served(token: str | None) -> None:
    async with calling() as caller:
        for answered in (
            await caller.send(token=token, body=opening()),
            await caller.send("GET", token=None),
            await caller.send("DELETE", token=None),
            await caller.modern("tools/list", token=None),
        ):
            assert answered.status_code == 401
            assert answered.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("said", [f"Basic {ANN}", ANN, f"Token {ANN}", f"Bearer{ANN}", "Bearer", "Bearer "])
async def test_a_token_counts_as_a_bearer_token_alone(said: str) -> None:
    async with calling() as caller:
        assert (await caller.send(token=None, body=opening(), authorization=said)).status_code == 401
        assert (await caller.send(path=f"/mcp?access_token={ANN}", token=None, body=opening())).status_code == 401


async def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with calling() as caller:
        await caller.modern("tools/list")
        await caller.modern("tools/list", token="token-of-eve-0123456789")
        await caller.call("search_tools", {"query": "x"}, session=await caller.open())
    assert ANN not in caplog.text
    assert "token-of-eve" not in caplog.text


async def test_another_owner_cannot_use_a_session_nor_a_run() -> None:
    async with calling() as caller:
        session = await caller.open(ANN)
        assert (await caller.call("search_tools", {"query": "x"}, token=BOB, session=session)).status_code == 404
        assert (await caller.send("DELETE", BOB, mcp_session_id=session)).status_code == 404
        assert (await caller.send("GET", BOB, mcp_session_id=session, mcp_protocol_version=LEGACY)).status_code == 404
        assert (await caller.call("search_tools", {"query": "x"}, session=session)).status_code == 200

        source = {"source": "answer = 1"}
        run = (await caller.call("run_program", source)).json()["result"]["structuredContent"]["run"]
        foreign = (await caller.call("run_program", {**source, "run": run}, token=BOB)).json()["result"]
        assert foreign["isError"]
        assert "no run" in foreign["structuredContent"]["error"]["message"]
        own = (await caller.call("run_program", {**source, "run": run})).json()["result"]["structuredContent"]
        assert own["run"] == run


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8790",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "evil@localhost",
        "a/b",
    ],
)
async def test_a_name_that_nobody_allowed_is_misdirected(host: str) -> None:
    async with calling() as caller:
        answered = await caller.send(body=opening(), host=host)
        assert answered.status_code == 421
        assert "--allow-host" in error_of(answered)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8790", "10.1.2.3", "tools.example.org"]
)
async def test_addresses_and_allowed_names_are_answered(host: str) -> None:
    async with calling(locked(names=Names(frozenset({"tools.example.org"})))) as caller:
        assert (await caller.send(body=opening(), host=host)).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
        ("http://evil@localhost", 403),
        ("http://localhost/../x", 403),
        ("file://localhost", 403),
        ("", 403),
        ("http://localhost:6274", 200),
        ("http://[::1]:1", 200),
        ("https://pages.example.org", 200),
    ],
)
async def test_only_known_pages_may_call(origin: str, status: int) -> None:
    names = Names(origins=origins_of(["https://pages.example.org/"]), local_pages=True)
    async with calling(locked(names=names)) as caller:
        answered = await caller.send(body=opening(), origin=origin)
        assert answered.status_code == status
        readable = answered.headers.get("access-control-allow-origin")
        assert readable == (origin if status == 200 else None)


async def test_a_page_of_this_machine_is_a_stranger_where_no_token_is_asked() -> None:
    async with calling(HttpSettings(Lock())) as caller:
        assert (await caller.send(token=None, body=opening())).status_code == 200
        assert (await caller.send(token=None, body=opening(), origin="http://localhost:3000")).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "CONNECT", "HEAD", "PROPFIND"])
async def test_other_methods_are_refused(method: str) -> None:
    async with calling() as caller:
        answered = await caller.http.request(method, "/mcp", headers={"authorization": f"Bearer {ANN}"})
        assert answered.status_code == 405


@pytest.mark.parametrize("path", ["/", "/mcp/", "//mcp", "/mcp/..", "/MCP", "/mcp%2f", "/mcp;x", "/healthz/../mcp/x"])
async def test_there_is_one_path(path: str) -> None:
    async with calling() as caller:
        assert (await caller.send(body=opening(), path=path)).status_code == 404


@pytest.mark.parametrize("name", ["authorization", "host", "origin", "mcp-session-id", "content-type"])
async def test_a_header_that_is_there_twice_is_refused(name: str) -> None:
    async with calling() as caller:
        twice = [(name, "a"), (name, "b")]
        answered = await caller.http.post("/mcp", headers=twice, content=b"{}")
        assert answered.status_code == 400
        assert "twice" in error_of(answered)


async def test_too_large_a_body_gets_a_structured_error() -> None:
    async with calling() as caller:
        large = message("tools/call", {"name": "run_program", "arguments": {"source": "#" * 10_000_000}})
        answered = await caller.send(body=large)
        assert answered.status_code == 413
        assert f"{MAX_BODY:,}" in error_of(answered)


async def test_a_body_that_does_not_end_is_cut_off() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * MAX_BODY

    async with calling() as caller:
        answered = await caller.http.post("/mcp", content=endless(), headers={"authorization": f"Bearer {ANN}"})
        assert answered.status_code == 413
        assert sent <= 10


async def test_without_a_token_no_body_is_read() -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    async with calling() as caller:
        assert (await caller.http.post("/mcp", content=never())).status_code == 401


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff\xfe", b"1" * 10_000, b'{"jsonrpc":"2.0","id":{},"method":"x"}'],
)
async def test_junk_gets_an_error(body: bytes) -> None:
    async with calling() as caller:
        for headers in ({}, {"mcp_protocol_version": "2026-07-28"}, {"mcp_protocol_version": "9999-99-99"}):
            answered = await caller.send(body=body, **headers)
            assert 400 <= answered.status_code < 500
            assert "error" in answered.json()
        assert (await caller.modern("tools/list")).status_code == 200


async def test_one_owner_may_have_so_many_requests_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MAX_CALLS", 2)
    async with calling() as caller:
        going = asyncio.Event()
        release = asyncio.Event()

        async def slow(*_: Any) -> list[Any]:
            going.set()
            await release.wait()
            return []

        monkeypatch.setattr(caller.face, "offered", slow)
        first = [asyncio.create_task(caller.modern("tools/list")) for _ in range(2)]
        await going.wait()
        refused = await caller.modern("tools/list")
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        other = asyncio.create_task(caller.modern("tools/list", token=BOB))
        release.set()
        assert [each.status_code for each in await asyncio.gather(*first, other)] == [200, 200, 200]
        assert (await caller.modern("tools/list")).status_code == 200


async def test_sessions_of_one_owner_are_bounded_and_the_longest_unused_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shares, "MAX_SESSIONS_EACH", 3)
    async with calling() as caller:
        opened = [await caller.open() for _ in range(3)]
        refused = await caller.send(body=opening())
        assert refused.status_code == 429
        await caller.open(BOB)
        monkeypatch.setattr(shares, "UNUSED_S", 0.0)
        await use(caller, opened[0])
        newest = await caller.open()
        statuses = [await use(caller, each) for each in (*opened, newest)]
        assert statuses == [200, 404, 200, 200]
        assert (await caller.send("DELETE", mcp_session_id=newest)).status_code == 200
        monkeypatch.setattr(shares, "UNUSED_S", 3600.0)
        await caller.open()


async def use(caller: Caller, session: str) -> int:
    return (await caller.call("search_tools", {"query": "x"}, session=session)).status_code


async def test_what_ends_takes_no_more_and_says_so() -> None:
    async with calling() as caller:
        session = await caller.open()
        assert (await caller.send("GET", path="/healthz", token=None)).text == "ok\n"
        await caller.face.drain()
        assert (await caller.send("GET", path="/healthz", token=None)).status_code == 503
        assert (await caller.send(body=opening())).status_code == 503
        for within in (session, ""):
            refused = await caller.call("run_program", {"source": "answer = 1"}, session=within)
            assert "the server ends" in refused.text
        assert (await caller.modern("tools/list")).status_code == 200  # a client reads it to check an answer


@given(st.text(max_size=60))
def test_any_host_and_origin_is_judged(text: str) -> None:
    names = Names(local_pages=True)
    allowed = names.host_allowed(text)
    names.origin_allowed(text)
    assert not allowed or "evil" not in text
    assert not names.host_allowed(f"{text}.evil.example")
    assert not names.origin_allowed(f"http://evil.example#{text}")
