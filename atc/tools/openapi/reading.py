"""A response's body, read within a limit."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx

from atc.errors import ToolError

_GZIP_OR_ZLIB = 47


class TooLarge(Exception):
    """A body is over its limit. Never leaves the transport."""


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes, decompressing in steps so that no bomb is ever unpacked.

    Raises:
        TooLarge: the body is longer.
        ToolError: it is compressed in a way that was not asked for, or broken.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return await _collect(response.aiter_raw(), limit)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"the answer is compressed as {encoding[:40]!r}, which cannot be read",
            outcome="unknown",
            cause="bad_response",
        )
    return await _collect(_inflated(response.aiter_raw(), limit), limit)


async def _collect(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise TooLarge
    return bytes(body)


async def _inflated(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        async for chunk in chunks:
            yield inflater.decompress(chunk, limit + 1)
            if inflater.unconsumed_tail:
                raise TooLarge
    except zlib.error:
        raise ToolError("the answer's compression is broken", outcome="unknown") from None
