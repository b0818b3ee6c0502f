"""Who may use the sandbox service, and that neither a stranger nor a rude caller can break it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from atc.errors import SandboxUnavailable
from atc.serve.sandbox.relay import Relay
from tests.support.service import OTHER, TOKEN, Running, close_code, receive, send_program, serving, soon, spinning


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serving({"default": TOKEN, "other": OTHER}) as running:
        yield running


# -- who may come in -------------------------------------------------------------------------------------------------


def test_only_a_tenants_token_is_taken(shared: Running) -> None:
    for headers in (
        {},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer"},
    ):
        for answer in (
            httpx.post(f"{shared.url}/v1/runs", headers=headers),
            httpx.get(f"{shared.url}/v1/service", headers=headers),
        ):
            assert answer.status_code == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert shared.post(OTHER).status_code == 201


def test_a_channel_token_opens_its_own_run_once(shared: Running) -> None:
    def refused(granted: dict[str, Any], token: str) -> int:
        with pytest.raises(InvalidStatus) as error, shared.channel(granted, token):
            pass
        return error.value.response.status_code

    one, two = shared.post().json(), shared.post().json()
    assert refused(one, two["channel_token"]) == 401
    assert refused(one, TOKEN) == 401
    assert refused({"url": "/v1/runs/0123456789abcdef/channel"}, one["channel_token"]) == 404
    with shared.channel(one) as channel:
        assert refused(one, one["channel_token"]) == 409
        send_program(channel, "answer = 1")
        assert receive(channel)["value"] == 1
        assert close_code(channel) == 1000
    assert soon(lambda: refused(one, one["channel_token"]) == 404)
    with shared.channel(two) as channel:
        send_program(channel, "answer = 2")
        assert receive(channel)["value"] == 2


@pytest.mark.parametrize(
    "body",
    [
        b"x" * 5000,
        b"\xff",
        b"[]",
        b"{",
        b'{"require":"X"}',
        b'{"require":["N"]}',
        b'{"program":"1"}',
        b'{"require":"L","require":"F"}',
    ],
)
def test_a_request_that_is_none_is_refused_with_the_reason(shared: Running, body: bytes) -> None:
    answer = shared.post(content=body)
    assert answer.status_code in (400, 413)
    assert answer.json()["error"]["code"] == "bad_request"


RUN = '{"op":"run","program":"answer = 1","tools":{}'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("garbage", "not valid JSON"),
        ("[]", "not a JSON object"),
        (b"\x00\x01", "must be text"),
        ('{"op":"run","op":"run"}', "same key twice"),
        (RUN + ',"x":' + "[" * 500 + "]" * 500 + "}", "nested deeper"),
        (RUN + ',"x":NaN}', "NaN is not JSON"),
        ('{"op":"reply","id":1,"value":1}', "first message must be `run`"),
        ('{"op":"run","program":7}', "`program` must be text"),
        ('{"op":"run","program":"1","tools":[]}', "`tools` must be"),
        ('{"op":"run","program":"1","tools":{"a b":[]}}', "`tools` must give"),
        ('{"op":"run","program":"1","tools":{"a":[1]}}', "`tools` must give"),
        (RUN + ',"limits":{"disk":1}}', "no limit 'disk'"),
        (RUN + ',"inputs":[]}', "`inputs` must be an object"),
        (RUN + ',"inputs":{"a b":1}}', "'a b' is no Python identifier"),
        (RUN + ',"inputs":{"__builtins__":1}}', "means something else in a program"),
        ('{"op":"run","program":"1","tools":{"f":[]},"inputs":{"f":1}}', "'f' is the name of a tool"),
        (RUN + ',"inputs":{"a":{"$bytes":"?"}}}', "bytes that are not valid"),
        (RUN + ',"limits":{"frame_bytes":10},"inputs":{"a":"0123456789"}}', "takes 12 bytes of JSON"),
        (RUN + ',"limits":{"cpu_s":-1}}', "cpu_s must be a number above 0"),
        (RUN + ',"limits":{"cpu_s":true}}', "cpu_s must be a whole number"),
    ],
)
def test_a_first_message_that_is_no_run_is_refused_and_runs_nothing(
    shared: Running, said: str | bytes, words: str
) -> None:
    with shared.channel() as channel:
        channel.send(said)
        refusal = receive(channel)
        assert (refusal["op"], refusal["code"], refusal["handed_over"]) == ("refused", "bad_message", False)
        assert words in refusal["message"]
        assert close_code(channel) == 1008


@pytest.mark.parametrize(
    "said",
    [
        RUN + "}",
        '{"op":"reply","id":2,"value":1}',
        '{"op":"pause","id":1}',
        '{"op":"resume","seconds":1}',
        '{"op":"reply","id":1}',
        '{"op":"reply","id":1,"value":1,"error":{"message":"x"}}',
        '{"op":"reply","id":true,"value":1}',
        '{"op":"reply","id":1,"error":{"message":"x","status":[1]}}',
        '{"op":"reply","id":1,"value":1e999}',
    ],
)
def test_a_reply_that_is_none_ends_the_run(shared: Running, said: str) -> None:
    with shared.channel() as channel:
        send_program(channel, "try:\n    f()\nexcept BaseException: pass\nwhile True: pass", {"f": []})
        assert receive(channel)["op"] == "call"
        channel.send(said)
        refusal = receive(channel)
        assert (refusal["code"], refusal["handed_over"]) == ("bad_message", True)
    assert soon(lambda: not spinning())


def test_a_message_that_is_too_large_ends_the_run_before_it_is_read() -> None:
    with serving(message_bytes=50_000) as running:
        with running.channel() as channel:
            with contextlib.suppress(ConnectionClosed):
                channel.send("x" * 100_000)
            # what was sent and not read resets the connection, and then the code may be lost on its way
            assert close_code(channel) in (1009, None)
        assert soon(lambda: running.metric('atc_runs_total{outcome="too_large"}') == 1)
        assert running.run("answer = 1").value == 1


def test_a_message_in_pieces_without_end_ends_the_run() -> None:
    """Empty pieces are within every limit of bytes."""
    with serving() as running:
        with running.channel() as channel:
            with contextlib.suppress(ConnectionClosed):
                channel.send([""] * 10_000)
            assert close_code(channel) in (1009, None)
        assert soon(lambda: running.metric('atc_runs_total{outcome="too_large"}') == 1)
        assert running.run("answer = 1").value == 1


def test_a_program_gets_only_the_tools_that_it_was_given(shared: Running) -> None:
    with shared.channel() as channel:
        send_program(channel, "g()", {"f": []})
        told = receive(channel)
    assert (told["kind"], told["error"]["type"]) == ("raised", "NameError")


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}",
        b"X: y\r\n Content-Length: 2\r\n\r\n{}",
    ],
    ids=["length and chunks", "two lengths", "a folded line"],
)
def test_a_request_that_a_proxy_may_read_otherwise_is_refused_and_nothing_behind_it_is_read(
    shared: Running, said: bytes
) -> None:
    head = f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    with socket.create_connection(("127.0.0.1", int(shared.url.rpartition(":")[2])), 30) as sock:
        sock.sendall(head + said + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while part := sock.recv(4096):
            received += part
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1


# -- room, patience and the end --------------------------------------------------------------------------------------


def test_a_full_service_says_when_to_come_back_and_the_client_does() -> None:
    with serving(max_runs=1) as running:
        with running.channel() as channel:
            send_program(channel, "f()", {"f": []})
            receive(channel)
            answer = running.post()
            assert (answer.status_code, answer.json()["error"]["code"], answer.headers["Retry-After"]) == (
                429,
                "full",
                "1",
            )
            with pytest.raises(SandboxUnavailable, match=r"had no room within 0\.3 s .*raise its --max-runs"):
                running.run("answer = 1", wall_s=0.3)
            running.loop.call_soon_threadsafe(running.loop.call_later, 0.3, channel.socket.shutdown, socket.SHUT_RDWR)
            assert running.run("answer = 2").value == 2
        assert running.metric('atc_refused_total{reason="full"}') >= 2


def test_by_default_a_tenant_has_half_and_one_that_is_alone_has_all() -> None:
    with serving({"one": TOKEN, "two": OTHER}, max_runs=4) as running:
        assert [running.post().status_code for _ in range(3)] == [201, 201, 429]
        assert running.post(OTHER).status_code == 201
    with serving(max_runs=4) as running:
        assert [running.post().status_code for _ in range(5)] == [201] * 4 + [429]


def test_one_tenant_does_not_take_the_room_of_another() -> None:
    with serving({"one": TOKEN, "two": OTHER}, max_runs_per_tenant=1) as running:
        assert running.post().status_code == 201
        assert running.post().json()["error"]["code"] == "tenant_full"
        assert running.post(OTHER).status_code == 201


def test_a_run_that_nobody_connects_to_is_dropped() -> None:
    with serving(max_runs=1, connect_s=0.2) as running:
        granted = running.post().json()
        assert soon(lambda: running.metric('atc_runs_total{outcome="never_connected"}') == 1)
        with pytest.raises(InvalidStatus), running.channel(granted):
            pass
        assert running.post().status_code == 201, "there is room again"


def test_who_connects_and_says_nothing_is_sent_away() -> None:
    with serving() as running:
        running.impatient(0.2)
        with running.channel() as channel:
            refusal = receive(channel)
            assert (refusal["code"], refusal["handed_over"]) == ("no_program", False)


@pytest.mark.parametrize(
    "said", [b"", b"POST /v1/ru", b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_request_that_never_ends_is_dropped(shared: Running, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr("atc.serve.http.REQUEST_S", 0.2)
    with socket.create_connection(("127.0.0.1", int(shared.url.rpartition(":")[2]))) as slow:
        slow.settimeout(30)
        received = b""
        try:
            slow.sendall(said)
            while part := slow.recv(4096):
                received += part
        except ConnectionResetError:
            pass  # this is how it is dropped
        assert not received.startswith(b"HTTP/1.1 2")


@pytest.mark.slow
def test_who_finds_the_door_crowded_is_told_so_and_the_client_comes_again() -> None:
    """From one address there is no more room than there is: who says nothing keeps it until it is dropped."""
    with serving(max_runs=1) as running, contextlib.ExitStack() as stack:
        crowd = running.server._crowd
        crowd.most = 3
        port = int(running.url.rpartition(":")[2])
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        assert soon(lambda: len(crowd) == 3)
        assert httpx.get(f"{running.url}/healthz").status_code == 503
        running.loop.call_soon_threadsafe(running.loop.call_later, 0.3, held[0].shutdown, socket.SHUT_RDWR)
        running.loop.call_soon_threadsafe(running.loop.call_later, 0.3, held[1].shutdown, socket.SHUT_RDWR)
        assert running.run("answer = 1").value == 1
    assert crowd.refused >= 1


def test_a_drain_lets_runs_end_and_takes_no_new_ones() -> None:
    with serving(drain_s=60.0) as running, running.channel() as channel:
        send_program(channel, "answer = f()", {"f": []})
        receive(channel)
        assert httpx.get(f"{running.url}/readyz").status_code == 200
        running.server.end()
        assert soon(lambda: httpx.get(f"{running.url}/readyz").status_code == 503)
        assert httpx.get(f"{running.url}/healthz").status_code == 200
        answer = running.post()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        channel.send('{"op":"reply","id":1,"value":"at last"}')
        assert receive(channel)["value"] == "at last"
        running.thread.join(60)
        assert not running.thread.is_alive()


def test_a_drain_ends_what_goes_on_for_too_long_and_says_so() -> None:
    with serving(drain_s=0.3) as running:
        outcome = running.run("end()\nwhile True: pass", {"end": lambda _: running.server.end()})
        assert (outcome.kind, "shutting down" in outcome.detail) == ("killed", True), outcome
    assert soon(lambda: not spinning())


@pytest.mark.slow
def test_replies_that_a_program_does_not_read_are_not_heaped_up(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    receive = Relay._receive

    async def watched(relay: Relay) -> str:
        held.append(sum(relay._held.values()))
        return await receive(relay)

    monkeypatch.setattr(Relay, "_receive", watched)
    program = """
import json, os, time
for number in range(1, 61):
    body = json.dumps({"op": "call", "id": number, "tool": "f", "args": {}, "line": 1}).encode()
    os.write(3, len(body).to_bytes(4, "big") + body)
time.sleep(60)
"""
    with serving(message_bytes=600_000) as running:
        for wall_s in (0.7, 7.0, 30.0):  # a busy machine may not come to the second reply in the first of them
            outcome = running.run(program, {"f": lambda _: "x" * 500_000}, wall_s=wall_s)
            assert outcome.kind == "limit"
            if max(held) > 500_000:
                break
    assert 500_000 < max(held) <= 2 * 600_000
