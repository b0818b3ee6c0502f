"""What the first program is worth, and systems on the same tasks: ``python -m benchmarks.first_programs FILE``.

A row of the ruler that is not whole cannot be read beside a whole one. Here each system stands beside ATC on the tasks
that both have tried. Its tries with one model call are told apart from those with more, which wrote a revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from atc.cli.console import guarded, out, print_json
from atc.errors import UsageError
from benchmarks.rows import Row, latest, read_rows
from benchmarks.summary import RULER


@dataclass(frozen=True)
class Tries:
    """Some tries of one system.

    Attributes:
        tries: how many.
        solved: how many of them.
        path: Path%, as a share (ATC §5).
        precision: Prec%, of the tries that made a call; ``None`` where none did.
        model_calls: a try. ``seconds``: a try.
    """

    tries: int
    solved: int
    path: float
    precision: float | None
    model_calls: float
    seconds: float

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Tries | None:
        """The mean of rows; ``None`` where there are none."""
        if not rows:
            return None
        exact = [row.precision for row in rows if row.precision is not None]
        return cls(
            len(rows),
            sum(row.solved for row in rows),
            fmean(row.path or 0.0 for row in rows),
            fmean(exact) if exact else None,
            fmean(row.model_calls for row in rows),
            fmean(row.seconds for row in rows),
        )


def compared(rows: Iterable[Row]) -> dict[str, dict[str, Tries | None]]:
    """By system: all its tries, those with one model call, those with more, and ATC's on the same tasks."""
    by_system: dict[str, dict[tuple[str, str, int, str, str], Row]] = {}
    for row in latest(row for row in rows if row.status != "environment"):
        by_system.setdefault(row.system, {})[row.env, row.task, row.seed, row.model, str(row.terms)] = row
    ruler = by_system.get(RULER, {})
    found: dict[str, dict[str, Tries | None]] = {}
    for system, tried in by_system.items():
        found[system] = {
            "all": Tries.of([*tried.values()]),
            "one model call": Tries.of([row for row in tried.values() if row.model_calls == 1]),
            "more": Tries.of([row for row in tried.values() if row.model_calls > 1]),
        }
        if system != RULER:
            found[system][f"{RULER} on the same"] = Tries.of([row for key, row in ruler.items() if key in tried])
    return found


@guarded
def main(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows of the ruler (`benchmarks.tasks --out`).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Tell what the first program was worth, and compare systems on the tasks that they share."""
    found = compared(read_rows(file))
    if not found:
        raise UsageError(f"{file} has no tries with a result")
    if as_json:
        print_json({s: {kind: asdict(t) if t else None for kind, t in parts.items()} for s, parts in found.items()})
        return
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("system", "of its tries", "tries", "solved", "path", "prec", "asked", "s"):
        table.add_column(name, justify="left" if name in ("system", "of its tries") else "right")
    for system, parts in found.items():
        for kind, tries in parts.items():
            if tries is not None:
                exact = "" if tries.precision is None else f"{tries.precision:.0%}"
                figures = f"{tries.path:.0%}", exact, f"{tries.model_calls:.1f}", f"{tries.seconds:.1f}"
                table.add_row(system, kind, str(tries.tries), str(tries.solved), *figures)
    out.print(table)
    out.print("path, prec: Path% and Prec% (ATC §5). asked: model calls a try. s: seconds a try.", markup=False)


if __name__ == "__main__":
    typer.run(main)
