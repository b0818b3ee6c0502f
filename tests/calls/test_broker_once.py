"""Calls that run at once, are cut off or come again: each effect happens as often as it was asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from atc.calls.contract import CallReply
from atc.errors import JournalError, ToolError
from atc.result import Effect
from tests.support.broker import READ, UNKNOWN, WRITE, House, counted
from tests.support.tools import make_tool

# -- several at once, and cut off ------------------------------------------------------------------------------------


def test_calls_run_at_once_and_are_numbered_as_they_came() -> None:
    together = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> Any:
        if arguments["n"] == 3:
            together.set()
        await asyncio.wait_for(together.wait(), 20)  # the first waits for the last
        await asyncio.sleep(0.05 - arguments["n"] / 100)
        return arguments["n"]

    house = House(make_tool("look", slow))

    async def go() -> list[CallReply]:
        return await asyncio.gather(*(house.acall("look", n=n) for n in range(4)))

    assert [reply.value for reply in asyncio.run(go())] == [0, 1, 2, 3]
    assert sorted((call.index, call.value) for call in house.broker.calls) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_equal_writes_at_once_are_as_many_as_were_asked_for() -> None:
    seen, function = counted()

    async def slow(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return function(arguments)

    house = House(make_tool("book", slow, WRITE))

    async def go() -> None:
        await asyncio.gather(house.acall("book", n=1), house.acall("book", n=1))

    for _ in range(2):
        asyncio.run(go())
        house.journal.begin_attempt()
    assert len(seen) == 2


@pytest.mark.parametrize(("effect", "status"), [(READ, "failed"), (WRITE, "in_doubt"), (UNKNOWN, "in_doubt")])
def test_a_call_that_is_cut_off_is_told(effect: Effect, status: str) -> None:
    house = House(make_tool("slow", lambda _: asyncio.sleep(30), effect))

    async def go() -> None:
        work = asyncio.create_task(house.acall("slow", n=1))
        await asyncio.sleep(0.02)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    assert (house.last.status, house.last.error_status) == (status, "stopped")
    sent = ["call_sent"] if effect is not READ else []
    assert [kind for kind, _ in house.events] == ["call_started", *sent, "call_ended"]


@pytest.mark.parametrize("last_word", ["returns", "refuses", "fails"])
@pytest.mark.parametrize("ended_by", ["the run", "the time"])
@pytest.mark.parametrize(("effect", "status"), [(READ, "failed"), (WRITE, "in_doubt")])
def test_a_call_that_is_cancelled_is_not_done_whatever_its_tool_makes_of_that(
    effect: Effect, status: str, ended_by: str, last_word: str
) -> None:
    began = asyncio.Event()

    async def slow(_: dict[str, Any]) -> Any:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if last_word == "returns":
                return {"status": "cancelled"}
            raise (ToolError("no more") if last_word == "refuses" else ValueError("no more")) from None

    house = House(make_tool("slow", slow, effect), call_timeout_s=0.05 if ended_by == "the time" else 30)

    async def go() -> None:
        work = asyncio.create_task(house.acall("slow", n=1))
        if ended_by == "the run":
            await began.wait()
            work.cancel()
        await asyncio.wait([work])
        assert work.cancelled() == (ended_by == "the run")

    asyncio.run(go())
    said = {"the run": "stopped", "the time": "timeout"}[ended_by]
    assert (house.last.status, house.last.error_status, house.last.value) == (status, said, None)


def test_a_write_that_cannot_be_written_down_is_not_made_or_stays_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise JournalError("the disk is full")

    seen, function = counted()
    house = House(make_tool("book", function, WRITE))
    monkeypatch.setattr(house.journal, "succeed", broken)
    with pytest.raises(JournalError):
        house.call("book", n=1)
    assert house.last.status == "in_doubt"
    monkeypatch.setattr(house.journal, "begin", broken)
    with pytest.raises(JournalError):
        house.call("book", n=2)
    assert seen == [{"n": 1}]


# -- once only -------------------------------------------------------------------------------------------------------


def test_a_revised_program_must_ask_for_what_was_done_before_it_does_other_things() -> None:
    seen, function = counted()
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    house.journal.begin_attempt()
    reply = house.call("book", n=2)
    assert reply.status == "already_done"
    assert '{"n": 1}' in str(reply.error)
    assert house.call("book", n=1).value == "ok"
    assert house.call("book", n=2).value == "ok"
    assert seen == [{"n": 1}, {"n": 2}]


def test_a_write_in_doubt_is_never_made_again_and_told_once() -> None:
    seen, function = counted(ToolError("lost", outcome="unknown"))
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    assert house.call("book", n=1).status == "in_doubt", "not by the same program"
    house.journal.begin_attempt()
    assert "might do it twice" in str(house.call("book", n=2).error), "not with other arguments"
    assert house.call("book", n=1).status == "in_doubt", "not by another program"
    house.call("book", n=2)
    assert seen == [{"n": 1}, {"n": 2}]
    assert [call.arguments for call in house.broker.calls if call.status == "in_doubt"] == [{"n": 1}, {"n": 2}]


def test_a_write_that_was_surely_refused_may_be_tried_again() -> None:
    seen, function = counted(ToolError("full", status=409, outcome="refused"))
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    house.call("book", n=1)
    house.journal.begin_attempt()
    house.call("book", n=2)
    assert len(seen) == 3


def test_without_replay_everything_is_made_again() -> None:
    seen, function = counted()
    house = House(make_tool("book", function, WRITE), replay=False)
    house.call("book", n=1)
    house.journal.begin_attempt()
    house.call("book", n=1)
    assert len(seen) == 2
