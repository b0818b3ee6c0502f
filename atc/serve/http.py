"""What the HTTP servers of ATC share: connections that dawdle are dropped, and a server ends after its work.

It needs uvicorn, which the extras ``mcp``, ``service`` and ``ui`` bring.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import h11
import uvicorn
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from atc.errors import UsageError
from atc.serve.accepting import Acceptor, Connection, Crowd, Seldom

REQUEST_S = 10.0
"""Seconds in which a request must be whole, from the first byte on or from the connection."""
TAKE_S = 60.0
"""Seconds that a caller may leave what is written to it unread."""
KEEP_S = 30
"""Seconds that a connection is kept for the next request."""


class CrowdedProtocol(H11Protocol):
    """One connection of a :class:`atc.serve.accepting.Crowd`, which it tells whether it owes a request.

    uvicorn would wait for ever: it drops a caller that sends no whole request, or does not read what it is written. It
    takes no request that another reader might divide otherwise.
    """

    crowd: Crowd
    connection: Connection
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = PlainRequests(h11.SERVER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.connection.abort = transport.abort
        self._watch()
        self._queue()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        self._queue()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._queue()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
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

    def _queue(self) -> None:
        self.crowd.owes(self.connection, self._owes() or self.transport.is_closing())

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(TAKE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class PlainRequests(h11.Connection):
    """Refuses requests of which two readers might see two: what a proxy lets pass may hold another one.

    h11 takes a header line that goes on in the next, lines that end without a carriage return, and a length beside
    chunks; RFC 9112 lets a server refuse each.
    """

    _searched = 0

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            raw = self.trailing_data[0]
            end = _HEAD_END.search(raw, max(self._searched - 2, 0))
            self._searched = 0 if end is not None else len(raw)  # a head may come byte by byte
            if end is not None and (why := _ambiguous(raw[: end.end()])):
                raise h11.RemoteProtocolError(why, error_status_hint=400)
        return super().next_event()


_HEAD_END = re.compile(rb"\n\r?\n")


def _ambiguous(head: bytes) -> str:
    """Return what a request's head has that is read in more than one way; empty if nothing."""
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if any(b"\n" in line or b"\r" in line for line in lines):
        return "a line ends in a single CR or LF"
    names = [line.partition(b":")[0].lower() for line in lines[1:]]
    if any(line[:1] in (b" ", b"\t") for line in lines[1:]):
        return "a header goes on in the next line"
    lengths, codings = names.count(b"content-length"), names.count(b"transfer-encoding")
    if lengths + codings > 1:
        return "its length is given twice"
    if codings and not lines[0].endswith(b"HTTP/1.1"):
        return "chunks are of HTTP/1.1"
    if lengths and not lines[1 + names.index(b"content-length")].partition(b":")[2].strip().isdigit():
        return "its length is no number"
    return ""


class Served(Protocol):
    """What a server serves, and lets end first."""

    async def drain(self) -> None:
        """Take no more work; return when what goes on has ended, or had its time."""

    async def aclose(self) -> None:
        """Release what it holds."""


class DrainingServer(uvicorn.Server):
    """Drains what it serves on the first signal to end (SIGTERM, Ctrl-C), and ends at once on the second.

    Args:
        app: the application.
        served: what is behind it, if anything must end first.
        crowd: counts the connections.
        http: makes a connection's protocol, a :class:`CrowdedProtocol`.
        **config: more for :class:`uvicorn.Config`: WebSockets, certificates.
    """

    def __init__(
        self, app: ASGIApp, served: Served | None, crowd: Crowd, http: Any = CrowdedProtocol, **config: Any
    ) -> None:
        made = uvicorn.Config(
            app,
            http=http,
            access_log=False,  # an address may hold a token
            log_level="error",  # a warning for each request that is none would let strangers fill the log
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=KEEP_S,
            **{"ws": "none", "lifespan": "on"} | config,
        )
        super().__init__(made)
        self._served, self._crowd = served, crowd
        self._seldom = Seldom()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        loop.create_server = self._open  # type: ignore[assignment, method-assign]  # uvicorn has no other way
        for name in ("uvicorn.error", "asyncio"):  # they write a line for each thing that a stranger gets wrong
            logging.getLogger(name).addFilter(self._seldom)
        try:
            await super().serve(sockets)
        finally:
            del loop.create_server
            for name in ("uvicorn.error", "asyncio"):
                logging.getLogger(name).removeFilter(self._seldom)
            if self._served is not None:
                await self._served.aclose()

    async def _open(
        self, factory: Callable[[], Any], *, sock: socket.socket, ssl: ssl.SSLContext | None, backlog: int
    ) -> Acceptor:
        return Acceptor(factory, sock, self._crowd, ssl, REQUEST_S)

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
        if self._served is not None:
            await self._served.drain()
        self.should_exit = True


def tls_files(cert: Path | None, key: Path | None) -> dict[str, Any]:
    """Return what :class:`uvicorn.Config` takes for a certificate and its key; nothing without them.

    Raises:
        UsageError: one is given without the other, or is no file.
    """
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    if missing := [path for path in (cert, key) if path and not path.is_file()]:
        raise UsageError(f"there is no file {missing[0]}: --tls-cert and --tls-key take PEM files")
    return {"ssl_certfile": str(cert), "ssl_keyfile": str(key)} if cert else {}


def readiness(word: str, taken: bool) -> Response:
    """Answer a probe: with a word where requests are taken, else with 503."""
    return PlainTextResponse(f"{word}\n") if taken else PlainTextResponse("ending\n", 503)
