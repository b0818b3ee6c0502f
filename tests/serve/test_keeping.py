"""`atc mcp --with keep`: a run of a client becomes a tool of its later programs, once its user has seen it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from atc.serve.mcp.asking import APPROVE
from atc.serve.mcp.gateway import Options
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, both_eras, connected, gateway_of, run
from tests.support.tools import make_tool

KEEPING = Options(extras=("keep",))
TICK = types.ElicitResult(action="accept", content={APPROVE: True})
TEXT = {"type": "string"}
SUM = "answer = sum(count(word=word)['letters'] for word in ['fjord', 'sea'])"


def count(given: dict[str, Any]) -> dict[str, Any]:
    return {"letters": len(given["word"])}


def tools(book: Book) -> list[Any]:
    returns = {"type": "object", "properties": {"letters": {"type": "integer"}}}
    return [make_tool("count", count, required=("word",), returns=returns, word=TEXT), book.tool]


@asynccontextmanager
async def served(
    folder: Path, user: User | None, mode: str = MODERN, book: Book | None = None, **given: Any
) -> AsyncIterator[Client]:
    given = {"runs_dir": folder / "runs", "kept_dir": folder / "kept"} | given
    async with (
        gateway_of(*tools(book or Book()), jail=True, options=KEEPING, **given) as gateway,
        connected(gateway, mode, user) as client,
    ):
        yield client


async def kept(client: Client, run_id: str, name: str = "letters_of", **given: Any) -> tuple[bool, dict[str, Any]]:
    result = await client.call_tool("keep", {"run": run_id, "name": name, **given})
    assert isinstance(result.structured_content, dict)
    return not result.is_error, result.structured_content


@both_eras
def test_the_user_sees_the_program_says_yes_and_later_programs_call_it(tmp_path: Path, mode: str) -> None:
    user = User([TICK])

    async def main() -> None:
        async with served(tmp_path, user, mode) as client:
            assert "keep" in [tool.name for tool in (await client.list_tools()).tools]
            done = await run(client, SUM, inputs={})
            given = {"words": {"description": "Tell it all."}}
            fine, told = await kept(client, done["run"], lift=["words"], about="Counts letters.", parameters=given)
            assert fine, told
            assert told["call"] == "letters_of(words: list of string)"
            later = await run(client, "answer = letters_of(words=['lake'])")
            assert (later["value"], [call["within"] for call in later["calls"]]) == (4, ["letters_of"])
            assert "letters_of" in str(await client.list_tools()), "it is among the stubs"

    asyncio.run(main())
    (form,) = user.seen
    assert "    answer = sum(count(word=word)" in form.message
    assert "Counts letters." in form.message
    assert '"description": "Tell it all."' in form.message, "later models read it"
    assert form.requested_schema["required"] == [APPROVE]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["letters_of.atc"]


@pytest.mark.parametrize(
    "no", [DECLINE, ACCEPT, types.ElicitResult(action="cancel")], ids=["declined", "without a tick", "closed"]
)
def test_without_a_yes_nothing_is_kept(tmp_path: Path, no: types.ElicitResult) -> None:
    async def main() -> None:
        async with served(tmp_path, User([no])) as client:
            fine, told = await kept(client, (await run(client, SUM))["run"])
            assert not fine
            assert told["kept"] is False
            assert (await run(client, "answer = letters_of()"))["status"] == "rejected"

    asyncio.run(main())
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "cannot show its user the program in a form"),
        ({"approve": "never"}, "does not ask its clients"),
        ({"approve": "park"}, "does not ask its clients"),
    ],
    ids=str,
)
def test_where_nobody_can_be_asked_the_way_at_a_terminal_is_said(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    async def main() -> None:
        async with served(tmp_path, None, **given) as client:
            run_id = (await run(client, SUM))["run"]
            fine, told = await kept(client, run_id)
            assert not fine
            assert words in told["error"]["message"]
            assert f"`atc runs keep {run_id} --as letters_of --tools …`" in told["error"]["message"]

    asyncio.run(main())
    assert not (tmp_path / "kept").exists()


def test_what_is_no_run_of_the_client_or_no_answer_is_not_kept(tmp_path: Path) -> None:
    user = User([TICK])

    async def main() -> None:
        async with served(tmp_path, user) as client:
            failed = await run(client, "answer = [][1]")
            for run_id, words in ((failed["run"], "cannot be kept"), ("20261101-000000-aaaaaa", "you have no run")):
                fine, told = await kept(client, run_id)
                assert not fine
                assert words in told["error"]["message"]
            done = await run(client, SUM)
            wrongs: list[dict[str, Any]] = [{"name": "count"}, {"name": "print"}, {"lift": ["no"]}, {"parameters": []}]
            for wrong in wrongs:
                fine, told = await kept(client, done["run"], **wrong)
                assert not fine, told

    asyncio.run(main())
    assert user.seen == []


def test_each_write_of_a_kept_program_is_asked_about_by_itself(tmp_path: Path) -> None:
    book, user = Book(), User([ACCEPT, TICK, DECLINE])

    async def main() -> None:
        async with served(tmp_path, user, book=book) as client:
            done = await run(client, "answer = append_line(text='one')")
            fine, told = await kept(client, done["run"], name="write_down", lift=["one"])
            assert fine, told
            argument = told["call"].partition("(")[2].partition(":")[0]
            again = await run(client, f"answer = write_down({argument}='two')")
            assert again["status"] == "denied", again

    asyncio.run(main())
    assert book.lines == ["one"]
    assert len(user.seen) == 3
    assert "writes" in user.seen[1].message


def test_an_author_who_read_what_strangers_wrote_is_shown_to_the_user(tmp_path: Path) -> None:
    user = User([TICK])
    mails = make_tool("find_mails", lambda given: ["fjord"], returns={"type": "array", "items": TEXT})
    mails = replace(mails, protocol=mails.protocol.model_copy(update={"untrusted": True}))

    async def main() -> None:
        rules = {"runs_dir": tmp_path / "runs", "kept_dir": tmp_path / "kept"}
        async with (
            gateway_of(*tools(Book()), mails, jail=True, options=KEEPING, **rules) as gateway,
            connected(gateway, LEGACY, user) as client,
        ):
            await run(client, "answer = find_mails()")
            done = await run(client, SUM)
            fine, told = await kept(client, done["run"])
            assert fine, told

    asyncio.run(main())
    assert "Careful:" in user.seen[0].message
    assert "find_mails" in user.seen[0].message
