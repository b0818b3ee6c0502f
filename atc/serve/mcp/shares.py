"""What one principal may have at once, so that others find room: requests, streams, sessions of the older protocol."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atc.serve.mcp.client import principal_named
from atc.serve.request_guard import Refusal

MAX_CALLS, MAX_STREAMS = 32, 32
"""Requests of one principal at once, and streams that it holds open to be told things."""
LISTEN = "subscriptions/listen"


@dataclass
class Bounds:
    """Holds each principal to its number of requests at once, and ends a stream when its token does.

    It raises :class:`atc.serve.request_guard.Refusal` for one too many.
    """

    app: ASGIApp
    now: Counter[tuple[str, bool]] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope["user"]
        assert isinstance(user, AuthenticatedUser)
        # the SDK refuses a header that is not as the body has it
        stream = scope["method"] == "GET" or Headers(scope=scope).get("mcp-method") == LISTEN
        key = principal_named(user.access_token), stream
        if self.now[key] >= (MAX_STREAMS if stream else MAX_CALLS):
            text = "you have too many requests open: wait until some have ended"
            raise Refusal(429, "requests", text, retry_after=2)
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

    Args:
        manager: serves the requests.
        ending: whether no more sessions are opened.
        idle_s: seconds after which the manager ends a session.
    """

    manager: StreamableHTTPSessionManager
    ending: Callable[[], bool]
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
        elif self.ending():
            raise Refusal(503, "ending", "the server ends: try again in a minute", retry_after=60)
        elif scope["method"] != "POST":
            raise Refusal(400, "session", "the header Mcp-Session-Id is missing")
        elif await self._room(principal, scope):
            await self._opening(principal, scope, receive, send)
        else:
            text = f"you have {MAX_SESSIONS_EACH} sessions in use: end one"
            raise Refusal(429, "sessions", text, retry_after=f"{UNUSED_S:.0f}")

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
        """Forget the sessions that the manager has ended: it does so without a word."""
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
