"""A program can ask, for the next program: ``find_tools`` looks among the tools that were not offered, and
``tool_docs`` gives the whole documents of tools that were shown in part. :mod:`atc.run.look` is the third.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
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
from atc.tools.tool import Tool, Toolset, Transport

NAME = "find_tools"
DOCS = "tool_docs"
MAX_ASKS = 5
"""Programs of a run that only ask, or look, and cost no revision."""
DOCS_TOKENS = 2_000
"""Tokens of all documents that one call gives, where the program sets no limit."""
AT_ONCE, MAX_SEARCHES = 5, 5
"""Tools that one search finds, and searches of a run."""
_PROTOCOL = Protocol(
    name=NAME,
    description="Look for tools that are not listed here, by what they must do. The next program is shown them.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what the tool must do, in general words"}},
        "required": ["query"],
    },
    returns={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "call": {"type": "string"}},
            "required": ["name", "call"],
        },
    },
    effect=Effect.READ,
)

_DOCS_PROTOCOL = Protocol(
    name=DOCS,
    description="The whole documents of tools that are listed or shown in part. They are shown to the next program.",
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


class Finder(Transport):
    """Answers ``find_tools`` in one run. It is called by the broker like any tool: counted, traced, replayed.

    Args:
        shown: the names of the tools whose documents the model has already.
        search: the likeliest tools for a query, so many at most.

    Attributes:
        searches: that were made.
    """

    def __init__(self, shown: Collection[str], search: Search) -> None:
        self._known, self._search = set(shown), search
        self._found: dict[str, Tool] = {}
        self.searches = 0
        self.tool = Tool(_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """Find, and remember what is new; the next prompt has the documents.

        Raises:
            ToolError: this run has searched as often as it may.
        """
        if self.searches >= MAX_SEARCHES:
            raise ToolError(
                f"this run has searched {MAX_SEARCHES} times already: use what it found", status="too_many_searches"
            )
        self.searches += 1
        likely = await self._search(str(arguments["query"]), AT_ONCE + len(self._known))
        new = [tool for name, tool in likely.items() if name not in self._known][:AT_ONCE]
        for tool in new:
            self._known.add(tool.name)
            self._found[tool.name] = tool
        from atc.catalogue.tool_list import line_of  # few runs search

        return [{"name": tool.name, "call": line_of(tool.protocol)} for tool in new]

    def take(self) -> Toolset:
        """Return what was found since the last time."""
        found, self._found = self._found, {}
        return Toolset(found.values())


class Docs(Transport):
    """Answers ``tool_docs`` in one run, through the broker like any tool."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
        self._asked: list[str] = []
        self._shown: set[str] = set()
        self.tool = Tool(_DOCS_PROTOCOL, self)

    async def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the stubs that fit in the budget, whole, in the order asked; the names of the others.

        Raises:
            ToolError: the run has none of these tools.
        """
        tools, left = self._tools, int(arguments.get("budget", DOCS_TOKENS))
        names = [name for name in dict.fromkeys(arguments["names"]) if name in tools]
        if not names:
            raise ToolError(f"{DOCS} takes names of tools, as they are listed", status="not_found")
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

    def take(self) -> list[str]:
        """Return the tools that were asked for since the last time, and not before."""
        new = [name for name in dict.fromkeys(self._asked) if name not in self._shown]
        self._asked = []
        self._shown.update(new)
        return new


def finder_for(shown: Toolset, catalogue: Catalogue, listed: Collection[str] = ()) -> Finder | None:
    """Looks among the tools that are not shown, without the model; ``None`` where all are shown or listed."""
    tools = catalogue.tools
    if NAME in tools or all(name in shown or name in listed for name in tools):
        return None

    async def search(query: str, limit: int) -> Toolset:
        return (await catalogue.find(query, limit, _nobody)).tools

    return Finder(shown, search)


def docs_for(tools: Toolset) -> Docs | None:
    """Gives the documents of a run's tools; ``None`` where a user's tool has its name."""
    return None if DOCS in tools else Docs(tools)


def asking_tools(tools: Toolset) -> list[str]:
    """Return which of these are ``find_tools``, ``tool_docs``, ``look``, ``ask_user``, and no user's tools."""
    ours = (_PROTOCOL, _DOCS_PROTOCOL)
    asking = [own.name for own in ours if own.name in tools and tools[own.name].protocol is own]
    asking += [LOOK] if is_look(tools.get(LOOK)) else []
    return [*asking, ASK_USER] if is_ask_user(tools.get(ASK_USER)) else asking


async def _nobody(*_: Any) -> Any:
    raise ModelUnavailable("a program's search is not planned")
