"""Messages over pipes: bounded, answered where they are junk, and no client keeps the process from its end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from atc.serve.mcp import stdio as own
from atc.serve.mcp.stdio import TooLong, bounded_lines, pipes, taken


@given(st.lists(st.binary(max_size=40)), st.integers(1, 7))
def test_every_line_comes_whole_or_is_too_long(pieces: list[bytes], size: int) -> None:
    lines = [piece.replace(b"\n", b"") for piece in pieces]
    reader, writer = os.pipe()
    os.write(writer, b"".join(line + b"\n" for line in lines) + b"cut off")
    os.close(writer)
    before, own._PIECE = own._PIECE, size
    try:
        read = list(bounded_lines(reader, 20))
    finally:
        own._PIECE = before
        os.close(reader)
    assert len(read) == len(lines)
    for line, came in zip(lines, read, strict=True):
        assert came == line if len(line) <= 20 else isinstance(came, TooLong)
        assert isinstance(came, bytes) or came.size == len(line)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "m", "params": {"id": 8}}, 7),
        ({"method": "m", "params": {"id": 8}, "jsonrpc": "2.0", "id": "a-1"}, "a-1"),
        ({"method": "m", "params": {"id": 8}, "jsonrpc": "2.0"}, None),
        ({"method": "m", "params": {"a": {"id": 8}}}, None),
        ({"jsonrpc": "2.0", "method": "m", "params": {"text": '"id": 8}'}}, None),
    ],
)
def test_the_id_of_a_message_that_is_too_long(message: dict[str, Any], found: int | str | None) -> None:
    line = json.dumps(message).encode()
    assert TooLong(line[:1000], line[-1000:], len(line)).request_id() == found


@pytest.mark.parametrize("inner", [b"[" * 5_000 + b"]" * 5_000, rb'"\ud800"'])
def test_a_request_that_cannot_be_read_is_answered_by_its_id(inner: bytes) -> None:
    """Who sent it waits for an answer to its id, and for no other."""

    async def main() -> list[Any]:
        (reads, client_writes), (client_reads, writes) = os.pipe(), os.pipe()
        os.write(client_writes, b'{"jsonrpc": "2.0", "id": 5, "method": "m", "params": {"x": ' + inner + b"}}\n")
        os.close(client_writes)
        async with pipes(reads, writes) as (incoming, _):
            assert [message async for message in incoming] == []
        os.close(writes)
        answers = [json.loads(line) for line in os.read(client_reads, 100_000).splitlines()]
        for each in (reads, client_reads):
            os.close(each)
        return answers

    [answered] = asyncio.run(main())
    assert (answered["id"], answered["error"]["code"]) == (5, types.PARSE_ERROR)


def test_what_was_printed_meanwhile_is_no_message(capfd: pytest.CaptureFixture[str]) -> None:
    held = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False))  # as a process has it: it is written when it is full
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", held)
        with taken(1) as client, taken(client) as own_end:
            print("of a tool")
            os.write(1, b"of a library\n")
            os.write(own_end, b"a message\n")
    written = capfd.readouterr()
    assert written.out == "a message\n"
    assert sorted(written.err.splitlines()) == ["of a library", "of a tool"]


def test_junk_is_answered_and_what_follows_is_read() -> None:
    async def main() -> tuple[list[Any], list[Any]]:
        (reads, client_writes), (client_reads, writes) = os.pipe(), os.pipe()
        ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
        long = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 200_000 + b'"}'
        os.set_blocking(client_writes, False)
        threading.Thread(target=write_all, args=(client_writes, b"junk\n\n" + long + b"\n" + ping + b"\n")).start()
        got = []
        async with pipes(reads, writes) as (incoming, outgoing):
            async for message in incoming:
                got.append(message)
                answer = types.JSONRPCResponse(jsonrpc="2.0", id=2, result={})
                await outgoing.send(SessionMessage(answer))
        os.close(writes)
        answers = [json.loads(line) for line in os.read(client_reads, 1_000_000).splitlines()]
        for each in (reads, client_reads):
            os.close(each)
        return got, answers

    before, own.MAX_MESSAGE = own.MAX_MESSAGE, 100_000
    try:
        got, answers = asyncio.run(main())
    finally:
        own.MAX_MESSAGE = before
    [ping] = got
    assert ping.message.method == "ping"
    junk, long, last = answers
    assert (junk["id"], junk["error"]["code"]) == (None, types.PARSE_ERROR)
    assert long["id"] == 1
    assert "200,041 bytes" in long["error"]["message"]
    assert last == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_client_that_reads_nothing_does_not_keep_us() -> None:
    async def main() -> None:
        (reads, client_writes), (client_reads, writes) = os.pipe(), os.pipe()
        async with pipes(reads, writes) as (_, outgoing):
            big = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 1_000_000})
            sending = asyncio.ensure_future(outgoing.send(SessionMessage(big)))
            await asyncio.sleep(0)
            sending.cancel()
        os.close(client_reads)  # our writing thread ends by that
        os.close(client_writes)

    before, own._LAST_WORDS_S = own._LAST_WORDS_S, 0.05
    try:
        asyncio.run(main())
    finally:
        own._LAST_WORDS_S = before


def write_all(descriptor: int, data: bytes) -> None:
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
