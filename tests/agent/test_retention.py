"""Old runs are deleted; one in progress, or with a write in doubt, never is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc import UsageError
from atc._records.events import Event
from atc.calls.journal import Journal, call_key
from atc.errors import JournalError
from atc.result import Effect
from atc.traces.stores.base import Pruned, prune
from atc.traces.stores.files import FileRun, FileStore, FileTrace
from tests.support.agent import GOOD, agent
from tests.support.cli import atc


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "runs")


def kept(store: FileStore, day: int, *, doubt: bool = False) -> FileRun:
    """A run of that day of January that has ended."""
    run = store.run(f"202401{day:02d}-000000-{day:06x}")
    run.make()
    journal = Journal(run.journal)
    journal.begin_attempt()
    entry = journal.begin(1, call_key("book", {"n": 1}), {"n": 1}, Effect.WRITE)
    journal.send(entry)
    if not doubt:
        journal.succeed(entry, "booked")
    journal.close()
    writer = FileTrace(run.trace)
    writer.write_line(Event("run_started", {"task": f"day {day}", "model": "none"}).line())
    writer.close()
    return run


def days(store: FileStore) -> list[int]:
    return sorted(int(run.run_id[6:8]) for run in store.list())


def test_the_newest_are_kept(store: FileStore) -> None:
    for day in range(1, 8):
        kept(store, day)
    assert len(prune(store, 3).deleted) == 4
    assert days(store) == [5, 6, 7]
    assert len(list(store.folder.iterdir())) == 3
    assert prune(store, 3) == Pruned()


def test_a_run_in_progress_is_spared(store: FileStore) -> None:
    oldest = kept(store, 1)
    kept(store, 2)
    journal = Journal(oldest.journal)  # as an agent holds it, here or in another process
    assert "in use" in prune(store, 0).spared[oldest.run_id]
    with pytest.raises(UsageError, match="in use"):
        oldest.delete()
    assert days(store) == [1]
    journal.close()
    oldest.delete()
    assert days(store) == []


def test_a_journal_that_cannot_be_read_is_spared(store: FileStore) -> None:
    damaged = kept(store, 1)
    damaged.journal.write_bytes(b'{"call": 1}\n')
    assert "not a journal record" in prune(store, 0).spared[damaged.run_id]
    assert days(store) == [1]


def test_what_is_no_run_of_ours_is_not_touched(store: FileStore, tmp_path: Path) -> None:
    kept(store, 1)
    (store.folder / "notes").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "trace.jsonl").write_text("")
    (store.folder / "20240102-000000-000002").symlink_to(outside)
    assert prune(store, 0).deleted == ["20240101-000000-000001"]
    assert (outside / "trace.jsonl").exists()
    assert (store.folder / "20240102-000000-000002").is_symlink()
    assert (store.folder / "notes").is_dir()


def test_what_a_killed_process_left_goes_with_the_next(store: FileStore) -> None:
    kept(store, 1)
    left = store.folder / ".deleted-20240101-000000-00000a"
    left.mkdir()
    (left / "trace.jsonl").write_text("")
    prune(store, 1)
    assert not left.exists()
    assert days(store) == [1]


def test_the_end_of_a_run_deletes_what_is_over_the_bound(store: FileStore) -> None:
    for day in range(1, 5):
        kept(store, day, doubt=day == 1)
    result = agent(GOOD, runs_dir=store.folder, runs_kept=2).run("double 21")
    assert days(store)[:2] == [1, 4]
    assert store.find("last").run_id == result.run_id
    assert result.trace is not None
    assert Path(result.trace).exists()


def test_the_bound_does_not_count_where_nothing_is_kept(store: FileStore) -> None:
    kept(store, 1)
    agent(GOOD, runs_dir=store.folder, runs_kept=1, keep_runs=False).run("double 21")
    assert days(store) == [1]


def test_a_run_whose_journal_is_gone_is_not_resumed(store: FileStore) -> None:
    run = kept(store, 1)
    run.journal.unlink()
    with pytest.raises(JournalError, match="has no journal"):
        agent(GOOD, runs_dir=store.folder).resume(run.run_id)


# -- atc runs delete --------------------------------------------------------------------------------------------------


def test_the_command_deletes_and_says_what_it_spared(store: FileStore) -> None:
    for day in range(1, 5):
        kept(store, day, doubt=day == 2)
    ran = atc("runs", "delete", "000003", "last", "--json")
    assert sorted(json.loads(ran.stdout)["deleted"]) == ["20240103-000000-000003", "20240104-000000-000004"]
    ran = atc("runs", "delete", "--keep", "0")
    assert ran.exit_code == 0
    assert "1 deleted" in ran.stdout
    assert "20240102-000000-000002 is kept: book may or may not have happened" in ran.stdout
    assert days(store) == [2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["000002"], "may or may not have happened"),
        (["000001", "nothing"], "no run is named 'nothing'"),
        (["--keep", "1", "last"], "not both"),
        (["--keep", "-1"], "greater than or equal to 0"),
        (["000002", "--in-doubt"], "no one is available to confirm it: give --yes"),
        (["last", "--lessons"], "belong to all runs"),
        (["--keep", "0", "--in-doubt"], "runs that you name"),
        (["all", "--yes"], "give --in-doubt too"),
    ],
)
def test_what_cannot_be_deleted_is_wrong_use(store: FileStore, arguments: list[str], words: str) -> None:
    kept(store, 1)
    kept(store, 2, doubt=True)
    ran = atc("runs", "delete", *arguments)
    assert ran.exit_code == 2
    assert words in ran.stderr
    assert days(store) == [1, 2]


def test_all_run_data_can_be_deleted(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 5):
        kept(store, day, doubt=day == 2)
    kept(store, 5).trace.unlink()
    held = store.run("20240103-000000-000003").open_journal()
    for place in (tmp_path / "replies" / "ab.json", tmp_path / "catalogue" / "x", tmp_path / "audit.jsonl"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("{}")
    found = json.loads(atc("runs", "delete", "all", "--json").stdout)
    assert [run_id[6:8] for run_id in found["deleted"]] == ["05", "04", "01"]
    assert [kept["why"].split(" is kept: ")[1][:12] for kept in found["kept"]] == ["the journal ", "book may or "]
    assert [Path(left["path"]).name for left in found["left"]] == ["replies", "catalogue", "audit.jsonl"]
    held.close()

    monkeypatch.setattr("atc.calls.question.has_terminal", lambda: True)
    asked: list[object] = []

    async def no(heading: str, named: object) -> bool:
        asked.append(named)
        return False

    monkeypatch.setattr("atc.calls.question.ask", no)
    assert "1 deleted" in atc("runs", "delete", "all", "--in-doubt").stdout
    assert "20240102-000000-000002" in str(asked)
    assert days(store) == [2]
    ran = atc("runs", "delete", "all", "--in-doubt", "--yes", "--replies", "--lessons")
    assert ran.exit_code == 0
    assert "1 deleted" in ran.stdout
    assert days(store) == []
    assert not (tmp_path / "replies").exists()
    assert [line for line in ran.stdout.splitlines() if "stays" in line and "audit.jsonl" in line]


def test_runs_go_by_their_age_too(store: FileStore) -> None:
    kept(store, 1)
    kept(store, 2, doubt=True)
    result = agent(GOOD, runs_dir=store.folder, runs_kept_days=2).run("double 21")
    assert [run.run_id for run in store.list()] == [result.run_id, "20240102-000000-000002"]
