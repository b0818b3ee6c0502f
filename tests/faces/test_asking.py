"""A client's user approves what a program does: in both protocol eras, and nobody else can."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.mcp_face import DECLINE, LEGACY, MODERN, Book, User, connected, gateway_of, run

both_eras = pytest.mark.parametrize("mode", [LEGACY, MODERN])
WRITE = "answer = append_line(text='one')"


@both_eras
def test_a_write_is_made_once_the_user_accepts(mode: str) -> None:
    book, user = Book(), User()

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, mode, user) as client:
            report = await run(client, WRITE)
            assert (report["status"], report["value"]) == ("answered", {"lines": 1}), report

    asyncio.run(main())
    assert book.lines == ["one"]
    [seen] = user.seen
    assert "append_line" in seen.message
    assert "'one'" in seen.message


@both_eras
def test_a_write_is_not_made_when_the_user_declines(mode: str) -> None:
    book = Book()

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, mode, User([DECLINE])) as client:
            report = await run(client, WRITE)
            assert report["status"] == "denied"
            assert "declined" in str(report)

    asyncio.run(main())
    assert book.lines == []


@both_eras
def test_a_client_that_cannot_ask_gets_a_refusal_that_says_so(mode: str) -> None:
    book = Book()

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, mode) as client:
            report = await run(client, WRITE)
            assert report["status"] == "denied"
            assert "cannot show its user a form" in str(report)

    asyncio.run(main())
    assert book.lines == []
