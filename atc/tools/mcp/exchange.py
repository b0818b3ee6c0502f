"""What became of the HTTP requests of one call to a server, on a client that bounds what it reads.

The SDK takes whatever comes on a call's stream for its answer, also under another id. So answers are looked at first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic import BaseModel, ValidationError

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
    """What became of the HTTP requests that were made for one call, or for a conversation.

    Attributes:
        id: of the call's own message; ``None``: this is no call.
        status: status of the last answer to that message, or to any request where this is no call; ``None``: none came.
        kind: its content type.
        retry_after: what the service asks to wait, as it says it.
        problem: why there is no answer, or none that can be used.
        code: of the JSON-RPC error that answers the message by its id.
        strange: what an answer under another id says; ``None``: there was none.
    """

    id: int | str | None = None
    status: int | None = None
    kind: str = ""
    retry_after: str = ""
    problem: Exception | None = None
    code: int | None = None
    strange: str | None = None

    def sends(self, request: httpx2.Request) -> bool:
        """Whether a request bears the call's own message. Others are of the call too: a reply to the server, say."""
        return self.id is None or (request.method == "POST" and _Head.of(request.content).method == "tools/call")

    def look_at(self, message: str | bytes) -> None:
        """Note an answer by its id. What is no message at all is the SDK's to tell."""
        head = _Head.of(message)
        if self.id is None or head.method is not None:
            return
        if str(head.id) != str(self.id):
            self.strange = str((head.error or {}).get("message", "a result"))
        elif head.error is not None:
            self.code = head.error.get("code")


class _Head(BaseModel):
    id: int | str | None = None
    method: str | None = None
    error: dict[str, Any] | None = None

    @classmethod
    def of(cls, message: str | bytes) -> _Head:
        try:
            return cls.model_validate_json(message)
        except ValidationError:
            return cls(method="none")


EXCHANGE: ContextVar[Exchange | None] = ContextVar("atc_mcp_exchange", default=None)
"""Set by whoever makes a call; the SDK makes the request in a copy of the caller's context."""


class TooLarge(httpx2.StreamError):
    """An answer is over its limit."""


class Unreadable(httpx2.StreamError):
    """An answer broke off, or is compressed though that was not asked for."""


class BoundedClient(httpx2.AsyncClient):
    """A client that bounds its answers. What becomes of a request is recorded in the exchange, and ends it alone."""

    def __init__(self, max_bytes: int, **settings: Any) -> None:
        super().__init__(**settings)
        self._max_bytes = max_bytes

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        request.headers.update(carried())
        call = EXCHANGE.get() or Exchange()
        own = call.sends(request)
        exchange = call if own else Exchange(call.id)
        exchange.status, exchange.kind, exchange.problem = None, "", None
        try:
            response = await super().send(request, **options)
            exchange.status, exchange.kind = response.status_code, response.headers.get("content-type", "")[:100]
            exchange.retry_after = response.headers.get("retry-after", "")[:100]
            return await self._looked_at(response, exchange, call)
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.StreamError) as error:
            exchange.problem = error
            return httpx2.Response(BROKEN, request=request)

    async def _looked_at(self, response: httpx2.Response, exchange: Exchange, call: Exchange) -> httpx2.Response:
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            return response
        kind = exchange.kind.lower()
        events = kind.startswith("text/event-stream")  # each event of these is bounded by the SDK
        packed = response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")
        response.stream = BoundedStream(response.stream, None if events else self._max_bytes, packed, exchange)
        if call.id is None or not (events or (kind.startswith("application/json") and exchange is call)):
            return response
        if events:
            stream = _Events(httpx2.EventSource(response, self._max_bytes), call)
            status, headers = response.status_code, response.headers
            return httpx2.Response(status, headers=headers, stream=stream, request=response.request)
        try:
            call.look_at(await response.aread())
        finally:
            await response.aclose()
        if call.strange is not None and response.is_success:  # nobody waits for an answer under that id
            return httpx2.Response(BROKEN, request=response.request)
        return response


class _Events(httpx2.AsyncByteStream):
    """A stream of events as it came, each of whose messages was looked at."""

    def __init__(self, source: httpx2.EventSource, call: Exchange) -> None:
        self._source, self._call = source, call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._source:
            self._call.look_at(event.data)
            wait = "" if event.retry is None else f"retry: {event.retry}\n"
            data = "".join(f"data: {line}\n" for line in event.data.split("\n"))
            yield f"event: {event.event}\nid: {event.id}\n{wait}{data}\n".encode()

    async def aclose(self) -> None:
        await self._source.response.aclose()


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
