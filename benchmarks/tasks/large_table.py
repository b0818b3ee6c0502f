"""The tables of the large model in docs/benchmarks/solved.md: ``python -m benchmarks.tasks.large_table --write``.

Without ``--write`` they are printed, made of the published rows. A test holds the page to the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from atc.cli.console import guarded
from benchmarks.tasks.honest_table import print_or_write
from benchmarks.tasks.rows import FOLDER, Row, judges, latest, read_rows
from benchmarks.tasks.summary import RULER

ROWS = FOLDER / "large.jsonl"
MARK = "<!-- begin: python -m benchmarks.tasks.large_table -->"


def tables(rows: Sequence[Row]) -> str:
    """Two Markdown tables: ATC's tries by environment, and each other system beside ATC on the same tasks."""
    own = {(row.env, row.task, row.seed): row for row in rows if row.system == RULER}
    told = [
        f"{judges(row.judge for row in rows).capitalize()}.",
        "",
        f"| `{RULER}` | tries | solved | by the first program | wrong answers | programs; without an answer "
        "| model calls a try | tokens a try: prompts + replies |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(f"| {place} | {_in_full(some)} |" for place, some in _by_place([*own.values()])),
        "",
        f"| system | on | tries | solved | model calls | prompt tokens | `{RULER}` on the same: solved | model calls "
        "| prompt tokens |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for system in sorted({row.system for row in rows} - {RULER}):
        both = [row for row in rows if row.system == system and (row.env, row.task, row.seed) in own]
        for place, some in _by_place(both):
            same = [own[row.env, row.task, row.seed] for row in some]
            told.append(f"| `{system}` | {place} | {len(some)} | {_in_short(some)} | {_in_short(same)} |")
    return "\n".join(told)


def _by_place(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    places = sorted({row.env for row in rows})
    return [*((f"`{place}`", [row for row in rows if row.env == place]) for place in places), ("all", rows)]


def _in_full(rows: Sequence[Row]) -> str:
    wrong = sum(row.status == "answered" and not row.solved for row in rows)
    programs = f"{sum(row.programs for row in rows)}; {sum(row.failed for row in rows)}"
    counts = f"{len(rows)} | {sum(row.solved for row in rows)} | {sum(row.first_try for row in rows)} | {wrong}"
    replies = sum(row.completion_tokens for row in rows) / len(rows)
    return f"{counts} | {programs} | {_calls(rows)} | {_prompts(rows)} + {replies:,.0f}"


def _in_short(rows: Sequence[Row]) -> str:
    return f"{sum(row.solved for row in rows)} | {_calls(rows)} | {_prompts(rows)}"


def _calls(rows: Sequence[Row]) -> str:
    return f"{sum(row.model_calls for row in rows) / len(rows):.1f}"


def _prompts(rows: Sequence[Row]) -> str:
    return f"{sum(row.prompt_tokens for row in rows) / len(rows):,.0f}"


@guarded
def main(
    write: Annotated[bool, typer.Option("--write", help="Put the tables into docs/benchmarks/solved.md.")] = False,
) -> None:
    """Print the tables of the large model's published rows."""
    print_or_write(tables(latest(read_rows(ROWS))), MARK, write)


if __name__ == "__main__":
    typer.run(main)
