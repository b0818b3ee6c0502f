"""Requests that mean a service harm before any is a run: no token is needed for most, and none may cost much."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.attacks.world import Host
from tests.support.service import OTHER, TOKEN, Running, serving, soon

pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serving({"one": TOKEN, "two": OTHER}) as running:
        yield running


@pytest.fixture(autouse=True)
def _it_serves_on(shared: Running) -> Iterator[None]:
    """After each attack the next caller is served."""
    yield
    assert shared.run("answer = 1").value == 1


def _port(running: Running) -> int:
    return int(running.url.rpartition(":")[2])


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/x.y\r\n\r\n",
        b"GET " + b"/a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 1_000_000 + b"\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}xx",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=[
        "TLS",
        "a version",
        "a long path",
        "many headers",
        "a long header",
        "a negative length",
        "a huge length",
        "a huge chunk",
        "two lengths",
        "HTTP/2",
    ],
)
def test_a_request_that_is_no_request_is_refused_in_little_memory(
    shared: Running, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atc.serve.http.REQUEST_S", 0.3)
    before = Host()
    with socket.create_connection(("127.0.0.1", _port(shared))) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(said)
        sock.settimeout(30)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                received += part
    assert not received.startswith(b"HTTP/1.1 2"), received[:200]
    assert before.peak_growth() < 20 * MB


_PIECES = 800


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_before_it_is_read(shared: Running, chunked: bool) -> None:
    """Nobody has to show a token to be refused early."""
    sent = 0
    before = Host()
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
        connection = http.client.HTTPConnection("127.0.0.1", _port(shared), timeout=30)
        connection.putrequest("POST", "/v1/runs")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(1 << 32))))
        connection.endheaders()
        piece = bytes(65536)
        with contextlib.suppress(OSError):
            for _ in range(_PIECES):
                connection.send(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
                sent += len(piece)
        connection.close()
    assert before.peak_growth() < 20 * MB
    assert sent < 2 * _PIECES * 65536


def test_thousands_of_connections_are_held_off(shared: Running) -> None:
    """Beyond what it takes at once it answers 503 and stays upright; when they go, it serves as before."""
    limit = 4 * shared.service.settings.max_runs + 256
    before = Host()
    held: list[socket.socket] = []
    try:
        for _ in range(2000):
            try:
                held.append(socket.create_connection(("127.0.0.1", _port(shared)), 10))
            except OSError:
                break  # this machine has no more descriptors for us
        assert len(held) > limit, "the machine does not let a test open so many"
        assert soon(lambda: len(shared.server.server_state.connections) >= limit)
        assert httpx.get(f"{shared.url}/healthz", timeout=30).status_code == 503
        assert before.peak_growth() < 100 * MB
    finally:
        for sock in held:
            sock.close()
    assert soon(lambda: httpx.get(f"{shared.url}/healthz").status_code == 200)


def test_grants_that_are_never_used_are_bounded() -> None:
    with serving({"one": TOKEN, "two": OTHER}, max_runs=8, max_runs_per_tenant=4, connect_s=600.0) as running:
        told = [running.post().status_code for _ in range(20)]
        assert told == [201] * 4 + [429] * 16
        assert running.post(OTHER).status_code == 201


def test_grants_that_are_never_used_do_not_stay() -> None:
    with serving({"one": TOKEN}, max_runs=2, connect_s=5.0) as running:
        assert running.post().status_code == 201
        assert soon(lambda: len(running.service.runs) == 0)
        assert running.run("answer = 1").value == 1
