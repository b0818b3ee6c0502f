"""How servers take connections, and what they take for a request."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.errors import EnvironmentProblem
from atc.serve import accepting
from atc.serve.accepting import Acceptor, Connection, Crowd, Seldom, _group, require_descriptors
from atc.serve.http import PlainRequests


class Made:
    """Connections, and which of them were closed."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.closed: list[str] = []

    def come(self, group: str, name: str) -> Connection | None:
        if not self.crowd.room_for(group):
            return None
        connection = Connection(group)
        connection.abort = lambda: self.closed.append(name)
        self.crowd.enter(connection)
        return connection


def test_the_address_with_most_silent_connections_gives_way_its_oldest_first() -> None:
    made = Made(Crowd(4))
    for number in range(4):
        assert made.come("flood", f"flood{number}")
    assert made.come("flood", "more") is None
    assert made.come("ann", "ann")
    assert made.come("bob", "bob")
    assert made.closed == ["flood0", "flood1"]
    assert made.come("ann", "ann again") is None, "two of the flood, one of Ann: she would have as many"
    assert (len(made.crowd), made.crowd.silent, made.crowd.refused) == (4, 4, 2)


def test_who_owes_nothing_does_not_give_way() -> None:
    made = Made(Crowd(2))
    one, two = made.come("ann", "one"), made.come("ann", "two")
    assert one
    assert two
    made.crowd.owes(one, False)
    made.crowd.owes(two, False)
    assert made.come("bob", "bob") is None
    made.crowd.owes(two, True)
    assert made.come("bob", "bob")
    assert made.closed == ["two"]


def test_of_more_than_may_be_silent_the_oldest_gives_way_whosever_it_is() -> None:
    made = Made(Crowd(10, most_silent=2))
    first = made.come("ann", "one")
    assert first
    made.come("bob", "two")
    made.crowd.owes(first, False)
    made.crowd.owes(first, True)
    made.come("bob", "three")
    assert made.closed == ["two"]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["come", "leave", "owe", "pay"])), max_size=80))
def test_a_crowd_counts_what_is_open_and_never_takes_more(done: list[tuple[int, str]]) -> None:
    crowd = Crowd(5, most_silent=4)
    made, there = Made(crowd), []
    for group, what in done:
        if what == "come" and (connection := made.come(str(group), "")):
            there.append(connection)
        elif there and what == "leave":
            crowd.leave(there.pop(group % len(there)))
        elif there:
            crowd.owes(there[group % len(there)], what == "owe")
        there = [each for each in there if each in crowd._open]
        assert len(crowd) == len(there) <= 5
        assert crowd.silent == sum(map(len, crowd._silent.values())) <= 4


def test_a_customer_of_ipv6_is_one_whichever_of_its_addresses_it_takes() -> None:
    assert _group(("2001:db8::1", 1, 0, 0)) == _group(("2001:db8::ffff:1", 2, 0, 0)) != _group(("2001:db9::1", 1, 0, 0))
    assert _group(("fe80::1%eth0", 1, 0, 2)) == "fe80::/64"
    assert _group(("127.0.0.1", 1)) != _group(("127.0.0.2", 1))
    assert _group("") == ""


class _Empty(socket.socket):
    """Has a connection to accept and no descriptor for it."""

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


def test_an_accept_that_fails_is_said_once_and_tried_later(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        crowd = Crowd(10)
        silent = Made(crowd)
        silent.come("ann", "silent")
        with _Empty() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen()
            acceptor = Acceptor(asyncio.Protocol, sock, crowd, None, 1.0)
            for _ in range(1_000):
                acceptor._accept()
            assert not asyncio.get_running_loop().remove_reader(sock), "nothing is accepted meanwhile"
            acceptor.close()
        assert silent.closed == ["silent"], "who says nothing gives its descriptor back"

    asyncio.run(go())
    (line,) = caplog.messages
    assert "ulimit -n" in line
    assert caplog.records[0].exc_info is None


def test_a_flood_of_lines_is_told_by_their_number(caplog: pytest.LogCaptureFixture) -> None:
    seldom, log = Seldom(3600.0), logging.getLogger("atc.tests.seldom")
    log.addFilter(seldom)
    for _ in range(1_000):
        log.warning("a %s came", "stranger")
    seldom._next = 0.0
    log.warning("a %s came", "friend")
    assert caplog.messages == ["a stranger came", "a friend came (999 lines before it were left out)"]


def test_too_few_descriptors_are_told_with_what_is_needed_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "raise_descriptors", lambda needed: 1024)
    require_descriptors(1024, "--max-runs 3")
    with pytest.raises(EnvironmentProblem, match=r"2,784 descriptors are needed \(--max-runs 250\).* may have 1,024"):
        require_descriptors(2784, "--max-runs 250")


HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "said",
    [
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
        HEAD + b"Content-Length: +2\r\n\r\n{}",
        HEAD + b"Content-Length:\r\n 2\r\n\r\n{}",
        HEAD + b"X: y\r\n z\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"X: y\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"X: y\rContent-Length: 2\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\n\n{}",
        HEAD.replace(b"\r\n", b"\n") + b"\n",
        HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Host: y\r\n\r\n",
        b"\r\n " + HEAD + b"\r\n",
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_a_request_that_two_readers_divide_differently_is_refused(said: bytes, step: int) -> None:
    connection = PlainRequests(h11.SERVER)

    def read() -> None:
        for start in range(0, len(said), step):
            connection.receive_data(said[start : start + step])
            while connection.next_event() not in (h11.NEED_DATA, h11.PAUSED):
                pass

    with pytest.raises(h11.RemoteProtocolError):
        read()
    assert connection.our_state is not h11.ERROR, "the refusal can be sent"


def test_a_request_of_any_client_is_taken_also_the_second_of_a_connection() -> None:
    connection = PlainRequests(h11.SERVER)
    for said in (
        HEAD + b"Content-Length: 2\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ):
        connection.receive_data(said)
        events = [connection.next_event() for _ in range(3)]
        assert [type(event) for event in events] == [h11.Request, h11.Data, h11.EndOfMessage]
        connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
        connection.send(h11.EndOfMessage())
        connection.start_next_cycle()
    connection.receive_data(HEAD + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}")
    with pytest.raises(h11.RemoteProtocolError, match="twice"):
        connection.next_event()
