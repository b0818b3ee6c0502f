"""How clients find tools: by words at once, by meaning too as soon as an index of that is there. No model is asked."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.retriever import IndexRetriever
from atc.errors import AtcError, ModelUnavailable
from atc.models.messages import Message, Reply
from atc.settings import Settings
from atc.tools.tool import Toolset

MAX_QUERY, MAX_NAME = 2_000, 80
"""Characters of a query that are read, and of a name that has no tool."""
NEAR, NEAR_ENOUGH = 3, 0.7
"""Names that may be meant, and how much they must be alike."""


class Finder:
    """Finds the likeliest tools of a catalogue, as the settings ``retrieval`` and ``catalogue`` say."""

    def __init__(self, catalogue: Catalogue, settings: Settings) -> None:
        self._catalogue = catalogue
        self._words: IndexRetriever | None = None
        if settings.retrieval != "lexical" and settings.tool_index is None:
            self._words = IndexRetriever(way="lexical", folder=settings.catalogue / "indexes")
        self._making: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Make the index of words, and begin that of meaning."""
        await self.search("tool", 1)

    async def search(self, query: str, limit: int) -> Toolset:
        """The likeliest tools, the likeliest first."""
        query, tools = query[:MAX_QUERY], self._catalogue.tools
        if self._words is None:
            return (await self._catalogue.find(query, limit, _ask_nobody)).tools
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return (await self._words.search(query, tools, limit)).tools

    def near(self, names: Iterable[str]) -> dict[str, list[str]]:
        """For names that no tool has: names of tools that may be meant."""
        known = [*self._catalogue.tools]
        return {
            name: found
            for name in names
            if (found := difflib.get_close_matches(name[:MAX_NAME], known, NEAR, NEAR_ENOUGH))
        }

    async def aclose(self) -> None:
        """End what goes on."""
        if self._making is not None:
            self._making.cancel()
            with suppress(asyncio.CancelledError):
                await self._making

    async def _make(self) -> None:
        with suppress(AtcError, OSError):  # words find tools, too; `atc doctor` says what is missing
            await self._catalogue.find("tool", 1, _ask_nobody)
            self._words = None


async def _ask_nobody(messages: Sequence[Message], max_tokens: int, **form: Any) -> Reply:
    raise ModelUnavailable("a search of the MCP server asks no model")


def retrieval_way(settings: Settings) -> str:
    """How tools are found: no model is there to plan or to pick."""
    return settings.retrieval if settings.retrieval in ("lexical", "hybrid") else "auto"
