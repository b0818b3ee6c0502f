"""A client's user approves what a program does: in both protocol eras, and nobody else can."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, both_eras, connected, gateway_of, run

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
@pytest.mark.parametrize("given", [{"approve": "never"}, {"keep_runs": False}], ids=str)
def test_a_client_that_cannot_ask_gets_a_refusal_that_says_so_where_nothing_waits(
    mode: str, given: dict[str, Any]
) -> None:
    book = Book()

    async def main() -> None:
        async with gateway_of(book.tool, **given) as gateway, connected(gateway, mode) as client:
            report = await run(client, WRITE)
            assert report["status"] == "denied"
            assert "cannot show its user a form" in str(report)

    asyncio.run(main())
    assert book.lines == []


@both_eras
def test_the_same_write_in_a_new_run_is_asked_about_as_a_repeat(mode: str) -> None:
    book, user = Book(), User([ACCEPT, DECLINE])

    async def main() -> tuple[dict[str, Any], dict[str, Any]]:
        async with gateway_of(book.tool) as gateway, connected(gateway, mode, user) as client:
            first = await run(client, WRITE)
            again = await run(client, WRITE)
            assert again["status"] == "denied"
            revised = await run(client, WRITE + "\n", run=first["run"])
            assert (revised["status"], revised["value"]) == ("answered", {"lines": 1})
            return first, again

    first, _ = asyncio.run(main())
    assert book.lines == ["one"]
    assert len(user.seen) == 2  # the revision got its answer from the journal
    assert f"an earlier run ({first['run']}) did the same" in user.seen[1].message


def test_a_client_that_accepts_by_itself_does_nothing_twice() -> None:
    """As some can be set to: with the form empty, unseen. A user who wants the write again ticks the box."""
    ticked = types.ElicitResult(action="accept", content={"approve": True})
    book, user = Book(), User([ACCEPT, ACCEPT, ticked])

    async def main() -> list[str]:
        async with gateway_of(book.tool) as gateway, connected(gateway, MODERN, user) as client:
            return [(await run(client, WRITE))["status"] for _ in range(3)]

    assert asyncio.run(main()) == ["answered", "denied", "answered"]
    assert book.lines == ["one", "one"]


@both_eras
def test_what_a_run_did_before_a_reconnect_counts(mode: str) -> None:
    book, user = Book(), User([ACCEPT, DECLINE])

    async def main() -> None:
        for name, status in (("a client", "answered"), ("by another name", "denied")):
            async with gateway_of(book.tool) as gateway, connected(gateway, mode, user, name) as client:
                report = await run(client, WRITE)
                assert report["status"] == status
                if name == "a client":
                    begun = report["run"]
        async with gateway_of(book.tool) as gateway, connected(gateway, mode, user) as client:
            revised = await run(client, WRITE, run=begun)
            assert revised["value"] == {"lines": 1}

    asyncio.run(main())
    assert book.lines == ["one"]
    assert "did the same" in user.seen[1].message


def test_two_programs_that_do_the_same_at_the_same_time_ask_once_more() -> None:
    """Both are asked; the one that is approved second is asked again, as a repeat."""
    book = Book()
    both = asyncio.Event()

    async def wait_for_both(params: Any) -> types.ElicitResult:
        if len(user.seen) == 2:
            both.set()
        await both.wait()
        return ACCEPT

    user = User([wait_for_both, wait_for_both, DECLINE])

    async def main() -> list[str]:
        async with gateway_of(book.tool) as gateway, connected(gateway, LEGACY, user) as client:
            reports = await asyncio.gather(run(client, WRITE), run(client, WRITE))
            return sorted(each["status"] for each in reports)

    assert asyncio.run(main()) == ["answered", "denied"]
    assert book.lines == ["one"]
    assert "earlier run" in user.seen[2].message
