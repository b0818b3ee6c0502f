"""The HTTP server on real sockets: clients of the SDK, and connections that no client makes."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from atc.serve.http import tls_files
from atc.serve.mcp import http
from atc.serve.mcp.http import MAX_BODY, HttpSettings, Lock
from atc.tools.functions import tool
from tests.support.issuers import rsa_key
from tests.support.mcp_http import ANN, LEGACY, Listening, gateway, listening, locked, message, opening, two_owners

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[Listening]:
    with listening() as server:
        yield server


@contextlib.asynccontextmanager
async def connected(server: Listening, mode: str, token: str = ANN, **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http_client,
        Client(streamable_http_client(server.url, http_client=http_client), mode=mode, **more) as made,
    ):
        yield made


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdk_s_client_runs_a_program_and_revises_it(shared: Listening, mode: str) -> None:
    async def go() -> None:
        async with connected(shared, mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["run_program"]
            first = await client.call_tool("run_program", {"source": "answer = double(number=21)"})
            assert first.structured_content["value"] == 42
            run = first.structured_content["run"]
            second = await client.call_tool("run_program", {"source": "answer = double(number=21) + 1", "run": run})
            assert (second.structured_content["value"], second.structured_content["run"]) == (43, run)

    asyncio.run(go())


def test_clients_of_both_protocols_at_once(shared: Listening) -> None:
    async def one(mode: str, number: int) -> Any:
        async with connected(shared, mode) as client:
            return (
                await client.call_tool("run_program", {"source": f"answer = double(number={number})"})
            ).structured_content["value"]

    async def go() -> None:
        modes = ["legacy", "auto"] * 2
        values = await asyncio.gather(*(one(mode, number) for number, mode in enumerate(modes)))
        assert values == [0, 2, 4, 6]

    asyncio.run(go())


def health(server: Listening) -> bool:
    return bool(httpx2.get(f"http://127.0.0.1:{server.port}/healthz", timeout=30).status_code == 200)


def soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def ask(server: Listening, said: bytes) -> bytes:
    """What comes back, until the connection is closed."""
    received = b""
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.settimeout(60)
        with contextlib.suppress(OSError):
            sock.sendall(said)
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                received += part
    return received


HEAD = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ANN}\r\nConnection: close\r\n".encode()


@pytest.mark.parametrize(
    "said",
    [
        HEAD + b"X: y\r\n" * 100_000 + b"\r\n",
        HEAD + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: -2\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"X: y\r\n Content-Length: 2\r\n\r\n{}",
        HEAD + b"X: y\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Authorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"Host: evil.example\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /mcp HTTP/9.9\r\nConnection: close\r\n\r\n",
        b"GET http://evil.example/mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=[
        "headers", "a long header", "two lengths", "negative", "length and chunks", "folded", "single LF", "codings",
        "no chunk", "two tokens",
        "two hosts", "version", "proxy", "tls", "http2",
    ],
)  # fmt: skip
def test_a_request_that_no_client_makes_is_refused(
    shared: Listening, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.serve.http.REQUEST_S", 0.5)
    answered = ask(shared, said)
    assert not answered.startswith(b"HTTP/1.1 2"), answered[:200]
    assert health(shared)


def test_nothing_is_smuggled_behind_a_request(shared: Listening) -> None:
    """One of two lengths is refused: what follows is never taken for another request."""
    inner = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    said = HEAD.replace(b"Connection: close\r\n", b"") + b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + inner
    assert ask(shared, said).count(b"HTTP/1.1") == 1


def test_ten_megabytes_are_refused_with_a_reason(shared: Listening) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * 10_000_000 + b'"}}'
    answered = httpx2.post(shared.url, content=body, headers={"authorization": f"Bearer {ANN}"}, timeout=60)
    assert answered.status_code == 413
    assert f"{MAX_BODY:,}" in answered.json()["error"]["message"]


def test_a_body_that_never_ends_is_cut_off(shared: Listening) -> None:
    chunk = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
    sent = 0
    with socket.create_connection(("127.0.0.1", shared.port)) as sock:
        sock.settimeout(60)
        sock.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while sent < 10 * 8 * MAX_BODY:
                sock.sendall(chunk)
                sent += len(chunk)
    assert sent < 10 * 8 * MAX_BODY
    assert health(shared)


def test_who_says_nothing_does_not_keep_others_out(shared: Listening) -> None:
    """More silent connections than the server has room for: who sends its request is served."""
    with contextlib.ExitStack() as stack:
        silent = []
        for number in range(http.MAX_WAITING + 50):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", shared.port)))
            if number % 2:
                sock.sendall(b"POST /mcp HT")
            silent.append(sock)
        assert health(shared)
        open_now = len(shared.server.server_state.connections)
        assert len(shared.server._crowd) <= http.MAX_WAITING + 2, "they are counted when they are accepted"
        assert open_now <= http.MAX_WAITING + 2
        silent[0].settimeout(60)
        with contextlib.suppress(ConnectionError):
            assert silent[0].recv(1) == b""  # the oldest gave way


def test_who_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atc.serve.http.TAKE_S", 0.3)

    async def large(request: Request) -> Response:
        return PlainTextResponse("x" * 50_000_000)

    settings = HttpSettings(Lock([two_owners()], routes=[Route("/large", large)]))
    with listening(settings) as server, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert soon(lambda: bool(server.server.server_state.connections))
        assert soon(lambda: not server.server.server_state.connections)


def test_calls_end_before_the_server_does() -> None:
    going, release = threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> int:
        """Return 7 once it may."""
        going.set()
        assert release.wait(60)
        return 7

    async def go(server: Listening) -> Any:
        async with connected(server, "auto") as client:
            call = asyncio.create_task(client.call_tool("run_program", {"source": "answer = wait()"}))
            assert await asyncio.to_thread(going.wait, 60)
            server.server.end()
            assert await asyncio.to_thread(lambda: soon(lambda: not health(server)))
            release.set()
            return (await call).structured_content["value"]

    with listening(locked(drain_s=60.0), gateway(wait)) as server:
        assert asyncio.run(go(server)) == 7


def test_what_does_not_end_in_time_is_broken_off_and_told_so() -> None:
    going, release = threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> int:
        """Return once it may."""
        going.set()
        release.wait(60)
        return 7

    async def go(server: Listening) -> Any:
        async with connected(server, "auto") as client:
            call = asyncio.create_task(client.call_tool("run_program", {"source": "answer = wait()"}))
            assert await asyncio.to_thread(going.wait, 60)
            server.server.end()
            answered = await call
            release.set()
            return answered

    with listening(locked(drain_s=0.2), gateway(wait)) as server:
        answered = asyncio.run(go(server))
    assert answered.is_error
    assert "its run" in answered.structured_content["error"]["message"]


def kept(server: Listening) -> set[str]:
    """Ids of the runs on disk."""
    folder = server.face.gateway.settings.runs_dir
    return {path.name for path in folder.iterdir() if path.is_dir()} if folder.exists() else set()


def test_a_connection_that_drops_in_a_session_loses_nothing() -> None:
    """In the older protocol that cancels nothing: the run goes on to its end, and is revised without a repeat."""
    going, release, calls = threading.Event(), threading.Event(), []

    @tool(effect="read")
    def wait() -> int:
        """Return 7 once it may."""
        calls.append(1)
        going.set()
        assert release.wait(60)
        return 7

    def post(server: Listening, client: httpx2.Client, body: Any, **headers: str) -> Any:
        given = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {ANN}", **headers}
        return client.stream("POST", server.url, json=body, headers=given)

    def run(**arguments: str) -> dict[str, Any]:
        return message("tools/call", {"name": "run_program", "arguments": arguments})

    with listening(locked(), gateway(wait)) as server, httpx2.Client(timeout=60) as client:
        with post(server, client, opening()) as opened:
            within = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
            opened.read()
        before = kept(server)
        with post(server, client, run(source="answer = wait()"), **within):
            assert going.wait(60)
        release.set()
        assert soon(lambda: not server.face.calls)
        (name,) = kept(server) - before
        with post(server, client, run(source="answer = wait() + 1", run=name), **within) as answered:
            text = answered.read().decode()
    assert '"value":8' in text
    assert len(calls) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine, signed by itself, and its key."""
    key, now = rsa_key(), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


