"""Does finding help? Tasks whose tools are hidden among tens of thousands of others: are all that they need shown?

``python -m benchmarks.retrieval.help --data DIR [--env atlas,comptoolbench] [--way lexical,hybrid] [--limit 10]
[--offer 20] [--json]``

The task's tools lie among the 47,000 of the ToolBench catalogue, of which ``--offer`` are shown: by one search for the
task's words (``lexical``), or by words, meaning and what found tools need (``hybrid``). Nothing is tried and no model
is asked. The index is built once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.progress import Progress

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.index_store import FILE
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.retriever import IndexRetriever, Way
from atc.catalogue.index.vectors import Encoder
from atc.cli.console import err, guarded, print_json
from atc.errors import ToolError, UsageError
from atc.models.base import Message, Reply
from atc.schemas.names import UniqueNames
from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.common import RESULTS, AsJson, listed, show
from benchmarks.environments import Environment, open_environment
from benchmarks.environments.base import Task, served
from benchmarks.retrieval.data import Catalogues
from benchmarks.tasks.run import Plan

POOL = "toolbench"
OFFERED = 20
"""Tools shown; a tool's stub has some 150 tokens, so a small model on two cores reads twenty for more than a minute."""
WAYS: dict[str, Way] = {"lexical": "lexical", "hybrid": "hybrid"}
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
        if (folder / FILE).exists():
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


@dataclass(frozen=True)
class Shown:
    """What a way shows of the solutions' tools.

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
    """Look for the tools of tasks by one way."""
    retriever = IndexRetriever(crowd.index, way)
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
    raise UsageError("no model is asked")


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
    limit: Annotated[int, typer.Option(min=1, help="The first so many tasks of each environment.")] = 10,
    offer: Annotated[int, typer.Option(min=1, help="Tools that are shown to the program's writer.")] = OFFERED,
    as_json: AsJson = False,
) -> None:
    """Count for how many tasks all tools of the solution are shown."""
    ways = listed(way, WAYS, "way")
    environments = [open_environment(name, data) for name in listed(env, ENVS, "env")]
    crowd = Crowd(data, protocols_of(open_environment(name, data) for name in ENVS))
    plan = Plan(environments, [], stated=True, limit=limit)

    async def looked() -> list[Shown]:
        return [await shown(crowd, each, plan.tasks(each), WAYS[name], offer) for each in environments for name in ways]

    lines = asyncio.run(looked())
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    rows = [(line.env, line.way, line.tasks, f"{line.all:.0%}", f"{line.each:.0%}") for line in lines]
    show("Tools that are shown", ("", "way", "tasks", "all tools shown", "of each task's tools"), rows)


if __name__ == "__main__":
    typer.run(main)
