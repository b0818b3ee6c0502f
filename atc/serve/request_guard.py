"""What a request must be before anything of it is believed: the same for every HTTP server of ATC.

By its headers alone: each that counts is there once, and the host and the page that calls are allowed. Its body is read
within bytes and seconds. A server gives its names, and how it words a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_S = 10.0
"""Seconds in which a body must be there."""


class Refusal(Exception):
    """A request is refused.

    Args:
        status: the HTTP status.
        code: one word for programs and for metrics.
        message: what was wrong and what to do; never a token, a program or an argument.
        **headers: of the response, with ``_`` for each ``-``.
    """

    def __init__(self, status: int, code: str, message: str, **headers: str | int) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}


Answer = Callable[[Refusal], Response]
"""Words a refusal as the clients of a server read it."""


class AllowedNames(Protocol):
    """By which names a server may be called, and by which pages: against DNS rebinding."""

    def host_allowed(self, host: str) -> bool:
        """Whether the server answers to this ``Host``."""
        ...

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether pages from there may call it at this ``Host``."""
        ...


@dataclass(frozen=True)
class Rules:
    """What the headers of a request must be.

    Attributes:
        once: headers that may be there once.
        methods: that are served.
        names: by which the server may be called.
        host_advice: ends the refusal of a host; ``origin_advice`` that of a page.
    """

    once: Sequence[str]
    methods: Sequence[str]
    names: AllowedNames
    host_advice: str = ""
    origin_advice: str = ""

    def check(self, scope: Scope) -> None:
        """Raise a :class:`Refusal` where a request is not as the rules have it."""
        headers = Headers(scope=scope)
        if twice := [name for name in self.once if len(headers.getlist(name)) > 1]:
            raise Refusal(400, "bad_request", f"the header {twice[0]} is there twice")
        host = headers.get("host", "")
        if not self.names.host_allowed(host):
            text = f"this server does not answer to the host {host[:100]!r}{self.host_advice}"
            raise Refusal(421, "host", text)
        origin = headers.get("origin")
        if origin is not None and not self.names.origin_allowed(origin, host):
            raise Refusal(403, "origin", f"pages of {origin[:100]!r} may not call{self.origin_advice}")
        if scope["method"] not in self.methods:
            served = ", ".join(self.methods)
            raise Refusal(405, "method", f"the methods {served} are served", allow=served)


class RequestGuard:
    """Stands in front of an application and hands on the requests that keep the rules.

    A refusal that the application raises before its answer has begun is worded here, too.

    Args:
        app: gets them.
        rules: for their headers.
        answer: words a refusal.
    """

    def __init__(self, app: ASGIApp, rules: Rules, answer: Answer) -> None:
        self._app, self._rules, self._answer = app, rules, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._rules.check(scope)
            await self._app(scope, receive, send)
        except Refusal as refused:
            await self._answer(refused)(scope, receive, send)


class WholeBody:
    """Hands on a request once its whole body is there. Where a body may be large, it stands behind the authentication.

    Args:
        app: gets the request.
        most, discarded: as for :func:`read_body`, whose refusals it lets through.
    """

    def __init__(self, app: ASGIApp, most: int, discarded: int) -> None:
        self._app, self._most, self._discarded = app, most, discarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, self._most, self._discarded)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, replay, send)


async def read_body(scope: Scope, receive: Receive, most: int, discarded: int = 0) -> bytes:
    """Return the body of a request, read within :data:`BODY_S`.

    Args:
        most: bytes of it.
        discarded: bytes that are read and thrown away, so that a client that sends too much gets to read why.

    Raises:
        Refusal: it is too large or too slow, or was broken off.
    """
    too_long = f"the request's body has more than {most:,} bytes: send a shorter one"
    too_large = Refusal(413, "bad_request", too_long, connection="close")
    declared = Headers(scope=scope).get("content-length", "0")
    bound = max(most, discarded)
    if not declared.isascii() or not declared.isdigit() or len(declared) > 12 or int(declared) > bound:
        raise too_large
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refusal(400, "bad_request", "the request was broken off")
                part = message.get("body", b"")
                size += len(part)
                if size > bound:
                    raise too_large
                if size <= most:
                    body += part
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Refusal(408, "slow", f"the request took longer than {BODY_S:g} s to come") from None
    if size > most:
        raise too_large
    return bytes(body)
