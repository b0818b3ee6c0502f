"""Do probed documents help? The same tasks with true documents, with those that probing wrote, and with bare names.

``python -m benchmarks.probing_help [--env atlas] [--prober none|embedded|NAME] [--model embedded|NAME]
[--system atc,atc-demonstrations] [--seeds 0] [--data DIR] [--out FILE] [--json]``

The tools of the environment are told by their names and those of their arguments, and probed (``--prober none``: by
structure alone; :mod:`benchmarks.probing_documents`). The same model then tries the same tasks three times over, and
only what it reads of the tools differs. Tools that change something are never probed: with probed documents they are as
bare as without. ``atc-demonstrations`` is ATC that is not shown the questions and programs of probed tools. Rows are
kept and gone on from as :mod:`benchmarks.tasks` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import err, guarded, out, print_json
from benchmarks.common import AsJson
from benchmarks.environments import Environment
from benchmarks.gateway import Caps, Gateway, upstream
from benchmarks.probing_documents import PROBED, opened, redocumented
from benchmarks.rows import Row, latest, read_rows
from benchmarks.summary import print_table, summarise
from benchmarks.systems import SYSTEMS
from benchmarks.tasks import RESULTS, Plan, run_plan, seeds_of, systems_of


def environments(name: str, prober: str, data: Path | None) -> list[Environment]:
    """The three: true documents, probed ones, and names alone.

    Raises:
        UsageError: the environment's tools cannot be probed.
    """
    true = opened(name, data)
    return [true, redocumented(true, "probed", prober), redocumented(true, "bare")]


def paired(rows: Sequence[Row], one: str, other: str) -> tuple[int, int]:
    """Tries that only ``one`` solved, and those that only ``other`` did."""
    solved = {(row.env, row.task, row.system, row.seed): row.solved for row in rows}
    keys = [key[1:] for key in solved if key[0] == one and (other, *key[1:]) in solved]
    mine = sum(solved[one, *key] and not solved[other, *key] for key in keys)
    return mine, sum(solved[other, *key] and not solved[one, *key] for key in keys)


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"One of {', '.join(PROBED)}.")] = "atlas",
    prober: Annotated[str, typer.Option(help="The model that probes; none: structure alone.")] = "none",
    model: Annotated[str | None, typer.Option(help="The model that solves, as `atc run --model` takes it.")] = None,
    system: Annotated[str, typer.Option(help="Systems, comma-separated, as `benchmarks.tasks` takes them.")] = "atc",
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with restbench/.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The first so many tasks, of atlas the shallow ones first.")] = 40,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = 300.0,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "probing_help.jsonl",
    as_json: AsJson = False,
) -> None:
    """Measure what probed documents are worth to a program writer."""
    chosen, systems = environments(env, prober, data), systems_of(system)
    plan = Plan(chosen, systems, seeds_of(seeds), caps=Caps(seconds=limit_s))

    async def to_the_end() -> None:
        async with Gateway(source, RESULTS / "replies").opened() as gateway:
            for count in range(1, limit + 1):  # task by task: what is there after a stop can be compared
                await run_plan(
                    replace(plan, limit=count),
                    gateway,
                    file,
                    lambda row: err.print(f"{row.env}/{row.task} {row.system}: {row.solved}", markup=False),
                )

    with upstream(model) as source:
        asyncio.run(to_the_end())
    names = [environment.name for environment in chosen]
    tried = {one.name for one in systems}
    rows = [row for row in latest(read_rows(file)) if row.model == source.name and row.system in tried]
    rows = [row for row in rows if row.env in names]
    lines = summarise(rows, list(SYSTEMS))
    if as_json:
        print_json(lines)
        return
    print_table([line for line in lines if line["env"] != "all"], out)
    true, probed, bare = names
    for one, other in ((probed, bare), (probed, true)):
        mine, theirs = paired(rows, one, other)
        out.print(f"solved in {one} only: {mine}; in {other} only: {theirs}", markup=False)


if __name__ == "__main__":
    typer.run(main)
