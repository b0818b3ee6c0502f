"""Do probed documents help? The same tasks with true documents, with those that probing wrote, and with bare names.

``python -m benchmarks.probing.help [--env atlas] [--documents true,probed,bare] [--prober none|embedded|NAME]
[--model embedded|NAME] [--system atc] [--unread] [--seeds 0] [--data DIR] [--out FILE] [--json]``

The tools of the environment are told by their names and those of their arguments, and probed (``--prober none``: by
structure alone; :mod:`benchmarks.probing.documents`). The same model then tries the same tasks three times over, and
only what it reads of the tools differs. Tools that change something are never probed: with probed documents they are
as bare as without. Rows are kept and gone on from as :mod:`benchmarks.tasks` does.

``--env restbench --documents probed --unread`` tries the 30 tasks that nobody has read; ``--env
atlas,toolflow,restbench --limit 12`` takes 36 that developers know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from atc.cli.console import err, guarded, out, print_json
from benchmarks.common import RESULTS, AsJson, listed
from benchmarks.environments import Environment
from benchmarks.probing.documents import PROBED, opened, redocumented
from benchmarks.systems import SYSTEMS
from benchmarks.tasks.gateway import Caps, Gateway, upstream
from benchmarks.tasks.read_tasks import Part
from benchmarks.tasks.rows import Row, latest, read_rows
from benchmarks.tasks.run import Plan, run_plan, seeds_of, systems_of
from benchmarks.tasks.summary import print_table, summarise

DOCUMENTS = ("true", "probed", "bare")


def environments(name: str, prober: str, data: Path | None, documents: Sequence[str] = DOCUMENTS) -> list[Environment]:
    """An environment with its true documents, with probed ones, and with names alone.

    Args:
        documents: some of :data:`DOCUMENTS`.

    Raises:
        UsageError: the environment's tools cannot be probed.
    """
    true = opened(name, data)
    made = {"true": true, "probed": redocumented(true, "probed", prober), "bare": redocumented(true, "bare")}
    return [made[each] for each in documents]


def paired(rows: Sequence[Row], one: str, other: str) -> tuple[int, int]:
    """Tries that only ``one`` solved, and those that only ``other`` did."""
    solved = {(row.env, row.task, row.system, row.seed): row.solved for row in rows}
    keys = [key[1:] for key in solved if key[0] == one and (other, *key[1:]) in solved]
    mine = sum(solved[one, *key] and not solved[other, *key] for key in keys)
    return mine, sum(solved[other, *key] and not solved[one, *key] for key in keys)


@guarded
def main(
    env: Annotated[str, typer.Option(help=f"Some of {', '.join(PROBED)}.")] = "atlas",
    documents: Annotated[str, typer.Option(help=f"Some of {', '.join(DOCUMENTS)}.")] = ",".join(DOCUMENTS),
    prober: Annotated[str, typer.Option(help="The model that probes; none: structure alone.")] = "none",
    model: Annotated[str | None, typer.Option(help="The model that solves, as `atc run --model` takes it.")] = None,
    system: Annotated[str, typer.Option(help="Systems, comma-separated, as `benchmarks.tasks` takes them.")] = "atc",
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with restbench/.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="The first so many tasks of each, of atlas the shallow ones first.")
    ] = 40,
    unread: Annotated[bool, typer.Option("--unread", help="Only tasks that nobody has read.")] = False,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = 300.0,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "probing_help.jsonl",
    as_json: AsJson = False,
) -> None:
    """Measure what probed documents are worth to a program writer."""
    kinds, systems = listed(documents, DOCUMENTS, "documents"), systems_of(system)
    sets = [environments(name, prober, data, kinds) for name in listed(env, PROBED, "env")]
    chosen = [environment for each in sets for environment in each]
    part: Part = "unread" if unread else "open"
    plan = Plan(chosen, systems, seeds_of(seeds), caps=Caps(seconds=limit_s), part=part)

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
    print_table([line for line in lines if line["env"] != "all" or len(kinds) == 1], out)
    for each in sets:
        named = dict(zip(kinds, (environment.name for environment in each), strict=True))
        for one, other in (("probed", "bare"), ("probed", "true")):
            if one in named and other in named:
                mine, theirs = paired(rows, named[one], named[other])
                out.print(f"solved in {named[one]} only: {mine}; in {named[other]} only: {theirs}", markup=False)


if __name__ == "__main__":
    typer.run(main)
