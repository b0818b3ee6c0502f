"""The broker's stages: every call passes the list in its order, and a new stage is one function in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from atc.calls.attempt import Attempt
from atc.calls.broker import Broker, Stage
from atc.calls.contract import CallReply
from atc.errors import CallRefused, ToolError
from tests.support.broker import WRITE, House, counted, never
from tests.support.tools import make_tool

ORDER = (
    "granted", "arguments", "turn", "replay", "limits", "origins", "plan", "approval", "begin", "send", "response",
    "outcome",
)  # fmt: skip


def watched(broker: Broker) -> list[tuple[str, str]]:
    """Note which stage each call of a broker passes, and whether it replies or fails there."""
    passed: list[tuple[str, str]] = []

    def watch(stage: Stage) -> Stage:
        name = getattr(stage, "__name__", "").lstrip("_")

        async def noting(attempt: Attempt) -> CallReply | None:
            try:
                reply = await stage(attempt)
            except ToolError as error:
                passed.append((name, str(error.status)))
                raise
            passed.append((name, "" if reply is None else "reply"))
            return reply

        return noting

    broker.stages[:] = [watch(stage) for stage in broker.stages]
    return passed


def add_before(broker: Broker, following: str, stage: Callable[[Attempt], Awaitable[CallReply | None]]) -> None:
    broker.stages.insert(ORDER.index(following), stage)


def test_every_call_passes_the_stages_in_their_order() -> None:
    house = House(make_tool("book", lambda _: "ok", WRITE))
    passed = watched(house.broker)
    assert house.call("book", n=1).value == "ok"
    assert passed == [(name, "") for name in ORDER[:-1]] + [("outcome", "reply")]


def test_the_first_stage_that_replies_or_refuses_is_the_last() -> None:
    house = House(make_tool("book", lambda _: "ok", WRITE), make_tool("no", never, WRITE), max_calls=1)
    house.call("book", n=1)
    house.broker.begin_program()
    passed = watched(house.broker)
    assert house.call("book", n=1).value == "ok"
    assert passed[-1] == ("replay", "reply")
    assert house.call("no", n=1).status == "too_many_calls"
    assert passed[-1] == ("limits", "too_many_calls")
    assert house.call("gone").status == "not_granted"
    assert passed[-1] == ("granted", "not_granted")


def test_a_new_stage_sees_each_call_and_may_refuse_it() -> None:
    """One that holds back what it does not like, before anybody is asked to approve it."""
    seen: list[str] = []
    asked: list[str] = []
    booked, function = counted()
    house = House(
        make_tool("look", lambda _: "seen"),
        make_tool("book", function, WRITE, to={"type": "string"}),
        approve=lambda request: asked.append(request.tool) or True,
    )

    async def origins(attempt: Attempt) -> CallReply | None:
        seen.append(attempt.tool)
        if attempt.arguments.get("to") == "evil":
            raise CallRefused("its value came from a page", status="origin")
        return None

    add_before(house.broker, "approval", origins)
    assert house.call("look", n=1).value == "seen"
    assert house.call("book", to="evil").status == "origin"
    assert house.call("book", to="ada").value == "ok"
    assert (seen, asked, len(booked)) == (["look", "book", "book"], ["book"], 1)
    assert [call.status for call in house.broker.calls] == ["ok", "refused", "ok"]


def test_a_new_stage_may_reply_in_place_of_those_behind_it() -> None:
    """One that parks a write: nothing is in the journal, and the call is in the result."""
    house = House(make_tool("book", never, WRITE))

    async def parks(attempt: Attempt) -> CallReply | None:
        return None if attempt.reads else CallReply(error="it waits for approval", status="parked")

    add_before(house.broker, "begin", parks)
    assert house.call("book", n=1).status == "parked"
    assert house.journal.entries == {}
    assert house.last.error_status == "parked"


@pytest.mark.parametrize("following", ["send", "response", "outcome"])
def test_what_a_stage_fails_after_the_beginning_is_in_the_journal(following: str) -> None:
    """Before the call is sent it surely did nothing; afterwards nobody knows what it did."""
    seen, function = counted()
    house = House(make_tool("book", function, WRITE))

    async def fails(attempt: Attempt) -> CallReply | None:
        raise ToolError("no", status="late", outcome="unknown")

    add_before(house.broker, following, fails)
    assert house.call("book", n=1).status == "late"
    (entry,) = house.journal.entries.values()
    assert (entry.state, len(seen)) == (("refused", 0) if following == "send" else ("unknown", 1))
    house.broker.begin_program()
    del house.broker.stages[ORDER.index(following)]
    again = house.call("book", n=1)
    assert again.value == "ok" if following == "send" else again.status == "in_doubt"