def test_https_is_served_and_who_does_not_shake_hands_is_dropped(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.serve.http.REQUEST_S", 1.0)
    cert, key = certificate
    with listening(locked(tls=tls_files(cert, key))) as server:
        trusted = ssl.create_default_context(cafile=str(cert))
        address = f"https://127.0.0.1:{server.port}/healthz"
        assert httpx2.get(address, verify=trusted, timeout=60).text == "ok\n"
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            silent.settimeout(30)
            with contextlib.suppress(ConnectionError):
                assert silent.recv(1) == b""


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "atc", "mcp", "--tools", "atlas", "--http", "--port", str(port)]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    env.pop("ATC_MCP_TOKEN", None)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:

        def up() -> bool:
            with contextlib.suppress(httpx2.HTTPError):
                return bool(httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code == 200)
            return process.poll() is not None

        assert soon(up)
        token = (tmp_path / "atc" / "mcp-token").read_text().strip()
        for shown, status in (("nobody's", 401), (token, 200)):
            headers = {"authorization": f"Bearer {shown}", "accept": "application/json, text/event-stream"}
            answered = httpx2.post(f"http://127.0.0.1:{port}/mcp", json=opening(), headers=headers, timeout=60)
            assert answered.status_code == status
        process.terminate()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == ""
    assert f"http://127.0.0.1:{port}/mcp" in err
    assert token not in err
