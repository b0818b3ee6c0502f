"""The descriptors of one program, host side: frames on its socket pair, and what it prints.

Straight on the event loop's readers: a call and its answer cost two system calls and one task, nothing in between.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from typing import Any

from atc.errors import FrameError
from atc.execution import frames
from atc.execution.conversation import Channel

_PART = 1 << 18


class SocketChannel(Channel):
    """Frames over a connected socket; for one event loop, from the first use to :meth:`close`.

    Args:
        sock: the host's end; it stays the caller's to close.
        frame_bytes: the largest frame that is accepted.
    """

    def __init__(self, sock: socket.socket, frame_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock, self._limit = sock, frame_bytes
        sock.setblocking(False)
        self._buffer = bytearray()
        self._frames: deque[dict[str, Any]] = deque()
        self._end: Exception | None = None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._writing = asyncio.Lock()
        self._reading = False

    async def receive(self) -> dict[str, Any] | None:
        while not self._frames:
            if self._end is not None:
                raise self._end
            if self._ended:
                return None
            self._read()
            if self._frames or self._ended or self._end is not None:
                continue
            if not self._reading:
                self._loop.add_reader(self._sock, self._wake)
                self._reading = True
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._frames.popleft()

    async def send(self, message: dict[str, Any]) -> None:
        body = frames.encode(message)
        if not self._writing.locked():
            try:
                sent = self._sock.send(body)
            except BlockingIOError:
                sent = 0
            except OSError:
                return
            if sent == len(body):
                return
            body = body[sent:]
        async with self._writing:
            try:
                await self._loop.sock_sendall(self._sock, body)
            except OSError:
                return

    def close(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._sock)
            self._reading = False

    def _wake(self) -> None:
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        else:  # nobody wants more now: what is there waits in the kernel
            self.close()

    def _read(self) -> None:
        """Take what is there, and what frames it completes."""
        try:
            part = self._sock.recv(_PART)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._ended = True
            if self._buffer:
                self._end = FrameError("the sandbox closed the channel inside a frame")
            return
        self._buffer += part
        self.received += len(part)
        try:
            taken = 0
            while (found := frames.next_frame(self._buffer, taken, self._limit)) is not None:
                message, taken = found
                self._frames.append(message)
            del self._buffer[:taken]
        except FrameError as error:
            self._end = error


class Output:
    """Reads what a program prints until it ends, and keeps the first ``keep`` bytes: a flood blocks nothing."""

    def __init__(self, fd: int, keep: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd, self._keep = fd, keep
        self._kept = bytearray()
        self._dropped = 0
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def close(self) -> str:
        """What was printed. Only what is already in the pipe is still read: the program is gone."""
        self._loop.remove_reader(self._fd)
        for _ in range(8):
            if not self._read():
                break
        text = self._kept.decode("utf-8", "replace")
        return text + (f"\n[{self._dropped:,} bytes more were dropped]\n" if self._dropped else "")

    def _read(self) -> bool:
        try:
            part = os.read(self._fd, _PART)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self._loop.remove_reader(self._fd)
            return False
        room = self._keep - len(self._kept)
        self._kept += part[: max(room, 0)]
        self._dropped += max(len(part) - max(room, 0), 0)
        return True
