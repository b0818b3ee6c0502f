"""Frames on the channel to the host, this side: a 4-byte big-endian length, then that many bytes of UTF-8 JSON.

The host's side is atc/sandboxes/channel/frames.py and trusts nothing of what is sent from here.
"""

import json
import json.encoder
import os
import socket
import time
from collections.abc import Callable

import convert

MAX_FRAME = 64 * 1024 * 1024  # the host sends no larger one; it holds us to its own, smaller limit
_PART = 1 << 16
AT_ONCE_S = 60e-6
"""An answer that is as quick is looked for without sleep: to be woken takes more time, and both sides' processors."""
_MOST_LATE = 63
# made once: each costs more than the small message that it is made for
_scan: Callable[[str, int], tuple[object, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _no_form(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} has no JSON form")


# allows no NaN, and looks for no circles: what is sent was made by convert.to_json, which bounds its depth
_parts_of: Callable[[object, int], tuple[str, ...]] = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _no_form, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


class Frames:
    """One end of a channel. Sending and receiving may each be done by one thread at a time.

    Args:
        sock: connected, blocking.

    Attributes:
        limit: the largest body to send, bytes.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self.limit = sock, MAX_FRAME
        self._buffer = bytearray()
        self._late, self._skip = 0, 1  # reads that are not tried at once: the first waits for a program, however long

    def send(self, message: object, what: str = "the message") -> None:
        """Write one frame.

        Raises:
            ValueError: ``what`` takes more than the limit, or holds NaN or infinity.
            TypeError: it holds a value without a JSON form.
        """
        body = "".join(_parts_of(message, 0)).encode("utf-8", "replace")
        if len(body) > self.limit:
            raise ValueError(f"{what} would take {len(body):,} bytes of JSON; the limit is {self.limit:,}: give less")
        self._sock.sendall(len(body).to_bytes(4, "big") + body)

    def receive(self) -> object:
        """Read one frame, the bytes in its ``value`` as bytes. Raises EOFError when the host has gone."""
        self._fill(4)
        length = int.from_bytes(self._buffer[:4], "big")
        if length > MAX_FRAME:
            raise EOFError("the host sent an impossible frame")
        self._fill(4 + length)
        text = self._buffer[4 : 4 + length].decode()
        del self._buffer[: 4 + length]
        message, _ = _scan(text, 0)
        if convert.TAG in text and isinstance(message, dict) and "value" in message:
            message["value"] = convert.from_json(message["value"])
        return message

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count:
            part = self._at_once() or self._sock.recv(_PART)
            if not part:
                raise EOFError("the host has gone")
            self._buffer += part

    def _at_once(self) -> bytes:
        """What comes within a moment. The more often nothing came, the more seldom it is tried: so little is lost."""
        if self._skip:
            self._skip -= 1
            return b""
        until = time.perf_counter() + AT_ONCE_S
        while time.perf_counter() < until:
            try:
                part = self._sock.recv(_PART, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()  # where there is one processor, the host goes on with it
                continue
            self._late = 0
            return part
        self._late = self._skip = min(2 * self._late + 1, _MOST_LATE)
        return b""
