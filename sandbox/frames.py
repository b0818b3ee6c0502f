"""Frames on the channel to the host, this side: a 4-byte big-endian length, then that many bytes of UTF-8 JSON.

The host's side is atc/sandboxes/channel/frames.py and trusts nothing of what is sent from here.
"""

import json
import socket

import convert

MAX_FRAME = 64 * 1024 * 1024  # the host sends no larger one; it holds us to its own, smaller limit
_PART = 1 << 16
# made once: each costs more than the small message that it is made for
_decode = json.JSONDecoder().decode
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode


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

    def send(self, message: object, what: str = "the message") -> None:
        """Write one frame.

        Raises:
            ValueError: ``what`` takes more than the limit, or holds NaN or infinity.
            TypeError: it holds a value without a JSON form.
        """
        body = _encode(message).encode("utf-8", "replace")
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
        with memoryview(self._buffer) as whole:
            text = str(whole[4 : 4 + length], "utf-8")
        del self._buffer[: 4 + length]
        message = _decode(text)
        if convert.TAG in text and isinstance(message, dict) and "value" in message:
            message["value"] = convert.from_json(message["value"])
        return message

    def _fill(self, count: int) -> None:
        while len(self._buffer) < count:
            part = self._sock.recv(_PART)
            if not part:
                raise EOFError("the host has gone")
            self._buffer += part
