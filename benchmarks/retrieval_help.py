"""Does finding help? Tasks whose tools are hidden among tens of thousands of others, by the way they are looked for.

``python -m benchmarks.retrieval_help --data DIR [--env atlas,comptoolbench] [--way gold,lexical,hybrid,planned]
[--limit 10] [--offer 20] [--shown] [--seeds 0] [--model embedded|NAME] [--out FILE] [--json]``

The same agent, model and seeds: ``gold`` is given the tools of the task's own solution and no others; the rest have the
task's tools among the 47,000 of the ToolBench catalogue, of which ``--offer`` are shown: by one search for the task's
words (``lexical``), by words, meaning and what found tools need (``hybrid``), or by queries that the model plans
(``planned``). A tool of the catalogue that is called refuses. Rows are kept and gone on from as
:mod:`benchmarks.tasks` does; the index is built once. With ``--shown`` nothing is tried and no model is asked: it tells
for how many tasks all tools of the solution are shown.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich import box
from rich.progress import Progress
from rich.table import Table

from atc.agent import Agent
from atc.cli.console import err, guarded, out, print_json
from atc.errors import ToolError, UsageError
from atc.models.base import Message, Reply
from atc.retrieval.index import ToolIndex
from atc.retrieval.minilm import MiniLM
from atc.retrieval.retriever import IndexRetriever, Way
from atc.retrieval.vectors import Encoder
from atc.tools.names import UniqueNames
from atc.tools.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments import Environment, open_environment
from benchmarks.environments.base import Task, served
from benchmarks.gateway import Caps
from benchmarks.retrieval_data import Catalogues
from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Job
from benchmarks.tasks import RESULTS, Plan, listed, run_and_report, seeds_of

POOL = "toolbench"
OFFERED = 20
"""Tools shown; a tool's stub has some 150 tokens, so a small model on two cores reads twenty for more than a minute."""
WAYS: dict[str, Way | None] = {"gold": None, "lexical": "lexical", "hybrid": "hybrid", "planned": "planned"}
ENVS = ("atlas", "comptoolbench")


@dataclass(frozen=True)
class Crowd:
    """The tools that the task's own ones lie among, and one index over all of them.

    Args:
        data: the directory with ``retrieval``.
        own: the protocols of all environments' tools; their names are theirs alone.
        kept: where the index is kept. ``encoder``: of its vectors.
    """

    data: Path
    own: tuple[Protocol, ...] = field(repr=False)
    kept: Path = RESULTS / "retrieval"
    encoder: Encoder = field(default_factory=MiniLM)

    @cached_property
    def others(self) -> Toolset:
        names = UniqueNames(protocol.name for protocol in self.own)
        return Toolset(
            served(protocol.model_copy(update={"name": names.take(protocol.name)}), _closed)
            for _, protocol in Catalogues(self.data).pool(POOL)
        )

    @cached_property
    def index(self) -> ToolIndex:
        """Built when it is first asked for, some minutes on two cores."""
        protocols = [*self.own, *self.others.protocols]
        lines = "\n".join(protocol.model_dump_json() for protocol in protocols)
        folder = self.kept / f"hidden-{hashlib.sha256(lines.encode()).hexdigest()[:12]}"
        if (folder / "index.json").exists():  # else it was not finished, and goes on
            return ToolIndex.load(folder, self.encoder)
        with Progress(console=err, transient=True) as progress:
            bar = progress.add_task("indexing", total=None)
            return ToolIndex.build(
                protocols,
                self.encoder,
                folder,
                lambda stage, done, total: progress.update(bar, description=stage, completed=done, total=total),
            )


def _closed(arguments: dict[str, Any]) -> Any:
    raise ToolError("no subscription to this service", status=403)


class Hidden(Atc):
    """ATC that has to find the task's tools.

    Args:
        way: how; ``None``: it is given those of the solution.
        crowd: what they lie among.
        offer: how many tools it is shown at most.
    """

    def __init__(self, name: str, way: Way | None, crowd: Crowd, offer: int = OFFERED) -> None:
        found = f"ATC that finds {offer} by {way}"
        super().__init__(name, "ATC with the tools of the solution" if way is None else found)
        self._crowd, self._offer = crowd, offer
        self._retriever = IndexRetriever(crowd.index, way, prerequisites=way != "lexical") if way else None

    async def version(self) -> str:
        return f"{await super().version()} {self._offer}"

    def agent(self, job: Job) -> Agent:
        episode = job.session.episode
        if self._retriever is None:
            return self.made(job, episode.tools.only(*(episode.gold_tools or episode.tools)))
        return self.made(job, episode.tools + self._crowd.others, max_tools=self._offer, retriever=self._retriever)


