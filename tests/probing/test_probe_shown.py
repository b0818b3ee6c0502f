"""What a person sees of probing on its way, and of a check: nothing that a service wrote drives the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from atc.cli.probe_shown import View, check_summary, diff
from atc.probing.drift import Change, Drift
from atc.probing.prober import Progress
from atc.probing.record import Record


def step(record: Record, *, under_way: bool, round_: int = 1) -> Progress:
    records = {record.name: record, "other": Record("other", state="skipped")}
    return Progress(record, round_, under_way, 7, 9, 1993, records)


def shown(*, terminal: bool) -> tuple[View, io.StringIO]:
    text = io.StringIO()
    return View(Console(file=text, force_terminal=terminal, highlight=False, width=100)), text


def test_in_a_pipe_a_line_stands_for_each_change() -> None:
    view, text = shown(terminal=False)
    record = Record("get_lake")
    view(step(record, under_way=True))
    assert text.getvalue() == ""
    record.state, record.reason = "undocumented", "last tried with \x1b[2J"
    view(step(record, under_way=False))
    view(step(record, under_way=False, round_=2))
    record.state, record.reason = "documented", ""
    view(step(record, under_way=False, round_=3))
    assert text.getvalue().splitlines() == [
        "[round 1] get_lake: undocumented last tried with \N{REPLACEMENT CHARACTER}[2J",
        "[round 3] get_lake: documented",
    ]


def test_on_a_terminal_the_tools_under_way_stand_with_what_is_left_of_the_budget() -> None:
    view, text = shown(terminal=True)
    view(step(Record("get_lake"), under_way=True))
    view.close()
    assert "get_lake" in text.getvalue()
    assert "1 skipped, 1 waiting; 7 calls, 1,993 left" in text.getvalue()
    view(step(Record("get_lake", state="documented"), under_way=False))
    assert text.getvalue().endswith("[round 1] get_lake: documented\n"), "after a question lines follow"


def test_a_check_is_a_diff_in_a_stable_order() -> None:
    found = [
        Drift(tool="b", problem="unanswered", reason="HTTP 404\n+ b.x: \x1b[31m"),
        Drift(tool="c", problem="masked"),
        Drift(tool="f", problem="unreached", reason="HTTP 503"),
        Drift(tool="d", changes=(Change("$.rare", "newly_seen", None, "string"),)),
        Drift(tool="e", problem="gone"),
        Drift(
            tool="a",
            changes=(
                Change("$.kind", "enum_changed", ["x", None], ["x", "y"]),
                Change("$.lakes[].depth", "gone", "number"),
                Change("$.lakes[].name", "now_optional", "required", "optional"),
                Change("$.new", "added", None, "string"),
            ),
        ),
    ]
    assert list(diff(found)) == [
        "@@ a: breaking @@",
        '- a.kind: "x" | null',
        '+ a.kind: "x" | "y"',
        "- a.lakes[].depth: number  # breaking",
        "- a.lakes[].name: required",
        "+ a.lakes[].name: optional",
        "+ a.new: string",
        "@@ b: breaking @@",
        "! b: none of its examples works any more: HTTP 404 + b.x: \N{REPLACEMENT CHARACTER}[31m",
        "# c: not compared, for its examples hold masked secrets",
        "@@ e: breaking @@",
        "! e: it is not there any more, or may not be called",
        "# f: not compared: HTTP 503",
    ]
    assert [each.moved for each in found] == [True, False, False, False, True, True]
    assert check_summary(found) == "3 of 6 tools changed, 3 so that programs would fail, 2 not compared"
    away = Drift(tool="f", problem="unreached", reason="HTTP 503")
    assert check_summary([away]) == "no tool could be compared"
