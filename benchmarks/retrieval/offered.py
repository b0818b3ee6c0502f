"""Is what a task needs offered? By one search, with ``max_tools`` of ATC's default; no model is asked.

``python -m benchmarks.retrieval.offered --data DIR [--half choose|report] [--encoder] [--limit 60] [--json]``

The tools of all environments are one catalogue (``together``), and those of each that has more than are offered are one
of their own. Of each stated, open task whose solution is known it is counted which tools of the solution are not
offered, and what the offered ones take of a prompt. Tasks are halved by a hash: a way is chosen by the one half, and
reported by the other. ``--pools tau2,agentdojo,livemcp,toolbench --limit 400`` counts the same of queries by words.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, Literal

import typer

from atc.catalogue.catalogue import Catalogue
from atc.catalogue.index.consumers import Consumers
from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.minilm import MiniLM
from atc.catalogue.index.planner import search_without_plan
from atc.catalogue.index.retriever import IndexRetriever
from atc.catalogue.index.services import DEPTH, by_services
from atc.cli.console import guarded, print_json
from atc.errors import UsageError
from atc.models.base import Message, Reply
from atc.schemas.names import UniqueNames
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.stubs import whole_stub
from atc.tools.tool import Toolset
from benchmarks.common import AsJson, Data, listed, numbers, show
from benchmarks.environments import ENVIRONMENTS, Environment, Task, open_environment
from benchmarks.environments.base import served
from benchmarks.environments.shops import environments as shops
from benchmarks.retrieval.data import Catalogues
from benchmarks.tasks.read_tasks import in_part, order

ENVS = ("api_bank", "atlas", "bfcl", "complexfuncbench", "comptoolbench", "restbench", "toolflow", "workbench")
TOGETHER = "together"
Half = Literal["choose", "report", "both"]
_PLACES = 20
_A_TOKEN = 4
"""Characters of a token."""


@dataclass(frozen=True)
class Needing:
    """A task in a catalogue.

    Attributes:
        needed: the tools of its solution, by the catalogue's names.
    """

    env: str
    text: str
    needed: frozenset[str]


@dataclass
class Crowd:
    """A catalogue, and the tasks that are asked of it."""

    name: str
    tools: Toolset
    tasks: list[Needing] = field(default_factory=list)


@dataclass(frozen=True)
class Way:
    """How tools are found.

    Attributes:
        options: what :class:`IndexRetriever` is given.
        more: tools that are offered beyond the limit.
        consumers: so many of the last places are given to consumers, full or not.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    more: int = 0
    consumers: int = 0


def ways(consumers: Iterable[int]) -> list[Way]:
    """Return what is compared."""
    plain, needs = {"prerequisites": False, "services": False, "consumers": 0}, {"services": False, "consumers": 0}
    return [
        Way("words and meaning", plain),
        Way("and prerequisites", needs),
        Way("and services", {"consumers": 0}),
        Way("services, without prerequisites", {"prerequisites": False, "consumers": 0}),
        *(Way(f"all, and {most} consumers", {"consumers": most}) for most in consumers),
        *(Way(f"prerequisites, {most} of 20 consumers", needs, consumers=most) for most in consumers),
        *(Way(f"prerequisites, {most} more by rank", needs, more=most) for most in consumers),
    ]


def in_half(environment: Environment, task: Task, half: Half) -> bool:
    """Return whether a task is in a half, by a hash of its name."""
    first = hashlib.sha256(f"offered/{environment.name}/{task.id}".encode()).digest()[0] % 2 == 0
    return half == "both" or first == (half == "choose")


def crowds(environments: Sequence[Environment], half: Half, limit: int, offered: int) -> list[Crowd]:
    """Return the catalogues with their tasks.

    Args:
        limit: tasks of each environment, drawn by a hash.
        offered: a catalogue of an environment has more tools than that.
    """
    names, found = UniqueNames(()), dict[tuple[str, str], Protocol]()  # by service and name
    tasks: list[tuple[Environment, str, dict[str, str], frozenset[str]]] = []
    own: dict[str, dict[str, None]] = {}
    for environment in environments:
        all_tasks = environment.tasks()
        drawn = [each for each in all_tasks if each.stated and in_part(environment.name, each.id, "open")]
        drawn = sorted(drawn, key=lambda task: order(environment, task))[:limit]
        chosen = {each.id for each in drawn if in_half(environment, each, half)}
        known = set[str]()
        for task in all_tasks:
            if task.id not in chosen and known.issuperset(task.tools):
                continue
            episode = environment.open(task)
            known.update(episode.tools)
            called: dict[str, str] = {}
            for name, tool in episode.tools.items():
                key = _service(environment, tool.protocol), name
                if key not in found:
                    found[key] = tool.protocol.model_copy(update={"name": names.take(name)})
                called[name] = found[key].name
                own.setdefault(environment.name, {})[called[name]] = None
            if task.id in chosen and episode.gold_tools:
                tasks.append((environment, task.text, called, episode.gold_tools))
    together = Crowd(TOGETHER, Toolset(served(each, _refused) for each in found.values()))
    made = {name: Crowd(name, together.tools.only(*some)) for name, some in own.items() if len(some) > offered}
    for environment, text, called, needed in tasks:
        each = Needing(environment.name, text, frozenset(called[name] for name in needed))
        for crowd in (together, made.get(environment.name)):
            if crowd is not None:
                crowd.tasks.append(each)
    return [together, *(each for each in made.values() if each.tasks)]


def _service(environment: Environment, protocol: Protocol) -> str:
    return protocol.source.service or environment.name


def _refused(arguments: dict[str, Any]) -> Any:
    raise UsageError("no tool is called")


