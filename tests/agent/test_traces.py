"""Traces: every event as it happened, readable after any crash, never the reason that a run fails."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from atc import Agent, FakeModel, ToolError, tool
from atc._records.events import DATA, VERSION, Event, EventKind
from atc.errors import UsageError
from atc.traces.stores.base import new_run_id
from atc.traces.stores.files import FileRun, FileStore, FileTrace


@pytest.fixture
def stored(tmp_path: Path) -> FileRun:
    run = FileStore(tmp_path / "runs").run("20240101-000000-abcdef")
    run.make()
    return run


def write(stored: FileRun, *events: Event) -> None:
    writer = FileTrace(stored.trace)
    for event in events:
        writer.write_line(event.line())
    writer.close()


def test_odd_values_never_stop_a_trace(stored: FileRun) -> None:
    write(stored, Event("answered", {"half": "\ud83d", "path": Path("/x"), "nan": float("nan")}))
    (event,) = stored.events()
    assert event["data"]["half"] == "?"
    assert event["data"]["path"] == "/x"


def test_every_cut_leaves_the_events_before_it_and_room_for_more(stored: FileRun) -> None:
    write(stored, Event("answered", {"value": 1}, 1.0), Event("answered", {"value": "ü"}, 2.0))
    whole = stored.trace.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        stored.trace.write_bytes(whole[:cut])
        assert len(list(stored.events())) == (2 if cut == len(whole) - 1 else int(cut >= first - 1)), cut
        write(stored, Event("run_ended", {"status": "failed"}, 3.0))
        assert [event["kind"] for event in stored.events()] == ["answered"] * (cut >= first) + ["run_ended"]


def test_lines_that_are_no_events_are_left_out(stored: FileRun) -> None:
    write(stored, Event("answered", {}, 1.0))
    with stored.trace.open("ab") as file:
        file.write(
            b'garbage\n\xff\xfe\nnull\n[1]\n{"kind": "answered"}\n{"kind": "x", "at": 1, "data": []}\n'
            + b"[" * 100_000
            + b"\n"
        )
    write(stored, Event("run_ended", {}, 2.0))
    assert [event["kind"] for event in stored.events()] == ["answered", "run_ended"]


def test_a_disk_that_is_full_ends_the_trace_and_not_the_run(stored: FileRun, caplog: pytest.LogCaptureFixture) -> None:
    writer = FileTrace(stored.trace)
    writer.write_line(Event("answered", {"value": 1}).line())
    with open("/dev/full", "wb", buffering=0) as full:
        writer._file = full  # type: ignore[assignment]
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                writer.write_line(Event("answered", {"value": 2}).line())
    assert [record.message for record in caplog.records] == [
        f"the trace {stored.trace} ends here: No space left on device"
    ]


def test_runs_are_found_by_any_end_of_their_name(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    assert store.list() == []
    for name in ("20240101-000000-aaaaaa", "20240102-000000-bbbbbb", "not-a-run", "20240103-000000-cccccc"):
        store.run(name).make()
        if not name.startswith("20240103"):
            write(store.run(name), Event("answered", {}))
    assert [run.run_id for run in store.list()] == ["20240102-000000-bbbbbb", "20240101-000000-aaaaaa"]
    assert (
        store.find("last").run_id
        == store.find("bbb").run_id
        == store.find("20240102").run_id
        == "20240102-000000-bbbbbb"
    )
    for name, words in (
        ("2024", "2 runs are"),
        ("cccccc", "no run is"),
        ("../20240101-000000-aaaaaa", "no run is"),
        ("*", "no run is"),
    ):
        with pytest.raises(UsageError, match=words):
            store.find(name)


def test_run_ids_sort_by_time_and_are_names_of_folders() -> None:
    names = {new_run_id() for _ in range(50)}
    assert len(names) == 50
    assert all("/" not in name and len(name) == 22 for name in names)


BROKEN = {"tool_banned", "substituted"}
"""Of a run in which a tool broke: tests/run/test_recover.py."""
LATER = {"call_settled", "call_undone"}
"""Of a run that ended: tests/run/test_settle.py, tests/run/test_undo.py."""


def test_the_events_of_a_run_have_the_fields_that_are_documented() -> None:
    """A refused program, one that fails, a call that is approved, an answer: nearly every kind of event."""
    programs = ["answer = unknown_tool()", "answer = put(n='x', m=1)", "answer = put(n=ask_user(question='1 or 2?'))"]

    @tool(effect="write")
    def put(n: str, m: int = 0) -> str:
        """Put n."""
        if m:
            raise ToolError("m must be 0")
        return n

    events: list[Event] = []
    with Agent(
        [put],
        model=FakeModel(programs),
        approve=lambda _: True,
        ask_user=lambda _: "1",
        sentence=False,
        on_event=events.append,
    ) as agent:
        assert agent.run("Put 1.").status == "answered"
    slow = {"indexing", "model_waiting", "store_waiting"}
    missing = {"tool_probed", "stage_started", "layer_started"} | slow | BROKEN | LATER
    assert {event.kind for event in events} == set(get_args(EventKind)) - missing
    for event in events:
        record = DATA[event.kind]
        if record == dict[str, Any]:
            continue
        assert event.data.keys() <= record.__annotations__.keys(), event.kind
        TypeAdapter(record).validate_python(event.data, strict=True)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_trace_of_another_format_is_refused_with_its_place(stored: FileRun, version: int) -> None:
    write(stored, Event("answered", {"value": 1}, 1.0))
    stored.trace.write_text(stored.trace.read_text().replace(f'"v": {VERSION}', f'"v": {version}'))
    with pytest.raises(
        UsageError, match=rf"trace\.jsonl has format {version}, .*: use the version that wrote it, or delete"
    ):
        list(stored.events())
