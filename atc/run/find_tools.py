"""A program can ask, for the next program: ``find_tools`` looks among the tools that were not offered, and
``tool_docs`` gives the whole documents of tools that were shown in part. :mod:`atc.run.look` is the third.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from atc.catalogue.catalogue import Catalogue
from atc.errors import ModelUnavailable, ToolError
from atc.models.base import bounded_tokens
from atc.result import Effect
from atc.run.ask_user import NAME as ASK_USER
from atc.run.ask_user import is_ask_user
from atc.run.look import NAME as LOOK
from atc.run.look import is_look
from atc.schemas.protocol import Protocol
from atc.tools.paging import ALL_PAGES
from atc.tools.stubs import render_stub
from atc.tools.tool import Tool, Toolset

NAME = "find_tools"
DOCS = "tool_docs"
MAX_ASKS = 5
"""Programs of a run that only ask, or look, and cost no revision."""
DOCS_TOKENS = 2_000
"""Tokens of all documents that one call gives, where the program sets no limit."""
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

_DOCS_PROTOCOL = Protocol(
    name=DOCS,
    description="The whole documents of tools that are shown in part here. They are shown to the next program.",
    parameters={
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "names of tools"},
            "budget": {
                "type": "integer", "minimum": 1, "maximum": 100_000, "default": DOCS_TOKENS,
                "description": "tokens that they may take together",
            },
        },
        "required": ["names"],
    },
    returns={
        "type": "object",
        "properties": {
            "stubs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "stub": {"type": "string"}},
                    "required": ["name", "stub"],
                },
            },
            "over_budget": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["stubs", "over_budget"],
    },
    effect=Effect.READ,
)  # fmt: skip

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
        self._reserved = 0  # for searches under way, which may add so many
        self._ended = asyncio.Event()  # of the next search that ends
        self.tool = Tool(_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """Find, and remember what is new.

        Raises:
            ToolError: this run has added as many tools as it may.
        """
        room = await self._reserve()
        try:
            likely = await self._search(str(arguments["query"]), AT_ONCE + len(self._known))
            new = [tool for name, tool in likely.items() if name not in self._known][:room]
            for tool in new:
                self._known.add(tool.name)
                self._found[tool.name] = tool
            self._added += len(new)
        finally:
            self._reserved -= room
            self._ended.set()
            self._ended = asyncio.Event()
        return [{"name": tool.name, "stub": render_stub(tool.protocol)} for tool in new]

    async def _reserve(self) -> int:
        while (room := min(AT_ONCE, IN_ALL - self._added - self._reserved)) <= 0:
            if self._added >= IN_ALL:
                raise ToolError(f"this run has added {IN_ALL} tools already: use those", status="too_many_tools")
            await self._ended.wait()
        self._reserved += room
        return room

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        """Return nothing: there is nothing to open."""
        return None

    def take(self) -> Toolset:
        """Return what was found since the last time."""
        found, self._found = self._found, {}
        return Toolset(found.values())


class Docs:
    """Answers ``tool_docs`` in one run, through the broker like any tool.

    Attributes:
        offered: the tools that a program is offered now.
    """

    def __init__(self, offered: Toolset) -> None:
        self.offered = offered
        self._asked: list[str] = []
        self._shown: set[str] = set()
        self.tool = Tool(_DOCS_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the stubs that fit in the budget, whole, in the order asked; the names of the others.

        Raises:
            ToolError: none of the tools is offered.
        """
        tools, left = self.offered, int(arguments.get("budget", DOCS_TOKENS))
        names = [name for name in dict.fromkeys(arguments["names"]) if name in tools and name != DOCS]
        if not names:
            raise ToolError(f"{DOCS} takes names of the tools that are listed", status="not_found")
        stubs, over = [], []
        for name in names:
            stub = render_stub(tools[name].protocol, pages=ALL_PAGES not in tools)
            if (tokens := bounded_tokens(stub)) > left:
                over.append(name)
                continue
            left -= tokens
            stubs.append({"name": name, "stub": stub})
        self._asked += names  # what is over the budget gets more room in the prompt all the same
        return {"stubs": stubs, "over_budget": over}

    def opened(self) -> AbstractAsyncContextManager[Any] | None:
        """Return nothing: there is nothing to open."""
        return None

    def take(self) -> list[str]:
        """Return the tools that were asked for since the last time, and not before."""
        new = [name for name in dict.fromkeys(self._asked) if name not in self._shown]
        self._asked = []
        self._shown.update(new)
        return new


def finder_for(offered: Toolset, catalogue: Catalogue) -> Finder | None:
    """Looks among the tools that are not offered, without the model; ``None`` where there are none."""
    tools = catalogue.tools
    if NAME in tools or all(name in offered for name in tools):
        return None

    async def search(query: str, limit: int) -> Toolset:
        return (await catalogue.find(query, limit, _nobody)).tools

    return Finder(offered, search)


def docs_for(offered: Toolset, tools: Toolset) -> Docs | None:
    """Gives the documents of the tools that are offered; ``None`` where a user's tool has its name."""
    return None if DOCS in tools else Docs(offered)


def asking_tools(tools: Toolset) -> list[str]:
    """Return which of these are ``find_tools``, ``tool_docs``, ``look``, ``ask_user``, and no user's tools.

    Args:
        tools: among which they are sought.
    """
    ours = (_PROTOCOL, _DOCS_PROTOCOL)
    asking = [own.name for own in ours if own.name in tools and tools[own.name].protocol is own]
    asking += [LOOK] if is_look(tools.get(LOOK)) else []
    return [*asking, ASK_USER] if is_ask_user(tools.get(ASK_USER)) else asking


async def _nobody(*_: Any) -> Any:
    raise ModelUnavailable("a program's search is not planned")
