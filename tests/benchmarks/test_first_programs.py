"""The figures of programs and their revisions in the documents are those of the published rows."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import first_programs
from benchmarks.first_programs import Tries, compared
from benchmarks.publishing import FOLDER
from benchmarks.read_tasks import is_read
from benchmarks.rows import read_rows
from tests.support.docs import ROOT

ROWS = FOLDER / "restbench.jsonl"
SYSTEM = "atc+rules:few-tools-first"
FRESH = "atc+rules:fresh-program"


def line(name: str, tries: Tries | None) -> str:
    assert tries is not None
    assert tries.precision is not None
    figures = f"{tries.path:.0%} | {tries.precision:.0%} | {tries.model_calls:.1f} | {tries.seconds:.0f} |"
    return f"| {name} | {tries.solved} | … | {figures}".replace("%", " %")


def test_the_page_has_the_figures_of_the_rows() -> None:
    page = (ROOT / "docs" / "benchmarks" / "solved.md").read_text().partition("## RestBench\n")[2].partition("\n## ")[0]
    told = [
        " | ".join([*cells[:3], "…", *cells[4:]])
        for cells in (each.split(" | ") for each in page.splitlines() if each.startswith("| `atc"))
        if len(cells) == 8
    ]
    found = compared(read_rows(ROWS))
    for system in (SYSTEM, "atc-offer:8"):
        own, same = found[system]["all"], found[system]["atc on the same"]
        assert own is not None
        assert line(f"`{system}` | {own.tries}", own) in told
        assert line(f"`atc` | the same {own.tries}", same) in told
    one, more = found["atc"]["one model call"], found["atc"]["more"]
    assert one is not None
    assert more is not None
    assert f"{one.tries} tries made one model call, and {one.solved} of these" in page
    assert f"Of the {more.tries} tries with more calls {more.solved} are solved" in page
    few = found[SYSTEM]["one model call"]
    assert few is not None
    assert f"after {few.seconds:.0f} seconds in place of {one.seconds:.0f}" in page
    assert f"{few.tries} of 26 tries answer at once, and {few.solved} of these" in page


def test_what_drawing_anew_gave_is_that_of_the_rows() -> None:
    page = (ROOT / "docs" / "benchmarks" / "solved.md").read_text()
    rows = read_rows(FOLDER / "fresh_program.jsonl")
    assert not any(is_read(row.env, row.task) for row in rows)
    fresh, atc = ({row.task for row in rows if row.system == name and row.solved} for name in (FRESH, "atc"))
    assert (len(rows), len(fresh), fresh < atc, len(atc - fresh)) == (2 * 29, 7, True, 1)
    assert "On 29 of these tasks, about five of each environment, it solved 7." in page
    assert "`atc` solved these and one more." in page


def test_a_file_without_tries_is_an_error_and_json_is_one_document(tmp_path: Path) -> None:
    import typer
    from typer.testing import CliRunner

    app = typer.Typer()
    app.command()(first_programs.main)
    empty = tmp_path / "none.jsonl"
    empty.write_text("")
    assert CliRunner().invoke(app, [str(empty)]).exit_code == 2
    shown = CliRunner().invoke(app, [str(ROWS), "--json"])
    assert json.loads(shown.stdout)["atc"]["all"]["tries"] == 36
