"""What the published table rests on: McNemar's p, what each rule is worth, and rows that hold nobody's texts."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from atc._records.events import Event
from atc._records.records import FindingCase, FindingKind, RepairKind
from atc._records.rules import IDS
from atc.errors import UsageError
from atc.programs.repair.pipeline import RULES
from benchmarks.tasks.fired_rules import fired_rules
from benchmarks.tasks.honest_table import BEGIN, END, PAGE, ROWS, placed, table
from benchmarks.tasks.read_tasks import is_read
from benchmarks.tasks.rows import FOLDER, TEXTS, Row, publish, read_rows
from benchmarks.tasks.rule_figures import rule_figures
from benchmarks.tasks.summary import mcnemar, summarise
from tests.support.docs import ROOT
from tests.support.ruler import CRASHING, GOOD, tried


def row(task: str, system: str = "atc", solved: bool = False, rules: dict[str, int] | None = None) -> Row:
    return Row("shop", task, system, "1", 0, "m", "t", True, "answered", solved=solved, rules=rules)


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 1, 0.0390625), (1, 8, 0.0390625), (3, 3, 1)]
)
def test_mcnemars_p_is_that_of_the_two_sided_binomial(wins: int, losses: int, p: float) -> None:
    assert mcnemar(wins, losses) == pytest.approx(p)


def test_a_summary_has_p_beside_wins_and_losses() -> None:
    rows = [row(str(n), solved=n < 5) for n in range(6)] + [row(str(n), "react") for n in range(6)]
    lines = {line["system"]: line for line in summarise(rows, ["atc", "react"])}
    assert (lines["react"]["wins"], lines["react"]["losses"], lines["react"]["p"]) == (0, 5, 0.0625)
    assert lines["atc"]["p"] is None


# Rules --------------------------------------------------------------------------------------------------------------


def test_every_rule_is_counted_by_what_a_run_says_that_it_did() -> None:
    of_programs = RULES.keys() | {"copied-documents"}
    finding = {"case": "", "severity": "error", "instead": ["other"]}
    warned = [finding | {"kind": kind} for kind in get_args(FindingKind)]
    warned += [finding | {"kind": "wrong_type", "case": case} for case in get_args(FindingCase)]
    repairs = [{"kind": kind} for kind in get_args(RepairKind)]
    events = [
        Event("program_written", {"rules": ["dialect", *of_programs]}),
        Event("program_started", {"warned": warned}),
        Event("call_ended", {"repairs": repairs}),
        Event("fault", {"fault": {"idle": True, "case": "unpacked"}}),
        Event("tool_banned", {}),
    ]
    assert fired_rules(events).keys() == IDS
    assert fired_rules(events, frozenset({"argument-format"})) == {"argument-format": 1}
    bare = [finding | {"kind": "unknown_argument", "instead": []}]
    assert not fired_rules([Event("findings", {"findings": bare}), Event("call_ended", {})])


@pytest.mark.slow
def test_a_try_tells_which_rules_fired() -> None:
    misspelt = '```python\nOrderNo = order(item="pen")\nanswer = order_no["number"]\n```'
    wrong_key = '```python\nanswer = order(Item="pen")["number"]\n```'
    assert tried([GOOD]).rules == {}
    assert tried([misspelt]).rules == {"name-spelling": 1}
    assert tried([misspelt], "atc-rules").rules == {}  # the same program without the rule
    assert tried(['```python\nanswer = order(**{"Item": "pen"})["number"]\n```']).rules == {"argument-respelling": 1}
    again = tried([CRASHING, wrong_key]).rules
    assert again is not None
    assert sum(again.get(name, 0) for name in ("argument-spelling", "argument-respelling")) == 1


def test_a_rules_figure_is_of_the_tries_in_which_it_fired() -> None:
    rows = [
        row("1", solved=True, rules={"argument-spelling": 2}),
        row("2", rules={"argument-spelling": 1}),
        row("3", rules={}),
    ]
    rows += [row("4", solved=True)]  # nobody counted
    rows += [row("1", "atc-rules"), row("2", "atc-rules", solved=True), row("3", "atc-rules", solved=True)]
    rows += [row("1", "atc-rules:argument-spelling")]
    lines = {line["rule"]: line for line in rule_figures(rows)}
    assert lines.keys() == IDS
    line = lines["argument-spelling"]
    assert [line[name] for name in ("tries", "fired", "times", "solved")] == [3, 2, 3, 1]
    assert line["none"] == {"pairs": 2, "wins": 1, "losses": 1, "p": 1.0}
    assert line["alone"] == {"pairs": 1, "wins": 1, "losses": 0, "p": 1.0}
    never = lines["nearest-name"]
    assert [never[name] for name in ("tries", "fired", "none", "alone")] == [3, 0, None, None]


# Rows for everybody -------------------------------------------------------------------------------------------------


def test_published_rows_hold_no_text_and_are_read_as_rows(tmp_path: Path) -> None:
    kept = dataclasses.replace(
        row("1", solved=True, rules={"argument-spelling": 1}), answer="a", program="p", error="e"
    )
    lost = dataclasses.replace(row("2"), status="environment")
    file = tmp_path / "new" / "rows.jsonl"
    assert publish([kept, lost], file) == 1
    (line,) = map(json.loads, file.read_text().splitlines())
    assert not TEXTS & line.keys()
    assert read_rows(file) == [dataclasses.replace(kept, answer="", program="", error="")]
    with pytest.raises(UsageError, match="no tries"):
        publish([lost], file)


def test_a_row_has_no_other_text_than_those_that_are_left_out() -> None:
    texts = {each.name for each in dataclasses.fields(Row) if each.type == "str"}
    assert texts - TEXTS == {"env", "task", "system", "version", "model", "terms"}


def test_what_is_published_holds_no_text() -> None:
    files = sorted(FOLDER.glob("*.jsonl"))
    assert files
    for file in files:
        lines, rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()], read_rows(file)
        assert len(lines) == len(rows) > 0, file
        assert not any(TEXTS & line.keys() for line in lines), file


def test_the_page_has_the_table_of_the_published_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert placed(page, table(read_rows(ROWS))) == page, "run python -m benchmarks.tasks.honest_table --write"
    assert page.index(BEGIN) < page.index("\n## ", page.index("\n## ") + 1)  # in the first section


def test_the_page_tells_how_tries_ended_as_the_published_rows_do() -> None:
    page = text_of("docs/benchmarks/solved.md")
    rows = [row for row in read_rows(ROWS) if row.system == "atc" and not is_read(row.env, row.task, row.judge)]
    ended = Counter(row.status for row in rows if not row.solved)
    assert set(ended) == {"answered", "unsolved", "budget"}
    assert f"{ended.total()} tries of `atc` did not solve their task. Of these, {ended['answered']} ended with" in page
    assert f"a wrong answer, {ended['unsolved']} without an answer, and {ended['budget']} at its" in page
    refused, failed = sum(row.faults.get("check", 0) for row in rows), sum(row.failed for row in rows)
    written = sum(row.programs for row in rows)
    assert (
        f"{failed} of the {written} programs of `atc` gave no answer ({failed / written:.0%}".replace("%", " %") in page
    )
    assert f"The check refused {refused} of these before a call was made, and {failed - refused} failed" in page
    bare = [row for row in read_rows(ROWS) if row.system == "atc-rules" and not is_read(row.env, row.task, row.judge)]
    failed_bare, written_bare = sum(row.failed for row in bare), sum(row.programs for row in bare)
    share = f"{failed_bare / written_bare:.0%}".replace("%", " %")
    assert f"Without rules (`atc-rules`) {failed_bare} of {written_bare} gave none ({share})." in page
    wrong = wrong_answers(read_rows(ROWS))
    assert f"{wrong['atc']} of 60 tries of `atc` ended with one, {wrong['atc-rules']} of `atc-rules`" in page
    assert f"and {wrong['react']} of `react`" in page
    papers, readme = text_of("research/README.md"), text_of("README.md")
    assert f"of [{failed} programs without an answer the check refused {refused}](" in papers
    assert f"{wrong['atc']} tries of ATC ended with a wrong answer, and {wrong['react']} of ReAct" in readme
    long = [row for row in rows if row.env in ("bfcl", "complexfuncbench", "workbench")]
    faults = sum((Counter(row.faults) for row in long), Counter[str]())
    assert f"Of the {faults.total()} [faults]" in page
    assert f"there, {faults['check']} were found before a call was made" in page


def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def wrong_answers(rows: list[Row]) -> Counter[str]:
    """The tries of each system at unread tasks that ended with a wrong answer."""
    unread = [row for row in rows if not is_read(row.env, row.task, row.judge)]
    return Counter(row.system for row in unread if row.status == "answered" and not row.solved)


def test_the_page_tells_what_became_of_the_programs_of_restbench() -> None:
    page = text_of("docs/benchmarks/solved.md")
    rows = [row for row in read_rows(FOLDER / "restbench.jsonl") if row.system == "atc"]
    written, failed = sum(row.programs for row in rows), sum(row.failed for row in rows)
    refused = sum(row.faults["check"] for row in rows if "check" in row.faults)
    assert f"Of {written} programs {failed} gave no answer ({failed / written:.0%}".replace("%", " %") in page
    assert f"the check refused {refused} of them, and {failed - refused} failed when they ran" in page


def test_the_table_says_how_many_each_solved_and_what_each_did_alone() -> None:
    rows = [row(str(n), solved=n < 3) for n in range(4)] + [row(str(n), "react", solved=n == 3) for n in range(4)]
    read = dataclasses.replace(rows[0], env="atlas", task="daylight-lyon")
    made = table([*rows, read])
    assert "atlas" not in made
    assert "| `atc` | 3 of 4 = 75 % (" in made
    assert ") | 1 and 3 | 0.625 | 0 | 0.0 |" in made
    assert "| `shop` | 3 of 4 | 1 of 4 |" in made
    assert placed(f"a\n{BEGIN}\nold\n{END}\nb", made) == f"a\n{BEGIN}\n{made}\n{END}\nb"
    with pytest.raises(UsageError, match="no place"):
        placed("a", made)
