"""The benchmark of killed hosts: what it counts of a run's report, held against what was really done."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from atc.result import Effect
from atc.traces.stores.files import FileStore
from benchmarks.kills import hosts as kills

LINE = "function 0"


@pytest.mark.parametrize(
    ("told", "statuses", "times", "as_read", "counted"),
    [
        (True, [], 1, False, "done"),  # by a host that was killed; the program that ended the run did not call it
        (False, ["replayed"], 1, False, "done"),
        (True, [], 0, False, "lost"),
        (False, ["refused", "ok"], 0, False, "lost"),
        (True, ["ok"], 2, False, "twice"),
        (True, ["ok"], 2, True, "read_twice"),
        (False, ["in_doubt"], 0, False, "in_doubt"),
        (False, ["refused"], 1, False, "unsaid"),
        (False, [], 1, False, "unsaid"),
        (False, [], 1, True, "read_unsaid"),
        (False, ["refused"], 0, False, "not_done"),
        (False, [], 0, False, "unasked"),
    ],
)
def test_a_line_is_counted_by_what_the_run_says_and_what_was_done(
    told: bool, statuses: list[str], times: int, as_read: bool, counted: str
) -> None:
    found = kills.Found()
    report = {
        "status": "answered",
        "done": [LINE] * told,
        "calls": [(LINE, status) for status in statuses],
        "as_read": [LINE] * as_read,
    }
    kills.count_report(report, Counter({LINE: times}), found)
    others = kills.EACH - 1
    expected = Counter({"unasked": others}) + Counter({counted: 1})
    assert {name: value for name, value in vars(found.kinds["function"]).items() if value} == dict(expected)


def test_the_result_and_the_trace_of_a_run_report_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "EACH", 1)
    (tmp_path / "lines").touch()
    shapes = kills.AS_THEY_ARE | {
        "http": kills.Shape(""),
        "async": kills.Shape("write_async", Effect.READ),
    }
    result = asyncio.run(kills._run(tmp_path, 1, shapes)).model_dump(mode="json")
    (run,) = FileStore(tmp_path / "runs").list()
    report = kills.report_of(result, result["calls"])
    assert report == kills.traced(run.events())
    assert report["status"] == "answered"
    assert report["done"] == ["function 0", "slow 0"]
    assert report["calls"] == [("function 0", "ok"), ("async 0", "ok"), ("slow 0", "ok")]
    assert kills._begun_as_read(tmp_path) == ["async 0"]
