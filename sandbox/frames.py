"""Frames on the channel to the host, this side: a 4-byte big-endian length, then that many bytes of UTF-8 JSON.

The host's side is atc/execution/frames.py and trusts nothing of what is sent from here.
"""

import json
import socket

MAX_FRAME = 64 * 1024 * 1024  # the host sends no larger one; it holds us to its own, smaller limit


def send(sock: socket.socket, message: object, limit: int = MAX_FRAME, what: str = "the message") -> None:
    """Write one frame.

    Raises:
        ValueError: ``what`` takes more than ``limit`` bytes, or holds NaN or infinity.
        TypeError: it holds what JSON cannot say.
    """
    body = json.dumps(message, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    if len(body) > limit:
        raise ValueError(f"{what} would take {len(body):,} bytes of JSON; the limit is {limit:,}: give less")
    sock.sendall(len(body).to_bytes(4, "big") + body)


def receive(sock: socket.socket) -> object:
    """Read one frame. Raises EOFError when the host has gone."""
    length = int.from_bytes(_exactly(sock, 4), "big")
    if length > MAX_FRAME:
        raise EOFError("the host sent an impossible frame")
    return json.loads(_exactly(sock, length))


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the host has gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
