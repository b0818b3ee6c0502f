"""``find_tools`` in a program looks among the tools that were not offered; what it finds, the next program may call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from atc.errors import ModelUnavailable, ToolError
from atc.retrieval.retriever import Retriever
from atc.tools.protocol import Effect, Protocol
from atc.tools.stubs import render_stub
from atc.tools.tool import Tool, Toolset

NAME = "find_tools"
AT_ONCE, IN_ALL = 5, 20
"""Tools that one call finds, and that a run may add to what it was offered."""
_PROTOCOL = Protocol(
    name=NAME,
    description="Look for tools that are not listed here, by what they must do. Only the next program can call them.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what the tool must do, in general words"}},
        "required": ["query"],
    },
    returns={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "stub": {"type": "string"}},
            "required": ["name", "stub"],
        },
    },
    effect=Effect.READ,
)

Search = Callable[[str, int], Awaitable[Toolset]]


class Finder:
    """Answers ``find_tools`` in one run. It is called by the broker like any tool: counted, traced, replayed.

    Args:
        offered: what the model is shown already.
        search: the likeliest tools for a query, so many at most.
    """

    def __init__(self, offered: Toolset, search: Search) -> None:
        self._known, self._search = set(offered), search
        self._found: dict[str, Tool] = {}
        self._added = 0
        self.tool = Tool(_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """The transport: find, and remember what is new.

        Raises:
            ToolError: this run has added as many tools as it may.
        """
        room = IN_ALL - self._added
        if room <= 0:
            raise ToolError(f"this run has added {IN_ALL} tools already: use those", status="too_many_tools")
        likely = await self._search(str(arguments["query"]), AT_ONCE + len(self._known))
        new = [tool for name, tool in likely.items() if name not in self._known][: min(AT_ONCE, room)]
        for tool in new:
            self._known.add(tool.name)
            self._found[tool.name] = tool
        self._added += len(new)
        return [{"name": tool.name, "stub": render_stub(tool.protocol)} for tool in new]

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        return None

    def take(self) -> Toolset:
        """What was found since the last time."""
        found, self._found = self._found, {}
        return Toolset(found.values())


def finder_for(offered: Toolset, tools: Toolset, retriever: Retriever) -> Finder | None:
    """Looks among the tools that are not offered, without the model; ``None`` where there are none."""
    if len(offered) == len(tools) or NAME in tools:
        return None

    async def search(query: str, limit: int) -> Toolset:
        return (await retriever.retrieve(query, tools, limit, _nobody)).tools

    return Finder(offered, search)


async def _nobody(*_: Any) -> Any:
    raise ModelUnavailable("a program's search is not planned")
