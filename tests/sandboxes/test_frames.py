"""The frame parser on the host: whatever bytes come out of a sandbox, a message or a FrameError."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atc.errors import FrameError
from atc.sandboxes.channel import frames
from atc.sandboxes.channel.descriptors import SocketChannel
from tests.support.time import little_work

LIMIT = 10_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(data: bytes, limit: int = LIMIT) -> list[dict[str, Any]]:
    """All frames of a program that sent ``data`` and closed its end."""

    async def go() -> list[dict[str, Any]]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            channel, kept = SocketChannel(ours, limit), Kept()
            sending = asyncio.create_task(asyncio.to_thread(_send, theirs, data))
            try:
                channel.listen(kept)
                await kept.over
                return kept.frames
            finally:
                channel.close()
                ours.close()  # what is still to be sent has nobody to read it
                await sending

    return asyncio.run(go())


class Kept:
    """Keeps what a channel hands over."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_frame(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)

    def on_end(self, error: Exception | None) -> None:
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)


def _send(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_what_is_encoded_is_read_back(message: dict[str, Any]) -> None:
    try:
        text = json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(FrameError, match="surrogates not allowed"):
            read(frames.encode(message), 10**7)
        return
    assert read(frames.encode(message) * 2, 10**7) == [json.loads(text)] * 2


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert all(isinstance(frame, dict) for frame in read(data))


@settings(max_examples=150)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3), st.data())
def test_mutated_frames_are_refused_or_read(message: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(frames.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FrameError):
        assert all(isinstance(frame, dict) for frame in read(bytes(body)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid"),
        (b"[]", "is a list, not an object"),
        (b'"x"', "is a str"),
        (b"{} {}", "Extra data"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":' + b"9" * 401 + b"}", "401 digits"),
        (b'{"a":1,"a":2}', "the same key twice"),
        (b'{"a":"\xff"}', "can't decode"),
        (b'{"a":"\\ud800"}', "surrogates not allowed"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper than 128"),
        (b'{"a":' * 5_000, "nested deeper than 128"),
        (b"\xef\xbb\xbf{}", "not valid"),
        (b"{'a': 1}", "not valid"),
    ],
)
def test_json_is_held_to_its_letter(body: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        frames.decode(body)


def test_brackets_inside_strings_are_no_nesting() -> None:
    message = {"a": "[" * 1000 + '\\"{', "b": ["]"] * 200}
    assert frames.decode(json.dumps(message).encode()) == message


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameError, match="over the limit of 10,000"):
        read((10_001).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="4,294,967,295 bytes"):
        read(b"\xff\xff\xff\xff")


def test_a_stream_may_end_between_frames_only() -> None:
    whole = frames.encode({"a": 1})
    assert read(whole) == [{"a": 1}]
    for cut in range(1, len(whole)):
        with pytest.raises(FrameError, match="closed the channel inside"):
            read(whole[:cut])


@pytest.mark.parametrize(
    "body",
    [b'"' + b'\\"' * 1_000_000 + b"\\", b"[" * 2_000_000, b'{"a":[' + b"[]," * 600_000, b'{"a":"' + b"\\" * 2_000_001],
    ids=["quotes", "brackets", "lists", "backslashes"],
)
def test_no_frame_takes_long_to_refuse(body: bytes) -> None:
    with little_work(), pytest.raises(FrameError):
        frames.decode(body)


def test_nan_never_goes_out() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        frames.encode({"a": float("nan")})
