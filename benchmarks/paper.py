"""ATC's own table and sweeps (ATC §5-6), with any endpoint.

``python -m benchmarks.paper --data DIR`` lets the systems of the paper's Table 1 try RestBench and ToolFlow, then runs
the sweeps: α from 0 to 5, zero-shot and one-shot, α with and without what the check sends back. One row (a system) is
run whole before the next one begins, in the order of :data:`GROUPS`. It is the ruler's machinery
(:mod:`benchmarks.tasks`): each try is a JSON line as it ends, and the same command goes on where it was stopped.

The paper's RestGPT, ConAgents, ReAct@3 and ToolLLM@3 are not among the systems. Temperature 0 and 20 candidate tools a
task are the paper's; the budget of a try is the ruler's, for the paper states none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import UsageError
from benchmarks.common import RESULTS, AsJson, listed
from benchmarks.environments import ENVIRONMENTS, Environment, open_environment
from benchmarks.systems import ALPHA, MAX_ALPHA, PAPER_ALPHA
from benchmarks.tasks.attempt import terms
from benchmarks.tasks.gateway import Caps, Gateway, Upstream, upstream
from benchmarks.tasks.read_tasks import Part
from benchmarks.tasks.rows import Row, latest, read_rows
from benchmarks.tasks.run import Plan, run_plan, seeds_of, systems_of
from benchmarks.tasks.summary import paired, summarise

_ALPHAS = range(MAX_ALPHA + 1)
GROUPS: Mapping[str, Mapping[str, str | None]] = {
    "table1": {
        "atc": None,
        "react": "atc",
        "atc-paper": "atc",
        "dfsdt": "atc",
        "codeact": "atc",
    },
    "alpha": {
        f"{name}{alpha}": f"{name}{alpha - 1}" if alpha else None for name in (PAPER_ALPHA, ALPHA) for alpha in _ALPHAS
    },
    "shots": {"atc": None, "atc-zero-shot": "atc", "atc-paper": None, "atc-paper-one-shot": "atc-paper"},
    "findings": {"atc": None, "atc-findings": "atc", "atc-check": "atc"},
}
"""The groups of rows, and the systems of each in the order in which they are run, each with the one that it is paired
with. A system that stands in several groups is run once."""
PARTS: dict[str, Part] = {"open": "open", "unread": "unread", "sealed": "sealed", "all": "all"}


@dataclass(frozen=True)
class Sweep:
    """What is to be run.

    Attributes:
        groups: of rows, in their order.
        systems: of these groups the ones to run; all, where none is named.
    """

    groups: Sequence[str]
    environments: Sequence[Environment]
    systems: Sequence[str] = ()
    seeds: Sequence[int] = (0,)
    limit: int | None = None
    part: Part = "open"
    caps: Caps = field(default_factory=Caps)
    temperature: float = 0.0
    transcripts: Path | None = None

    def of(self, group: str) -> list[str]:
        """The systems of a group."""
        return [name for name in GROUPS[group] if not self.systems or name in self.systems]

    def rows(self) -> Iterator[Plan]:
        """The rows as plans: each system of each group, over one environment after the other."""
        for system in systems_of(",".join(dict.fromkeys(name for group in self.groups for name in self.of(group)))):
            for environment in self.environments:
                yield Plan(
                    [environment],
                    [system],
                    self.seeds,
                    limit=self.limit,
                    part=self.part,
                    caps=self.caps,
                    temperature=self.temperature,
                    transcripts=self.transcripts,
                )

    def tries(self) -> dict[str, set[tuple[str, int]]]:
        """Of each environment, the tries that make a row whole: task and seed.

        Raises:
            EnvironmentProblem: an environment's data is missing.
        """
        return {
            environment.name: {
                (task.id, seed)
                for task in Plan([environment], [], limit=self.limit, part=self.part).tasks(environment)
                for seed in self.seeds
            }
            for environment in self.environments
        }


async def run_sweep(
    sweep: Sweep, gateway: Gateway, file: Path, minutes: float | None = None, report: Callable[[Row], None] = print
) -> bool:
    """Run the rows one after the other, as far as the file does not hold them; whether all are there now.

    Args:
        minutes: begin no try later than that.

    Raises:
        As :func:`benchmarks.tasks.run.run_plan`.
    """
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    for plan in sweep.rows():
        left = None if ends is None else (ends - time.monotonic()) / 60
        if left is not None and left <= 0:
            return False
        await run_plan(replace(plan, minutes=left), gateway, file, report)
    return ends is None or time.monotonic() < ends


# Tables -------------------------------------------------------------------------------------------------------------


def lines_of(sweep: Sweep, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A line for each group, environment and system: how many of its tries are there, and what they came to.

    ``wins`` and ``losses`` are against the system that it is paired with, over what both tried.
    """
    wanted = sweep.tries()
    mine = [row for row in rows if (row.task, row.seed) in wanted.get(row.env, ())]
    made = []
    for group in sweep.groups:
        for env, tries in wanted.items():
            for system in sweep.of(group):
                against = GROUPS[group][system]
                own = [row for row in mine if (row.env, row.system) == (env, system)]
                found = summarise(own, [system])
                line = next((each for each in found if each["env"] == env), None)
                others = [row for row in mine if (row.env, row.system) == (env, against)]
                judged = [row for row in own if row.status != "environment"]
                made.append({
                    "group": group, "env": env, "system": system, "of": len(tries), "tries": len(judged),
                    "whole": len(judged) == len(tries) and len({row.version for row in judged}) == 1,
                    "against": against,
                    "pair": paired(judged, others) if against is not None and others else None,
                    "figures": line,
                })  # fmt: skip
    return made


