"""The first table of docs/benchmarks/solved.md, of published rows: ``python -m benchmarks.tasks.honest_table --write``.

Without ``--write`` it is printed. A test holds the page to the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import err, guarded
from atc.errors import UsageError
from benchmarks.common import ROOT
from benchmarks.tasks.read_tasks import is_read
from benchmarks.tasks.rows import FOLDER, Row, judges, latest, read_rows
from benchmarks.tasks.summary import RULER, Line, summarise

ROWS = FOLDER / "honest.jsonl"
PAGE = ROOT / "docs" / "benchmarks" / "solved.md"
BEGIN, END = "<!-- begin: python -m benchmarks.tasks.honest_table -->", "<!-- end -->"
ORDER = ("atc", "atc-rules", "atc+rules", "react", "codeact", "dfsdt", "atc-paper")


def table(rows: Sequence[Row]) -> str:
    """Two Markdown tables: what each system solved in all, and by environment. Tasks that somebody had read are left
    out (those that were read to decide the next judge had not been).

    Raises:
        UsageError: there are no rows with a result, or they are of several models or terms.
    """
    judged = [row for row in rows if row.status != "environment" and not is_read(row.env, row.task, row.judge)]
    lines = summarise(judged, ORDER)
    systems = list(dict.fromkeys(line["system"] for line in lines))
    systems.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    places = list(dict.fromkeys(row.env for row in judged))
    if not judged or len({line["model"] for line in lines}) != 1:
        raise UsageError("the published rows must be of one model on one set of terms, and at least one of them")
    total = {line["system"]: line for line in lines if line["env"] == ("all" if len(places) > 1 else places[0])}
    by_place = {(line["env"], line["system"]): line for line in lines if line["env"] in places}
    tasks = len({(row.env, row.task) for row in judged})
    told = [
        f"{tasks} tasks; {lines[0]['model']}; seeds {', '.join(map(str, sorted({row.seed for row in judged})))}; "
        f"{judges(row.judge for row in judged)}.",
        "",
    ]
    told += [
        f"| | solved (95 %) | only it, and only {RULER} | McNemar's p | tokens a try | model calls a try |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| `{name}` | {_in_all(total[name])} |" for name in systems),
        "",
        f"| | {' | '.join(f'`{name}`' for name in systems)} |",
        f"| --- |{' --- |' * len(systems)}",
    ]
    for place in sorted(places):
        told.append(f"| `{place}` | {' | '.join(_solved(by_place.get((place, name))) for name in systems)} |")
    return "\n".join(told)


def _in_all(line: Line) -> str:
    tries = line["tries"]
    share = f"{_solved(line)} = {line['share']:.0%} ({line['low']:.0%} to {line['high']:.0%})".replace("%", " %")
    against = "| " if line["wins"] is None else f"{line['wins']} and {line['losses']} | {line['p']:.3f}"
    tokens = (line["prompt_tokens"] + line["completion_tokens"]) / tries
    return f"{share} | {against} | {tokens:,.0f} | {line['model_calls'] / tries:.1f}"


def _solved(line: Line | None) -> str:
    return "–" if line is None else f"{line['solved']} of {line['tries']}"


def placed(page: str, made: str, mark: str = BEGIN) -> str:
    """A page with the table between the mark and the next end.

    Raises:
        UsageError: the page has no such marks.
    """
    head, begin, rest = page.partition(mark)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise UsageError(f"{PAGE} has no place for the table: write {mark} and {END} around it")
    return f"{head}{mark}\n{made}\n{END}{tail}"


def print_or_write(made: str, mark: str, write: bool) -> None:
    """Print a table, or put it into docs/benchmarks/solved.md at its mark."""
    if not write:
        typer.echo(made)
        return
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), made, mark), encoding="utf-8")
    err.print(f"{PAGE} has the table now", markup=False)


@guarded
def main(
    write: Annotated[bool, typer.Option("--write", help="Put the table into docs/benchmarks/solved.md.")] = False,
    rows: Annotated[Path, typer.Option(help="Published rows.")] = ROWS,
) -> None:
    """Print the table of the published rows."""
    print_or_write(table(latest(read_rows(rows))), BEGIN, write)


if __name__ == "__main__":
    typer.run(main)
