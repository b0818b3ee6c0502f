"""What the HTTP servers of ATC share: connections that dawdle are dropped, and a server ends after its work.

Needs uvicorn, which the extras ``service`` and ``mcp`` bring.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from atc.errors import EnvironmentProblem, UsageError

REQUEST_S = 10.0
"""Seconds in which a request must be whole, from the first byte on or from the connection."""
TAKE_S = 60.0
"""Seconds that a caller may leave what is written to it unread."""


class PromptProtocol(H11Protocol):
    """Drops a connection that sends no whole request: uvicorn would wait for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _owes(self) -> bool:
        ours = self.transport.get_protocol() is self  # else it has become a WebSocket
        return ours and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _watch(self) -> None:
        if not self._owes():
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self._late)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self._owes():
            self.transport.abort()


class CrowdedProtocol(PromptProtocol):
    """Keeps a crowd of strangers from filling the door: see :func:`crowded`.

    It also drops a caller that does not read what it is written.
    """

    waiting: dict[CrowdedProtocol, None]
    most: int
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._queue()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._queue()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._queue()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self.resume_writing()
        super().connection_lost(exc)

    def _queue(self) -> None:
        if self.transport.is_closing() or not self._owes():
            self.waiting.pop(self, None)
            return
        self.waiting.setdefault(self)
        if len(self.waiting) > self.most:
            oldest = next(iter(self.waiting))
            del self.waiting[oldest]
            oldest.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(TAKE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def crowded(most: int) -> type[CrowdedProtocol]:
    """A protocol for one server: of connections that owe a request, at most so many; the oldest gives way.

    So whoever sends its request at once is served, however many say nothing.
    """
    return type("CrowdedProtocol", (CrowdedProtocol,), {"waiting": {}, "most": most})


class Served(Protocol):
    """What a server serves, and lets end first."""

    async def drain(self) -> None:
        """Take no more work; return when what goes on has ended, or had its time."""

    async def aclose(self) -> None:
        """Release what it holds."""


class DrainingServer(uvicorn.Server):
    """Drains what it serves on the first signal to end (SIGTERM, Ctrl-C), and ends at once on the second."""

    def __init__(self, config: uvicorn.Config, served: Served) -> None:
        super().__init__(config)
        self._served = served
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        if self.config.is_ssl:  # uvicorn has no setting for it, and asyncio waits a minute for who says nothing
            in_time = functools.partial(loop.create_server, ssl_handshake_timeout=REQUEST_S)
            loop.create_server = in_time  # type: ignore[method-assign]
        try:
            await super().serve(sockets)
        finally:
            await self._served.aclose()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end()

    def end(self) -> None:
        """Begin to end; the second time, do not wait. For any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        await self._served.drain()
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one.

    Raises:
        EnvironmentProblem: that cannot be.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise EnvironmentProblem(
            f"the service cannot listen at {host} port {port}: {error}. Give another --host or --port"
        ) from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: asyncio sets it only on sockets it made
    return sock


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_files(cert: Path | None, key: Path | None) -> dict[str, Any]:
    """What :class:`uvicorn.Config` takes for a certificate and its key; nothing without them.

    Raises:
        UsageError: one is given without the other, or is no file.
    """
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    if missing := [path for path in (cert, key) if path and not path.is_file()]:
        raise UsageError(f"there is no file {missing[0]}: --tls-cert and --tls-key take PEM files")
    return {"ssl_certfile": str(cert), "ssl_keyfile": str(key)} if cert else {}
