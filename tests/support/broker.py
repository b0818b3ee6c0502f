"""A broker over some tools, and tools that remember their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from atc._host.redaction import Redactor
from atc.calls.approval import Approval
from atc.calls.broken_tools import Alike, nothing_alike
from atc.calls.broker import Broker, CallPolicy
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import Journal
from atc.result import Effect
from atc.tools.tool import Tool, Toolset

READ, WRITE, UNKNOWN = Effect.READ, Effect.WRITE, Effect.UNKNOWN


class House:
    """A broker over some tools, and all that it told."""

    def __init__(
        self,
        *tools: Tool,
        secrets: tuple[str, ...] = (),
        approve: Any = "always",
        journal: Journal | None = None,
        alike: Alike = nothing_alike,
        **policy: Any,
    ) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.journal = journal or Journal()
        self.journal.begin_attempt()
        self.broker = Broker(
            tools=Toolset(tools),
            journal=self.journal,
            emit=lambda kind, data: self.events.append((kind, data)),
            policy=CallPolicy(**{"retry_wait_s": 0.001, **policy}),
            approval=Approval(approve),
            redactor=Redactor(secrets, {}),
            alike=alike,
        )
        self.asked = 0

    async def acall(self, tool: str, /, **arguments: Any) -> CallReply:
        self.asked += 1
        return await self.broker.call(CallRequest(self.asked, tool, arguments, 1))

    def call(self, tool: str, /, **arguments: Any) -> CallReply:
        return asyncio.run(self.acall(tool, **arguments))

    @property
    def last(self) -> Any:
        return self.broker.calls[-1]


def never(_: Any) -> Any:
    raise AssertionError("the tool was called")


def counted(value: Any = "ok") -> tuple[list[Any], Callable[[dict[str, Any]], Any]]:
    seen: list[Any] = []

    def function(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        if isinstance(value, Exception):
            raise value
        return value

    return seen, function
