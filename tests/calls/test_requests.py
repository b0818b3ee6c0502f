"""The tasks of a conversation in one journal: a write is never answered from an earlier task, a read for a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.redaction import Redactor
from atc.calls.approval import Approval
from atc.calls.broker import Broker
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import CallKey, Journal
from atc.errors import JournalError, ToolError
from atc.result import Effect
from atc.tools.tool import Tool, Toolset
from tests.support.tools import make_tool

FOR = 100
"""Seconds for which reads are used again."""


class Talk:
    """A conversation as the broker sees it; its tools count what they are asked."""

    def __init__(self, path: Path | None = None) -> None:
        self.now, self.made = 0.0, []  # type: float, list[tuple[str, int]]
        self.fails: Exception | None = None
        self.tools = Toolset([self._tool("look", Effect.READ), self._tool("pay", Effect.WRITE)])
        self.journal = Journal(path)
        self.journal.kept = True
        self.numbers = 0
        self.broker = self._broker()
        self.journal.begin_attempt()

    def _tool(self, name: str, effect: Effect) -> Tool:
        def act(arguments: dict[str, Any]) -> Any:
            self.made.append((name, arguments["n"]))
            if self.fails is not None:
                raise self.fails
            return [name, arguments["n"], len(self.made)]

        return make_tool(name, act, effect, n={"type": "integer"})

    def _broker(self) -> Broker:
        broker = Broker(
            self.tools, self.journal, lambda *_: None, approval=Approval("always"), redactor=Redactor((), {})
        )
        broker.reuse_s, broker.reusable = FOR, self.tools
        return broker

    def next_task(self, *, answered: bool = True, **inputs: Any) -> None:
        before, self.journal = self.journal, self.journal.handed_over()
        self.broker = self._broker()
        self.broker.begin_request(answered=answered, inputs=inputs)
        self.journal.begin_attempt()
        with pytest.raises(JournalError, match="ended"):
            before.begin(10_000, CallKey("look", "x"), {}, Effect.READ)

    def call(self, tool: str, n: int) -> CallReply:
        self.numbers += 1
        with mock.patch("atc.calls.entry.monotonic", return_value=self.now):
            return asyncio.run(self.broker.call(CallRequest(self.numbers, tool, {"n": n}, 1)))

    def made_by(self, tool: str, n: int) -> int:
        """How often the tool was really asked by this call."""
        before = len(self.made)
        self.reply = self.call(tool, n)
        return len(self.made) - before


# -- reads -------------------------------------------------------------------------------------------------------------


def test_a_read_is_used_again_for_some_time_and_its_note_says_so() -> None:
    talk = Talk()
    talk.call("look", 1)
    talk.now = 40.0
    talk.next_task()
    assert talk.made_by("look", 1) == 0
    [call] = talk.broker.calls
    assert (call.status, call.value) == ("replayed", ["look", 1, 1])
    assert call.notes == ("read 40 s ago for an earlier task of this conversation",)
    talk.now = 90.0
    talk.next_task()
    assert talk.made_by("look", 1) == 0, "the time counts from when it was really read"
    talk.now = 101.0
    talk.next_task()
    assert talk.made_by("look", 1) == 1


def test_a_read_is_used_once_a_task_and_a_revision_is_given_the_same() -> None:
    talk = Talk()
    talk.call("look", 1)
    talk.next_task()
    assert [talk.made_by("look", 1), talk.made_by("look", 1)] == [0, 1], "who asks twice looks for a change"
    talk.call("pay", 9)
    talk.journal.begin_attempt()
    assert [talk.made_by("look", 1), talk.made_by("look", 1)] == [0, 0]
    assert [call.value for call in talk.broker.calls if call.attempt == 2] == [["look", 1, 1], ["look", 1, 2]]


def test_no_read_is_used_past_a_write() -> None:
    talk = Talk()
    talk.call("look", 1)
    talk.call("pay", 1)
    talk.call("look", 2)
    talk.next_task()
    assert [talk.made_by("look", 1), talk.made_by("look", 2)] == [1, 0]
    talk.next_task()
    talk.call("pay", 2)
    assert talk.made_by("look", 2) == 1


@pytest.mark.parametrize("outcome", ["unknown", "refused"])
def test_no_read_is_used_while_a_write_is_in_doubt(outcome: Any) -> None:
    talk = Talk()
    talk.fails = ToolError("lost", outcome=outcome, status=None if outcome == "unknown" else 409)
    talk.call("pay", 1)
    talk.fails = None
    talk.call("look", 1)
    talk.next_task()
    assert talk.made_by("look", 1) == (outcome == "unknown")


def test_zero_seconds_and_the_tools_of_others_are_never_reused() -> None:
    talk = Talk()
    talk.call("look", 1)
    for seconds, tools in ((0.0, talk.tools), (FOR, Toolset())):
        talk.next_task()
        talk.broker.reuse_s, talk.broker.reusable = seconds, tools
        assert talk.made_by("look", 1) == 1


def test_another_process_reuses_nothing(tmp_path: Path) -> None:
    talk = Talk(tmp_path / "journal.jsonl")
    talk.call("look", 1)
    talk.next_task()
    talk.journal.release()
    assert Talk(tmp_path / "journal.jsonl").made_by("look", 1) == 1


# -- writes ------------------------------------------------------------------------------------------------------------


def test_an_equal_write_of_the_next_task_is_made_anew_and_not_demanded() -> None:
    talk = Talk()
    talk.call("pay", 1)
    talk.next_task()
    assert talk.made_by("pay", 2) == 1, "another one need not ask for it first"
    assert talk.made_by("pay", 1) == 1
    talk.journal.begin_attempt()
    assert [talk.made_by("pay", 1), talk.made_by("pay", 2)] == [0, 0], "a revision of the same task"


def test_what_a_task_without_an_answer_did_is_refused_until_one_has_an_answer() -> None:
    talk = Talk()
    talk.call("pay", 1)
    talk.next_task(answered=False)
    assert talk.made_by("pay", 2) == 1
    assert talk.made_by("pay", 1) == 0
    assert talk.reply.status == "already_done"
    assert "ended without an answer" in str(talk.reply.error)
    talk.next_task(answered=False)
    assert [talk.made_by("pay", 1), talk.made_by("pay", 2)] == [0, 0]
    talk.next_task(answered=True)
    assert [talk.made_by("pay", 1), talk.made_by("pay", 2)] == [1, 1]


def test_what_only_a_failed_program_did_is_not_made_by_the_next_task() -> None:
    talk = Talk()
    talk.call("pay", 1)
    talk.journal.begin_attempt()  # it answers without
    talk.next_task(answered=True)
    assert talk.made_by("pay", 1) == 0


def test_what_is_in_doubt_stays_so_and_stands_in_no_other_way() -> None:
    talk = Talk()
    talk.fails = ToolError("lost", outcome="unknown")
    talk.call("pay", 1)
    talk.fails = None
    for answered in (False, True):
        talk.next_task(answered=answered)
        assert talk.made_by("pay", 1) == 0
        assert talk.reply.status == "in_doubt"
        assert talk.made_by("pay", 2) == 1


def test_a_resumed_task_is_not_given_what_earlier_tasks_did(tmp_path: Path) -> None:
    """What acts begins again, without its stages: it has the task's inputs, and repeats nothing of this task."""
    talk = Talk(tmp_path / "journal.jsonl")
    talk.call("pay", 1)
    talk.next_task(answer_1=7)
    talk.call("pay", 2)
    talk.broker.begin_stage(inputs={"x": 1})
    talk.journal.begin_attempt()
    talk.call("pay", 3)
    talk.journal.release()
    again = Talk(tmp_path / "journal.jsonl")
    again.journal.begin_again()
    assert again.journal.inputs == {"answer_1": 7}
    assert again.made_by("pay", 2) == 0
    assert again.made_by("pay", 3) == 0
    assert again.made_by("pay", 1) == 1, "of the task before: the user asked anew"


