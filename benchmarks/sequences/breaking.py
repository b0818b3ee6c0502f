"""Ways in which a tool breaks, as a service does: it is down, it refuses, it answers otherwise, or it is slow."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from atc.errors import ToolError
from atc.tools.tool import Tool, Transport

Way = Literal["down", "refused", "changed", "slow"]
"""``down``: the service answers 503, or 500 where only this operation fails. ``refused``: it answers 403, and no other
arguments help. ``changed``: every key of its response has another name, against its document. ``slow``: no answer."""
WAYS: tuple[Way, ...] = get_args(Way)

SILENT_S = 30.0
"""Seconds for which a slow tool says nothing: more than a benchmark waits for one call."""


@dataclass(frozen=True)
class Breaking:
    """The transport of a tool that is broken, with the errors that a tool of an OpenAPI document gives.

    Only reads break, so nothing has been done where a call fails.

    Args:
        inner: the transport of the tool as it is.
        way: how it is broken.
        alone: whether the rest of its service answers.
    """

    inner: Transport
    way: Way
    alone: bool = False

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Answer as the broken service does.

        Raises:
            ToolError: the service is down, refuses, or said nothing for :data:`SILENT_S`.
        """
        if self.way == "down" and self.alone:
            raise ToolError("500 Internal Server Error", status=500, outcome="unknown")
        if self.way == "down":
            raise ToolError(
                "503 Service Unavailable", status=503, outcome="unknown", cause="unreachable", transient=True
            )
        if self.way == "refused":
            raise ToolError("403 Forbidden: this key may not call this operation", status=403, cause="credential")
        if self.way == "slow":
            await asyncio.sleep(SILENT_S)
            raise ToolError("504 Gateway Timeout", status=504, outcome="unknown", cause="unreachable", transient=True)
        return renamed(await self.inner(arguments))

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.inner.opened()


def renamed(value: Any) -> Any:
    """Give all keys of a value other names, as a new version of a service does."""
    if isinstance(value, dict):
        return {f"v2{key[:1].upper()}{key[1:]}": renamed(item) for key, item in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


def broken(tool: Tool, way: Way, *, alone: bool = False) -> Tool:
    """Break a tool.

    Args:
        tool: as it is; it has a transport.
        way: how it breaks.
        alone: whether the rest of its service answers.
    """
    assert tool.transport is not None  # what is shown only cannot break
    return replace(tool, transport=Breaking(tool.transport, way, alone))
