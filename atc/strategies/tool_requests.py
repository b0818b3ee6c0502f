"""The two tools by which a program asks something for the next one, in one run: when they are offered, and what they
bring. What they are is in :mod:`atc.strategies.find_tools`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from atc.errors import ModelError
from atc.outcome import Outcome
from atc.strategies.ask_user import is_ask_user
from atc.strategies.context import RunContext
from atc.strategies.find_tools import MAX_ASKS, Docs, Finder, docs_for, finder_for
from atc.strategies.writer import Writer
from atc.tools.tool import Toolset


class ToolRequests:
    """Offers ``find_tools`` and ``tool_docs`` beside the tools of a run, and grants what programs ask them for.

    Args:
        context: whose tools these are.
        writer: shows them to the model.
        planned: the names of tools that are offered in their turn, so that nobody need look for them.
    """

    def __init__(self, context: RunContext, writer: Writer, planned: Collection[str] = ()) -> None:
        self._context, self._writer, self._planned = context, writer, planned
        self._finder: Finder | None = None
        self._docs: Docs | None = None
        self._asks = 0

    async def begin(self) -> None:
        """Offer each of them where it is of use: where not all tools are offered, or not all of a tool is shown."""
        wanted, tools = self._context.settings.find_tools, self._context.tools
        writer = self._writer
        offered = self._with_finder(tools)
        await self._show(offered)
        self._docs = docs_for(offered, self._context.all_tools) if wanted else None
        if wanted and writer.unlisted:  # a prompt has no room for all: programs look for the rest
            away = set(writer.unlisted)
            offered = self._with_finder(tools.only(*(name for name in tools if name not in away)))
        await self._offer(offered)

    def is_request(self, tool: str) -> bool:
        """Whether that is ``find_tools`` or ``tool_docs``, and no user's tool of that name."""
        return any(own is not None and own.tool.name == tool for own in (self._finder, self._docs))

    async def only_asked(self, outcome: Outcome) -> bool:
        """Whether the last program only asked for what the next one gets: true :data:`MAX_ASKS` times a run."""
        other = [call for call in self._context.last_calls if not self.is_request(call.tool)]
        if outcome.kind != "finished" or other or self._asks >= MAX_ASKS:
            return False
        asked = bool(await self.grant())
        self._asks += asked
        return asked

    async def grant(self) -> list[str]:
        """Give the next program what the last one asked for: the tools it found, and whole documents; their names."""
        found = self._finder.take() if self._finder is not None else Toolset()
        whole = self._docs.take() if self._docs is not None else []
        asked = [*found, *whole]
        if not asked:
            return []
        self._writer.show_whole(asked)
        await self._offer(self._context.tools + found)
        tools = self._context.tools
        offered = [name for name, tool in tools.items() if not self.is_request(name) and not is_ask_user(tool)]
        self._context.emit("tools_chosen", {"tools": offered, "found": list(found), "whole": whole})
        return asked

    async def add(self, tools: Toolset) -> None:
        """Offer these tools too, from the next program on."""
        await self._offer(self._context.tools + tools)
        offered = [name for name in self._context.tools if not self.is_request(name)]
        self._context.emit("tools_chosen", {"tools": offered, "found": list(tools)})

    def _with_finder(self, tools: Toolset) -> Toolset:
        """These tools, and beside them the one that looks for the others, where there are any."""
        context = self._context
        wanted = context.settings.find_tools
        offered = tools + context.all_tools.only(*(n for n in self._planned if n not in tools))
        self._finder = finder_for(offered, context.catalogue) if wanted else None
        return tools if self._finder is None else tools + Toolset([self._finder.tool])

    async def _offer(self, tools: Toolset) -> None:
        """Offer these tools, and ``tool_docs`` beside them where the prompt shows one of them in part."""
        await self._show(tools)
        if self._docs is not None:
            if self._writer.cut and self._docs.tool.name not in tools:
                tools += Toolset([self._docs.tool])
                self._writer.offer(tools)
            self._docs.offered = tools
        await self._context.offer(tools)

    async def _show(self, tools: Toolset) -> None:
        self._writer.offer(tools)
        with contextlib.suppress(ModelError):  # the next program meets it again
            await self._writer.prepare()
