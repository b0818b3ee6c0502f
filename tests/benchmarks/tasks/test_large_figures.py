"""The figures of the large model, on every page that has them, are those of the published rows."""

from __future__ import annotations

from collections import Counter

from benchmarks.tasks.compare_table import ROWS as COMPARED
from benchmarks.tasks.honest_table import PAGE, placed
from benchmarks.tasks.honest_table import ROWS as SMALL
from benchmarks.tasks.large_table import MARK, ROWS, tables
from benchmarks.tasks.read_tasks import is_read, is_sealed, read_tasks
from benchmarks.tasks.rows import Row, read_rows
from tests.support.docs import ROOT

LARGE = read_rows(ROWS)
OWN = {(row.env, row.task): row for row in LARGE if row.system == "atc"}


def mean(rows: list[Row], name: str) -> float:
    return sum(getattr(row, name) for row in rows) / len(rows)


def beside(system: str) -> tuple[list[Row], list[Row]]:
    """The tries of a system, and ATC's at the same tasks."""
    rows = [row for row in LARGE if row.system == system]
    return rows, [OWN[row.env, row.task] for row in rows]


def section(heading: str) -> str:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return " ".join(text.split())


def test_the_page_has_the_tables_of_the_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert placed(page, tables(LARGE), MARK) == page, "run python -m benchmarks.tasks.large_table --write"


def test_the_page_says_on_what_terms_the_rows_came_about() -> None:
    text = section("Unread tasks, large model")
    assert {row.terms for row in LARGE} == {"30 calls, 600000 tokens, 20000 s, temperature 0.3"}
    for told in ("--max-calls 30 --max-tokens 600000", "The temperature is 0.3", "at most 30 calls and 600,000 tokens"):
        assert told in text
    assert "a large model whose replies were written by hand through an endpoint, from each request only" in text
    small = {(row.env, row.task) for row in read_rows(SMALL) if not is_read(row.env, row.task, row.judge)}
    assert set(OWN) == small, "the tasks are those of the first table"
    assert all(is_sealed(env, task) or read_tasks().get(f"{env}/{task}") == 1 for env, task in OWN)
    assert all(row.stated for row in LARGE)


def test_the_prose_of_the_section_is_that_of_the_rows() -> None:
    text, rows = section("Unread tasks, large model"), [*OWN.values()]
    solved, first = sum(row.solved for row in rows), sum(row.first_try for row in rows)
    assert f"{solved} of the same {len(rows)} tasks, {first} of them by the first program" in text
    missed = Counter(row.status for row in rows if not row.solved)
    assert missed == {"answered": 6, "unsolved": 1}
    assert (
        f"{missed['answered']} of the {missed.total()} tries that did not solve their task ended with a wrong" in text
    )
    failed, refused = sum(row.failed for row in rows), sum(row.faults.get("check", 0) for row in rows)
    assert f"Of the {failed} programs that gave no answer, the check refused {refused} and {failed - refused}" in text


def test_the_readme_and_the_comparison_have_the_figures_of_the_head_to_head() -> None:
    rows = read_rows(COMPARED)
    own, code, plain = (
        [row for row in rows if row.system == name] for name in ("atc", "pydantic-ai-code", "function-calling")
    )
    assert len(own) == len(code) == len(plain) == 40
    solved = [sum(row.solved for row in some) for some in (own, code, plain)]
    wrong = [sum(row.status == "answered" and not row.solved for row in some) for some in (own, code, plain)]
    calls = [f"{mean(some, 'model_calls'):.1f}" for some in (own, code, plain)]
    tokens = [f"{mean(some, 'prompt_tokens'):,.0f}" for some in (own, code, plain)]
    names = ("ATC", "pydantic-ai code mode", "plain function calling")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = ", ".join(f"{name} {count}" for name, count in zip(names, solved, strict=True))
    assert f"| {found} | {listing(calls)} | {listing(tokens)} |" in readme
    assert solved[0] + 3 == solved[1] == solved[2], "the prose says three fewer"
    assert wrong == [6, 3, 3], "and six wrong answers, and three of each other"
    compared = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    told = [f"{s}; {w}; {c}; {t}" for s, w, c, t in zip(solved, wrong, calls, tokens, strict=True)]
    assert all(f"{each}{end}" in compared for each, end in zip(told, (" |", ". Plain", " |"), strict=True))


def listing(figures: list[str]) -> str:
    return f"{', '.join(figures[:-1])} and {figures[-1]}"


def test_the_comparison_has_the_pairs_of_the_rows() -> None:
    theirs, own = beside("smolagents-code")
    assert len(theirs) == 10
    calls, theirs_calls = mean(own, "model_calls"), mean(theirs, "model_calls")
    tokens, theirs_tokens = f"{mean(own, 'prompt_tokens'):,.0f}", f"{mean(theirs, 'prompt_tokens'):,.0f}"
    solved, theirs_solved = sum(row.solved for row in own), sum(row.solved for row in theirs)
    compared = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert f"| {solved}; {calls:.1f}; {tokens} |" in compared
    assert f"{theirs_solved}; {theirs_calls:.1f}; {theirs_tokens}" in compared


def test_the_readme_has_the_sums_of_both_models() -> None:
    readme, rows = (ROOT / "README.md").read_text(encoding="utf-8"), [*OWN.values()]
    calls, tokens = mean(rows, "model_calls"), mean(rows, "prompt_tokens")
    solved = sum(row.solved for row in rows)
    assert f"| large | 60 that nobody here had read | ATC {solved} | {calls:.1f} | {tokens:,.0f} |" in readme
    small = [row for row in read_rows(SMALL) if not is_read(row.env, row.task, row.judge)]
    atc, react = ([row for row in small if row.system == name] for name in ("atc", "react"))
    both = f"ATC {sum(row.solved for row in atc)}, ReAct {sum(row.solved for row in react)}"
    calls_of = f"{mean(atc, 'model_calls'):.1f} and {mean(react, 'model_calls'):.1f}"
    tokens_of = f"{mean(atc, 'prompt_tokens'):,.0f} and {mean(react, 'prompt_tokens'):,.0f}"
    assert f"| 1.5B, on two cores | the same 60 | {both} | {calls_of} | {tokens_of} |" in readme
