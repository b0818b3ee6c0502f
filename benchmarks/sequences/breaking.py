"""Ways in which a tool breaks, as a service does: it is down, it refuses, it answers otherwise, or it is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from atc.errors import ToolError
from atc.tools.tool import Tool, Toolset, Transport

Way = Literal["down", "refused", "changed", "slow"]
"""``down``: it answers 503. ``refused``: it answers 403. ``changed``: every key of its answer has another name, against
its document. ``slow``: it does not answer."""
WAYS: tuple[Way, ...] = get_args(Way)

SILENT_S = 30.0
"""Seconds for which a slow tool says nothing: more than a benchmark waits for one call."""


@dataclass(frozen=True)
class Breaking:
    """The transport of a tool that is broken. Only reads are broken, so nothing has been done where it fails.

    Args:
        inner: the transport of the tool as it is.
        way: how it is broken.
    """

    inner: Transport
    way: Way

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        """Answer as the broken service does.

        Raises:
            ToolError: the service is down, refuses, or said nothing for :data:`SILENT_S`.
        """
        if self.way == "down":
            raise ToolError("503 Service Unavailable", status=503, outcome="refused")
        if self.way == "refused":
            raise ToolError("403 Forbidden: this key has no access to the operation", status=403, outcome="refused")
        if self.way == "slow":
            await asyncio.sleep(SILENT_S)
            raise ToolError("504 Gateway Timeout", status=504, outcome="unknown")
        return renamed(await self.inner(arguments))

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.inner.opened()


def renamed(value: Any) -> Any:
    """Give all keys of a value other names, as a new version of a service does."""
    if isinstance(value, dict):
        return {f"v2{key[:1].upper()}{key[1:]}": renamed(item) for key, item in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


def broken(tools: Toolset, ways: Mapping[str, Way]) -> Toolset:
    """Break some of the tools.

    Args:
        tools: as they are.
        ways: how each of those that are broken is, by its name.
    """
    return Toolset(_broken(tool, ways.get(tool.name)) for tool in tools.values())


def _broken(tool: Tool, way: Way | None) -> Tool:
    return tool if way is None or tool.transport is None else replace(tool, transport=Breaking(tool.transport, way))
