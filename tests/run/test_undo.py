"""What a run did is undone by named inverses: the newest first, each approved, none of them twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, tool
from atc._records.records import UndoneRun
from atc.calls.approval import ApprovalRequest
from atc.errors import JournalError, RunInUse, ToolError, UsageError
from atc.result import Result
from atc.run import undoing

pytestmark = pytest.mark.inline

CAUGHT = """
try:
    create(day="mon")
except ToolError:
    pass
answer = 1
"""
PROGRAM = """
for day in ("mon", "tue"):
    create(day=day)
remind(text="it's \\"two\\"")
answer = "done"
"""


class Calendar:
    """Events, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rules = folder, folder / "permissions.toml"
        self.did: list[Any] = []
        self.fails: Callable[[str], None] = lambda event: None

    def agent(self, *programs: str, **given: Any) -> Agent:
        @tool(effect="write", undo="delete(event=$result.made[0].id, day=$day)")
        def create(day: str) -> dict[str, Any]:
            """Create an event."""
            self.did.append(day)
            return {"made": [{"id": f"e-{day}"}]}

        @tool(effect="write")
        def delete(event: str, day: str) -> str:
            """Delete an event."""
            self.fails(event)
            self.did.append((event, day))
            return "gone"

        @tool(effect="write")
        def remind(text: str) -> str:
            """Send a reminder."""
            self.did.append(text)
            return "sent"

        settings = {"sentence": False, "approve": "always", "runs_dir": self.folder / "runs", "learn": False}
        tools = [create, delete, remind]
        return Agent(tools, model=FakeModel([f"```python\n{each}\n```" for each in programs]), **{**settings, **given})

    def ran(self, program: str = PROGRAM) -> Result[Any]:
        with self.agent(program) as agent:
            result = agent.run('mon tue it\'s "two"')
        assert result.status == "answered", result.fault
        self.did.clear()
        return result

    def undo(self, run_id: str, *, dry_run: bool = False, **given: Any) -> UndoneRun:
        with self.agent(**given) as agent:
            return agent.undo(run_id, dry_run=dry_run)


def outcomes(found: UndoneRun) -> list[tuple[int, str, str]]:
    return [(call.index, call.outcome, call.why) for call in found.calls]


@pytest.fixture
def calendar(tmp_path: Path) -> Calendar:
    return Calendar(tmp_path)


