"""Do probed documents help? Atlas's tasks with its true documents, with those that probing wrote, and with bare names.

``python -m benchmarks.probing_help [--prober none|embedded|NAME] [--model embedded|NAME] [--system atc] [--seeds 0]
[--out FILE] [--json]``

Atlas is served with nothing but the names of its tools and of their arguments, and probed (``--prober none``: by
structure alone). The same model then tries the same tasks three times over, and only what it reads of the tools
differs: ``true``, ``probed`` and ``bare``. Tools that change something are never probed, so in ``probed`` they are as
bare as in ``bare``. Rows are kept and gone on from as :mod:`benchmarks.tasks` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from atc.atlas import Atlas, atlas_toolset
from atc.cli.console import err, guarded, out, print_json
from atc.models import Model
from atc.probing.call_policy import Budget
from atc.probing.prober import Prober
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments import Environment
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.gateway import Caps, Gateway
from benchmarks.probing import atlas
from benchmarks.probing_run import NoModel, served
from benchmarks.rows import Row, latest, read_rows
from benchmarks.summary import print_table, summarise
from benchmarks.systems import SYSTEMS
from benchmarks.tasks import RESULTS, Plan, run_plan
from benchmarks.upstream import upstream


class ReadAs(AtlasEnvironment):
    """Atlas's tasks; what its tools are said to do is taken from these documents.

    Args:
        documents: what the documents are, for the name.
        protocols: by the tool's name; effects stay the true ones.
    """

    def __init__(self, documents: str, protocols: Mapping[str, Protocol]) -> None:
        super().__init__()
        self.name = f"atlas, {documents}"
        self._protocols = protocols

    def toolset(self, atlas: Atlas) -> Toolset:
        made = []
        for tool in atlas_toolset(atlas).values():
            documented = self._protocols.get(tool.name, tool.protocol)
            kept = {"effect": tool.protocol.effect, "source": tool.protocol.source}
            made.append(replace(tool, protocol=documented.model_copy(update=kept)))
        return Toolset(made)


def environments(prober: Model | str | None) -> list[Environment]:
    """The three: true documents, probed ones, and names alone."""
    service = atlas("bare")
    with served(service.app) as (base, _):
        tools = Toolset.from_openapi(f"{base}/openapi.json")
        with Prober(tools, prober, Budget(calls_a_minute=1_000_000)) as probing:
            report = probing.probe()
    bare = {protocol.name: protocol for protocol in tools.protocols}
    probed = {protocol.name: protocol for protocol in report.protocols}
    reads = len(service.truth)
    err.print(f"{len(probed)} of {reads} reads documented, in {report.calls} calls", markup=False)
    return [ReadAs("true", {}), ReadAs("probed", {**bare, **probed}), ReadAs("bare", bare)]


def paired(rows: Sequence[Row], one: str, other: str) -> tuple[int, int]:
    """Tries that only ``one`` solved, and those that only ``other`` did."""
    solved = {(row.env, row.task, row.system, row.seed): row.solved for row in rows}
    keys = [key[1:] for key in solved if key[0] == one and (other, *key[1:]) in solved]
    mine = sum(solved[one, *key] and not solved[other, *key] for key in keys)
    return mine, sum(solved[other, *key] and not solved[one, *key] for key in keys)


@guarded
def main(
    prober: Annotated[str, typer.Option(help="The model that probes; none: structure alone.")] = "none",
    model: Annotated[str | None, typer.Option(help="The model that solves, as `atc run --model` takes it.")] = None,
    system: Annotated[str, typer.Option(help=f"One of {', '.join(SYSTEMS)}.")] = "atc",
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    limit: Annotated[int, typer.Option(min=1, help="The first so many tasks, the shallow ones first.")] = 40,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = 300.0,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "probing_help.jsonl",
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Measure what probed documents are worth to a program writer."""
    chosen = environments(NoModel() if prober == "none" else prober)
    plan = Plan(chosen, [SYSTEMS[system]], [int(seed) for seed in seeds.split(",")], caps=Caps(seconds=limit_s))

    async def to_the_end() -> None:
        async with Gateway(source, RESULTS / "replies").opened() as gateway:
            for count in range(1, limit + 1):  # task by task: what is there after a stop can be compared
                await run_plan(
                    replace(plan, limit=count),
                    gateway,
                    file,
                    lambda row: err.print(f"{row.env}/{row.task}: {row.solved}"),
                )

    with upstream(model) as source:
        asyncio.run(to_the_end())
    rows = [row for row in latest(read_rows(file)) if row.model == source.name and row.system == system]
    lines = summarise(rows, list(SYSTEMS))
    if as_json:
        print_json(lines)
        return
    print_table([line for line in lines if line["env"] != "all"], out)
    for one, other in (("probed", "bare"), ("probed", "true")):
        mine, theirs = paired(rows, f"atlas, {one}", f"atlas, {other}")
        out.print(f"solved with {one} documents only: {mine}; with {other} ones only: {theirs}", markup=False)


if __name__ == "__main__":
    typer.run(main)
