"""What became of the HTTP requests of one call to a server, on a client that bounds what it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2

from atc._host.trace_context import carried

BROKEN = 599
"""The status that stands for a request without an answer; the SDK's transport would else end with it as a whole."""

NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


@dataclass
class Exchange:
    """What became of the HTTP requests that were made for one call.

    Attributes:
        status: status of the last answer; ``None`` if none came.
        kind: its content type.
        problem: why there is no answer, or none that can be used.
    """

    status: int | None = None
    kind: str = ""
    problem: Exception | None = None


EXCHANGE: ContextVar[Exchange | None] = ContextVar("atc_mcp_exchange", default=None)
"""Set by whoever makes a call; the SDK makes the request in a copy of the caller's context."""


class TooLarge(httpx2.StreamError):
    """An answer is over its limit."""


class Unreadable(httpx2.StreamError):
    """An answer broke off, or is compressed though that was not asked for."""


class BoundedClient(httpx2.AsyncClient):
    """A client that bounds its answers. A problem is recorded in the exchange, and ends that request alone."""

    def __init__(self, max_bytes: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._max_bytes = max_bytes

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        request.headers.update(carried())
        exchange = EXCHANGE.get() or Exchange()
        exchange.status, exchange.kind, exchange.problem = None, "", None
        try:
            response = await super().send(request, **options)
        except (httpx2.TransportError, httpx2.InvalidURL, TooLarge) as error:
            exchange.problem = error
            return httpx2.Response(BROKEN, request=request)
        exchange.status, exchange.kind = response.status_code, response.headers.get("content-type", "")[:100]
        if isinstance(response.stream, httpx2.AsyncByteStream):
            events = exchange.kind.lower().startswith("text/event-stream")  # each event of these is bounded by the SDK
            packed = response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")
            response.stream = BoundedStream(response.stream, None if events else self._max_bytes, packed, exchange)
        return response


class BoundedStream(httpx2.AsyncByteStream):
    """An answer that ends where it gets too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None, packed: bool, exchange: Exchange) -> None:
        self._inner, self._limit, self._packed, self._exchange = inner, limit, packed, exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            if self._packed:
                raise Unreadable("it is compressed, which was not asked for")
            async for chunk in self._inner:
                size += len(chunk)
                if self._limit is not None and size > self._limit:
                    raise TooLarge(f"it has more than {self._limit:,} bytes")
                yield chunk
        except httpx2.StreamError as error:
            self._exchange.problem = error
            raise
        except httpx2.TransportError as error:
            self._exchange.problem = error
            raise Unreadable(f"it broke off ({type(error).__name__})") from None

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Bounds every answer, also those that only the SDK reads."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream, self._max_bytes, False, Exchange())
        return response
