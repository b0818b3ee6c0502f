"""Summaries are kept beside their runs: read once, right again after every change, and gone with the run."""

from __future__ import annotations

import fcntl
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from atc._host import files
from atc._records.events import Event
from atc.errors import UsageError
from atc.settings import Settings
from atc.traces import index as indexes
from atc.traces.index import FORM, Follower, RunIndex, line_of
from atc.traces.stores.base import StoredRun
from atc.traces.stores.files import FileRun, FileStore
from atc.traces.summary import MAX_TASK, RunSummary, begun, search
from atc.wording.outcomes import DONE
from tests.support.cli import atc


@pytest.fixture
def store() -> FileStore:
    return FileStore(Settings.load().runs_dir)


def made(store: FileStore, number: int, task: str = "Rome", status: str = "answered") -> FileRun:
    run = store.run(f"20260101-000000-{number:06x}")
    run.make()
    write(run, "run_started", task=task, model="m", strategy="chain", run_id=run.run_id)
    if status:
        write(run, "run_ended", status=status, answer="7", usage={"seconds": 1.5})
    return run


def write(run: FileRun, kind: Any, **data: Any) -> None:
    trace = run.open_trace()
    trace.write_line(Event(kind, data, at=1_750_000_000.0).line())
    trace.close()


def test_a_trace_is_read_once(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [made(store, number) for number in range(3)]
    first = RunIndex(store).latest()
    assert [row.run_id for row in first] == [run.run_id for run in reversed(runs)]

    def never(stored: StoredRun) -> RunSummary:
        raise AssertionError(f"{stored.run_id} was read again")

    with monkeypatch.context() as patched:
        patched.setattr(indexes, "summary_of", never)
        assert RunIndex(store).latest() == first
        assert RunIndex(store).latest(1) == first[:1]
    write(runs[0], "run_started", task="Paris", model="m", strategy="chain", run_id=runs[0].run_id)
    assert [row.task for row in RunIndex(store).latest()] == ["Rome", "Rome", "Paris"]
    runs[1].delete()
    assert len(RunIndex(store).latest()) == 2
    assert not list(store.folder.rglob(f"*{runs[1].run_id}*"))


@pytest.mark.parametrize(
    "note",
    [
        *("{", "[]", "{}", '{"v": V}', '{"v": V, "of": "x", "row": {}}', '{"v": V, "of": OF, "row": {"calls": []}}'),
        '{"v": 1, "of": OF, "row": {"run_id": "r", "task": "of another format"}}',
    ],
)
def test_a_note_that_says_something_else_is_not_believed(store: FileStore, note: str) -> None:
    run = made(store, 1)
    written = note.replace("OF", json.dumps(repr(run.version()))).replace("V", str(FORM))
    (run.folder / "summary.json").write_text(written)
    assert RunIndex(store).latest()[0].task == "Rome"
    assert (run.note("summary") or {})["of"] == repr(run.version())


def test_a_run_that_goes_on_is_read_on(store: FileStore) -> None:
    run = made(store, 1, status="")
    index = RunIndex(store)
    assert index.latest()[0].status == "cut off"
    for number in range(1, 4):
        call = {"index": number, "tool": "t", "arguments": {}, "status": "ok", "error": None}
        write(run, "call_ended", **call, seconds=0.1, notes=[])
        assert [list(part) for part in index.refresh()] == [[run.run_id]]
        assert index.rows()[0].calls == number
    run.trace.open("a").write('{"v": 3, "kind": 5}\n')
    write(run, "run_ended", status="answered", answer="7", usage={"seconds": 1.5})
    row = index.latest()[0]
    assert (row.status, row.calls) == ("damaged", 3)
    assert "line 5" in str(row.damage)
    assert RunIndex(store).latest()[0] == row
    run.delete()
    assert [list(part) for part in index.refresh()] == [[run.run_id]]
    assert index.row(run.run_id) is None


def test_a_summary_says_what_its_answer_does_without(store: FileStore) -> None:
    run = made(store, 1, status="")
    went_on = {"partial": True, "remarks": [{"message": "a"}, {"message": "b"}]}
    write(run, "run_ended", status="answered", answer="7", usage={"seconds": 1.5}, **went_on)
    row = RunIndex(store).latest()[0]
    assert (row.partial, row.remarks) == (True, 2)
    assert RunIndex(store).latest()[0] == row, "as it was kept"
    write(run, "run_started", task="the next one", model="m", strategy="chain", run_id=run.run_id)
    row = RunIndex(store).latest()[0]
    assert (row.partial, row.remarks) == (False, 0)


def test_one_that_cannot_be_kept_is_listed_all_the_same(store: FileStore, tmp_path: Path) -> None:
    run = made(store, 1, task="\N{HUGGING FACE}" * 5_000)
    (run.folder / "summary.json").mkdir()  # nobody can write there, nor read
    row = RunIndex(store).latest()[0]
    assert len(json.dumps(row.task)) <= MAX_TASK
    assert row.task.endswith("\N{HUGGING FACE}…")
    (run.folder / "trace.jsonl").write_text('{"v": 99, "kind": "run_started", "at": 1, "data": {}}\n')
    assert RunIndex(store).latest()[0].status == "unreadable"
    assert RunIndex(FileStore(tmp_path / "none")).latest() == []


@pytest.mark.parametrize("text", ["", "x" * 100, "ä" * 100, '"' * 100, "\ud800" * 100, "\N{HUGGING FACE}" * 100])
@pytest.mark.parametrize("room", [20, 101, 102, 602, 1202])
def test_a_long_text_is_cut_to_its_room(text: str, room: int) -> None:
    cut = begun(text, room)
    assert len(json.dumps(cut)) <= room
    assert cut == text or (cut.endswith("…") and text.startswith(cut[:-1]))


@pytest.mark.parametrize("name", ["trace.jsonl", "summary.json"])
def test_a_pipe_or_a_device_in_a_run_is_not_waited_for(store: FileStore, name: str) -> None:
    made(store, 1)
    for strange in (made(store, 2), made(store, 3)):
        (strange.folder / name).unlink(missing_ok=True)
    os.mkfifo(store.run("20260101-000000-000002").folder / name)
    (store.run("20260101-000000-000003").folder / name).symlink_to("/dev/zero")
    listed = [row.run_id[-1] for row in RunIndex(store).latest()]
    assert listed == (["1"] if name == "trace.jsonl" else ["3", "2", "1"])
    assert store.run("20260101-000000-000002").exists is (name != "trace.jsonl")
    if name == "trace.jsonl":
        with pytest.raises(OSError, match="no ordinary file"):
            list(store.run("20260101-000000-000003").lines())


def test_numbers_that_json_lacks_do_not_reach_a_list(store: FileStore) -> None:
    run = store.run("20260101-000000-000001")
    run.make()
    write(run, "run_started", task="t", model="m")
    write(run, "run_ended", status="answered", answer="7", usage={"seconds": math.nan}, cost=math.inf, currency="EUR")
    row = RunIndex(store).latest()[0]
    assert json.loads(json.dumps(row.record(), allow_nan=False))["seconds"] is None
    write(run, "run_ended", status="answered", answer="7", usage={"seconds": "many"})
    assert RunIndex(store).latest()[0].status == "damaged"


def test_a_follower_takes_whole_lines_in_parts(store: FileStore) -> None:
    run = made(store, 1, status="")
    follower = Follower(run)
    assert [number for number, _ in follower.read()] == [1]
    assert follower.read() == []
    with run.trace.open("ab") as file:
        file.write(Event("stage_started", {"stage": 1, "new_request": True, "inputs": {}}).line().encode())
    assert follower.read() == []  # its end is not there
    with run.trace.open("ab") as file:
        file.write(b"\n\0\0\0\n")
    write(run, "run_ended", status="answered", answer="7", usage={"seconds": 1.5})
    assert [number for number, _ in follower.read(1)] == [2]
    assert follower.more
    assert [number for number, _ in follower.read(1)] == [4]
    late = Follower(run, after=4)
    assert (late.read(), late.status) == ([], "answered")
    assert line_of(run, 4)["kind"] == "run_ended"
    assert [p for p, _ in StoredRun.lines_from(run, 1)] == [2, 3, 4]
    run.delete()
    with pytest.raises(FileNotFoundError):
        follower.read()


def test_runs_are_found_by_words_and_numbers(store: FileStore) -> None:
    made(store, 1, "a train to Rome")
    made(store, 2, "a ship to Rome", status="unsolved")
    rows = RunIndex(store).latest()

    def found(query: str, status: str = "") -> list[str]:
        return [row.task.split()[1] for row in rows if search(query, status)(row)]

    assert found("") == found("ROME m") == ["ship", "train"]
    assert found("seconds:1.5 calls:<1 cost:>1") == []
    assert found("train") == found("status:answered") == found("", "answered") == ["train"]
    assert found("since:2025-06-15 until:2025-06-15") == ["ship", "train"]
    assert found("until:2025-06-14") == []
    for wrong in ("tokens:many", "since:soon", "until:9999-12-31", "calls:>", "x" * 501):
        with pytest.raises(UsageError):
            search(wrong)
    listed = atc("runs", "search", "ship", "--json")
    assert [row["task"] for row in json.loads(listed.stdout)] == ["a ship to Rome"]
    assert atc("runs", "search", "nothing").stdout.startswith("no run that fits in ")
    assert atc("runs", "search", "calls:x").exit_code == 2


def test_a_run_that_waits_for_the_user_says_so(store: FileStore) -> None:
    run = made(store, 1, status="")
    index = RunIndex(store)
    assert not index.latest()[0].waits
    journal = run.open_journal()
    for kind, waits in (("approval_asked", True), ("call_started", False), ("call_ended", False)):
        write(run, kind, index=1, tool="send")
        assert [index.latest()[0].waits, RunIndex(store).latest()[0].waits] == [waits, waits]
    write(run, "approval_asked", index=2, tool="send")
    write(run, "call_ended", index=1, tool="send")  # of another call
    assert index.latest()[0].waits
    assert "  waits for you  " in atc("runs").stdout
    journal.close()  # whoever would have heard the answer has ended
    assert [(row.status, row.waits) for row in index.latest() + RunIndex(store).latest()] == [("cut off", False)] * 2
    assert "  cut off  " in atc("runs").stdout
    journal = run.open_journal()
    write(run, "call_ended", index=2, tool="send")  # the answer was no
    assert not index.latest()[0].waits
    write(run, "call_started", index=3, tool="ask_user")
    write(run, "question_asked", question="Which?", number=1)
    assert index.latest()[0].waits
    journal.close()
    write(run, "run_ended", status="needs_input", answer="", usage={"seconds": 1.5})
    assert index.latest()[0].waits
    write(run, "run_started", task="Rome", model="m", run_id=run.run_id)
    write(run, "run_ended", status="answered", answer="", usage={"seconds": 1.5})
    assert not index.latest()[0].waits


def test_a_run_goes_on_as_long_as_a_process_holds_it(store: FileStore) -> None:
    run, dead = made(store, 2, status=""), made(store, 1, status="")
    index = RunIndex(store)

    def statuses() -> list[str]:
        assert [row.status for row in RunIndex(store).latest()] == [row.status for row in index.latest()]
        assert [row["status"] for row in json.loads(atc("runs", "--json").stdout)] == [
            row.status for row in index.rows()
        ]
        return [row.status for row in index.rows()]

    assert statuses() == ["cut off", "cut off"]
    journal = run.open_journal()
    assert [list(part) for part in index.refresh()] == [
        [run.run_id]
    ]  # a page hears of it, though its trace is as it was
    assert statuses() == ["running", "cut off"]
    assert [row["run_id"] for row in json.loads(atc("runs", "search", "status:running", "--json").stdout)] == [
        run.run_id
    ]
    write(run, "answered", value=7)
    assert statuses() == ["running", "cut off"]
    journal.close()
    assert [list(part) for part in index.refresh()] == [[run.run_id]]
    assert statuses() == ["cut off", "cut off"]
    assert not dead.has_journal, "a look makes no file"
    assert atc("runs", "show", run.run_id).stdout.endswith(f"── cut off: `atc resume {run.run_id}` continues it ──\n")
    journal = run.open_journal()
    assert "running" in atc("runs", "show", run.run_id).stdout
    journal.close()
    assert "continues it" not in atc("runs", "show", made(store, 3).run_id).stdout


def test_who_looks_whether_a_run_is_held_takes_no_lock(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    held, free = made(store, 1, status=""), made(store, 2, status="")
    free.open_journal().close()
    journal = held.open_journal()
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("it locks"))
    monkeypatch.setattr(fcntl, "lockf", lambda *_: pytest.fail("it locks"))
    assert (store.held([held.run_id, free.run_id]), free.is_held()) == ({held.run_id}, False)
    monkeypatch.undo()
    journal.close()


def test_where_the_kernel_has_no_table_of_locks_a_run_is_cut_off(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = made(store, 1, status="")
    journal = run.open_journal()
    monkeypatch.setattr("atc._host.files._TABLE", tmp_path / "none")
    assert [row.status for row in RunIndex(store).latest()] == ["cut off"]
    journal.close()


def test_a_lock_is_of_one_file_on_one_device(store: FileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = made(store, 1, status="")
    journal = run.open_journal()
    kernels = files._TABLE.read_text()
    table = tmp_path / "locks"
    monkeypatch.setattr("atc._host.files._TABLE", table)
    inode = run.journal.stat().st_ino
    (own,) = (line for line in kernels.splitlines() if f":{inode} " in line)
    for changed, is_held in (
        ("", True),
        ("-> FLOCK", False),  # it waits for a lock
        ("POSIX", False),
        (f"ff:ff:{inode}", False),
    ):
        parts = own.split()
        if changed:
            parts[5 if ":" in changed else 1] = changed
        table.write_text(f"rubbish\n{' '.join(parts)}\n")
        assert run.is_held() is is_held, changed
    journal.close()


def test_a_run_that_was_killed_and_resumed_is_counted_as_one(store: FileStore) -> None:
    run = store.run("20260101-000000-000001")
    run.make()
    trace = run.open_trace()
    call = {"tool": "t", "arguments": {}, "error": None, "seconds": 0.1, "notes": []}
    started = ("run_started", {"task": "Rome", "model": "m", "run_id": run.run_id})
    kinds: list[tuple[Any, dict[str, Any]]] = [
        started,
        ("program_written", {"attempt": 0, "program": "a"}),
        ("call_ended", {"index": 1, "status": "ok", **call}),
        ("program_written", {"attempt": 1, "program": "b"}),
        ("call_started", {"index": 2, "tool": "t", "arguments": {}}),  # after 4 s it is killed
        started,
        ("call_ended", {"index": 3, "status": "replayed", **call}),
        ("call_started", {"index": 4, "tool": "t", "arguments": {}}),
        ("call_ended", {"index": 4, "status": "ok", **call}),
        ("program_written", {"attempt": 1, "program": "c"}),
        ("run_ended", {"status": "answered", "answer": "7", "value": 7, "usage": {"seconds": 6.0}}),
    ]
    for n, (kind, data) in enumerate(kinds):
        trace.write_line(Event(kind, data, at=1_750_000_000.0 + n + (3_600 if n > 4 else 0)).line())
    trace.close()
    row = RunIndex(store).latest()[0]
    assert (row.seconds, row.calls, row.replayed, row.revisions) == (10.0, 3, 1, 2)


def test_what_was_not_sent_is_no_call() -> None:
    call = {"tool": "t", "arguments": {}, "error": None, "seconds": 0.1, "notes": []}
    row = RunSummary("r")
    counted = []
    for kind, data in [
        ("approval_asked", {"index": 1}),
        ("call_ended", {"index": 1, "status": "refused", **call}),
        ("call_ended", {"index": 2, "status": "refused", **call}),
        ("call_ended", {"index": 3, "status": "planned", **call}),
        ("approval_asked", {"index": 4}),
        ("call_started", {"index": 4, "tool": "t", "arguments": {}}),
        ("call_ended", {"index": 4, "status": "failed", **call}),
        ("call_ended", {"index": 5, "status": "replayed", **call}),
        ("call_ended", {"index": 6, "status": "pending", **call}),
    ]:
        row.add(kind, data, 1.0)
        counted.append(row.calls)
    assert (counted, row.replayed) == ([1, 0, 0, 0, 1, 1, 1, 1, 1], 1)


@pytest.mark.parametrize(
    ("effect", "status", "answer", "shown"),
    [
        ("write", "ok", "null", DONE),
        ("write", "replayed", "", DONE),
        ("write", "ok", "Ann is reminded.", "Ann is reminded."),
        ("write", "refused", "null", "null"),
        ("read", "ok", "null", "null"),
    ],
)
def test_a_run_without_a_value_says_that_it_is_done(
    store: FileStore, effect: str, status: str, answer: str, shown: str
) -> None:
    run = made(store, 1, status="")
    call = {"index": 1, "tool": "t", "arguments": {}, "error": None, "seconds": 0.1, "notes": []}
    write(run, "call_ended", **call, effect=effect, status=status)
    write(run, "run_ended", status="answered", answer=answer, value=None, usage={"seconds": 1.5})
    assert RunIndex(store).latest()[0].answer == shown
