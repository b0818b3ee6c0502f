"""The server over HTTP (streamable HTTP of MCP): sessions of the older protocol, single requests of the newer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.provider import TokenVerifier as Verifier
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, BaseUser
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atc.accepting import Crowd, raise_descriptors
from atc.faces.mcp_server.client import principal_named
from atc.faces.mcp_server.gateway import Gateway
from atc.faces.mcp_server.http_door import MAX_BODY, MAX_FORM, Body, Bounds, Door, Names, cors_of, exact_url, refusal
from atc.faces.mcp_server.requests import Answer, answer
from atc.faces.mcp_server.server import Face
from atc.serving import DrainingServer, crowded, listen

PATH = "/mcp"
IDLE_S = 30 * 60.0
"""Seconds after which a session without a request is ended."""
MAX_SESSIONS = 512
MAX_WAITING = 256
"""Connections that owe a request; of more, the oldest is dropped."""
MAX_OPEN = 4 * MAX_SESSIONS + MAX_WAITING
"""Connections at once; where this process may not have so many descriptors, fewer."""
OTHER_DESCRIPTORS = 512
"""For programs, tools and files."""
KEEP_S = 30
"""Seconds that a connection is kept for the next request."""
AFTER_S = 1.0
"""Seconds after the last call in which its client may still look up what the answer should look like."""
CLEAN_S = 10.0
"""Seconds that calls which are broken off get to clean up."""

log = logging.getLogger("atc.mcp")


@dataclass(frozen=True)
class Resource:
    """This server as a resource of an OAuth authorization server (RFC 9728).

    Attributes:
        url: of this server, as its clients name it.
        issuer: the authorization server.
        scopes: that a token must have.
    """

    url: str
    issuer: str
    scopes: Sequence[str] = ()


@dataclass(frozen=True)
class Lock:
    """How callers prove who they are.

    Attributes:
        verifiers: of tokens, asked in turn. Without any, everyone is let in as one principal.
        resource: for OAuth.
        routes: of an authorization server of our own.
    """

    verifiers: Sequence[Verifier] = ()
    resource: Resource | None = None
    routes: Sequence[BaseRoute] = ()


@dataclass(frozen=True)
class HttpSettings:
    """How the server is reached.

    Attributes:
        lock: how callers prove who they are.
        names: how it may be called, and by pages from where.
        drain_s: seconds that calls get to end after SIGTERM.
        tls: certificate and key, as :class:`uvicorn.Config` takes them.
    """

    lock: Lock
    names: Names = field(default_factory=Names)
    drain_s: float = 30.0
    tls: Mapping[str, Any] = field(default_factory=dict)


class HttpFace(Face):
    """Counts the calls that go on, so that the server can end after them."""

    def __init__(self, gateway: Gateway, drain_s: float) -> None:
        super().__init__(gateway)
        self.ending = False
        self._drain_s = drain_s
        self._going: set[anyio.CancelScope] = set()
        self._none = asyncio.Event()
        self._none.set()

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> Answer:
        if self.ending and params.request_state is None:  # with it, it is the answer to a question of a call
            return _ended("the server ends: try again soon")
        scope = anyio.CancelScope()
        self._going.add(scope)
        self._none.clear()
        try:
            with scope:
                return await super()._call_tool(context, params)
            return _ended("the server ended before this call did: what it has done is kept with its run")
        finally:
            self._going.discard(scope)
            if not self._going:
                self._none.set()

    @property
    def calls(self) -> int:
        """Calls that go on."""
        return len(self._going)

    async def drain(self) -> None:
        """Take no more calls; return when those that go on have ended, or were broken off after their time."""
        self.ending = True
        if not self._going:
            return
        if await self._ended_within(self._drain_s):
            await asyncio.sleep(AFTER_S)
            return
        log.warning("%d calls are broken off after %g s; their runs are kept", len(self._going), self._drain_s)
        for scope in self._going:
            scope.cancel()
        await self._ended_within(CLEAN_S)

    async def _ended_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        """Release what the gateway holds."""
        await self.gateway.aclose()

    async def health(self, request: Request) -> Response:
        """Whether requests are taken."""
        return PlainTextResponse("ending\n", 503) if self.ending else PlainTextResponse("ok\n")


def _ended(message: str) -> Answer:
    return answer({"error": {"kind": "Ending", "message": message}}, is_error=True)


class _Anyone(AuthenticationBackend):
    """Lets everyone in as one principal."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser]:
        return AuthCredentials(), AuthenticatedUser(AccessToken(token="", client_id="anyone", scopes=[]))