def test_the_inverses_are_made_newest_first_and_once(calendar: Calendar) -> None:
    run = calendar.ran()
    asked: list[ApprovalRequest] = []

    def says_yes(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    planned = calendar.undo(run.run_id, dry_run=True)
    assert outcomes(planned) == [(3, "not_done", "no_inverse"), (2, "planned", ""), (1, "planned", "")]
    assert (calendar.did, planned.undo_run) == ([], "")
    found = calendar.undo(run.run_id, approve=says_yes)
    assert calendar.did == [("e-tue", "tue"), ("e-mon", "mon")]
    assert outcomes(found) == [(3, "not_done", "no_inverse"), (2, "undone", ""), (1, "undone", "")]
    first = asked[0].feeds
    assert [(f.argument, f.kind, f.call, f.path) for f in first] == [
        ("event", "response", 2, ("made", 0, "id")),
        ("day", "same", 2, ("day",)),
    ]
    again = calendar.undo(run.run_id)
    assert outcomes(again) == [(3, "not_done", "no_inverse"), (2, "not_done", "undone"), (1, "not_done", "undone")]
    assert (len(calendar.did), {call.said for call in again.calls[1:]}) == (2, {found.undo_run})
    with calendar.agent() as agent:
        kept = agent.store.find(run.run_id)
        assert [e["data"]["index"] for e in kept.events() if e["kind"] == "call_undone"] == [2, 1]
        assert agent.store.find(found.undo_run).first("run_started")["task"] == f"Undo run {run.run_id}"  # type: ignore[index]


def test_a_no_is_one_to_a_single_inverse_which_may_be_made_later(calendar: Calendar) -> None:
    run = calendar.ran()
    found = calendar.undo(run.run_id, approve=lambda request: request.arguments["day"] == "mon")
    assert outcomes(found)[1:] == [(2, "denied", ""), (1, "undone", "")]
    assert outcomes(calendar.undo(run.run_id))[1:] == [(2, "undone", ""), (1, "not_done", "undone")]
    assert calendar.did == [("e-mon", "mon"), ("e-tue", "tue")]


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_an_inverse_that_fails_ends_the_undo(calendar: Calendar, outcome: Any) -> None:
    run = calendar.ran()

    def fails(event: str) -> None:
        raise ToolError("down", status=503, outcome=outcome)

    calendar.fails = fails
    found = calendar.undo(run.run_id)
    doubtful = outcome == "unknown"
    assert outcomes(found)[1:] == [(2, "in_doubt" if doubtful else "not_done", ""), (1, "not_done", "")]
    calendar.fails = lambda event: None
    again = outcomes(calendar.undo(run.run_id))[1:]
    assert again == [(2, "not_done", "undo_in_doubt") if doubtful else (2, "undone", ""), (1, "undone", "")]
    assert calendar.did == ([("e-mon", "mon")] if doubtful else [("e-tue", "tue"), ("e-mon", "mon")])


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let an undo end between an inverse that was made and the record that it was."""
    note = undoing.Undoing.note

    async def dies(self: Any, step: Any, run_id: str, state: Any) -> None:
        if state != "begun":
            raise JournalError("killed")
        await note(self, step, run_id, state)

    monkeypatch.setattr(undoing.Undoing, "note", dies)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("killed")
def test_an_undo_that_was_killed_makes_no_inverse_twice(calendar: Calendar, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of its own run knows; and once that is gone, nobody does."""
    kept, gone = calendar.ran(), calendar.ran()
    calendar.undo(kept.run_id)
    by = calendar.undo(gone.run_id).undo_run
    assert calendar.did == [("e-tue", "tue")] * 2
    monkeypatch.undo()
    assert outcomes(calendar.undo(kept.run_id))[1:] == [(2, "not_done", "undone"), (1, "undone", "")]
    with calendar.agent() as agent:
        agent.store.find(by).delete()
    assert outcomes(calendar.undo(gone.run_id))[1:] == [(2, "not_done", "undo_in_doubt"), (1, "undone", "")]
    assert calendar.did == [("e-tue", "tue")] * 2 + [("e-mon", "mon")] * 2


def test_equal_calls_are_each_undone(calendar: Calendar) -> None:
    run = calendar.ran('create(day="mon")\ncreate(day="mon")\nanswer = 2')
    assert outcomes(calendar.undo(run.run_id)) == [(2, "undone", ""), (1, "undone", "")]
    assert calendar.did == [("e-mon", "mon")] * 2
    calendar.undo(run.run_id)
    assert len(calendar.did) == 2


def test_two_undos_at_once_and_a_held_run(calendar: Calendar) -> None:
    run = calendar.ran()

    async def both() -> list[Any]:
        with calendar.agent() as one, calendar.agent() as other:
            return await asyncio.gather(one.aundo(run.run_id), other.aundo(run.run_id), return_exceptions=True)

    found = asyncio.run(both())
    assert sorted(type(each).__name__ for each in found) == ["RunInUse", "UndoneRun"]
    assert len(calendar.did) == 2
    with calendar.agent() as agent:
        held = agent.store.find(run.run_id).open_journal()
        with pytest.raises(RunInUse):
            agent.undo(run.run_id)
        held.close()


def test_the_users_file_comes_before_the_function(calendar: Calendar) -> None:
    run = calendar.ran()
    calendar.rules.write_text(
        '[tools.create]\nundo = "remind(text=$result.made[0].id)"\n'
        '[tools.remind]\nundo = "delete(event=$result.id, day=$text)"\n'
    )
    calendar.rules.chmod(0o600)
    found = calendar.undo(run.run_id, permissions=calendar.rules)
    assert outcomes(found) == [(3, "not_done", "no_value"), (2, "undone", ""), (1, "undone", "")]
    assert (calendar.did, found.calls[0].said) == (["e-tue", "e-mon"], "$result.id")


def test_a_number_is_written_as_text_where_the_inverse_takes_text_and_a_read_undoes_nothing(calendar: Calendar) -> None:
    made: list[Any] = []

    @tool(effect="write", undo="delete(event=$result.id, nth=$result.nth, day=$result.day)")
    def create() -> dict[str, Any]:
        """Create an event."""
        return {"id": 17, "nth": "-3", "day": "03"}

    @tool(effect="write")
    def delete(event: str, nth: int, day: str) -> None:
        """Delete an event."""
        made.append((event, nth, day))

    @tool(effect="write", undo="look(event=1)")
    def note() -> None:
        """Note something."""

    @tool(effect="read")
    def look(event: int) -> None:
        """Look at an event."""
        made.append(event)

    given: Any = {"sentence": False, "approve": "always", "runs_dir": calendar.folder / "runs", "learn": False}
    with Agent([create, delete, note, look], model=FakeModel(["create()\nnote()\nanswer = 1"]), **given) as agent:
        run = agent.run("create")
        assert outcomes(agent.undo(run.run_id)) == [(2, "not_done", "a_read"), (1, "undone", "")]
    assert made == [("17", -3, "03")]


def test_a_call_in_doubt_is_listed_and_one_that_was_settled_needs_no_answer(calendar: Calendar) -> None:
    from atc.run.settling import settle_by_hand

    def lost() -> None:
        raise ToolError("lost", outcome="unknown")

    @tool(effect="write", undo="delete(event=$day, day=$day)")
    def create(day: str) -> str:
        """Create an event."""
        lost()
        return day

    @tool(effect="write")
    def delete(event: str, day: str) -> str:
        """Delete an event."""
        calendar.did.append(event)
        return "gone"

    given: Any = {"sentence": False, "approve": "always", "runs_dir": calendar.folder / "runs", "learn": False}
    with Agent([create, delete], model=FakeModel([CAUGHT] * 3), **given) as agent:
        run = agent.run("mon")
        assert run.status == "in_doubt", run.fault
        assert outcomes(agent.undo(run.run_id)) == [(1, "not_done", "in_doubt")]
        settle_by_hand(agent.store.find(run.run_id), [1], done=True)
        assert outcomes(agent.undo(run.run_id)) == [(1, "undone", "")]
        with pytest.raises(UsageError, match="was undone by run"):
            agent.resume(run.run_id)
    assert calendar.did == ["mon"]


def test_an_inverse_that_a_rule_lets_wait_is_refused_and_may_be_made_later(calendar: Calendar) -> None:
    run = calendar.ran()
    calendar.rules.write_text('[[rules]]\nask = "delete"\nwait = "park"\n')
    calendar.rules.chmod(0o600)
    found = calendar.undo(run.run_id, permissions=calendar.rules, audit=calendar.folder / "audit.jsonl")
    assert outcomes(found)[1:] == [(2, "denied", ""), (1, "denied", "")]
    assert outcomes(calendar.undo(run.run_id))[1:] == [(2, "undone", ""), (1, "undone", "")]
    assert len(calendar.did) == 2


def test_nothing_is_undone_where_calls_wait_or_nothing_is_approved(calendar: Calendar) -> None:
    run = calendar.ran()
    with pytest.raises(UsageError, match="does not wait for approval"):
        calendar.undo(run.run_id, approve="park")
    assert outcomes(calendar.undo(run.run_id, approve="never"))[1:] == [(2, "denied", ""), (1, "denied", "")]
    assert calendar.did == []


def test_an_inverse_that_is_said_not_to_have_been_made_is_made_again_only_with_a_yes(calendar: Calendar) -> None:
    run = calendar.ran()

    def fails(event: str) -> None:
        raise ToolError("lost", outcome="unknown")

    calendar.fails = fails
    lost = calendar.undo(run.run_id)
    calendar.fails = lambda event: None
    with calendar.agent() as agent:
        agent.settle(lost.undo_run, calls=[1], done=False)
    asked: list[ApprovalRequest] = []

    def says_no(request: ApprovalRequest) -> bool:
        asked.append(request)
        return request.arguments["day"] == "mon"

    for _ in range(2):  # under "always", without a terminal; a no does not make it forgotten
        assert outcomes(calendar.undo(run.run_id))[1] == (2, "denied", "")
    assert outcomes(calendar.undo(run.run_id, approve=says_no))[1] == (2, "denied", "")
    assert [(each.repeats, each.in_doubt) for each in asked] == [(lost.undo_run, True)]
    assert calendar.did == [("e-mon", "mon")]
    assert outcomes(calendar.undo(run.run_id, approve=lambda request: True))[1:] == [
        (2, "undone", ""),
        (1, "not_done", "undone"),
    ]
    assert outcomes(calendar.undo(run.run_id))[1] == (2, "not_done", "undone")
    assert calendar.did == [("e-mon", "mon"), ("e-tue", "tue")]


def test_an_answer_that_an_earlier_task_of_a_conversation_got_is_not_taken_for_null(calendar: Calendar) -> None:
    gone: list[Any] = []

    @tool(effect="write", undo="delete(event=$result)")
    def create(day: str) -> str:
        """Create an event."""
        return f"e-{day}"

    @tool(effect="write")
    def delete(event: str | None = None) -> str:
        """Delete an event; without one, all."""
        gone.append(event)
        return "gone"

    given: Any = {"sentence": False, "approve": "always", "runs_dir": calendar.folder / "runs", "learn": False}
    programs = [f'```python\ncreate(day="{day}")\nanswer = 1\n```' for day in ("mon", "tue")]
    with Agent([create, delete], model=FakeModel(programs), **given) as agent:
        with agent.conversation() as chat:
            run, _ = chat.run("mon"), chat.run("tue")
        assert outcomes(agent.undo(run.run_id)) == [(2, "undone", ""), (1, "not_done", "no_value")]
    assert gone == ["e-tue"]
