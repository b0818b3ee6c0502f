"""A revision that leaves out a write is not answered what was so before it; one that makes it again is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset
from atc.calls.journal import Journal, call_key
from atc.result import Effect
from tests.support.tools import make_tool

FAILS = "answer = [][0]"
READ = "answer = status()"


class Phone:
    """A switch that is turned without arguments, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_on = True
        self.turned = self.reads = self.copies = 0
        self.rung: list[str] = []

    def _status(self, _: dict[str, Any]) -> str:
        self.reads += 1
        return "on" if self.is_on else "off"

    def _toggle(self, _: dict[str, Any]) -> str:
        self.is_on = not self.is_on
        self.turned += 1
        return self._status({})

    def _ring(self, arguments: dict[str, Any]) -> str:
        self.rung.append(arguments["text"])
        return "rung"

    def _save(self, _: dict[str, Any]) -> str:
        self.copies += 1
        shutil.copytree(self.folder, self.saved(self.copies))  # what there is if the process is killed now
        return "saved"

    def saved(self, number: int) -> Path:
        return self.folder.with_name(f"saved-{number}")

    def agent(self, *programs: str, **given: Any) -> Agent:
        text = {"type": "string"}
        tools = Toolset(
            [
                make_tool("status", self._status),
                make_tool("toggle", self._toggle, Effect.WRITE),
                make_tool("ring", self._ring, Effect.WRITE, text=text),
                make_tool("save", self._save),
            ]
        )
        replies = ["```python\n" + program + "\n```" for program in programs]
        settings = {"sentence": False, "approve": "always", "runs_dir": self.folder, "learn": False}
        return Agent(tools, model=FakeModel(replies), **{**settings, **given})

    def run(self, *programs: str, **given: Any) -> Result[Any]:
        return self.agent(*programs, **given).run("turn it off")


@pytest.fixture
def phone(tmp_path: Path) -> Phone:
    return Phone(tmp_path / "runs")


def lines(*given: str) -> str:
    return "\n".join(given)


def test_a_revision_that_leaves_a_write_out_reads_what_is_so_after_it(phone: Phone) -> None:
    result = phone.run(lines("status()", "toggle()", FAILS), READ)
    assert (result.value, phone.turned) == ("off", 1)


def test_a_revision_that_makes_the_write_again_reads_in_the_order_of_the_record(phone: Phone) -> None:
    program = lines("before = status()", "if before == 'on':", "    toggle()", "after = status()")
    result = phone.run(lines(program, FAILS), lines(program, "answer = [before, after]"))
    assert (result.value, phone.turned) == (["on", "off"], 1)
    assert [call.status for call in result.calls if call.attempt == 1] == ["replayed"] * 3


def test_what_was_read_after_the_write_is_kept(phone: Phone) -> None:
    result = phone.run(lines("status()", "toggle()", "status()", FAILS), READ)
    assert (result.value, result.calls[-1].status) == ("off", "replayed")


def test_where_a_program_without_writes_failed_its_reads_are_kept(phone: Phone) -> None:
    result = phone.run(lines("status()", FAILS), READ)
    assert (result.value, phone.reads) == ("on", 1)


def test_a_write_that_is_asked_for_by_a_computed_name_is_not_made_twice_and_reads_are_new(phone: Phone) -> None:
    result = phone.run(lines("status()", "toggle()", FAILS), lines("globals()['tog' + 'gle']()", READ))
    assert (result.value, phone.turned) == ("off", 1)


def test_the_write_that_a_third_program_makes_again_brings_its_older_reads_back(phone: Phone) -> None:
    first = lines("before = status()", "toggle()")
    result = phone.run(
        lines(first, FAILS), lines("status()", FAILS), lines(first, "answer = [before, status()]"), max_revisions=3
    )
    assert (result.value, phone.turned) == (["on", "off"], 1)


def test_reads_that_were_made_at_once_before_the_write_are_all_made_again(phone: Phone) -> None:
    at_once = "found = parallel(status, status)"
    result = phone.run(lines(at_once, "toggle()", FAILS), lines(at_once, "answer = found"))
    assert (result.value, phone.turned) == (["off", "off"], 1)


