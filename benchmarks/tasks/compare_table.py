"""The tables of the comparison in docs/benchmarks/solved.md: ``python -m benchmarks.tasks.compare_table --write``.

Without ``--write`` they are printed, made of the published rows. A test holds the page to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from atc.cli.console import guarded
from benchmarks.tasks.honest_table import print_or_write
from benchmarks.tasks.rows import FOLDER, Row, latest, read_rows
from benchmarks.tasks.summary import RULER

ROWS = FOLDER / "compare.jsonl"
MARK = "<!-- begin: python -m benchmarks.tasks.compare_table -->"
DECISION = "decide"
"""How the tasks of ``long`` are named that need a decision on a value which the text does not predict."""
HEAD = (
    "| | | tries | solved | answered but wrong | model calls | tokens: read + written | tool calls | unwanted effects |"
)


def tables(rows: Sequence[Row]) -> str:
    """A Markdown table for each model: each set and system, and the systems over all sets.

    Of ``long``, the tasks that need a decision are shown a second time by themselves.
    """
    judged = [row for row in rows if row.status != "environment"]
    told: list[str] = []
    for model in dict.fromkeys(row.model for row in judged):
        own = [row for row in judged if row.model == model]
        tasks = len({(row.env, row.task) for row in own})
        told += [f"`{model}`, {tasks} tasks; {'; '.join(sorted({row.terms for row in own}))}.", "", HEAD]
        told.append("| --- | --- |" + " --- |" * (HEAD.count("|") - 3))
        for place, some in _places(own):
            for system in _systems(some):
                told.append(f"| {place} | `{system}` | {_cells([row for row in some if row.system == system])} |")
        told.append("")
    return "\n".join(told).rstrip()


def _places(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    names = sorted({row.env for row in rows})
    found = [(f"`{name}`", [row for row in rows if row.env == name]) for name in names]
    decisions = [row for row in rows if row.env == "long" and row.task.startswith(DECISION)]
    if decisions:
        place = next(number for number, name in enumerate(names) if name == "long")
        found.insert(place + 1, ("of `long`: with a decision", decisions))
    return [*found, ("all", list(rows))] if len(names) > 1 else found


def _systems(rows: Sequence[Row]) -> list[str]:
    return sorted({row.system for row in rows}, key=lambda name: (name != RULER, name))


def _cells(rows: Sequence[Row]) -> str:
    def mean(count: Callable[[Row], int]) -> float:
        return sum(map(count, rows)) / len(rows)

    wrong = sum(row.status == "answered" and not row.solved for row in rows)
    read, written = mean(lambda row: row.prompt_tokens), mean(lambda row: row.completion_tokens)
    unwanted = sum(row.forbidden_writes + row.repeated_writes for row in rows)
    cells = (
        str(len(rows)),
        str(sum(row.solved for row in rows)),
        str(wrong),
        f"{mean(lambda row: row.model_calls):.1f}",
        f"{read:,.0f} + {written:,.0f}",
        f"{mean(lambda row: row.tool_calls):.1f}",
        str(unwanted),
    )
    return " | ".join(cells)


@guarded
def main(
    write: Annotated[bool, typer.Option("--write", help="Put the tables into docs/benchmarks/solved.md.")] = False,
) -> None:
    """Print the tables of the comparison's published rows."""
    print_or_write(tables(latest(read_rows(ROWS))), MARK, write)


if __name__ == "__main__":
    typer.run(main)
