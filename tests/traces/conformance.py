"""What every store of runs must do: a suite that each driver runs (:mod:`tests.traces.test_stores`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from atc._records.events import VERSION, Event
from atc.calls.journal import Journal, call_key
from atc.errors import JournalError, UsageError
from atc.result import Effect
from atc.serve.mcp.client import KeptRuns
from atc.traces.stores.base import RunStore, StoredRun, prune

Opened = Callable[[], RunStore]
"""Opens the one store again, as another process or machine would."""
OLD, NEW = "20240101-000000-aaaaaa", "20240102-000000-bbbbbb"
KEY = call_key("book", {"n": 1})


def wrote(run: StoredRun, *, done: bool = True, events: int = 2) -> None:
    """Make a run with one write, which is in doubt unless ``done``."""
    run.make()
    journal = run.open_journal()
    trace = run.open_trace()
    journal.begin_attempt()
    trace.write_line(Event("run_started", {"task": "t", "model": "none"}, 1.0).line())
    entry = journal.begin(1, KEY, {"n": 1}, Effect.WRITE)
    journal.send(entry)
    if done:
        journal.succeed(entry, "booked \0 ü \ud83d")
    for number in range(events - 1):
        trace.write_line(Event("answered", {"value": "ü\0\ud83d", "number": number}, 2.0).line())
    trace.close()
    journal.close()


def a_run_that_is_not_there(opened: Opened) -> None:
    run = opened().run(OLD)
    assert (run.exists, run.has_journal, run.version(), run.note("asked")) == (False, False, None, None)
    with pytest.raises(OSError):
        list(run.lines())
    assert opened().list() == [] == opened().recent(10, 60)
    with pytest.raises(UsageError, match="no run is named 'last'"):
        opened().find("last")


def what_is_written_is_read_back_elsewhere(opened: Opened) -> None:
    wrote(opened().run(OLD), events=4)
    wrote(opened().run(NEW))
    store = opened()
    assert [run.run_id for run in store.list()] == [NEW, OLD]
    run = store.find("last")
    assert run.run_id == NEW == store.find("bbbbbb").run_id
    assert (run.exists, run.has_journal) == (True, True)
    assert [event["kind"] for event in run.events()] == ["run_started", "answered"]
    assert [each["data"].get("number") for each in store.run(OLD).events()] == [None, 0, 1, 2]
    assert next(run.events()) == {
        "v": VERSION,
        "kind": "run_started",
        "data": {"task": "t", "model": "none"},
        "at": 1.0,
    }
    assert all(line.endswith(b"\n") for line in run.lines())
    journal = run.open_journal()
    assert (journal.entries[1].state, journal.entries[1].value) == ("done", "booked \0 ü \ud83d")
    journal.close()
    assert len(list(run.peeked())) == 3
    looked = run.peek_journal()
    assert (looked.entries[1].state, looked.entries[1].value) == ("done", "booked \0 ü \ud83d")
    with pytest.raises(JournalError, match="only looked at"):
        looked.begin(2, KEY, {}, Effect.WRITE)
    before = run.journal_version()
    assert before is not None
    journal = run.open_journal()
    journal.begin(2, KEY, {"n": 1}, Effect.READ)
    journal.close()
    assert run.journal_version() not in (None, before)


def a_trace_is_read_on_and_a_list_is_one_look(opened: Opened) -> None:
    wrote(opened().run(OLD), events=4)
    wrote(opened().run(NEW))
    store = opened()
    run = store.run(OLD)
    whole = list(run.lines_from(0))
    assert [line for _, line in whole] == list(run.lines())
    assert list(run.lines_from(whole[1][0])) == whole[2:]
    assert list(run.lines_from(whole[-1][0])) == []
    assert list(store.versions().items()) == [(NEW, store.run(NEW).version()), (OLD, run.version())]
    run.keep_note("summary", {"row": [1]})
    assert store.notes("summary", [NEW, OLD, "29990101-000000-cccccc"]) == {OLD: {"row": [1]}}
    assert store.notes("other", [NEW, OLD]) == {} == store.notes("summary", [])
    run.delete()
    for position in (0, whole[0][0], whole[-1][0]):
        with pytest.raises(OSError):
            list(run.lines_from(position))


def a_trace_goes_on_where_it_ended(opened: Opened) -> None:
    wrote(opened().run(OLD))
    before = opened().run(OLD).version()
    trace = opened().run(OLD).open_trace()
    trace.write_line(Event("run_ended", {"status": "failed"}, 3.0).line())
    trace.close()
    trace.write_line(Event("run_ended", {"status": "late"}, 4.0).line())
    run = opened().run(OLD)
    assert [event["kind"] for event in run.events()] == ["run_started", "answered", "run_ended"]
    assert run.last("run_ended") == {"status": "failed"}
    assert before != run.version() == opened().run(OLD).version()


def one_at_a_time_holds_a_journal(opened: Opened) -> None:
    run = opened().run(OLD)
    run.make()
    assert not opened().run(OLD).is_held()
    first = run.open_journal()
    assert (opened().run(OLD).is_held(), opened().held([OLD, NEW])) == (True, {OLD})
    with pytest.raises(JournalError, match="in use"):
        opened().run(OLD).open_journal()
    with pytest.raises(UsageError, match="in use"):
        opened().run(OLD).delete(in_doubt=True)
    first.begin_attempt()
    first.begin(1, KEY, {"n": 1}, Effect.WRITE)
    first.close()
    assert (opened().run(OLD).is_held(), opened().held([OLD, NEW])) == (False, set())
    second = opened().run(OLD).open_journal()
    assert second.entries[1].state == "refused"  # it was begun and bears no mark: surely it was not sent
    with pytest.raises(JournalError, match="closed"):
        first.begin(2, KEY, {"n": 1}, Effect.WRITE)
    second.begin_attempt()
    second.send(second.begin(2, KEY, {"n": 1}, Effect.WRITE))
    second.close()
    third = opened().run(OLD).open_journal()
    assert third.in_doubt() is third.entries[2]
    third.close()


def notes_and_tracebacks_are_kept(opened: Opened) -> None:
    run = opened().run(OLD)
    run.make()
    run.keep_note("client", {"principal": "a", "ü": [1, None]})
    run.keep_note("client", {"principal": "b", "ü": [1, None]})
    assert opened().run(OLD).note("client") == {"principal": "b", "ü": [1, None]}
    assert opened().run(OLD).note("other") is None
    assert run.keep_traceback(1, "Traceback\0 \ud83d" + "x" * 300_000)
    assert run.keep_traceback(1, "again")


def what_is_deleted_is_gone(opened: Opened) -> None:
    wrote(opened().run(OLD))
    wrote(opened().run(NEW), done=False)
    opened().run(OLD).keep_note("client", {"principal": "a"})
    opened().run(OLD).delete()
    assert [run.run_id for run in opened().list()] == [NEW]
    gone = opened().run(OLD)
    assert (gone.exists, gone.has_journal, gone.note("client")) == (False, False, None)
    with pytest.raises(UsageError, match=r"book may or may not have happened; .*--in-doubt"):
        opened().run(NEW).delete()
    assert opened().run(NEW).exists
    opened().run(NEW).delete(in_doubt=True)
    assert opened().list() == []


def old_runs_go_by_number_and_by_age(opened: Opened) -> None:
    wrote(opened().run(OLD), done=False)
    for day in range(1, 7):
        wrote(opened().run(f"202402{day:02d}-000000-{day:06x}"))
    wrote(opened().run("29990101-000000-aaaaaa"))
    pruned = prune(opened(), 4, at_most=2)
    assert pruned.deleted == ["20240201-000000-000001", "20240202-000000-000002"]
    assert [*pruned.spared] == [OLD]
    assert len(prune(opened(), None, days=30).deleted) == 4
    assert [run.run_id for run in opened().list()] == ["29990101-000000-aaaaaa", OLD]


def the_writes_of_a_client_are_found_again(opened: Opened) -> None:
    wrote(opened().run(OLD))
    KeptRuns(opened(), "local").begin(NEW, "a client")
    wrote(opened().run(NEW), done=False)
    assert [run.run_id for run, _ in opened().recent(10, 60)] == [NEW, OLD]
    assert [run.run_id for run, _ in opened().recent(1, 60)] == [NEW]
    kept = KeptRuns(opened(), "local")
    assert (kept.owns(NEW), kept.owns(OLD), KeptRuns(opened(), "else").owns(NEW)) == (True, False, False)
    (found,) = asyncio.run(kept.writes())[KEY]
    assert (found.run, found.in_doubt) == (NEW, True)


def a_journal_that_lacks_a_call_is_refused(opened: Opened) -> None:
    wrote(opened().run(OLD))
    journal: Journal = opened().run(OLD).open_journal()
    journal.require([(1, True)])
    with pytest.raises(JournalError, match="lacks call 2"):
        journal.require([(2, False)])
    journal.close()


SUITE: tuple[Callable[[Opened], None], ...] = (
    a_run_that_is_not_there,
    what_is_written_is_read_back_elsewhere,
    a_trace_is_read_on_and_a_list_is_one_look,
    a_trace_goes_on_where_it_ended,
    one_at_a_time_holds_a_journal,
    notes_and_tracebacks_are_kept,
    what_is_deleted_is_gone,
    old_runs_go_by_number_and_by_age,
    the_writes_of_a_client_are_found_again,
    a_journal_that_lacks_a_call_is_refused,
)
