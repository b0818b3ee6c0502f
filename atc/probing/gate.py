"""What probing may touch, and how much of it: which tools are called at all, and the budgets of every single call.

The gate stands at the transport, behind the broker: a program that a model wrote cannot talk its way past it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from atc.errors import CallRefused, ToolError
from atc.execution.canonical import canonical
from atc.tools.protocol import Effect, Protocol
from atc.tools.tool import Toolset, Transport

TELLTALES = frozenset({
    "activate", "add", "approve", "archive", "assign", "ban", "book", "buy", "cancel", "charge", "clear", "close",
    "commit", "confirm", "create", "deactivate", "delete", "deploy", "disable", "drop", "edit", "enable", "execute",
    "follow", "grant", "import", "insert", "install", "invite", "join", "kick", "kill", "launch", "leave", "like",
    "lock", "login", "logout", "merge", "modify", "move", "mute", "open", "order", "patch", "pay", "pin", "post",
    "publish", "purchase", "purge", "put", "reboot", "refund", "register", "reject", "remove", "rename", "replace",
    "reserve", "reset", "restart", "restore", "resume", "revoke", "rotate", "run", "save", "send", "set", "share",
    "shutdown", "start", "stop", "store", "submit", "subscribe", "suspend", "sync", "terminate", "transfer", "trigger",
    "unlock", "unsubscribe", "update", "upload", "upsert", "vote", "wipe", "withdraw", "write",
})  # fmt: skip
"""Verbs in the name of a tool that says it only reads: it is not believed without a word of the user."""
REFUSED_BY_US = ("budget", "stopped")
"""Statuses of calls that were not made."""


@dataclass(frozen=True)
class Budget:
    """How much probing may cost the service. Every try counts, those that the broker repeats too.

    Attributes:
        calls_a_tool: calls of one tool.
        calls_a_minute: calls of all tools in any 60 s; more wait.
        calls: calls of all tools.
        response_bytes: bytes of all responses together, as JSON.
    """

    calls_a_tool: int = 16
    calls_a_minute: int = 300
    calls: int = 2_000
    response_bytes: int = 50_000_000


def why_not(protocol: Protocol, allowed: Iterable[str] = ()) -> str:
    """Why a tool is not called; empty where it may be.

    Args:
        protocol: what is known of it.
        allowed: shell patterns of the tools with effects that the user lets probing call.
    """
    if any(fnmatchcase(protocol.name, pattern) for pattern in allowed):
        return ""
    if protocol.effect is not Effect.READ:
        return f"its effect is {protocol.effect.value}, and only reads are called: --allow-effects {protocol.name}"
    verbs = {words[0].lower() for name in (protocol.source.operation, protocol.name) if (words := _verbs(name))}
    if told := sorted(TELLTALES & verbs):
        return f"it says that it only reads, but its name says {told[0]!r}: --allow-effects {protocol.name}"
    return ""


def _verbs(name: str) -> list[str]:
    """The words of a name, without the method that an operation without a name goes by."""
    words = _words(name)
    return words[1:] if words[:1] in (["GET"], ["HEAD"]) else words


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", name) if word]


@dataclass
class Meter:
    """Counts what is spent, and says no when it is. One for all tools of a probing."""

    budget: Budget
    calls: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    stopped: dict[str, str] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    def left(self, tool: str) -> int:
        """Calls that one tool may still be sent."""
        budget = self.budget
        return max(0, min(budget.calls_a_tool - self.calls.get(tool, 0), budget.calls - self.total))

    async def admit(self, tool: str, place: str) -> None:
        """Let one call through, when its turn has come.

        Raises:
            CallRefused: a budget is used up, or the service has refused us for good.
        """
        if place in self.stopped:
            raise CallRefused(f"not called: {self.stopped[place]}", status="stopped")
        if self.bytes >= self.budget.response_bytes:
            raise CallRefused(f"probing has read its {self.budget.response_bytes:,} bytes", status="budget")
        if self.total >= self.budget.calls:
            raise CallRefused(f"probing has made its {self.budget.calls:,} calls", status="budget")
        if self.calls.get(tool, 0) >= self.budget.calls_a_tool:
            raise CallRefused(f"probing has made its {self.budget.calls_a_tool} calls of {tool}", status="budget")
        self.calls[tool] = self.calls.get(tool, 0) + 1
        await self._turn()

    async def _turn(self) -> None:
        while True:
            now = time.monotonic()
            while self._recent and now - self._recent[0] >= 60:
                self._recent.popleft()
            if len(self._recent) < self.budget.calls_a_minute:
                self._recent.append(now)
                return
            await asyncio.sleep(60 - (now - self._recent[0]))

    def refused(self, place: str, error: ToolError) -> None:
        """Remember a service that does not let us in: it is asked nothing more."""
        if error.status in (401, 403):
            self.stopped[place] = f"the service answered {error.status}: it wants a credential (--auth)"


@dataclass(frozen=True, eq=False)
class Metered:
    """A transport that makes no call twice: what was answered or refused once is answered so again, at no cost.

    Only failures that pass (``transient``) may be tried again, as the broker does.
    """

    inner: Transport
    tool: str
    place: str
    meter: Meter
    answered: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, ToolError] = field(default_factory=dict)
    making: dict[str, asyncio.Lock] = field(default_factory=dict)

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return self.inner.opened()

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        key = canonical(arguments)
        async with self.making.setdefault(key, asyncio.Lock()):
            if key in self.answered:
                return self.answered[key]
            if key in self.refused:
                raise self.refused[key]
            await self.meter.admit(self.tool, self.place)
            try:
                value = await self.inner(arguments)
            except ToolError as error:
                self.meter.refused(self.place, error)
                if not error.transient:
                    self.refused[key] = error
                raise
            self.meter.bytes += len(json.dumps(value, default=str))
            self.answered[key] = value
            return value


def gated(tools: Toolset, meter: Meter, allowed: Iterable[str] = ()) -> tuple[Toolset, dict[str, str]]:
    """The tools that may be called, metered; and of the others, why not."""
    allowed, kept, refused = tuple(allowed), [], {}
    for tool in tools.values():
        why = why_not(tool.protocol, allowed) or ("" if tool.transport else "it has no transport: it can only be shown")
        if why or tool.transport is None:
            refused[tool.name] = why
            continue
        place = tool.protocol.source.location or tool.name
        kept.append(replace(tool, transport=Metered(tool.transport, tool.name, place, meter)))
    return Toolset(kept), refused
