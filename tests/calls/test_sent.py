"""A call that waits before it is sent is not done until its transport says that it sends it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from atc.calls.journal import Journal, call_key
from atc.calls.journal_file import boot_id
from atc.errors import JournalError, ToolError
from atc.result import Effect
from atc.tools.mcp.connection import McpServer
from atc.tools.mcp.spec import read_specs
from atc.tools.mcp.transport import McpTransport
from atc.tools.openapi.importer import import_openapi
from atc.tools.tool import AnnouncingTransport, Answered, Sending, Tool
from tests.support.broker import READ, WRITE, House
from tests.support.openapi import Answer, document, operation, running_server
from tests.support.tools import make_tool


class Waits(AnnouncingTransport):
    """Waits, sends, and waits again; ``go`` lets a call pass its first wait."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.sent = 0
        self.answer: Any = "ok"

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        raise AssertionError("it announces")

    def opened(self) -> None:
        return None

    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        await self.go.wait()
        await sending()
        await sending()
        self.sent += 1
        if self.answer is None:
            await asyncio.sleep(30)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Answered(self.answer)


def house_of(waits: Waits, effect: Effect = WRITE, **policy: Any) -> House:
    return House(Tool(make_tool("book", None, effect).protocol, waits), **policy)


async def cut_off(house: House, seconds: float = 0.01) -> None:
    work = asyncio.create_task(house.acall("book", n=1))
    await asyncio.sleep(seconds)
    work.cancel()
    await asyncio.wait([work])


@pytest.mark.parametrize("effect", [READ, WRITE])
def test_a_call_that_is_cut_off_before_it_is_sent_is_not_done_and_may_be_made(effect: Effect) -> None:
    waits = Waits()
    house = house_of(waits, effect)
    asyncio.run(cut_off(house))
    assert (house.last.status, house.last.error) == ("failed", "the run was stopped before this call was sent")
    waits.go.set()
    for _ in range(2):
        house.broker.begin_program()
        assert house.call("book", n=1).value == "ok"
    assert waits.sent == 1


def test_a_call_that_is_cut_off_once_it_is_sent_is_in_doubt() -> None:
    waits = Waits()
    waits.answer = None
    waits.go.set()
    house = house_of(waits)
    asyncio.run(cut_off(house, 0.05))
    assert (house.last.status, house.last.error) == ("in_doubt", "the run was stopped during this call")
    assert [kind for kind, _ in house.events] == ["call_started", "call_sent", "call_ended"]
    assert house.call("book", n=1).status == "in_doubt"
    assert waits.sent == 1


def test_a_call_that_waits_too_long_to_be_sent_did_nothing() -> None:
    waits = Waits()
    house = house_of(waits, call_timeout_s=0.01)
    reply = house.call("book", n=1)
    assert (reply.status, house.last.status) == ("timeout", "failed")
    waits.go.set()
    assert house.call("book", n=1).value == "ok"


def test_what_the_tool_says_counts_once_it_is_sent() -> None:
    waits = Waits()
    waits.go.set()
    waits.answer = ToolError("lost", outcome="unknown")
    house = house_of(waits)
    house.call("book", n=1)
    assert house.last.status == "in_doubt"


def test_a_call_whose_program_has_ended_is_not_sent() -> None:
    waits = Waits()
    house = house_of(waits)

    async def late() -> Any:
        work = asyncio.create_task(house.acall("book", n=1))
        await asyncio.sleep(0.01)
        house.broker.begin_program()
        waits.go.set()
        first = await house.acall("book", n=1)
        return first, await work

    first, late_reply = asyncio.run(late())
    assert (first.value, late_reply.status, waits.sent) == ("ok", "stopped", 1)


def test_what_fails_on_our_side_while_it_is_sent_is_raised_and_no_failure_of_the_tool() -> None:
    waits = Waits()
    waits.go.set()
    house = house_of(waits)
    house.journal.send = mock.Mock(side_effect=JournalError("the disk is full"))  # type: ignore[method-assign]
    with pytest.raises(JournalError, match="the disk is full"):
        house.call("book", n=1)
    assert (house.last.status, waits.sent) == ("failed", 0)


# -- in the file -------------------------------------------------------------------------------------------------------


def begun(path: Path, *, sent: bool) -> Path:
    """A journal of a process that ended after it began a write, as it is on disk."""
    journal = Journal(path)
    journal.begin_attempt()
    entry = journal.begin(1, call_key("book", {"n": 1}), {"n": 1}, WRITE)
    if sent:
        journal.send(entry)
    copy = shutil.copy(path, path.with_suffix(".copy"))
    journal.close()
    return copy