@dataclass(frozen=True)
class Shown:
    """What a way shows of the solutions' tools, without a try.

    Attributes:
        tasks: whose solution is known.
        all: the share of them that all tools of their solution are shown for.
        each: the share of a solution's tools that are shown, on average.
    """

    env: str
    way: str
    tasks: int
    all: float
    each: float


async def shown(crowd: Crowd, environment: Environment, tasks: Iterable[Task], way: Way, offer: int) -> Shown:
    """Look for the tools of tasks by a way that asks no model."""
    retriever = IndexRetriever(crowd.index, way, prerequisites=way != "lexical")
    shares = []
    for task in tasks:
        episode = environment.open(task)
        if episode.gold_tools:
            found = await retriever.retrieve(task.text, episode.tools + crowd.others, offer, _no_model)
            shares.append(len(episode.gold_tools & set(found.tools)) / len(episode.gold_tools))
    if not shares:
        raise UsageError(f"{environment.name} has no task whose solution is known")
    return Shown(environment.name, way, len(shares), fmean(share == 1 for share in shares), fmean(shares))


async def _no_model(messages: Sequence[Message], max_tokens: int) -> Reply:
    raise UsageError("--shown asks no model: leave out --way planned")


def protocols_of(environments: Iterable[Environment]) -> tuple[Protocol, ...]:
    """Of all tools that the tasks of these environments have, each once.

    Raises:
        EnvironmentProblem: an environment's data is missing.
    """
    found: dict[str, Protocol] = {}
    for environment in environments:
        for task in environment.tasks():
            if not found.keys() >= set(task.tools):
                found |= {protocol.name: protocol for protocol in environment.open(task).tools.protocols}
    return tuple(found[name] for name in sorted(found))


@guarded
def main(
    data: Annotated[Path, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/ and executable/.")],
    env: Annotated[str, typer.Option(help=f"Some of {', '.join(ENVS)}.")] = ",".join(ENVS),
    way: Annotated[str, typer.Option(help=f"Some of {', '.join(WAYS)}.")] = ",".join(WAYS),
    model: Annotated[str | None, typer.Option(help="As `atc run --model` takes it.")] = None,
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    limit: Annotated[int, typer.Option(min=1, help="The first so many tasks of each environment.")] = 10,
    offer: Annotated[int, typer.Option(min=1, help="Tools that are shown to the program's writer.")] = OFFERED,
    limit_s: Annotated[float, typer.Option(min=1, help="Seconds for one try.")] = 600.0,
    only_shown: Annotated[
        bool,
        typer.Option("--shown", help="Try nothing and ask no model: for how many tasks are all needed tools shown?"),
    ] = False,
    file: Annotated[Path, typer.Option("--out", help="Where each try is kept.")] = RESULTS / "retrieval_help.jsonl",
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON.")] = False,
) -> None:
    """Measure what finding tools is worth to a program writer."""
    wanted = listed(way, WAYS, "way")
    environments = [open_environment(name, data) for name in listed(env, ENVS, "env")]
    crowd = Crowd(data, protocols_of(open_environment(name, data) for name in ENVS))
    systems = [] if only_shown else [Hidden(name, WAYS[name], crowd, offer) for name in wanted]
    caps = replace(Caps(), seconds=limit_s)
    plan = Plan(environments, systems, seeds_of(seeds), stated=True, limit=limit, caps=caps)
    if only_shown:
        _print_shown(
            plan, crowd, [found for name in wanted if (found := WAYS[name]) and name != "planned"], offer, as_json
        )
    else:
        run_and_report(plan, model, file, as_json)


def _print_shown(plan: Plan, crowd: Crowd, ways: Sequence[Way], offer: int, as_json: bool) -> None:
    async def looked() -> list[Shown]:
        return [await shown(crowd, each, plan.tasks(each), way, offer) for each in plan.environments for way in ways]

    if not ways:
        raise UsageError("--shown is for the ways that ask no model: --way lexical,hybrid")
    lines = asyncio.run(looked())
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    table = Table("", "way", "tasks", "all tools shown", "of each task's tools", box=box.SIMPLE_HEAD)
    for line in lines:
        table.add_row(line.env, line.way, str(line.tasks), f"{line.all:.0%}", f"{line.each:.0%}")
    out.print(table)


if __name__ == "__main__":
    typer.run(main)