class _OneOf:
    """The first verifier that knows a token."""

    def __init__(self, verifiers: Sequence[Verifier]) -> None:
        self._verifiers = verifiers

    async def verify_token(self, token: str) -> AccessToken | None:
        for verifier in self._verifiers:
            if (known := await verifier.verify_token(token)) is not None:
                return known
        return None


def make_app(face: HttpFace, settings: HttpSettings) -> Starlette:
    """The server over ASGI; its lifespan holds the sessions.

    * ``POST``, ``GET``, ``DELETE /mcp``: MCP, with a token
    * ``GET /healthz``; the documents of OAuth: without
    """
    lock = settings.lock
    manager = StreamableHTTPSessionManager(
        face.server,
        session_idle_timeout=IDLE_S,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the door has looked
    )
    resource = exact_url(lock.resource.url) if lock.resource else None
    metadata = build_resource_metadata_url(resource) if resource else None
    scopes = list(lock.resource.scopes) if lock.resource else []
    inner: ASGIApp = Bounds(Body(Sessions(manager, face, IDLE_S)))
    routes: list[BaseRoute] = [
        Route(PATH, _authenticated(RequireAuthMiddleware(inner, scopes, metadata), lock)),
        Route("/healthz", face.health),
    ]
    if lock.resource is not None and resource is not None:
        routes += create_protected_resource_routes(resource, [exact_url(lock.resource.issuer)], scopes or None)
    if lock.routes:
        routes.append(Mount("", Body(Router(lock.routes, redirect_slashes=False), MAX_FORM, MAX_FORM)))
    middleware = [Middleware(Door, settings.names), Middleware(CORSMiddleware, **cors_of(settings.names))]
    app = Starlette(routes=routes, middleware=middleware, lifespan=lambda _: manager.run())
    app.router.redirect_slashes = False
    return app


def _authenticated(app: ASGIApp, lock: Lock) -> ASGIApp:
    backend: Any = BearerAuthBackend(_OneOf(lock.verifiers)) if lock.verifiers else _Anyone()
    return AuthenticationMiddleware(AuthContextMiddleware(app), backend=backend, on_error=_unverified)


def _unverified(conn: HTTPConnection, error: AuthenticationError) -> Response:
    return refusal(503, str(error), retry_after="10")


async def serve_http(
    gateway: Gateway, host: str, port: int, settings: HttpSettings, ready: Callable[[int], None] = lambda port: None
) -> None:
    """Serve until a signal ends it: calls that go on get their time.

    Args:
        gateway: behind the server; it is closed at the end.
        port: 0 takes a free one.
        ready: told the port as soon as callers can connect.

    Raises:
        EnvironmentProblem: the address cannot be listened at.
    """
    with closing(listen(host, port)) as sock:
        await gateway.prepare()
        server = make_server(HttpFace(gateway, settings.drain_s), settings)
        ready(sock.getsockname()[1])
        await server.serve([sock])


def make_server(face: HttpFace, settings: HttpSettings) -> DrainingServer:
    """A server for a face; it closes the gateway when it ends."""
    there = raise_descriptors(MAX_OPEN + OTHER_DESCRIPTORS)
    crowd = Crowd(max(min(MAX_OPEN, there - OTHER_DESCRIPTORS), MAX_WAITING), MAX_WAITING)
    config = uvicorn.Config(
        make_app(face, settings),
        http=crowded(crowd),
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="error",  # a warning for each request that is none would let strangers fill the log
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_S,
        **settings.tls,
    )
    return DrainingServer(config, face, crowd)


