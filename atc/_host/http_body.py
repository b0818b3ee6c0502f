"""The bodies of HTTP answers, within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from atc.errors import ToolError

if TYPE_CHECKING:
    import httpx

_GZIP_OR_ZLIB = 47
ENCODINGS = "gzip, deflate"
"""What is asked for with ``Accept-Encoding``."""


class TooLarge(Exception):
    """A body is over its limit. Never leaves the transport."""


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes, decompressing in steps so that no bomb is ever unpacked.

    Raises:
        TooLarge: the body is longer.
        ToolError: it is compressed in a way that was not asked for, or broken.
    """
    body, unpack = bytearray(), unpacker(response, limit)
    async for chunk in response.aiter_raw():
        body += unpack(chunk)
        if len(body) > limit:
            raise TooLarge
    return bytes(body)


def unpacker(response: httpx.Response, limit: int) -> Callable[[bytes], bytes]:
    """What turns the chunks of a body as they come into its content. Of one it makes at most one byte more than
    ``limit``: whoever counts sees that it is too long, and the rest is never unpacked.

    The encodings are those of :data:`ENCODINGS`, one at a time: several of them unpack a small answer a million times.

    Raises:
        ToolError: it is compressed in another way; the function: it is broken.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return bytes
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolError(
            f"the answer is compressed as {encoding[:40]!r}, which cannot be read",
            outcome="unknown",
            cause="bad_response",
        )
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)

    def unpacked(chunk: bytes) -> bytes:
        try:
            return inflater.decompress(chunk, limit + 1)
        except zlib.error:
            raise ToolError("the answer's compression is broken", outcome="unknown") from None

    return unpacked