def test_a_read_that_began_before_the_write_was_done_is_made_again(tmp_path: Path) -> None:
    """It was made at once with the write: nobody can tell which of them its service saw first."""
    journal, read, write = Journal(tmp_path / "journal.jsonl"), call_key("status", {}), call_key("toggle", {})
    journal.begin_attempt()
    acting = journal.begin(1, write, {}, Effect.WRITE)
    reading = journal.begin(2, read, {}, Effect.READ)
    journal.succeed(reading, "on")
    journal.succeed(acting, "off")
    journal.succeed(journal.begin(3, read, {}, Effect.READ), "off")
    for again in (False, True):
        if again:
            journal.close()
            journal = Journal(tmp_path / "journal.jsonl")
        journal.begin_attempt()
        journal.read_anew("answer = status()", [read._replace(digest="")])
        assert [entry.value for entry in [journal.claim(read)] if entry is not None] == ["off"]
        journal.begin_attempt()
        journal.read_anew("toggle(); answer = status()", [write._replace(digest="")])
        assert [entry.value for entry in [journal.claim(read)] if entry is not None] == ["on"]


@pytest.mark.parametrize("outcome", ["told", "killed", "under way"])
def test_a_read_that_began_before_a_write_was_given_up_is_made_again(tmp_path: Path, outcome: str) -> None:
    """The write may have been done after it."""
    journal, read = Journal(tmp_path / "journal.jsonl"), call_key("status", {})
    journal.begin_attempt()
    acting = journal.begin(1, call_key("toggle", {}), {}, Effect.WRITE)
    journal.send(acting)
    journal.succeed(journal.begin(2, read, {}, Effect.READ), "on")
    if outcome == "told":
        journal.fail(acting, surely_not_done=False, message="no answer in time")
    if outcome == "killed":
        journal.close()
        journal = Journal(tmp_path / "journal.jsonl")
    journal.begin_attempt()
    journal.read_anew("answer = status()", [read._replace(digest="")])
    assert journal.claim(read) is None
    journal.succeed(journal.begin(3, read, {}, Effect.READ), "off")
    journal.begin_attempt()
    journal.read_anew("answer = [status()]", [read._replace(digest="")])
    assert [entry.value for entry in [journal.claim(read)] if entry is not None] == ["off"], "what is newer is kept"


def test_a_revision_that_was_killed_goes_on_with_what_it_had_read(phone: Phone) -> None:
    whole = phone.run(lines("status()", "toggle()", FAILS), lines("found = status()", "save()", "answer = found"))
    phone.is_on = True  # by another hand
    done = phone.agent(runs_dir=phone.saved(1)).resume(whole.run_id)
    assert (whole.value, done.value, phone.turned) == ("off", "off", 1)


def test_a_killed_program_that_calls_by_a_computed_name_goes_on_with_what_it_had_read(phone: Phone) -> None:
    """Its own writes are no reason to ask anew: by another answer it would come another way."""
    whole = phone.run(lines("found = status()", "globals()['tog' + 'gle']()", "save()", "answer = found"))
    done = phone.agent(runs_dir=phone.saved(1)).resume(whole.run_id)
    assert (whole.value, done.value, phone.turned) == ("on", "on", 1)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_yes_to_a_revision_rests_on_what_the_revision_read(phone: Phone, tmp_path: Path, seconds: float) -> None:
    rules = tmp_path / "permissions.toml"
    rules.write_text('[[rules]]\nallow = "toggle"\n')
    rules.chmod(0o600)
    given = {"approve": "park", "permissions": rules, "reuse_reads_s": seconds}
    second = lines("found = status()", "ring(text=found)", "answer = found")
    waiting = phone.run(lines("status()", "toggle()", FAILS), second, **given)
    assert waiting.status == "waiting"
    phone.agent(**given).approve(waiting.run_id)
    done = phone.agent(**given).resume(waiting.run_id)
    assert (done.status, done.value, phone.rung, phone.turned) == ("answered", "off", ["off"], 1)
