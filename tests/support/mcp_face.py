"""ATC's MCP server in this process, a client of the SDK before it, and a user who answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from atc import Tool, Toolset
from atc.result import Effect
from atc.serve.mcp.gateway import Gateway, Options
from atc.serve.mcp.server import Face
from atc.settings import Settings
from tests.support.inline import Inline
from tests.support.tools import make_tool

LEGACY, MODERN = "legacy", "2026-07-28"
TEXT = {"type": "string"}
both_eras = pytest.mark.parametrize("mode", [LEGACY, MODERN])

ACCEPT = types.ElicitResult(action="accept", content={})
DECLINE = types.ElicitResult(action="decline")
Answering = types.ElicitResult | Callable[[types.ElicitRequestFormParams], Any]


@dataclass
class Book:
    """A tool with effects, and what it did."""

    lines: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def write(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.failure is not None:
            raise self.failure
        self.lines.append(arguments["text"])
        return {"lines": len(self.lines)}

    @property
    def tool(self) -> Tool:
        return make_tool("append_line", self.write, Effect.WRITE, required=("text",), text=TEXT)


@dataclass
class User:
    """Who answers a client's questions: each with the next answer, the last one for all that follow."""

    answers: Sequence[Answering] = (ACCEPT,)
    seen: list[types.ElicitRequestFormParams] = field(default_factory=list)

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> Any:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.seen.append(params)
        answer = self.answers[min(len(self.seen), len(self.answers)) - 1]
        return answer if isinstance(answer, types.ElicitResult) else await answer(params)


@asynccontextmanager
async def gateway_of(
    *tools: Tool, jail: bool = False, options: Options | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway over tools; programs run in a thread where no ``jail`` is asked for."""
    gateway = Gateway(Toolset(tools), Settings.load(**settings), options=options)
    if not jail:
        gateway.sandbox = Inline()
    try:
        yield gateway
    finally:
        await gateway.aclose()


@asynccontextmanager
async def connected(
    gateway: Gateway, mode: str, user: User | None = None, name: str = "a client"
) -> AsyncIterator[Client]:
    """A client of a gateway; without a user it says that it cannot ask one."""
    info = types.Implementation(name=name, version="1")
    face = Face(gateway).server
    async with Client(face, mode=mode, elicitation_callback=user, client_info=info, cache=None) as client:
        yield client


async def run(client: Client, source: str, **arguments: Any) -> dict[str, Any]:
    """The report of a program."""
    result = await client.call_tool("run_program", {"source": source, **arguments})
    assert isinstance(result.structured_content, dict)
    return result.structured_content
