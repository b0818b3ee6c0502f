"""What the messages to a server say of our trace: what is carried (:mod:`atc.trace_context`), and nothing else.

The SDK writes the current trace of whoever calls into ``_meta`` of each request (SEP-414), with its baggage. A server
gets that only where telemetry is on, and the baggage only where it was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

from opentelemetry import propagate  # comes with the SDK

from atc.trace_context import carried


@asynccontextmanager
async def naming_our_trace(
    transport: AbstractAsyncContextManager[tuple[Any, Any]],
) -> AsyncIterator[tuple[Any, _Outgoing]]:
    """The same transport, whose messages name what is carried."""
    async with transport as (incoming, outgoing):
        yield incoming, _Outgoing(outgoing)


class _Outgoing:
    """The stream of messages to a server. The SDK sends each in the context of the call that it belongs to."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: Any) -> None:
        params = getattr(item.message, "params", None)
        if isinstance(params, dict):
            _name(params)
        await self._inner.send(item)

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, traceback)


def _name(params: dict[str, Any]) -> None:
    """Let the ``_meta`` of a message name what is carried."""
    headers, before = carried(), params.get("_meta") or {}
    meta = {**headers, **before}  # what the SDK wrote stays: where it has a span of its own, that is between
    for field in propagate.get_global_textmap().fields | {"traceparent", "tracestate", "baggage"}:
        if not headers or (field == "baggage" and field not in headers):
            meta.pop(field, None)
    if meta == before:
        return
    if meta:
        params["_meta"] = meta
    else:
        params.pop("_meta", None)
