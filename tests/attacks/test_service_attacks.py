"""A service under attack from the network: by strangers, by tenants against each other, and by broken WebSockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.attacks.world import Host
from tests.support.service import OTHER, TOKEN, Running, close_code, receive, send_program, serving, soon, spinning

pytestmark = pytest.mark.slow

MB = 1 << 20


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serving({"one": TOKEN, "two": OTHER}) as running:
        yield running


@pytest.fixture(autouse=True)
def _it_serves_on(shared: Running) -> Iterator[None]:
    """After each attack the next caller is served, no program of the attacker runs on, and no run is held."""
    yield
    assert shared.run("answer = 1").value == 1
    assert soon(lambda: not spinning())
    assert soon(lambda: len(shared.service.runs) == 0)


def _port(running: Running) -> int:
    return int(running.url.rpartition(":")[2])


@contextlib.contextmanager
def _upgraded(running: Running) -> Iterator[socket.socket]:
    """A WebSocket by hand, behind which nobody keeps its rules: its run is granted, nothing was sent yet."""
    granted = running.post().json()
    with socket.create_connection(("127.0.0.1", _port(running)), 30) as sock:
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            f"GET {granted['url']} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            f"Authorization: Bearer {granted['channel_token']}\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        assert head.startswith(b"HTTP/1.1 101 ")
        yield sock


def _frame(body: bytes, *, first: int = 0x81, length: int | None = None, masked: bool = True) -> bytes:
    """A frame of a WebSocket, or what looks like one."""
    size = len(body) if length is None else length
    bit = 0x80 if masked else 0
    if size < 126:
        head = struct.pack(">BB", first, bit | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, bit | 126, size)
    else:
        head = struct.pack(">BBQ", first, bit | 127, size)
    return head + (bytes(4) if masked else b"") + body


def _sent_away(sock: socket.socket) -> bool:
    """The service closes the WebSocket, or lets the connection go."""
    sock.settimeout(30)
    data = b""
    try:
        while part := sock.recv(65536):
            data += part
            if re.search(rb"\x88[\x02-\x7d][\x03\x04].", data, re.DOTALL):
                return True
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


_RUN = b'{"op":"run","program":"while True: pass","tools":{}}'


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 64,
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n" * 4,
        _frame(_RUN, masked=False),
        _frame(_RUN, first=0xC1),
        _frame(_RUN, first=0xF1),
        _frame(b"x", first=0x83),
        _frame(b"more", first=0x80),
        _frame(b"x" * 126, first=0x89),
        _frame(b"x", first=0x09),
        _frame(b"\x03", first=0x88),
        _frame(b"\x00\x00bye", first=0x88),
        _frame(b"\x03\xe8\xff\xfe", first=0x88),
        _frame(b"\xff\xfe"),
        _frame(_RUN, first=0x82),
        _frame(b"{", first=0x01) + _frame(_RUN),
        _frame(b"", length=1 << 62),
        _frame(b"", length=(1 << 64) - 1),
        _frame(b"", length=(16 << 20) + 1),
    ],
    ids=[
        "zeros",
        "ones",
        "HTTP again",
        "no mask",
        "a reserved bit",
        "all reserved bits",
        "no operation of it",
        "the rest of nothing",
        "a long ping",
        "half a ping",
        "a close of one byte",
        "a close with no such code",
        "a close that is no text",
        "no UTF-8",
        "binary",
        "a text within a text",
        "4 EiB",
        "all bits of a length",
        "a byte too many",
    ],
)
def test_a_websocket_that_breaks_its_own_rules_is_closed(shared: Running, sent: bytes) -> None:
    before = Host()
    with _upgraded(shared) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(sent)
        assert _sent_away(sock)
    assert before.peak_growth() < 30 * MB


@pytest.mark.parametrize(
    "sent", [b"", b"\x81", _frame(_RUN)[:20], _frame(_RUN, first=0x01), _frame(b"", length=9 << 20)]
)
def test_a_websocket_that_stops_in_the_middle_is_sent_away(sent: bytes) -> None:
    with serving() as running:
        running.impatient(0.2)
        with _upgraded(running) as sock:
            sock.sendall(sent)
            assert _sent_away(sock)
            assert soon(lambda: len(running.service.runs) == 0)


@pytest.mark.slow
def test_a_connection_is_not_kept_for_a_caller_who_never_closes_it() -> None:
    with serving() as running:
        running.impatient(0.2)
        with _upgraded(running) as sock:
            assert _sent_away(sock)
            assert soon(lambda: not running.server.server_state.connections)


def test_a_program_byte_by_byte_and_in_a_thousand_pieces_is_a_program(shared: Running) -> None:
    body = b'{"op":"run","program":"answer = 7","tools":{}}'
    pieces = [_frame(body[at : at + 1], first=0x01 if at == 0 else 0x00) for at in range(len(body))]
    with _upgraded(shared) as sock:
        for piece in [*pieces, _frame(b"", first=0x80)]:
            for byte in piece:
                sock.send(bytes([byte]))
        sock.settimeout(30)
        data = b""
        while b'"value":7' not in data:
            part = sock.recv(65536)
            assert part, data
            data += part


def test_empty_pieces_without_end_use_up_nothing(shared: Running) -> None:
    before = Host()
    with _upgraded(shared) as sock, contextlib.suppress(OSError):
        sock.sendall(_frame(b"{", first=0x01))
        for _ in range(200):
            sock.sendall(_frame(b"", first=0x00) * 500 + _frame(b"", first=0x89))
    assert before.peak_growth() < 30 * MB


def test_a_message_in_pieces_is_held_to_the_limit_of_one() -> None:
    with serving(message_bytes=100_000) as running:
        with _upgraded(running) as sock:
            with contextlib.suppress(OSError):
                sock.sendall(_frame(b"x" * 60_000, first=0x01) + _frame(b"x" * 60_000, first=0x00))
            assert _sent_away(sock)
        assert soon(lambda: running.metric('atc_runs_total{outcome="too_large"}') == 1)


def test_a_caller_who_does_not_read_holds_up_no_other(shared: Running) -> None:
    """Its program calls and prints without end; what it is sent waits, in bounded memory, until its time is over."""
    program = "for n in range(5000): parallel(*[lambda: f('x' * 100_000)] * 60)"
    before = Host()
    with _upgraded(shared) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        data = {"op": "run", "program": program, "tools": {"f": ["x"]}, "limits": {"wall_s": 1.0}}
        sock.sendall(_frame(json.dumps(data).encode()))
        assert shared.run("answer = 2").value == 2
        assert soon(lambda: shared.service.runs.connected == 0)
    assert before.peak_growth() < 60 * MB


# -- tenants and tokens ----------------------------------------------------------------------------------------------


def _status_of(running: Running, granted: dict[str, Any], token: str) -> int:
    with pytest.raises(InvalidStatus) as error, running.channel(granted, token):
        pass
    return int(error.value.response.status_code)


def test_a_tenant_cannot_enter_the_run_of_another(shared: Running) -> None:
    mine, theirs = shared.post(TOKEN).json(), shared.post(OTHER).json()
    for token in (TOKEN, OTHER, mine["channel_token"], theirs["channel_token"][:-1], theirs["channel_token"] + "A"):
        assert _status_of(shared, theirs, token) == 401
    with shared.channel(theirs) as channel:
        send_program(channel, "answer = f()", {"f": []})
        receive(channel)
        for token in (mine["channel_token"], theirs["channel_token"], TOKEN, OTHER):
            assert _status_of(shared, theirs, token) in (401, 409)
        channel.send('{"op":"reply","id":1,"value":"still mine"}')
        assert receive(channel)["value"] == "still mine"
    assert soon(lambda: _status_of(shared, theirs, theirs["channel_token"]) == 404)
    with shared.channel(mine) as channel:
        send_program(channel, "answer = 1")
        assert receive(channel)["value"] == 1


def test_of_many_who_use_a_token_at_once_one_gets_in(shared: Running) -> None:
    granted = shared.post().json()
    answers: list[Any] = []

    def enter() -> None:
        try:
            with shared.channel(granted) as channel:
                send_program(channel, "answer = f()", {"f": []})
                receive(channel)
                channel.send('{"op":"reply","id":1,"value":1}')
                answers.append(receive(channel)["value"])
        except InvalidStatus as error:
            answers.append(error.response.status_code)

    threads = [threading.Thread(target=enter) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers)[0] == 1
    assert set(answers[:]) - {1} <= {404, 409}
    assert answers.count(1) == 1


@pytest.mark.parametrize(
    "number",
    ["", "..", "%2e%2e", "../..", "*", "%00", "0" * 32, "a" * 5000, "..%2f..%2fv1%2fservice", "{number}", "\u00e9"],
)
def test_a_run_that_is_none_is_not_found(shared: Running, number: str) -> None:
    answer = httpx.get(
        f"{shared.url}/v1/runs/{number}/channel",
        headers={
            "Authorization": f"Bearer {TOKEN}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
        },
    )
    assert answer.status_code in (400, 403, 404)
    assert TOKEN not in answer.text


def test_another_tenants_calls_cannot_be_answered(shared: Running) -> None:
    """Numbers of calls are a run's own: a reply for a call of another run ends the run of who sent it."""
    with shared.channel(shared.post(OTHER).json()) as theirs, shared.channel() as mine:
        send_program(theirs, "answer = [f(), f(), f()]", {"f": []})
        receive(theirs)
        send_program(mine, "while True: pass")
        mine.send('{"op":"reply","id":1,"value":"forged"}')
        assert receive(mine)["code"] == "bad_message"
        for number in (1, 2, 3):
            theirs.send(f'{{"op":"reply","id":{number},"value":{number}}}')
            outcome = receive(theirs)
        assert outcome["value"] == [1, 2, 3]


def test_a_run_whose_caller_goes_between_grant_and_program_is_let_go(shared: Running) -> None:
    async def go() -> None:
        from websockets.asyncio.client import connect

        for _ in range(20):
            granted = shared.post().json()
            connection = await connect(
                shared.url.replace("http", "ws") + granted["url"],
                additional_headers={"Authorization": f"Bearer {granted['channel_token']}"},
            )
            connection.transport.abort()

    asyncio.run(go())
    assert soon(lambda: len(shared.service.runs) == 0)


def test_a_flood_of_replies_to_calls_that_are_over_is_dropped(shared: Running) -> None:
    before = Host()
    with shared.channel() as channel:
        send_program(channel, "f()\ng()\nanswer = 3", {"f": [], "g": []})
        receive(channel)
        for _ in range(2000):
            channel.send('{"op":"reply","id":1,"value":"' + "x" * 1000 + '"}')
        assert receive(channel)["tool"] == "g"
        channel.send('{"op":"reply","id":2,"value":null}')
        assert receive(channel)["value"] == 3
        assert close_code(channel) == 1000
    assert before.peak_growth() < 30 * MB
