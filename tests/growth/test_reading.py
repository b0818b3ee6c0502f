"""Growth of what a program's channel costs its host: many small frames, and one that comes in parts."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from atc.calls.clock import HostTime
from atc.sandboxes.channel.frames import HostShare, SocketChannel
from tests.growth.harness import assert_linear

pytestmark = pytest.mark.slow
_PART = 1 << 16


class _Listener:
    """Takes so many frames at a time, then wants a rest, as a session does with calls in flight."""

    def __init__(self, channel: SocketChannel, at_once: int) -> None:
        self.channel, self.at_once, self.frames = channel, at_once, 0

    def on_frame(self, frame: dict[str, Any]) -> None:
        self.frames += 1
        if self.frames % self.at_once == 0:
            self.channel.pause()

    def on_end(self, error: Exception | None) -> None:
        raise AssertionError(error)


def _read(body: bytes, at_once: int, frames: int) -> None:
    """Read all that a program sent, as parts of it arrive."""

    async def go() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = SocketChannel(ours, 1 << 26)
            channel.share = HostShare(HostTime(), 1e9, lambda: None)
            listener = _Listener(channel, at_once)
            channel.listen(listener)
            for at in range(0, len(body), _PART):
                channel._buffer += body[at : at + _PART]
                channel._counted(channel._hand_over)()
                while not channel._reading:
                    channel.resume()
            assert listener.frames == frames
            channel.close()

    asyncio.run(go())


def _frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("at_once", [16, 64])
def test_many_small_frames(at_once: int) -> None:
    assert_linear(
        lambda n: (_frame({"op": "call", "id": 1, "tool": "f", "args": {}}) * n, n),
        lambda made: _read(made[0], at_once, made[1]),
        n=1_000,
        most=200_000,
    )


def test_a_frame_that_comes_in_parts() -> None:
    assert_linear(
        lambda n: _frame({"op": "done", "value": "x" * 100 * n}),
        lambda made: _read(made, 64, 1),
        n=10_000,
        most=400_000,
    )