# -- sessions of the older protocol: bounded for each principal, so that one cannot take the room of all ---------------

MAX_SESSIONS_EACH = 32
"""Sessions of one principal."""
UNUSED_S = 60.0
"""Seconds without a request after which a session gives way to a new one of its principal."""


@dataclass
class _Session:
    requests: int = 0
    last: float = 0.0


@dataclass
class Sessions:
    """In front of the SDK's manager: counts a principal's sessions, and ends the longest unused for a new one.

    That another principal's session does not exist for a caller is the manager's own rule.
    """

    manager: StreamableHTTPSessionManager
    server: HttpFace
    idle_s: float
    clock: Callable[[], float] = time.monotonic
    open: dict[str, dict[str, _Session]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        named = headers.get(MCP_SESSION_ID_HEADER)
        if headers.get("mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0]) not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self.manager.handle_request(scope, receive, send)
            return
        user = scope["user"]
        assert isinstance(user, AuthenticatedUser)
        principal = principal_named(user.access_token)
        if named is not None:
            await self._within(principal, named, scope, receive, send)
        elif self.server.ending:
            await refusal(503, "the server ends: try again in a minute", retry_after="60")(scope, receive, send)
        elif scope["method"] != "POST":
            await refusal(400, "the header Mcp-Session-Id is missing")(scope, receive, send)
        elif await self._room(principal, scope):
            await self._opening(principal, scope, receive, send)
        else:
            message = f"you have {MAX_SESSIONS_EACH} sessions in use: end one"
            await refusal(429, message, retry_after=f"{UNUSED_S:.0f}")(scope, receive, send)

    async def _within(self, principal: str, named: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self.open.get(principal, {}).get(named)
        if session is None:  # another's, or ended: the manager answers 404 to both
            await self.manager.handle_request(scope, receive, send)
            return

        async def watched(message: Message) -> None:
            gone = message["type"] == "http.response.start" and (
                message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] < 300)
            )
            if gone:
                self._forget(principal, named)
            await send(message)

        session.requests += 1
        try:
            await self.manager.handle_request(scope, receive, watched)
        finally:
            session.requests -= 1
            session.last = self.clock()

    async def _opening(self, principal: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._forget_ended()

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                named = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if named is not None:
                    self.open.setdefault(principal, {})[named] = _Session(last=self.clock())
            await send(message)

        await self.manager.handle_request(scope, receive, watched)

    async def _room(self, principal: str, scope: Scope) -> bool:
        """Whether one more may be opened, after the longest unused one was ended for it."""
        mine = self.open.get(principal, {})
        if len(mine) < MAX_SESSIONS_EACH:
            return True
        since = self.clock() - UNUSED_S
        unused = [(each.last, named) for named, each in mine.items() if not each.requests and each.last < since]
        if not unused:
            return False
        _, oldest = min(unused)
        self._forget(principal, oldest)
        await self._end(oldest, scope)
        return True

    async def _end(self, named: str, scope: Scope) -> None:
        """End a session as its client would: by a DELETE in its principal's name."""
        headers = [(b"mcp-session-id", named.encode("ascii"))]

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            return

        await self.manager.handle_request({**scope, "method": "DELETE", "headers": headers}, nothing, unheard)

    def _forget_ended(self) -> None:
        """The manager ends idle sessions without a word."""
        since = self.clock() - self.idle_s
        ended = [
            (principal, named)
            for principal, mine in self.open.items()
            for named, each in mine.items()
            if not each.requests and each.last < since
        ]
        for principal, named in ended:
            self._forget(principal, named)

    def _forget(self, principal: str, named: str) -> None:
        mine = self.open.get(principal, {})
        mine.pop(named, None)
        if not mine:
            self.open.pop(principal, None)
