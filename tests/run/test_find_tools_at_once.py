"""Searches of one program at the same time keep the one limit of their run."""

from __future__ import annotations

import asyncio

import pytest

from atc.errors import ToolError
from atc.run.find_tools import AT_ONCE, IN_ALL, Finder
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


def test_sixteen_searches_at_once_add_no_more_than_one_run_may() -> None:
    search = SlowRetriever()
    finder = Finder(Toolset(), search)
    answers = asyncio.run(at_once(finder))
    given = [tool["name"] for answer in answers if isinstance(answer, list) for tool in answer]
    assert len(given) == len(set(given)) == len(finder.take()) == IN_ALL
    assert search.most <= IN_ALL // AT_ONCE
    assert all(isinstance(answer, list | ToolError) for answer in answers)
    with pytest.raises(ToolError, match="already"):
        asyncio.run(finder({"query": "more"}))


def test_room_that_a_search_did_not_use_is_another_s() -> None:
    search = SlowRetriever(found=0)
    answers = asyncio.run(at_once(Finder(Toolset(), search)))
    assert answers == [[]] * 16
    assert search.begun == 16


def test_a_search_that_fails_gives_its_room_back() -> None:
    class Failing(SlowRetriever):
        async def __call__(self, query: str, limit: int) -> Toolset:
            await super().__call__(query, limit)
            if query in ("query 0", "query 5"):
                raise ValueError(query)
            return Toolset()

    answers = asyncio.run(at_once(Finder(Toolset(), Failing())))
    assert sum(isinstance(answer, ValueError) for answer in answers) == 2
    assert sum(answer == [] for answer in answers) == 14