@pytest.mark.parametrize(
    ("sent", "boot", "states"),
    [
        (False, "this", ("refused", False)),
        (True, "this", ("open", True)),
        (False, "another", ("open", True)),  # the mark may have been lost
        (True, "another", ("open", True)),
        (False, "", ("open", True)),
    ],
)
def test_a_write_that_was_begun_and_not_sent_is_not_done(
    tmp_path: Path, sent: bool, boot: str, states: tuple[str, bool]
) -> None:
    with mock.patch("atc.calls.journal_file.boot_id", return_value="this"):
        path = begun(tmp_path / "journal.jsonl", sent=sent)
    for start in (boot, "a third"):  # what is settled stays so
        with mock.patch("atc.calls.journal_file.boot_id", return_value=start):
            journal = Journal(path)
            (entry,) = journal.entries.values()
            assert (entry.state, entry.in_doubt) == states
            journal.close()


@pytest.mark.parametrize("sent", [False, True])
def test_where_starts_of_the_machine_are_not_told_apart_what_was_begun_is_in_doubt(tmp_path: Path, sent: bool) -> None:
    with mock.patch("atc.calls.journal_file.boot_id", return_value=""):
        path = begun(tmp_path / "journal.jsonl", sent=sent)
        journal = Journal(path)
    assert journal.entries[1].in_doubt
    assert b"sent" not in path.read_bytes()
    journal.close()


def test_a_write_is_synced_before_and_after_and_not_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_bytes().count(b"\n")))
    entry = journal.begin(1, call_key("book", {}), {}, WRITE)
    journal.send(entry)
    journal.send(entry)
    journal.succeed(entry, "ok")
    assert synced == [1, 3]
    assert path.read_bytes().count(b"\n") == 3
    journal.close()


def test_a_journal_that_lost_a_mark_which_the_trace_has_is_refused(tmp_path: Path) -> None:
    journal = Journal(begun(tmp_path / "journal.jsonl", sent=False))
    journal.require([(1, False)])
    with pytest.raises(JournalError, match="lacks call 1, which was sent to its tool"):
        journal.require([(1, False), (1, True)])
    journal.close()


def test_a_start_of_the_machine_has_a_name_on_linux() -> None:
    assert (len(boot_id()) > 8) is Path("/proc/sys/kernel/random/boot_id").exists()
    with mock.patch("atc.calls.journal_file._BOOT_ID", Path("/nowhere")):
        assert boot_id() == ""


# -- the transports that wait ------------------------------------------------------------------------------------------


def test_a_request_that_waits_for_its_token_is_not_sent() -> None:
    with running_server() as server:
        asked, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            asked.set()
            go_on.wait(20)

        server.answers["/token"] = Answer(b'{"access_token": "first-token-abc"}', after=hold)
        scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": f"{server.url}/token", "scopes": {}}}}
        root = document(
            {"/a": {"post": operation(security=[{"oauth": []}])}}, components={"securitySchemes": {"oauth": scheme}}
        )
        auth = {"oauth": {"client_id": "me", "client_secret": "s3cret/word"}}
        (tool,) = import_openapi(root, base_url=server.url, auth=auth).values()
        house = House(tool)

        async def cut_off_there() -> None:
            work = asyncio.create_task(house.acall(tool.name))
            await asyncio.to_thread(asked.wait, 20)
            work.cancel()
            await asyncio.wait([work])

        asyncio.run(cut_off_there())
        go_on.set()
        assert (house.last.status, [seen.path for seen in server.seen]) == ("failed", ["/token"])
        assert house.call(tool.name).error is None
        assert [seen.path for seen in server.seen] == ["/token", "/token", "/a"]


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_call_that_waits_for_its_mcp_server_is_not_sent(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'started')!r}, 'w').close(); import time; time.sleep(90)"
    (spec,) = read_specs([sys.executable, "-c", code])
    server = McpServer(spec, timeout_s=60, start_timeout_s=60, max_bytes=10_000)
    house = House(Tool(make_tool("book", None, WRITE).protocol, McpTransport("book", False, server)))

    async def cut_off_there() -> None:
        async with server:
            work = asyncio.create_task(house.acall("book", n=1))
            await asyncio.to_thread(wait_for_file, tmp_path / "started")
            work.cancel()
            await asyncio.wait([work])

    asyncio.run(asyncio.wait_for(cut_off_there(), 60))
    assert (house.last.status, house.last.error) == ("failed", "the run was stopped before this call was sent")
