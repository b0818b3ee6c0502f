"""Tools that broke: refused, their answers kept, and no request done by two services."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._records.records import Replacement
from atc.calls import question
from atc.calls.approval import Approval, ApprovalRequest, ask_at_terminal
from atc.calls.journal import Journal
from atc.errors import JournalError, ToolError
from tests.support.broker import READ, WRITE, House, counted, never
from tests.support.crashes import CRASHES, WAYS, Host, HostCrash, World, run_program
from tests.support.tools import make_tool

BY = Replacement(tool="reserve", arguments=(("n", "n"),))
DOWN = ToolError("down", status=503)
LOST = ToolError("lost", outcome="unknown")


def house(book: Any, reserve: Any, **more: Any) -> tuple[House, list[Any], list[Any]]:
    booked, first = counted(book)
    reserved, second = counted(reserve)
    made = House(
        make_tool("book", first, WRITE), make_tool("reserve", second, WRITE), **{"approve": lambda _: True, **more}
    )
    return made, booked, reserved


def test_a_banned_read_is_refused_and_what_it_answered_stays_readable() -> None:
    seen, function = counted("sunny")
    house = House(make_tool("look", function))
    assert house.call("look", n=1).value == "sunny"
    house.broker.ban("look", [Replacement(tool="see")])
    house.broker.begin_program()
    assert house.call("look", n=1).value == "sunny"
    refused = house.call("look", n=2)
    assert (refused.status, house.last.status, house.last.cause, len(seen)) == ("banned", "refused", None, 1)
    assert "see" in str(refused.error)


def test_a_write_takes_anothers_place_only_where_that_one_did_nothing() -> None:
    made, booked, reserved = house(DOWN, "done")
    assert made.call("book", n=1).status == 503
    made.broker.ban("book", [BY])
    made.broker.begin_program()
    assert made.call("book", n=1).status == "banned"
    assert made.call("reserve", n=1).value == "done"
    assert (len(booked), len(reserved)) == (1, 1)


def test_what_is_in_doubt_is_not_asked_of_another_service() -> None:
    made, booked, reserved = house(LOST, "done")
    made.call("book", n=1)
    made.broker.ban("book", [BY])
    for n in (1, 2):  # other arguments may mean the same there
        made.broker.begin_program()
        refused = made.call("reserve", n=n)
        assert (refused.status, made.last.cause) == ("in_doubt", "in_doubt")
    assert (len(booked), reserved) == (1, [])


def test_nor_where_a_program_routes_round_by_itself() -> None:
    """It caught the error of the one and calls the other: known to do the same, that one is refused."""
    made, _, reserved = house(LOST, "done", alike=lambda tool, by: (tool, by) == ("book", "reserve"))
    made.call("book", n=1)
    assert made.call("reserve", n=1).status == "in_doubt"
    assert reserved == []


def test_what_is_in_doubt_is_compared_in_a_thread() -> None:
    """Documents may be so wide that it takes seconds."""
    asked: list[tuple[str, str, int]] = []

    def alike(tool: str, by: str) -> bool:
        asked.append((tool, by, threading.get_ident()))
        return False

    made, _, reserved = house(LOST, "done", alike=alike)
    assert made.call("reserve", n=1).value == "done"
    assert asked == []  # nothing was in doubt
    made.call("book", n=1)
    assert made.call("reserve", n=2).value == "done"
    assert [each[:2] for each in asked] == [("book", "reserve")] * 2  # then what was found is asked for
    assert asked[0][2] not in (asked[1][2], threading.get_ident())
    assert len(reserved) == 2


@pytest.mark.parametrize("other", [1, 1.0])
def test_what_the_one_did_the_other_does_not_do_again(other: Any) -> None:
    made, booked, reserved = house("done", "done")
    made.call("book", n=1)
    made.broker.ban("book", [BY])
    made.broker.begin_program()
    assert made.call("reserve", n=2).status == "already_done"  # ask for what was done first: its answer is recorded
    assert made.call("book", n=1).value == "done"
    assert made.call("reserve", n=other).status == "already_done"
    assert made.call("reserve", n=2).value == "done"
    assert (len(booked), len(reserved)) == (1, 1)


def test_a_request_with_a_secret_in_it_is_the_same_request() -> None:
    """The journal has no secrets: a call is compared as the journal would have it."""
    booked, first = counted("done")
    reserved, second = counted("done")
    text = {"type": "string"}
    tools = make_tool("book", first, WRITE, note=text), make_tool("reserve", second, WRITE, note=text)
    made = House(*tools, secrets=("hunter2-hunter2",), approve=lambda _: True)
    made.call("book", note="for hunter2-hunter2")
    made.broker.ban("book", [Replacement(tool="reserve", arguments=(("note", "note"),))])
    made.broker.begin_program()
    assert made.call("book", note="for hunter2-hunter2").value == "done"
    assert made.call("reserve", note="for hunter2-hunter2").status == "already_done"
    assert (len(booked), reserved) == (1, [])


def test_a_ban_of_a_write_outlives_the_process_and_the_task(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.ban("book", BY)
    journal.close()
    again = Journal(tmp_path / "journal.jsonl")
    assert again.banned == {"book": (BY,)}
    assert again.handed_over().banned == {"book": (BY,)}
    with pytest.raises(JournalError):
        again.ban("pay", BY)


NO_BANS = ['{"ban": 1, "by": "b", "arguments": {}}', '{"ban": "a", "by": "b", "arguments": []}', '{"ban": "a"}']


@pytest.mark.parametrize("line", NO_BANS)
def test_a_ban_that_is_none_is_damage(tmp_path: Path, line: str) -> None:
    file = tmp_path / "journal.jsonl"
    Journal(file).close()
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(JournalError):
        Journal(file)


# -- approval --------------------------------------------------------------------------------------------------------


def test_the_question_names_both(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ApprovalRequest] = []

    def yes(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    made, _, _ = house(DOWN, "done", approve=yes)
    made.call("book", n=1)
    made.broker.ban("book", [BY])
    made.call("reserve", n=1)
    assert [each.instead_of for each in asked] == [(), ("book",)]
    assert [data["instead_of"] for kind, data in made.events if kind == "approval_asked"] == [[], ["book"]]

    async def no() -> str:
        return "n\n"

    monkeypatch.setattr(question, "_line", no)
    assert asyncio.run(ask_at_terminal(asked[1])) is False
    assert "allow reserve instead of book, which failed? effect: write" in capsys.readouterr().err


def test_yes_to_all_is_no_yes_to_a_write_in_anothers_place(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ApprovalRequest("reserve", {}, WRITE, "", (), ("book",))
    assert [Approval(word).decide(request) for word in ("never", "always")] == ["denied", "denied"]
    assert Approval("always", "allow").decide(request) == "denied"
    monkeypatch.setattr(question, "has_terminal", lambda: True)
    assert Approval("always").decide(request) is ask_at_terminal

    monkeypatch.setattr(question, "has_terminal", lambda: False)
    tools = make_tool("book", counted(DOWN)[1], WRITE), make_tool("reserve", never, WRITE)
    made = House(*tools, approve="always")
    made.call("book", n=1)
    made.broker.ban("book", [BY])
    assert (made.call("reserve", n=1).status, made.last.cause) == ("denied", "denied")


def test_a_read_in_anothers_place_is_asked_about_by_nobody() -> None:
    made = House(make_tool("see", lambda _: 1, READ), approve=never)
    made.broker.ban("look", [Replacement(tool="see")])
    assert made.call("see", n=1).value == 1


# -- at most once ----------------------------------------------------------------------------------------------------

steps = st.tuples(st.integers(0, 2), st.sampled_from(WAYS) | st.just("refused"), st.booleans())
"""What is asked for, how the call goes, and whether the program catches its error."""
runs = st.lists(
    st.tuples(
        st.lists(steps, max_size=4, unique_by=lambda each: each[0]),
        st.sampled_from(CRASHES) | st.just("none"),
        st.integers(0, 4),
        st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


@given(runs, st.booleans())
def test_no_request_is_done_by_two_services(
    tmp_path_factory: pytest.TempPathFactory, programs: Any, same: bool
) -> None:
    """Refused, lost before or after it acted, hanging, at any crash of the process or the machine; banned at any time.

    Every program asks each service at most once for each thing, and the second one in the place of the first.
    """
    world = World()
    host = Host(world, tmp_path_factory.mktemp("run") / "journal.jsonl")
    host.broker.approval = Approval(lambda _: True)
    for program, crash, at, reboot in programs:
        tool = "pay" if "book" in host.broker.broken_tools.banned else "book"
        asked = [(tool, n, way, caught) for n, way, caught in program]
        if tool == "pay" and same:  # it asks for what was done before it goes on, as it is told to
            done = [e.arguments["n"] for e in host.journal.entries.values() if e.tool == "book" and e.state == "done"]
            asked = [("book", n, "ok", True) for n in done] + asked
        with contextlib.suppress(HostCrash):
            asyncio.run(run_program(host, asked, crash, at))
        entries = [e for e in host.journal.entries.values() if e.tool == "book"]
        down = bool(entries) and entries[-1].state == "refused"  # also while others are in doubt
        if down and tool == "book" and not host.dead:
            with contextlib.suppress(HostCrash):
                host.broker.ban("book", [Replacement(tool="pay", arguments=(("n", "n"),))])
        if crash not in ("none", "cancelled"):
            host = host.again(reboot=reboot)
            host.broker.approval = Approval(lambda _: True)
        assert all(count == 1 for count in Counter(n for _, n in world.effects).values())
        if any(name == "pay" for name, _ in world.effects):
            assert "book" in host.broker.broken_tools.banned
    host.journal.close()
