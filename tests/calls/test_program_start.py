"""The clock and the seed of a program, as the journal keeps them for the run that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.calls.journal import Journal
from atc.calls.program_start import ProgramStart
from atc.errors import JournalError


def test_a_program_that_runs_again_has_the_start_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    first, other = journal.start_of("answer = 1"), journal.start_of("answer = 2")
    assert first.seed != other.seed
    assert first.at <= other.at
    assert journal.start_of("answer = 1") == first
    journal.close()
    again = Journal(path)
    assert (again.start_of("answer = 2"), again.start_of("answer = 1")) == (other, first)
    again.close()
    assert path.read_bytes().count(b"\n") == 2


def test_another_stage_task_or_run_has_a_start_of_its_own() -> None:
    journal = Journal()
    starts = [journal.start_of("answer = 1")]
    journal.begin_stage()
    starts.append(journal.start_of("answer = 1"))
    journal.begin_request(answered=True)
    starts += [journal.start_of("answer = 1"), Journal().start_of("answer = 1")]
    assert len({start.seed for start in starts}) == 4


def test_what_begins_anew_in_a_later_stage_has_the_starts_of_the_stages_before(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    steps = ["answer = f()", "answer = g()", "answer = f()"]
    starts = []
    for step in steps:
        starts.append(journal.start_of(step))
        journal.begin_attempt()
        journal.begin_stage()
    journal.close()
    for _ in range(2):
        again = Journal(path)
        again.begin_again()
        found = []
        for step in steps:
            found.append(again.start_of(step))
            found.append(again.start_of(step))  # a revision that says the same
            again.begin_stage()
        again.close()
        assert found == [start for start in starts for _ in range(2)]


@pytest.mark.parametrize(
    "damage",
    [
        {"at": -1},
        {"at": "now"},
        {"at": True},
        {"at": 1e300},
        {"at": float("nan")},
        {"seed": "00"},
        {"seed": "G" * 64},
        {"seed": 7},
        {"start": 7},
        {"of": [0]},
        {"of": [0, "1"]},
        {"of": 0},
    ],
)
def test_a_start_of_another_form_refuses_the_journal(tmp_path: Path, damage: dict[str, object]) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.start_of("answer = 1")
    journal.close()
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | damage) + "\n")
    with pytest.raises(JournalError):
        Journal(path)
    path.write_text((json.dumps(record) + "\n") * 2)
    with pytest.raises(JournalError):
        Journal(path)


def test_a_start_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    """Nothing acted yet: a call that does is synced, and all before it."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    kept = journal.start_of("answer = 1")
    first = path.stat().st_size
    last = journal.start_of("answer = 2")
    journal.close()
    content = path.read_bytes()
    for cut in range(first, len(content)):
        path.write_bytes(content[:cut])
        again = Journal(path)
        assert again.start_of("answer = 1") == kept
        assert (again.start_of("answer = 2") == last) == (cut == len(content) - 1)
        again.close()
        if cut > first:
            path.write_bytes(content[:cut] + content[:first])
            with pytest.raises(JournalError):
                Journal(path)


def test_a_start_is_checked() -> None:
    start = ProgramStart.new()
    assert ProgramStart(int(start.at), start.seed)
    with pytest.raises(ValueError, match="seed"):
        ProgramStart(start.at, start.seed[1:])