@dataclass(frozen=True)
class Offered:
    """What one task was offered: needed tools that are missing, tools, tokens that these take, and seconds."""

    task: Needing
    missing: int
    tools: int
    tokens: float
    seconds: float


def offered(crowd: Crowd, way: Way, index: ToolIndex, settings: Settings) -> list[Offered]:
    """Look for the tools of each task by one way."""
    retriever = IndexRetriever(index, "hybrid" if index.encoder else "lexical", **way.options)
    catalogue = Catalogue(crowd.tools, retriever=retriever, settings=settings)
    made = []
    for task in crowd.tasks:
        began = time.perf_counter()
        sketch = asyncio.run(catalogue.sketch(task.text, settings.max_tools + way.more - way.consumers, _nobody))
        names = [*sketch.tools]
        if way.consumers:
            names += [each.tool for each in Consumers(index).of(names, task.text)][: way.consumers]
        seconds = time.perf_counter() - began
        tokens = sum(_characters(crowd.tools[name].protocol) for name in names) / _A_TOKEN
        made.append(Offered(task, len(task.needed - set(names)), len(names), tokens, seconds))
    return made


_SIZES: dict[int, tuple[Protocol, int]] = {}


def _characters(protocol: Protocol) -> int:
    kept = _SIZES.get(id(protocol))
    if kept is None:
        stub = whole_stub(protocol, {}, plain=True)
        kept = _SIZES[id(protocol)] = protocol, len(stub.function) + sum(map(len, stub.classes.values())) if stub else 0
    return kept[1]


def line(crowd: Crowd, way: Way, env: str, some: Sequence[Offered]) -> dict[str, Any]:
    """Return a line of the table."""
    return {
        "catalogue": crowd.name, "tools": len(crowd.tools), "env": env, "way": way.name, "tasks": len(some),
        "needed": sum(len(each.task.needed) for each in some),
        "not offered": sum(each.missing for each in some),
        "tasks with one missing": sum(each.missing > 0 for each in some),
        "offered": round(fmean(each.tools for each in some), 2),
        "tokens": round(fmean(each.tokens for each in some)),
        "ms": round(1000 * median(each.seconds for each in some), 1),
    }  # fmt: skip


def of_pools(data: Path, pools: Iterable[str], limit: int) -> list[dict[str, Any]]:
    """Return a line for each pool of queries: tools of the first 20 places that are missed, by words alone, without the
    services of the first tools and with them.

    Args:
        limit: queries of each source, drawn by a hash.
    """
    catalogues, lines = Catalogues(data), list[dict[str, Any]]()
    queries = catalogues.queries(limit)
    for pool in pools:
        some = [each for each in queries if each.pool == pool]
        if not some:
            raise UsageError(
                f"--pools: no query is of a pool {pool!r}; there are {', '.join(sorted({q.pool for q in queries}))}"
            )
        index = ToolIndex.build(catalogues.pool(pool))
        plain = gained = 0
        for query in some:
            found = search_without_plan(index, query.text, _PLACES, prerequisites=False, depth=DEPTH)
            hits = found.turns[0].hits
            plain += len(query.gold.difference(hit.id for hit in hits[:_PLACES]))
            with_services = by_services(hits, index.services_of, {hit.id for hit in hits})
            gained += len(query.gold.difference(with_services[:_PLACES]))
        needed = sum(len(query.gold) for query in some)
        lines.append(
            {"pool": pool, "queries": len(some), "needed": needed, "missed": plain, "missed, services": gained}
        )
    return lines


async def _nobody(messages: Sequence[Message], max_tokens: int) -> Reply:
    raise UsageError("no model is asked")


@guarded
def main(
    data: Data,
    env: Annotated[str, typer.Option(help=f"Some of {', '.join(ENVS)}, shops.")] = ",".join((*ENVS, "shops")),
    half: Annotated[str, typer.Option(help="choose, report or both.")] = "report",
    encoder: Annotated[bool, typer.Option(help="By meaning too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Tasks of each environment, drawn by a hash.")] = 120,
    consumers: Annotated[str, typer.Option(help="So many are added at most, comma-separated.")] = "2,4",
    each: Annotated[bool, typer.Option(help="A line for each environment of the catalogue together, too.")] = False,
    pools: Annotated[
        str, typer.Option(help="In place of tasks: queries of these pools of the data's `retrieval`.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Count needed tools that are not offered, and what is offered for it."""
    if half not in ("choose", "report", "both"):
        raise UsageError(f"--half: choose, report or both, not {half!r}")
    if pools:
        lines = of_pools(data, pools.split(","), limit)
        print_json(lines) if as_json else show("Missed", [*lines[0]], [[*line.values()] for line in lines])
        return
    names = listed(env, (*ENVIRONMENTS, "shops"), "env")
    environments = [open_environment(name, data) for name in names if name != "shops"]
    environments += shops() if "shops" in names else []
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(catalogue=Path(folder), learn=False)
        for crowd in crowds(environments, half, limit, settings.max_tools):  # type: ignore[arg-type]
            index = ToolIndex.build(crowd.tools.protocols, MiniLM() if encoder else None)
            for way in ways(numbers(consumers, "consumers")):
                found = offered(crowd, way, index, settings)
                lines.append(line(crowd, way, "all", found))
                for name in dict.fromkeys(task.env for task in crowd.tasks) if each and crowd.name == TOGETHER else ():
                    lines.append(line(crowd, way, name, [some for some in found if some.task.env == name]))
    if as_json:
        print_json(lines)
        return
    show("What is offered", [*lines[0]], [[*line.values()] for line in lines])


if __name__ == "__main__":
    typer.run(main)
