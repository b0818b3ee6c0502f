"""What servers do with strangers' bytes and connections grows with their number and no faster."""

from __future__ import annotations

import h11
import pytest

from atc.serve.accepting import Connection, Crowd
from atc.serve.http import PlainRequests
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow

HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\n"


def _read(parts: list[bytes]) -> None:
    connection = PlainRequests(h11.SERVER)
    for part in parts:
        connection.receive_data(part)
        while connection.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass


@pytest.mark.parametrize("line", [b"a: b\r\n", b"Content-Length: 1\r\n", b"\r\r\r", b"x" * 50])
def test_heads_of_requests(line: bytes) -> None:
    assert_linear(lambda n: [HEAD + line * n + b"\r\n\r\n"], _read, most=20_000)


def test_heads_that_come_byte_by_byte() -> None:
    assert_linear(lambda n: [b"G"] * n, _read, most=16_000)


@pytest.mark.parametrize("addresses", [1, 50, 1_000_000])
def test_a_crowd_of_connections(addresses: int) -> None:
    def flood(count: int) -> None:
        crowd = Crowd(100)
        for number in range(count):
            group = str(number % addresses)
            if crowd.room_for(group):
                crowd.enter(Connection(group))

    assert_linear(lambda n: n, flood)
