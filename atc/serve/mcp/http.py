"""The server over HTTP (streamable HTTP of MCP): sessions of the older protocol, single requests of the newer."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.provider import TokenVerifier as Verifier
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import INVALID_REQUEST, CallToolRequestParams
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, AuthenticationError, BaseUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp

from atc._host.addresses import is_loopback
from atc.serve.accepting import Crowd, listen, raise_descriptors
from atc.serve.http import DrainingServer, readiness
from atc.serve.mcp.gateway import Gateway
from atc.serve.mcp.requests import Answer, answer
from atc.serve.mcp.server import Face
from atc.serve.mcp.shares import Bounds, Sessions
from atc.serve.mcp.tokens import exact_url
from atc.serve.request_guard import Refusal, RequestGuard, Rules, WholeBody

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
MAX_BODY = 4 * 1024 * 1024
"""Bytes of a request's body."""
MAX_DISCARDED = 8 * MAX_BODY
MAX_FORM = 64 * 1024
"""Bytes of a body that anybody may send, without a token."""
METHODS = ("GET", "POST", "DELETE", "OPTIONS")
_ONCE = ("authorization", "content-type", "host", "mcp-protocol-version", "mcp-session-id", "origin")
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
class Names:
    """How this server may be called, and by pages from where: against DNS rebinding.

    Attributes:
        hosts: names in ``Host``, without a port. Addresses in digits are always allowed: no name was resolved to them.
        origins: pages that may call, as ``scheme://host`` or ``scheme://host:port``.
        local_pages: pages that this machine serves may call, too.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    local_pages: bool = False

    def host_allowed(self, host: str) -> bool:
        """Whether the server answers to this ``Host``."""
        name = _name(host)
        if name in self.hosts or name == "localhost":
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def origin_allowed(self, origin: str, host: str = "") -> bool:
        """Whether pages from there may call, at any host."""
        if origin in self.origins:
            return True
        try:
            parts = urlsplit(origin)
            host = parts.hostname or ""
        except ValueError:
            return False
        plain = parts.scheme in ("http", "https") and not parts.path and not parts.query and "@" not in origin
        return self.local_pages and plain and is_loopback(host)


def _name(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        if parts.path or parts.query or parts.fragment or parts.username is not None or parts.port == 0:
            return ""
        return (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def origins_of(given: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers send them; a slash at the end does no harm."""
    return frozenset(each.rstrip("/") for each in given)


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
        """Release what this face and the gateway hold."""
        await super().aclose()
        await self.gateway.aclose()

    async def health(self, request: Request) -> Response:
        """Whether requests are taken."""
        return readiness("ok", not self.ending)


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
    """Return the server over ASGI; its lifespan holds the sessions.

    * ``POST``, ``GET``, ``DELETE /mcp``: MCP, with a token
    * ``GET /healthz``; the documents of OAuth: without
    """
    lock = settings.lock
    manager = StreamableHTTPSessionManager(
        face.server,
        session_idle_timeout=IDLE_S,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the guard has looked
    )
    resource = exact_url(lock.resource.url) if lock.resource else None
    metadata = build_resource_metadata_url(resource) if resource else None
    scopes = list(lock.resource.scopes) if lock.resource else []
    inner: ASGIApp = Bounds(WholeBody(Sessions(manager, lambda: face.ending, IDLE_S), MAX_BODY, MAX_DISCARDED))
    routes: list[BaseRoute] = [
        Route(PATH, _authenticated(RequireAuthMiddleware(inner, scopes, metadata), lock)),
        Route("/healthz", face.health),
    ]
    if lock.resource is not None and resource is not None:
        routes += create_protected_resource_routes(resource, [exact_url(lock.resource.issuer)], scopes or None)
    if lock.routes:
        routes.append(Mount("", WholeBody(Router(lock.routes, redirect_slashes=False), MAX_FORM, MAX_FORM)))
    host_advice, origin_advice = ": its owner gives --allow-host", ": the server's owner gives --allow-origin"
    rules = Rules(_ONCE, METHODS, settings.names, host_advice, origin_advice)
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(RequestGuard, rules, refused),
            Middleware(CORSMiddleware, **cors_of(settings.names)),
        ],
        exception_handlers={Refusal: lambda _, refusal: refused(refusal)},
        lifespan=lambda _: manager.run(),
    )
    app.router.redirect_slashes = False
    return app


def _authenticated(app: ASGIApp, lock: Lock) -> ASGIApp:
    backend: Any = BearerAuthBackend(_OneOf(lock.verifiers)) if lock.verifiers else _Anyone()
    return AuthenticationMiddleware(AuthContextMiddleware(app), backend=backend, on_error=_unverified)


def _unverified(conn: HTTPConnection, error: AuthenticationError) -> Response:
    return refused(Refusal(503, "unverified", str(error), retry_after=10))


def refused(refusal: Refusal) -> Response:
    """Word a refusal as MCP clients read it: a JSON-RPC error without an id."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": refusal.message}}
    return JSONResponse(error, refusal.status, refusal.headers)


def cors_of(names: Names) -> dict[str, Any]:
    """Return what Starlette's CORS middleware takes, so that allowed pages may read the answers."""
    local = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
    return {
        "allow_origins": sorted(names.origins),
        "allow_origin_regex": local if names.local_pages else None,
        "allow_methods": ["GET", "POST", "DELETE"],
        "allow_headers": ["*"],
        "expose_headers": ["Mcp-Session-Id", "WWW-Authenticate"],
        "max_age": 600,
    }


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
    """Return a server for a face; it closes the gateway when it ends."""
    there = raise_descriptors(MAX_OPEN + OTHER_DESCRIPTORS)
    crowd = Crowd(max(min(MAX_OPEN, there - OTHER_DESCRIPTORS), MAX_WAITING), MAX_WAITING)
    return DrainingServer(make_app(face, settings), face, crowd, **settings.tls)
