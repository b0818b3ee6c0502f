"""Tools for tests: a protocol and a plain coroutine behind it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool

if TYPE_CHECKING:
    from benchmarks.environments import Episode

NUMBER = {"type": "integer"}


@dataclass(frozen=True)
class Behind:
    """A transport that calls a function with the arguments, waits for what it returns if that can be awaited."""

    function: Callable[[dict[str, Any]], Any]

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        value = self.function(arguments)
        return await value if inspect.isawaitable(value) else value

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None


def make_tool(
    name: str,
    function: Callable[[dict[str, Any]], Any] | None,
    effect: Effect = Effect.READ,
    *,
    required: tuple[str, ...] = (),
    returns: dict[str, Any] | None = None,
    **properties: Mapping[str, Any],
) -> Tool:
    """A tool whose arguments are ``properties`` (``n: integer`` if none are given)."""
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": dict(properties or {"n": NUMBER}),
        "required": list(required),
    }
    parameters["additionalProperties"] = False
    protocol = Protocol(name=name, description=f"{name} it.", parameters=parameters, returns=returns, effect=effect)
    return Tool(protocol, Behind(function) if function else None)


def call(episode: Episode, tool: str, **arguments: Any) -> Any:
    """What a tool of an episode answers."""
    transport = episode.tools[tool].transport
    assert transport is not None
    return asyncio.run(transport(arguments))
