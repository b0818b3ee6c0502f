"""A write that another run of the same caller did is asked about, under every choice; one that was not done is not."""

from __future__ import annotations

from typing import Any

import pytest

from atc.calls import question
from atc.calls.approval import Approval, ApprovalRequest
from atc.errors import ToolError
from atc.serve.mcp.client import Writes, WritesOfOthers
from tests.support.broker import READ, WRITE, House, counted
from tests.support.tools import make_tool


def house(writes: Writes, run_id: str, approve: Any = "always", value: Any = "ok") -> tuple[House, list[Any]]:
    """The broker of one run."""
    seen, function = counted(value)
    made = House(make_tool("book", function, WRITE), make_tool("look", function, READ))
    made.broker.approval = Approval(approve, earlier=WritesOfOthers(writes, run_id))
    return made, seen


def test_always_is_no_yes_to_what_another_run_did() -> None:
    writes = Writes()
    first, done = house(writes, "run-1")
    assert first.call("book", n=1).error is None
    second, again = house(writes, "run-2")
    refused = second.call("book", n=1)
    assert refused.error == "run run-1 did the same before, and nobody could be asked about that"
    assert second.call("book", n=2).error is None
    assert second.call("look", n=1).error is None
    assert (len(done), len(again)) == (1, 2)


def test_a_write_in_doubt_counts_and_one_that_was_not_done_does_not() -> None:
    writes = Writes()
    assert house(writes, "run-1", value=ToolError("closed", outcome="refused"))[0].call("book", n=1).error
    assert house(writes, "run-2", value=ToolError("gone", outcome="unknown"))[0].call("book", n=1).error
    refused = house(writes, "run-3")[0].call("book", n=1)
    assert refused.error == "run run-2 may have done the same before, and nobody could be asked about that"


def test_a_call_that_nobody_approved_was_not_done() -> None:
    writes = Writes()
    assert house(writes, "run-1", approve=lambda request: False)[0].call("book", n=1).status == "denied"
    assert house(writes, "run-2")[0].call("book", n=1).error is None


def test_who_is_asked_learns_of_the_other_run() -> None:
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    writes = Writes()
    house(writes, "run-1")[0].call("book", n=1)
    assert house(writes, "run-2", approve=ask)[0].call("book", n=1).error is None
    assert [(each.repeats, each.in_doubt) for each in asked] == [("run-1", False)]


def test_the_terminal_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", None)
    writes = Writes()
    house(writes, "run-1")[0].call("book", n=1)
    assert house(writes, "run-2")[0].call("book", n=1).status == "denied"
    assert "allow book again (run 'run-1' did the same)?" in capsys.readouterr().err
