"""Runs and their list in a real browser: keys, folding, whole values, and nothing of a stranger's that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from atc._records.events import DATA
from atc.serve.pages.run.page import run_file, run_page
from atc.serve.pages.run.shown import shown
from atc.serve.pages.runs.page import runs_page
from atc.traces.stores.files import FileRun
from tests.serve.pages.test_run_shown import stored_run
from tests.support.axe import findings
from tests.support.browser import Page
from tests.support.run_events import ATTACKS, FAULT, PROGRAM, all_kinds, call, events_of, hostile, many_calls

pytestmark = pytest.mark.slow

OPEN_ALL = """for (let round = 0; round < 4; round++)
  document.querySelectorAll('#main [aria-expanded=false], #main .more').forEach((each) => each.click())"""


def look(page: Page, folder: Path, html: str, *, dark: bool = False, width: int = 1200) -> None:
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    page.messages.clear()
    page.requests.clear()
    page.open(file, dark=dark, width=width)
    page.wait("document.body.dataset.ready === 'yes'")


def of(events: Sequence[dict[str, Any]]) -> str:
    return run_page([made for n, event in enumerate(events, 1) if (made := shown(n, event)) is not None])


def unharmed(page: Page) -> None:
    """Nothing ran, nothing was refused by our own policy, nothing was fetched but the page."""
    assert page.run("String(window.__pwned)") == "undefined"
    assert page.run("String({}.polluted)") == "undefined"
    assert page.messages == []
    assert len(page.requests) == 1
    assert (
        page.run("document.querySelectorAll('img, iframe, link, object, [onload], [onerror], [style*=url]').length")
        == 0
    )


def focused(page: Page) -> str:
    return str(page.run("document.activeElement.innerText.replace(/\\s+/g, ' ')"))


def test_what_a_run_did_stands_on_the_lines_of_its_programs(page: Page, tmp_path: Path) -> None:
    look(page, tmp_path, of(all_kinds()))
    flow = page.text("#flow").replace("\n", " ")
    shown_there = """not run: the check found something|no such key|fault of book|it answered 500|book is down|Stage 1
        book2 took the place of book|Step 1 of 1|The program asks: Which?|an event of an unknown kind|out
        run although: unsure|rewritten before it ran: respelt|And now?|waits for your answer"""
    for text in re.split(r"\||\n\s+", shown_there):
        assert text in flow, text
    under = "document.querySelector('[aria-label=\"Calls of line 6\"]').innerText"
    assert "book(n=2)" in page.run(under)
    assert page.run("document.querySelectorAll('.ln.minus').length") == 1  # the second program lost a line of the first
    page.run("document.querySelector('[aria-label=\"Calls of line 5\"] .folded').click()")
    assert page.run("document.querySelectorAll('[aria-label=\"Calls of line 5\"] .under .call').length") == 13
    page.run("document.querySelector('[aria-label=\"Calls of line 5\"] .under .call').click()")
    details = page.text(".details").replace("\n", " ")
    for text in (
        "m was read as n",
        "as the program gave them",
        str(2**70),
        "whole: 1.0",
        "5 bytes",
        "__proto__",
        "1,000 of 9,000",
    ):
        assert text in details, text
    assert "Which one?" in page.text("#outcome")
    unharmed(page)
    look(page, tmp_path, of(all_kinds()[:-3]))  # the first task, a dry run, by itself
    assert "book(place='x')" in page.text(".plan")
    assert page.text("#badge") == "○ planned"
    assert "0.0123" in page.text("#figures")


def test_a_run_is_read_with_keys_alone(page: Page, tmp_path: Path) -> None:
    look(page, tmp_path, of(many_calls(1_000)))
    for key in "jj":
        page.press(key)
    assert "1,000 calls" in focused(page)
    page.press("Enter")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert (
        page.run("document.querySelectorAll('.rows .rows .call:not(.folded)').length") == 53
    )  # 50, and 3 out of sight
    page.press("ArrowLeft")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.press("/")
    page.type("thing 700")
    assert page.text("#matches") == "1 match"
    page.press("Enter")
    assert "700 weigh(n=700)" in focused(page)
    page.press("k")
    assert "699 weigh(n=699)" in focused(page)
    page.press("Escape")
    page.press("e")
    assert "97 weigh(n=97)" in focused(page)
    page.press("?")
    assert page.run("document.querySelector('dialog').open") is True
    page.press("j")  # the keys of the page wait
    page.press("Escape")
    assert page.run("document.querySelector('dialog').open") is False
    unharmed(page)


def test_a_large_value_is_cut_and_opened_whole_from_the_file(page: Page, tmp_path: Path) -> None:
    rows = [{"n": n, "text": "x" * 480} for n in range(10_000)]
    answered = call(1, value={"rows": rows, "last": "é" * 70_000})
    events = events_of(("program_written", {"attempt": 0, "program": PROGRAM}), ("call_ended", answered))
    run = stored_run(tmp_path, events)
    look(page, tmp_path, run_file(run).html)
    assert (tmp_path / "page.html").stat().st_size > 5_000_000
    page.run("document.querySelector('.call').click()")
    assert page.run("document.querySelectorAll('.details *').length") < 600
    page.run("[...document.querySelectorAll('.details .twig')].find((e) => e.innerText.includes('rows')).click()")
    page.run("[...document.querySelectorAll('.details .more')].find((e) => e.innerText.includes('not shown')).click()")
    page.wait("document.querySelector('.details').innerText.includes('of 10,000')")
    assert page.run("document.querySelectorAll('.details *').length") < 3_000
    assert page.run("document.querySelector('.details').innerText.includes('99: ')") is True
    unharmed(page)


@pytest.mark.parametrize("attack", range(len(ATTACKS)))
def test_nothing_that_a_trace_says_runs(attack: int, page: Page, tmp_path: Path) -> None:
    events = [*hostile(ATTACKS[attack])]
    look(page, tmp_path, run_file(stored_run(tmp_path, events)).html if attack == 1 else of(events))
    page.run(OPEN_ALL)
    page.press("/")
    page.type("pwned")
    page.press("Enter")
    page.press("e")
    assert page.run("[...document.links].every((each) => each.getAttribute('href').startsWith('#'))") is True
    assert page.run("document.querySelectorAll('.call').length") > 5
    unharmed(page)


def test_nothing_that_a_row_of_the_list_says_runs(page: Page, tmp_path: Path) -> None:
    names = ("run_id", "task", "status", "model", "strategy", "answer", "damage", "currency")
    rows = [dict.fromkeys(names, attack) | {"cost": 1.5, "began": 1.79e9} for attack in ATTACKS]
    look(page, tmp_path, runs_page([*rows, {"task": "\u0301" * 100_000}]))
    assert page.run("document.querySelectorAll('.run').length") == len(ATTACKS) + 1
    page.press("/")
    page.type("pwned")
    page.press("Enter")
    unharmed(page)


def test_ten_thousand_runs_are_a_window_of_rows(page: Page, tmp_path: Path) -> None:
    rows = [
        {"run_id": f"20261123-{n:06}-{n:06x}", "task": f"task {n}", "status": "failed" if n % 2 else "answered"}
        for n in range(10_000)
    ]
    look(page, tmp_path, runs_page(rows))
    assert page.run("document.querySelectorAll('.run').length") < 80
    assert page.text("#matches") == "10,000 runs"
    page.press("j")
    page.press("j")
    assert "task 1" in focused(page)
    page.press("G")
    assert "task 9999" in focused(page)
    page.press("/")
    page.type("task 4321")
    assert page.text("#matches") == "1 run"
    page.press("Enter")
    assert "task 4321" in focused(page)
    page.run("document.getElementById('search').value = ''; document.getElementById('status').value = 'failed'")
    page.run("document.getElementById('status').dispatchEvent(new Event('change'))")
    assert page.text("#matches") == "5,000 runs"
    unharmed(page)


@pytest.mark.parametrize("status", ["__proto__", "constructor"])
def test_a_strange_status_does_not_end_the_page(status: str, page: Page, tmp_path: Path) -> None:
    finding = {"kind": "x", "severity": "error", "message": "line 5: no such key", "line": 5}
    events = (
        ("run_started", all_kinds()[0]["data"]),
        ("findings", {"attempt": 0, "findings": [{"kind": "x", "severity": "error", "message": "it holds none"}]}),
        ("program_written", {"attempt": 1, "program": PROGRAM, "rewrites": []}),
        ("call_ended", call(1, status=status)),
        ("findings", {"attempt": 1, "findings": [finding]}),
        ("run_ended", {"status": status, "usage": {}}),
    )
    look(page, tmp_path, of(events_of(*events)))
    unharmed(page)
    assert page.run("[...document.querySelectorAll('.head .title')].map((e) => e.innerText)") == [
        "No program",
        "Program 2",
    ]
    assert page.run("document.querySelectorAll('#flow .finding')[1].innerText") == "finding no such key"


@pytest.mark.parametrize("status", ["denied", "answered"])
def test_an_incomplete_run_says_so_under_its_value(status: str, page: Page, tmp_path: Path) -> None:
    ended = {"status": status, "usage": {}, "partial": True, "value": 42, "remarks": [{"message": "it failed"}]}
    ended |= {"fault": {"message": "it was refused"} if status == "denied" else None}
    answered = [("answered", {"value": 42, "answer": "42"})] if status == "answered" else []
    look(page, tmp_path, of(events_of(("run_started", all_kinds()[0]["data"]), *answered, ("run_ended", ended))))
    text = str(page.text("#outcome"))
    what = "it was refused" if status == "denied" else "it failed"
    places = [text.index(part) for part in ("42", "it failed; the program went on", f"incomplete: {what}. The value")]
    assert places == sorted(places)
    assert page.text("#badge") == ("✕ not approved" if status == "denied" else "✓ answered incomplete")
    unharmed(page)


def test_an_answer_with_a_remark_is_not_told_as_if_nothing_were_wrong(page: Page, tmp_path: Path) -> None:
    started, answered = ("run_started", all_kinds()[0]["data"]), ("answered", {"value": [42], "answer": "It is 42."})
    weight = "Number(getComputedStyle(document.querySelector('.answer')).fontWeight)"
    bold = []
    for remarks in ([], [{"message": "it failed"}] * 2):
        ended = {"status": "answered", "usage": {}, "remarks": remarks}
        look(page, tmp_path, of(events_of(started, answered, ("run_ended", ended))))
        assert page.text("#badge") == ("✓ answered 2 remarks" if remarks else "✓ answered")
        bold.append(page.run(weight))
        assert page.text("#outcome").count("it failed; the program went on without it") == len(remarks)
    assert bold[0] > bold[1] == 400
    rows: dict[str, dict[str, Any]] = {
        "✓ answered": {},
        "✓ answered 1 remark": {"remarks": 1},
        "✓ answered warning": {"remarks": 1, "unresolved": True},
        "✓ answered incomplete": {"remarks": 2, "unresolved": True, "partial": True},
        "✕ failed": {"status": "failed", "remarks": 1},
        "? waits for you": {"status": "cut off", "waits": True},
        "? waits for your answer": {"status": "needs_input", "waits": True},
    }
    html = runs_page([{"run_id": "r", "status": "answered"} | each for each in rows.values()])
    cells = ".run > span:first-child"
    for width in (1200, 480):
        look(page, tmp_path, html, width=width)
        assert page.run(f"[...document.querySelectorAll('{cells}')].map((each) => each.textContent)") == list(rows)
        fits = "(each) => each.scrollWidth <= each.clientWidth && each.offsetHeight < each.parentElement.offsetHeight"
        assert page.run(f"[...document.querySelectorAll('{cells}')].every({fits})"), "nothing of it is cut"
    unharmed(page)


def test_a_run_whose_last_program_was_refused_shows_why(page: Page, tmp_path: Path) -> None:
    finding = {"kind": "x", "severity": "error", "message": "line 5: no such key", "line": 5}
    events = (
        ("run_started", all_kinds()[0]["data"]),
        ("program_written", {"attempt": 0, "program": PROGRAM, "rewrites": []}),
        ("findings", {"attempt": 0, "findings": [finding | {"message": "of the first one"}]}),
        ("program_written", {"attempt": 1, "program": PROGRAM, "rewrites": []}),
        ("findings", {"attempt": 1, "findings": [finding]}),
    )
    look(page, tmp_path, of(events_of(*events, ("run_ended", {"status": "unsolved", "usage": {}, "fault": None}))))
    assert page.text("#outcome .finding") == "finding line 5: no such key"
    assert "of the first one" not in page.text("#outcome")
    look(page, tmp_path, of(events_of(*events, ("run_ended", {"status": "unsolved", "usage": {}, "fault": FAULT}))))
    assert "book failed" in page.text("#outcome"), "a run says itself why it ended"
    assert "no such key" not in page.text("#outcome")
    unharmed(page)


def test_a_run_that_ended_between_writes_lists_what_is_done_and_what_is_not(page: Page, tmp_path: Path) -> None:
    def write(index: int, id: int, status: str, **more: Any) -> tuple[str, dict[str, Any]]:
        return "call_ended", call(index, tool="order", arguments={"id": id}, effect="write", status=status, **more)

    program = ("program_written", {"attempt": 0, "program": "order(id=1)", "rewrites": []})
    events = (
        ("run_started", all_kinds()[0]["data"]),
        program,
        ("call_ended", call(1)),
        write(2, 1, "ok"),
        write(3, 2, "failed", error="it was busy"),
        write(4, 3, "failed", error="no such id"),
        write(5, 6, "refused", error="nobody could be asked", cause="denied"),
        program,
        write(6, 1, "replayed"),
        write(7, 2, "ok"),
        write(8, 4, "in_doubt", error="cut off"),
        write(9, 5, "refused", error="the user did not approve this call"),
        ("run_ended", {"status": "denied", "usage": {}, "fault": {"message": "it was refused"}}),
    )
    look(page, tmp_path, of(events_of(*events)))
    told = re.sub(r"\s+", " ", page.text("#outcome"))
    assert told.endswith(
        "it was refused Done ✓ answered: order(id=1) ✓ answered: order(id=2) "
        "May have been done ? in doubt: order(id=4) cut off "
        "Not done ✕ refused: order(id=6) nobody could be asked "
        "✕ refused: order(id=5) the user did not approve this call"
    ), told
    unharmed(page)


def test_damage_is_shown_where_it_is(page: Page, tmp_path: Path) -> None:
    run: FileRun = stored_run(tmp_path, all_kinds()[:12])
    lines = run.trace.read_text().splitlines(keepends=True)
    lines[4] = '{"kind": "model_ended", "at": "never"\n'
    run.trace.write_text("".join(lines) + json.dumps(all_kinds()[12])[:40])  # a crash cut the last line
    made = run_file(run)
    look(page, tmp_path, made.html)
    assert "1 line of the trace cannot be read" in page.text("#left")
    assert "line 5 is damaged" in page.text("#flow")
    assert page.text("#badge") == "… cut off"
    unharmed(page)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_keeps_people_from_using_the_pages(dark: bool, page: Page, tmp_path: Path) -> None:
    look(page, tmp_path, of(all_kinds()), dark=dark)
    page.run(OPEN_ALL)
    assert findings(page) == []
    page.press("?")
    assert findings(page) == []
    rows = [
        {"run_id": f"r{n}", "task": "t", "answer": "a", "status": s, "cost": 1.0}
        for n, s in enumerate(("answered", "failed", "planned"))
    ]
    look(page, tmp_path, runs_page(rows), dark=dark, width=480)
    assert findings(page) == []


def test_events_of_a_form_that_nobody_writes_break_nothing(page: Page, tmp_path: Path) -> None:
    odd: list[Any] = [None, 7, "x", [], {"findings": 7}, {"tools": 7, "layers": {}}, {"program": 7}, {"fault": 7}]
    kinds = sorted(DATA)
    events = [{"n": n, "kind": kind, "at": 0, "data": data} for n, (kind, data) in enumerate(product(kinds, odd), 1)]
    whole = [made for n, event in enumerate(all_kinds(), 1_000) if (made := shown(n, event)) is not None]
    look(page, tmp_path, run_page([{"n": 0, "kind": "unknown", "at": 0, "data": {}}, *events, *whole]))
    page.run(OPEN_ALL)
    assert "cannot be" in page.text("#left")
    assert "it answered 500" in page.text("#flow")
    unharmed(page)


def test_a_run_that_was_killed_and_resumed_adds_up(page: Page, tmp_path: Path) -> None:
    started = ("run_started", {"run_id": "r", "task": "t", "model": "m"})
    begun = {"index": 2, "tool": "weigh", "arguments": {}, "effect": "read"}
    killed = [
        started,
        ("program_written", {"attempt": 0, "program": "answer = weigh(n=1)"}),
        ("program_started", {"attempt": 0}),
        ("call_ended", call(1)),
        ("call_started", begun),
    ]
    look(page, tmp_path, of(events_of(*killed)))
    assert "running" not in page.text("#main")
    assert "1 cut off" in page.text("#figures")
    usage = {"seconds": 2.0, "model_calls": 0}
    answer = {"value": None, "answer": "null"}
    again = [
        started,
        ("program_started", {"attempt": 0}),
        ("call_ended", call(3, effect="write", value=None)),
        ("program_ended", {"attempt": 0, "kind": "finished"}),
        ("answered", answer),
        ("run_ended", {"status": "answered", "usage": usage, **answer}),
    ]
    look(page, tmp_path, of(events_of(*killed) + events_of(*again, began=1.79e9 + 3_600)))
    figures = page.text("#figures")
    for text in ("2.4 s", "1 cut off"):
        assert text in figures, figures
    assert "they returned no value" in page.text("#outcome")
    assert "weigh" in page.text("#outcome")
    unharmed(page)
