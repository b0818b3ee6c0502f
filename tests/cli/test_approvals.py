"""``atc runs approvals``, ``atc runs approve``: what waits is listed, a yes needs a terminal, and a resume goes on."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result as Ran

from tests.support.cli import at_a_terminal, atc
from tests.support.fake_openai_server import Server, says
from tests.support.permissions import file_of


def resume(*options: str) -> Ran:
    sys.modules.pop("tools", None)  # as in a process of its own
    return atc("resume", "last", *options)


PROGRAM = "```python\nanswer = book(n=4)\n```"


pytestmark = pytest.mark.usefixtures("settled_anew")


def test_a_run_stops_at_a_write_and_goes_on_after_a_yes(
    endpoint: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(says(PROGRAM))
    ran = atc("run", "book 4", "--tools", "tools.py", "--approve", "park")
    assert ran.exit_code == 8, ran.output
    assert "waits for your approval" in ran.output
    assert "book(n=4)" in ran.output
    (listed,) = json.loads(atc("runs", "approvals", "--json").stdout)
    assert [call["arguments"] for call in listed["pending"]] == [{"n": 4}]
    assert "waits for you" in atc("runs").output

    refused = atc("runs", "approve", "last", stdin="y\n")  # a model with a shell can do that
    assert refused.exit_code == 2
    assert "approving needs a terminal" in refused.output
    assert resume().exit_code == 8  # it goes on waiting, as it was begun

    at_a_terminal(monkeypatch, "y")
    approved = atc("runs", "approve", "last")
    assert (approved.exit_code, "1 approved, 0 denied" in approved.output) == (0, True)
    assert json.loads(atc("runs", "approvals", "--json").stdout) == []
    done = resume("--json")
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "answered")


def test_a_no_needs_no_terminal_and_the_run_ends_as_denied(endpoint: Callable[..., Server]) -> None:
    endpoint(says(PROGRAM))
    assert atc("run", "book 4", "--tools", "tools.py", "--approve", "park").exit_code == 8
    assert atc("runs", "approve", "last", "--call", "7", "--deny").exit_code == 2
    denied = atc("runs", "approve", "last", "--deny", "--json")
    assert (denied.exit_code, json.loads(denied.stdout)["decided"]) == (0, {"1": False})
    assert resume().exit_code == 4
    nothing = atc("runs", "approve", "last", "--deny")
    assert (nothing.exit_code, "no call that waits" in nothing.output) == (2, True)


def test_an_approver_needs_a_key_and_no_terminal_and_the_second_one_is_told_who_was_first(
    endpoint: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = atc("permissions", "approver", "ann", "--key-file", "ann.key")
    assert (made.exit_code, atc("permissions", "approver", "bob", "--key-file", "bob.key").exit_code) == (0, 0)
    assert atc("permissions", "approver", "ann", "--key-file", "ann.key").exit_code == 2  # it is there already
    assert (tmp_path / "ann.key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("ATC_PERMISSIONS", str(file_of(tmp_path, made.stdout)))
    assert "the approvers: ann" in atc("permissions", "check").stdout
    endpoint(says("```python\nbook(n=4)\nbook(n=5)\nanswer = 1\n```"))
    assert atc("run", "book 4", "--tools", "tools.py", "--approve", "always").exit_code == 8

    for options in ((), ("--deny",), ("--key-file", "bob.key"), ("--key-file", "none.key")):
        assert atc("runs", "approve", "last", "--call", "1", *options, stdin="y\n").exit_code == 2
    unseen = atc("runs", "approve", "last", "--key-file", "ann.key")
    assert (unseen.exit_code, "name them with --call" in unseen.output) == (2, True)
    approved = atc("runs", "approve", "last", "--call", "1", "--key-file", "ann.key")
    assert (approved.exit_code, "1 approved" in approved.output) == (0, True)
    second = atc("runs", "approve", "last", "--call", "1", "--key-file", "ann.key")
    assert (second.exit_code, "call 1 was approved before, by ann, 20" in second.output) == (2, True)
    monkeypatch.setenv("ATC_APPROVER_KEY", (tmp_path / "ann.key").read_text())
    assert atc("runs", "approve", "last", "--call", "2").exit_code == 0
    done = resume("--json")
    assert (done.exit_code, json.loads(done.stdout)["status"]) == (0, "answered")


def test_a_task_stands_on_one_line_of_the_list(endpoint: Callable[..., Server]) -> None:
    endpoint(says(PROGRAM))
    atc("run", "book 4\n  9. book(n=5)\x1b[2J", "--tools", "tools.py", "--approve", "park")
    listed = atc("runs", "approvals").output
    assert ("\n  9." in listed, "\x1b" in listed, "\n  1. book(n=4)" in listed) == (False, False, True)


def test_the_list_says_what_came_of_asking_at_the_approval_url(
    endpoint: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(says(PROGRAM))
    monkeypatch.setenv("ATC_APPROVAL_URL", "http://127.0.0.1:9/hook?secret=word")
    monkeypatch.setenv("ATC_APPROVAL_SECRET", "a-secret-of-the-tests")
    assert atc("run", "book 4", "--tools", "tools.py", "--approve", "park").exit_code == 8
    listed = atc("runs", "approvals").output
    assert ("asked at http://127.0.0.1:9: it cannot be reached" in listed, "word" in listed) == (True, False)


SCRIPT = '''
from atc import Agent, tool

@tool(effect="read")
def seats(room: str) -> int:
    """How many seats a room has."""
    return 4

@tool(effect="write")
def reserve(room: str, people: int) -> str:
    """Reserve a room."""
    return f"{room} for {people}"

if __name__ == "__main__":
    with Agent([seats, reserve], approve="park") as agent:
        waiting = agent.run_program("answer = reserve(room='A', people=seats(room='A'))")
        agent.approve(waiting.run_id)
'''


def test_a_run_of_a_script_goes_on_with_the_tools_of_its_file() -> None:
    Path("attic_of_rooms.py").write_text(SCRIPT)
    runpy.run_path("attic_of_rooms.py", run_name="__main__")
    went_on = atc("resume", "last", "--tools", "attic_of_rooms.py")
    assert went_on.exit_code == 0, went_on.output
    assert 'seats(room="A")  from the journal' in went_on.output
    assert "A for 4" in went_on.output
    assert "not there any more" not in went_on.output
