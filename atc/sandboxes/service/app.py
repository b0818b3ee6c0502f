"""The HTTP face of the sandbox service."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from atc.sandboxes.service.accounts import Account, visit_of_this
from atc.sandboxes.service.refusal import Refusal
from atc.sandboxes.service.runs import RETRY_AFTER_S
from atc.sandboxes.service.service import Service
from atc.sandboxes.service.tenants import bearer

MAX_BODY = 4096
BODY_S = 10.0
TURN_S = 1.0
"""Seconds that a request waits until its tenant has its turn."""


def make_app(service: Service) -> Starlette:
    """The service over ASGI: it is the caller's to start and to close.

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
        return JSONResponse(self._service.grant(tenant, await _body(request)), 201)

    async def describe(self, request: Request) -> Response:
        await self._tenant_of(request)
        return JSONResponse(self._service.description())

    async def _tenant_of(self, request: Request) -> str:
        """Who asks, when it is his turn.

        Raises:
            Refusal: nobody that is known, or who takes more than his share.
        """
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
        if self._service.ready:
            return PlainTextResponse("ready\n")
        return PlainTextResponse("ending\n", 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def refused(self, request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, Refusal)
        return self._answer(refusal)

    def _answer(self, refusal: Refusal) -> Response:
        self._service.metrics.refused.labels(refusal.code).inc()
        return JSONResponse(refusal.body, refusal.status, refusal.headers)


async def _body(request: Request) -> bytes:
    """The request's body.

    Raises:
        Refusal: it is too large, or too slow.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    raise Refusal(413, "bad_request", f"the request's body is over {MAX_BODY:,} bytes")
    except TimeoutError:
        raise Refusal(408, "slow", f"the request took longer than {BODY_S:g} s to come") from None
    except ClientDisconnect:
        raise Refusal(400, "bad_request", "the request was broken off") from None
    return body