CHANGES = [
    '"request": 2',
    '"request": "1"',
    '"request": true',
    '"request": 1.0',
    '"new_request": false',
    '"answered": 1',
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_request_that_cannot_follow_refuses_the_file(tmp_path: Path, change: str) -> None:
    path = tmp_path / "journal.jsonl"
    talk = Talk(path)
    talk.next_task()
    talk.journal.release()
    before = {"answered": '"answered": true', "new_request": '"new_request": true'}.get(change.split('"')[1])
    before = before or '"request": 1'
    path.write_text(path.read_text().replace(before, change))
    with pytest.raises(JournalError, match="line 1 is not a journal record"):
        Journal(path)


# -- the property ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """A call, a new program, or a new task; and how long before it nothing happens."""

    kind: str
    n: int
    pause: float
    answered: bool


moves = st.builds(
    Move,
    st.sampled_from(["look", "look", "pay", "program", "task", "task"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 30.0, 80.0]),
    st.booleans(),
)


@given(st.lists(moves, max_size=25))
def test_no_write_is_replayed_from_an_earlier_task_and_no_stale_read_used(
    tmp_path_factory: pytest.TempPathFactory, played: list[Move]
) -> None:
    path = tmp_path_factory.mktemp("talk") / "journal.jsonl"
    talk = Talk(path)
    task = last_write = 0
    read_at: dict[int, float] = {}  # by the number of what was made
    paid: dict[int, int] = {}  # its task, likewise
    given_to: set[tuple[int, int]] = set()  # a task, and the read that it has the answer of
    for move in played:
        talk.now += move.pause
        if move.kind == "task":
            talk.next_task(answered=move.answered)
            task += 1
            continue
        if move.kind == "program":
            talk.journal.begin_attempt()
            continue
        made, reply = talk.made_by(move.kind, move.n), talk.reply
        if reply.error is not None:
            assert (move.kind, reply.status, made) == ("pay", "already_done", 0)
            continue
        number = reply.value[2]
        if move.kind == "pay":
            assert paid.setdefault(number, task) == task, "a write was answered from an earlier task"
            last_write = max(last_write, number)
        elif made:
            read_at[number] = talk.now
        elif (task, number) not in given_to:
            assert talk.now - read_at[number] <= FOR, "a read was used past its time"
            assert number > last_write, "a read was used past a write"
        given_to.add((task, number))
    talk.journal.release()
    reader = Journal(path)
    assert (reader.request, reader.before, reader.stage) == (
        talk.journal.request,
        talk.journal.before,
        talk.journal.stage,
    )
    assert reader._left == talk.journal._left
    assert reader._committed == talk.journal._committed
    reader.release()


def test_a_request_that_a_crash_cut_short_was_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    talk = Talk(path)
    talk.call("pay", 1)
    before = path.stat().st_size
    talk.next_task(answer_1=["x"])
    talk.journal.release()
    whole = path.read_bytes()
    for end in range(before, len(whole)):
        path.write_bytes(whole[:end])
        reader = Journal(path)
        begun = whole[end : end + 1] == b"\n" and end == len(whole) - 1  # all but the line end is there
        assert (reader.request, reader.inputs) == ((1, {"answer_1": ["x"]}) if begun else (0, {}))
        reader.close()
