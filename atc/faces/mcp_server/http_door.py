"""The door of the HTTP server: what a request must be before anything of it is believed, and how much one may ask."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp_types import INVALID_REQUEST
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atc.faces.mcp_server.client import principal_named
from atc.serving import is_loopback

MAX_BODY = 4 * 1024 * 1024
"""Bytes of a request's body."""
MAX_DISCARDED = 8 * MAX_BODY
MAX_FORM = 64 * 1024
"""Bytes of a body that anybody may send, without a token."""
BODY_S = 10.0
"""Seconds in which a body must be there."""
MAX_CALLS, MAX_STREAMS = 32, 32
"""Requests of one principal at once, and streams that it holds open to be told things."""
LISTEN = "subscriptions/listen"
METHODS = ("GET", "POST", "DELETE", "OPTIONS")
_ONCE = ("authorization", "content-type", "host", "mcp-protocol-version", "mcp-session-id", "origin")


def refusal(status: int, message: str, **headers: str) -> Response:
    """A refusal as MCP clients read it: a JSON-RPC error without an id."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(error), status, named, media_type="application/json")


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

    def origin_allowed(self, origin: str) -> bool:
        """Whether pages from there may call."""
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


class Door:
    """Refuses what no client of ours sends, by its headers alone."""

    def __init__(self, app: ASGIApp, names: Names) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refused := self._refused(scope)) is not None:
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if twice := [name for name in _ONCE if len(headers.getlist(name)) > 1]:
            return refusal(400, f"the header {twice[0]} is there twice")
        host = headers.get("host", "")
        if not self._names.host_allowed(host):
            return refusal(421, f"this server does not answer to the host {host[:100]!r}: its owner gives --allow-host")
        origin = headers.get("origin")
        if origin is not None and not self._names.origin_allowed(origin):
            return refusal(403, f"pages of {origin[:100]!r} may not call: the server's owner gives --allow-origin")
        if scope["method"] not in METHODS:
            return refusal(405, "only GET, POST and DELETE are served", allow=", ".join(METHODS))
        return None


class Body:
    """Hands on the whole body of a request, read within bounds.

    Args:
        app: gets it.
        most: bytes of it. Where they may be many, this stands behind the authentication.
        discarded: bytes that are read and thrown away, so that a client that sends too much gets to read why.
    """

    def __init__(self, app: ASGIApp, most: int = MAX_BODY, discarded: int = MAX_DISCARDED) -> None:
        self._app = app
        self._most = most
        self._discarded = discarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or len(declared) > 12 or int(declared) > self._discarded:
            await _too_large(self._most, scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_S):
                messages = await _read(receive, self._most, self._discarded)
        except TimeoutError:
            await refusal(408, f"the request took longer than {BODY_S:g} s to come")(scope, receive, send)
            return
        if messages is None:
            await _too_large(self._most, scope, receive, send)
            return

        async def replay() -> Message:
            return messages.popleft() if messages else await receive()

        await self._app(scope, replay, send)


async def _read(receive: Receive, most: int, discarded: int) -> deque[Message] | None:
    """The body as one message, and what came in its place; none where it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return deque([message])
        part = message.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > discarded:
            return None
        else:
            parts.clear()
        if not message.get("more_body", False):
            body: Message = {"type": "http.request", "body": b"".join(parts), "more_body": False}
            return deque([body]) if size <= most else None


async def _too_large(most: int, scope: Scope, receive: Receive, send: Send) -> None:
    message = f"the request's body has more than {most:,} bytes: send a shorter program, or fewer inputs"
    await refusal(413, message, connection="close")(scope, receive, send)


@dataclass
class Bounds:
    """Holds each principal to its number of requests at once, and ends a stream when its token does."""

    app: ASGIApp
    now: Counter[tuple[str, bool]] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope["user"]
        assert isinstance(user, AuthenticatedUser)
        # the SDK refuses a header that is not as the body has it
        stream = scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == LISTEN
        key = principal_named(user.access_token), stream
        if self.now[key] >= (MAX_STREAMS if stream else MAX_CALLS):
            refused = refusal(429, "you have too many requests open: wait until some have ended", retry_after="2")
            await refused(scope, receive, send)
            return
        self.now[key] += 1
        try:
            if stream:
                await self._until(user.access_token.expires_at, scope, receive, send)
            else:
                await self.app(scope, receive, send)
        finally:
            self.now[key] -= 1
            if not self.now[key]:
                del self.now[key]

    async def _until(self, expires: int | None, scope: Scope, receive: Receive, send: Send) -> None:
        open_now = False

        async def watched(message: Message) -> None:
            nonlocal open_now
            open_now = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        with anyio.move_on_after(math.inf if expires is None else max(0.0, expires - time.time())):
            await self.app(scope, receive, watched)
        if open_now:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def origins_of(given: Iterable[str]) -> frozenset[str]:
    """Origins as browsers send them; a slash at the end does no harm."""
    return frozenset(each.rstrip("/") for each in given)


def cors_of(names: Names) -> dict[str, Any]:
    """What Starlette's CORS middleware takes, so that allowed pages may read the answers."""
    local = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
    return {
        "allow_origins": sorted(names.origins),
        "allow_origin_regex": local if names.local_pages else None,
        "allow_methods": ["GET", "POST", "DELETE"],
        "allow_headers": ["*"],
        "expose_headers": ["Mcp-Session-Id", "WWW-Authenticate"],
        "max_age": 600,
    }


_EXACT = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))


def exact_url(url: str) -> AnyHttpUrl:
    """The URL, without a slash that it did not have.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return _EXACT.validate_python(url)