COLUMNS = ("there", "success", "(95 %)", "against", "path", "prec", "asked", "tokens a try", "s a try")
LEGEND = """\
there: tries that are there of those that make the row whole; a row of several versions of a system is not whole.
success: of these; on RestBench and ToolFlow every tool of the solution was called and something was answered, for
their answers are simulated. path, prec: Path% and Prec% (ATC §5). against: tries solved that the named system did not
solve, and the reverse. asked: model calls a try. tokens: read + written."""


def print_lines(lines: Sequence[Mapping[str, Any]], title: str, console: Console) -> None:
    """Print what :func:`lines_of` made, a table for each group."""
    for group in dict.fromkeys(line["group"] for line in lines):
        table = Table(title=f"{group}: {title}", title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
        table.add_column("environment", no_wrap=True)
        table.add_column("system", no_wrap=True)
        for name in COLUMNS:
            table.add_column(name, justify="left" if name == "against" else "right", no_wrap=True)
        for line in lines:
            if line["group"] == group:
                table.add_row(line["env"], line["system"], *_cells(line))
        console.print(table)
    console.print(LEGEND, markup=False)


def _cells(line: Mapping[str, Any]) -> list[str]:
    there = "whole" if line["whole"] else f"{line['tries']} of {line['of']}"
    figures = line["figures"]
    if not line["tries"] or figures is None:
        return [there, *[""] * (len(COLUMNS) - 1)]
    tries = line["tries"]
    pair = f"+{line['pair'][0]} −{line['pair'][1]} {line['against']}" if line["pair"] is not None else ""
    return [
        there,
        f"{figures['solved']}/{tries} {figures['share']:.0%}",
        f"({figures['low']:.0%}–{figures['high']:.0%})",
        pair,
        *("–" if figures[name] is None else f"{figures[name]:.0%}" for name in ("path", "precision")),
        f"{figures['model_calls'] / tries:.1f}",
        f"{figures['prompt_tokens'] / tries:,.0f}+{figures['completion_tokens'] / tries:,.0f}",
        f"{figures['seconds'] / tries:.1f}",
    ]


# Command line -------------------------------------------------------------------------------------------------------


@guarded
def main(
    rows: Annotated[str, typer.Option(help=f"Groups of rows: {', '.join(GROUPS)}.")] = ",".join(GROUPS),
    system: Annotated[str | None, typer.Option(help="Of these groups only these systems; all, if not said.")] = None,
    env: Annotated[str, typer.Option(help="Environments; those of the paper, if not said.")] = "restbench,toolflow",
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with executable/<environment>.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint; its key stands in OPENAI_API_KEY.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many tasks of each environment.")] = None,
    part: Annotated[str, typer.Option(help=f"Of the tasks: {', '.join(PARTS)} (benchmarks/read_tasks.txt).")] = "open",
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = Caps().seconds,
    max_calls: Annotated[int, typer.Option(min=1, help="Model calls for one try.")] = Caps().model_calls,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens for one try, prompts and replies.")] = Caps().tokens,
    temperature: Annotated[
        float, typer.Option(min=0, max=2, help="Of every system's sampling; 0 is the paper's, 0.3 the ruler's.")
    ] = 0.0,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin no try later than that.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the embedded model.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept as a JSON line.")] = RESULTS
    / "paper.jsonl",
    transcripts: Annotated[
        Path | None, typer.Option(help="Folder to keep in what was said in each try, to read why it failed.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only print the tables of what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run ATC's Table 1 and its sweeps, row by row, and say which rows are whole."""
    if part not in PARTS:
        raise UsageError(f"--part: there is no {part!r}; take one of {', '.join(PARTS)}")
    groups = listed(rows, GROUPS, "rows")
    there = dict.fromkeys(name for group in groups for name in GROUPS[group])
    sweep = Sweep(
        groups,
        [open_environment(name, data) for name in listed(env, ENVIRONMENTS, "env")],
        listed(system, there, "system") if system is not None else (),
        seeds_of(seeds),
        limit,
        PARTS[part],
        Caps(max_calls, max_tokens, limit_s),
        temperature,
        transcripts,
    )
    sweep.tries()  # data that is missing is told before a model is started
    if summary:
        _report(sweep, read_rows(file), as_json)
        return
    with upstream(model, threads, base_url) as source:
        try:
            asyncio.run(_run(sweep, source, file, minutes))
        except KeyboardInterrupt:
            err.print(f"interrupted; what has ended is in {file}: the same command goes on from there", markup=False)
            _report(sweep, _kept(file), as_json, source.name)
            raise typer.Exit(INTERRUPTED) from None
        _report(sweep, _kept(file), as_json, source.name)


async def _run(sweep: Sweep, source: Upstream, file: Path, minutes: float | None) -> None:
    async with Gateway(source, RESULTS / "replies").opened() as gateway:
        await run_sweep(sweep, gateway, file, minutes, _say)


def _kept(file: Path) -> list[Row]:
    return read_rows(file) if file.exists() else []


def _say(row: Row) -> None:
    how = "solved" if row.solved else f"not solved ({row.status}{': ' + row.error if row.error else ''})"
    err.print(f"{row.env}/{row.task} {row.system} seed {row.seed}: {how}, {row.seconds:.1f} s", markup=False)


def _report(sweep: Sweep, rows: Sequence[Row], as_json: bool, model: str | None = None) -> None:
    agreed = terms(sweep.caps, sweep.temperature)
    own = latest(row for row in rows if row.terms == agreed and model in (None, row.model))
    models = list(dict.fromkeys(row.model for row in own)) or ([model] if model else [])
    tables = {name: lines_of(sweep, [row for row in own if row.model == name]) for name in models}
    if as_json:
        print_json([{"model": name, "terms": agreed, "rows": lines} for name, lines in tables.items()])
        return
    if not tables:
        out.print(f"no results yet on these terms: {agreed}")
    for name, lines in tables.items():
        print_lines(lines, f"{name}, {agreed}", out)


if __name__ == "__main__":
    typer.run(main)
