"""``atc mcp`` over kept programs: in a client's program, and listed themselves by ``--direct``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc.serve.mcp.gateway import Options
from atc.tools.tool import Tool
from tests.support.kept import TEXT, kept
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, connected, gateway_of, run

both_eras = pytest.mark.parametrize("mode", [LEGACY, MODERN])
DIRECT = Options(direct=("note_twice", "auto"))


def tools(book: Book) -> list[Tool]:
    body = "first = append_line(text=text)\nanswer = append_line(text=f'{text} again')['lines']"
    return [book.tool, kept("note_twice", body, book.tool, parameters={"text": TEXT})]


@both_eras
def test_a_clients_program_calls_one_and_each_write_is_asked_about(mode: str) -> None:
    book, user = Book(), User([ACCEPT, DECLINE])

    async def main() -> dict[str, Any]:
        async with gateway_of(*tools(book)) as gateway, connected(gateway, mode, user) as client:
            return await run(client, "x = 1\nanswer = note_twice('a')")

    report = asyncio.run(main())
    assert (report["status"], book.lines) == ("denied", ["a"])
    assert user.seen[0].message.startswith("A program wants to call append_line within note_twice.")
    assert [(each["tool"], each.get("line", 0), each["within"]) for each in report["calls"]] == [
        ("append_line", 2, "note_twice"),
        ("append_line", 2, "note_twice"),
    ]
    assert report["fault"]["message"].startswith("line 2: within note_twice, in its line 2: append_line(")


@both_eras
def test_one_that_is_listed_itself_is_a_run_of_which_each_write_is_asked_about(mode: str) -> None:
    book, user = Book(), User([ACCEPT])

    async def main() -> tuple[list[str], Any, Any]:
        async with gateway_of(*tools(book), options=DIRECT) as gateway, connected(gateway, mode, user) as client:
            listed = {each.name: each for each in (await client.list_tools()).tools}
            assert listed["note_twice"].input_schema["required"] == ["text"]
            made = await client.call_tool("note_twice", {"text": "a"})
            wrong = await client.call_tool("note_twice", {"texts": "a"})
            return [*listed], made, wrong

    names, made, wrong = asyncio.run(main())
    assert "note_twice" in names
    assert "append_line" not in names, "a write is not chosen by itself"
    assert made.content[0].text == "2"
    assert (book.lines, len(user.seen)) == (["a", "a again"], 2)
    assert wrong.is_error
    assert "note_twice" in wrong.content[0].text
