"""Serves the sandbox service: drops connections that dawdle, and lets runs end before it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from atc.errors import EnvironmentProblem
from atc.sandboxes.service.app import make_app
from atc.sandboxes.service.service import Service, ServiceSettings

REQUEST_S = 10.0
"""Seconds in which a request must be whole, from the first byte on or from the connection."""
KEEP_S = 30
"""Seconds that a connection is kept for the next request."""
PING_S, PONG_S = 20.0, 60.0
"""A caller whose machine is gone is noticed after these; one that merely works for long in a tool is not."""

log = logging.getLogger("atc.service")


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


class Server(uvicorn.Server):
    """Drains the service on the first signal to end (SIGTERM, Ctrl-C), and ends at once on the second."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await super().serve(sockets)
        finally:
            await self._service.aclose()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end()

    def end(self) -> None:
        """Begin to end; the second time, do not wait. For any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        await self._service.drain()
        self.should_exit = True


def make_server(service: Service, **config: Any) -> Server:
    """A server for a service that was started.

    Args:
        service: what to serve.
        **config: more for :class:`uvicorn.Config`: where to listen, certificates.
    """
    settings = service.settings
    made = uvicorn.Config(
        make_app(service),
        http=PromptProtocol,
        ws="websockets-sansio",
        ws_max_size=settings.message_bytes,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_S,
        limit_concurrency=4 * settings.max_runs + 256,
        **config,
    )
    return Server(made, service)


async def serve(settings: ServiceSettings, host: str, port: int, **config: Any) -> None:
    """Serve until a signal ends it.

    Raises:
        SandboxUnavailable: the isolation that is required cannot be had. Nothing listens then.
        EnvironmentProblem: the address cannot be listened at.
    """
    with contextlib.closing(listen(host, port)) as sock:
        service = Service(settings)
        await service.start()
        server = make_server(service, **config)
        log.info("tier %s at %s:%d", service.tier, *sock.getsockname()[:2])
        await server.serve([sock])


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
