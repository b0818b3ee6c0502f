"""Searches of one program at the same time keep the one limit of their run."""

from __future__ import annotations

import asyncio

import pytest

from atc.errors import ToolError
from atc.run.find_tools import AT_ONCE, MAX_SEARCHES, Finder
from atc.schemas.protocol import Protocol
from atc.tools.tool import Tool, Toolset


async def never(arguments: object) -> None:
    raise AssertionError


never.opened = lambda: None  # type: ignore[attr-defined]
TOOLS = Toolset(Tool(Protocol(name=f"tool_{number}"), never) for number in range(100))  # type: ignore[arg-type]


class SlowRetriever:
    """Waits for a word before it answers; ``found`` of its searches find something."""

    def __init__(self, found: int = 1_000) -> None:
        self.under_way = self.most = self.begun = 0
        self.found = found

    async def __call__(self, query: str, limit: int) -> Toolset:
        self.begun += 1
        number = self.begun
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way -= 1
        return Toolset(list(TOOLS.values())[:limit]) if number <= self.found else Toolset()


async def at_once(finder: Finder, calls: int = 16) -> list[list[dict[str, str]] | BaseException]:
    asked = (finder({"query": f"query {number}"}) for number in range(calls))
    return await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 20)


def test_sixteen_searches_at_once_are_no_more_than_one_run_may_make() -> None:
    search = SlowRetriever()
    finder = Finder(Toolset(), search)
    answers = asyncio.run(at_once(finder))
    assert search.begun == search.most == MAX_SEARCHES
    assert sum(isinstance(answer, list) for answer in answers) == MAX_SEARCHES
    assert all(isinstance(answer, list | ToolError) for answer in answers)
    given = [tool["name"] for answer in answers if isinstance(answer, list) for tool in answer]
    assert len(finder.take()) == len(set(given)) <= MAX_SEARCHES * AT_ONCE
    with pytest.raises(ToolError, match="already"):
        asyncio.run(finder({"query": "more"}))


def test_searches_that_find_nothing_count_too() -> None:
    search = SlowRetriever(found=0)
    answers = asyncio.run(at_once(Finder(Toolset(), search)))
    assert answers.count([]) == search.begun == MAX_SEARCHES
