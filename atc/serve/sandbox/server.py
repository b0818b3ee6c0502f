"""The sandbox service over HTTP: its face, its connections and its server.

What a connection costs is counted for its tenant, who is read later when it has had its share. Connections that dawdle
are dropped, and runs end before the server does.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from atc.sandboxes.process.driver import pool_size
from atc.serve.accepting import REFUSING, listen, raise_descriptors, require_descriptors
from atc.serve.http import CrowdedProtocol, DrainingServer, readiness
from atc.serve.request_guard import Refusal, read_body
from atc.serve.sandbox.accounts import Account, Accounts, visit_of_this
from atc.serve.sandbox.runs import RETRY_AFTER_S
from atc.serve.sandbox.service import Service, ServiceSettings
from atc.serve.tokens import bearer

MAX_BODY = 4096
"""Bytes of a request's body."""
TURN_S = 1.0
"""Seconds that a request waits until its tenant has its turn."""


def make_app(service: Service) -> Starlette:
    """Return the service over ASGI: it is the caller's to start and to close.

    * ``POST /v1/runs``: grant a run; 201 with its id and the one-time token of its channel
    * ``GET /v1/runs/{id}/channel``: its WebSocket
    * ``GET /v1/service``: what holds here
    * ``GET /healthz``, ``/readyz``, ``/metrics``: without a token
    """
    face = _Face(service)
    return Starlette(
        routes=[
            Route("/v1/runs", face.grant, methods=["POST"]),
            WebSocketRoute("/v1/runs/{number}/channel", face.channel),
            Route("/v1/service", face.describe),
            Route("/healthz", face.health),
            Route("/readyz", face.readiness),
            Route("/metrics", face.metrics),
        ],
        exception_handlers={Refusal: face.refused},
    )


class _Face:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def grant(self, request: Request) -> Response:
        tenant = await self._tenant_of(request)
        return JSONResponse(self._service.grant(tenant, await read_body(request.scope, request.receive, MAX_BODY)), 201)

    async def describe(self, request: Request) -> Response:
        await self._tenant_of(request)
        return JSONResponse(self._service.description())

    async def _tenant_of(self, request: Request) -> str:
        """Return who asks, once it is its turn."""
        tenant = self._service.tenant_of(request.headers.get("authorization", ""))
        account = self._pays(tenant)
        if not await account.turn(TURN_S):
            text = "this tenant uses more than its share of this service's time: ask less often"
            raise Refusal(429, "busy", text, retry_after=RETRY_AFTER_S)
        return tenant

    def _pays(self, tenant: str) -> Account:
        account = self._service.accounts.of(tenant)
        if (visit := visit_of_this()) is not None:
            visit.belongs_to(account)
        return account

    async def channel(self, socket: WebSocket) -> None:
        try:
            token = bearer(socket.headers.get("authorization", ""))
            run = self._service.runs.connect(socket.path_params["number"], token)
        except Refusal as refusal:
            await socket.send_denial_response(self._answer(refusal))
            return
        self._pays(run.tenant)
        try:
            await socket.accept()
        except BaseException:
            self._service.runs.end(run)
            raise
        await self._service.serve(run, socket)

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readiness(self, request: Request) -> Response:
        return readiness("ready", self._service.ready)

    async def metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def refused(self, request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        return self._answer(refusal)

    def _answer(self, refusal: Refusal) -> Response:
        self._service.metrics.refused.labels(refusal.code).inc()
        headers = {"connection": "close"} | refusal.headers  # the next try may reach another replica
        if refusal.status == 401:
            headers["www-authenticate"] = "Bearer"
        content = {"error": {"code": refusal.code, "message": refusal.message}}
        return JSONResponse(content, refusal.status, headers)


MAX_FRAGMENTS = 4_096
"""Pieces of one message: each takes memory, also an empty one, which no limit of bytes sees."""


class Requests(CrowdedProtocol):
    """Requests over HTTP, each of which may be another tenant's."""

    def __init__(self, accounts: Accounts, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._visit = accounts.visit()

    def data_received(self, data: bytes) -> None:
        self._visit.first(super().data_received, data)

    def on_response_complete(self) -> None:
        self._visit.settle()
        super().on_response_complete()
        if (wait := self._visit.wait_s()) and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(wait, self.flow.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visit.settle()


class RunSocket(WebSocketsSansIOProtocol):
    """A run's WebSocket. It begins within a request, whose visit it goes on with."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._visit = visit_of_this()
        self._held = False

    def data_received(self, data: bytes) -> None:
        if self._visit is None:
            super().data_received(data)
            return
        self._visit.first(super().data_received, data)
        if not self._held and (wait := self._visit.wait_s()):
            self._held = True
            self.transport.pause_reading()
            self.loop.call_later(wait, self._go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.settle()

    async def receive(self) -> Any:
        if self._visit is not None and self._visit.account is not None:
            await self._visit.account.turn()
        event = await super().receive()
        if self._held:
            self.transport.pause_reading()
        return event

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, "a message in too many pieces")
            self.handle_parser_exception()

    def _go_on(self) -> None:
        if self._visit is not None and (wait := self._visit.wait_s()):
            self.loop.call_later(wait, self._go_on)
            return
        self._held = False
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()


PING_S, PONG_S = 20.0, 60.0
"""A caller whose machine is gone is noticed after these; one that merely works for long in a tool is not."""
JAIL_DESCRIPTORS = 4
"""Descriptors of one jail: its channel, stdout and stderr, and what it is ended by."""
OTHER_DESCRIPTORS = 128
"""The parents of jails, what is open while a jail is made, and this process's own."""
FEW_PARENTS = 4
"""Parents of jails that there is room for in any case."""

log = logging.getLogger("atc.service")


def make_server(service: Service, **config: Any) -> DrainingServer:
    """Return a server for a service that was started.

    Args:
        service: what to serve.
        **config: certificates, as :func:`atc.serve.http.tls_files` gives them.
    """
    return DrainingServer(
        make_app(service),
        service,
        service.crowd,
        functools.partial(Requests, service.accounts),
        ws=RunSocket,
        ws_max_size=service.settings.message_bytes,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PONG_S,
        ws_per_message_deflate=False,
        lifespan="off",
        **config,
    )


def descriptors(service: Service, kept: int) -> int:
    """Descriptors that a service needs.

    Args:
        kept: parents of jails for which some jails wait.
    """
    jails = service.settings.max_runs + kept * pool_size()
    return service.crowd.most + REFUSING + JAIL_DESCRIPTORS * jails + OTHER_DESCRIPTORS


async def serve(settings: ServiceSettings, host: str, port: int, **config: Any) -> None:
    """Serve until a signal ends it.

    Raises:
        SandboxUnavailable: the isolation that is required cannot be had. Nothing listens then.
        EnvironmentProblem: the address cannot be listened at, or there are too few descriptors.
    """
    what = f"--max-runs {settings.max_runs:,}; a lower one needs fewer"
    service = Service(settings)
    raise_descriptors(descriptors(service, max(FEW_PARENTS, len(settings.tenants))))  # as many as are kept at most
    require_descriptors(descriptors(service, FEW_PARENTS), what)
    with contextlib.closing(listen(host, port)) as sock:
        await service.start()
        server = make_server(service, **config)
        log.info("tier %s at %s:%d", service.tier, *sock.getsockname()[:2])
        await server.serve([sock])
