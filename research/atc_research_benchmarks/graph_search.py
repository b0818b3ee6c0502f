"""Searching the tool graph: are the tools that a target depends on in what is found?

``python -m atc_research_benchmarks.graph_search --data DIR [--source nestools,…] [--edges schemas,seen]`` takes the
last tool of each known solution as the target, in the catalogue of its source, and compares: the exact search's best
path, all tools of its three best, the paper's two searches, and plain breadth-first, which finds all that can be found.
The task's words are given to none of them: what they state is not known here.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich import box
from rich.table import Table

from atc.catalogue.graph.edges import Feed
from atc.catalogue.graph.suppliers import Scope, Supplier, fields_of
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.cli.console import guarded, out
from atc.errors import EnvironmentProblem, UsageError
from atc.schemas.identifiers import affinity, ending, endings, owner_of
from atc.schemas.protocol import Protocol, parameters_of
from atc_research.naviagent.search import best_paths, needs_in
from atc_research.naviagent.searches import PaperGraph, alpha_beta, breadth_first, hybrid
from benchmarks.common import AsJson, median, print_json, share
from benchmarks.environments.restbench import RestBench
from benchmarks.retrieval.data import Catalogues

SOURCES = {
    "nestools": ("nestools",),
    "complexfuncbench": ("complexfuncbench",),
    "api_bank": ("api_bank", "api_bank_lv3"),
    "restbench_tmdb": (),
    "restbench_spotify": (),
}
"""Sources of solutions, and what the data calls their parts."""
FITS = 0.6
"""Name affinity from which a field and a parameter are linked by ``names``."""
Edges = Literal["schemas", "seen", "names"]
"""Which edges a graph has.

``schemas``: those of :class:`ToolGraph`. ``seen``: beside these what the solutions of the other half of the tasks did,
weighted by Eq. 4. ``names``: one wherever the names of a field and a parameter fit.
"""


@dataclass(frozen=True)
class Task:
    """The solution of a task.

    Attributes:
        target: the last tool that it calls.
        chain: the tools that the target depends on by the source's data flow, and the target; all tools of the solution
            where the source does not say what flows.
        gold: all tools of the solution.
        half: of two, by hash; a task is searched for with what the other half did.
        arguments: ``(tool, parameter)`` of each argument. ``flows``: ``(supplier, tool, parameter)`` of those that came
            from another tool's response.
    """

    target: str
    chain: frozenset[str]
    gold: frozenset[str]
    half: int = 0
    arguments: tuple[tuple[str, str], ...] = ()
    flows: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Service:
    """One catalogue, all of it one service, and the tasks over it."""

    name: str
    tools: Mapping[str, Protocol]
    solved: Sequence[Task]

    @property
    def tasks(self) -> list[Task]:
        """Those whose target depends on other tools."""
        return [task for task in self.solved if len(task.chain) > 1]

    def graphs(self, edges: Edges) -> list[tuple[Fed, list[Task]]]:
        """The graph of the catalogue and the tasks to search it for; two where halves of the tasks teach each other."""
        if edges == "names":
            return [(Fed(self.tools, dict(_by_names(self.tools))), self.tasks)]
        graph = ToolGraph(self.tools, scopes={key: Scope(self.name) for key in self.tools})
        known = {key: graph.feeds(key) for key in self.tools}
        if edges == "schemas":
            return [(Fed(self.tools, known), self.tasks)]
        return [
            (Fed(self.tools, _with_seen(known, [each for each in self.solved if each.half != half])), tasks)
            for half in (0, 1)
            if (tasks := [task for task in self.tasks if task.half == half])
        ]


@dataclass(frozen=True)
class Fed:
    """A graph whose edges are known: only the search is measured, not what reads them off the protocols."""

    protocols: Mapping[str, Protocol]
    by_consumer: Mapping[str, Sequence[Feed]]

    def feeds(self, consumer: str) -> Sequence[Feed]:
        return self.by_consumer[consumer]

    @cached_property
    def as_paper(self) -> PaperGraph:
        """The same edges as the paper's searches take them."""
        return PaperGraph.of({
            (key, parameter): {supplier: feed.weight for supplier, feed in feeds.items()}
            for key in self.protocols
            for parameter, feeds in needs_in(self, key)
            if feeds
        })  # fmt: skip


def _with_seen(known: Mapping[str, Sequence[Feed]], solved: Sequence[Task]) -> dict[str, list[Feed]]:
    given = Counter(argument for task in solved for argument in task.arguments)
    times = Counter(flow for task in solved for flow in task.flows)
    found: dict[str, list[Feed]] = {key: [] for key in known}
    for (supplier, consumer, parameter), count in sorted(times.items()):
        weight = count / max(count, given[consumer, parameter])
        found[consumer].append(Feed(Supplier(supplier), consumer, parameter, "seen", weight, count))
    for key, feeds in known.items():
        seen = {(feed.supplier.tool, feed.parameter) for feed in found[key]}
        found[key] += [feed for feed in feeds if (feed.supplier.tool, feed.parameter) not in seen]
    return found


def _by_names(tools: Mapping[str, Protocol]) -> Iterator[tuple[str, list[Feed]]]:
    fields: dict[str, list[tuple[str, str, frozenset[str], tuple[str, ...]]]] = {}
    for key, protocol in tools.items():
        for path in fields_of(protocol.returns):
            *above, name = [step for step in path if step != "[]"]
            fields.setdefault(ending(name), []).append((key, name, owner_of(above, protocol.name), path))
    for key, protocol in tools.items():
        feeds = []
        for parameter in (each for each in parameters_of(protocol) if each.required):
            for last in sorted(endings(parameter.original)):
                for supplier, name, owner, path in fields.get(last, ()):
                    score = affinity(parameter.original, protocol.name, name, owner)
                    if score >= FITS and supplier != key:
                        feeds.append(Feed(Supplier(supplier, path), key, parameter.original, "names", score))
        yield key, feeds


def service(data: Path, source: str) -> Service:
    """One source.

    Raises:
        EnvironmentProblem: its data is not there.
    """
    tools, tasks = _restbench(data, source) if source.startswith("restbench") else _trajectories(data, source)
    return Service(source, tools, tasks)


def _restbench(data: Path, source: str) -> tuple[dict[str, Protocol], list[Task]]:
    environment, name = RestBench(data), source.rpartition("_")[2]
    tools = {key: operation.protocol for key, operation in environment.operations[name].items()}
    needed = [environment.needed(task) for task in environment.records if environment.service(task) == name]
    return tools, [Task(each[-1], frozenset(each), frozenset(each)) for each in needed]


def _trajectories(data: Path, source: str) -> tuple[dict[str, Protocol], list[Task]]:
    tools = dict(Catalogues(data).pool(source))
    file = data / "trajectories" / "trajectories.jsonl.gz"
    if not file.is_file():
        raise EnvironmentProblem(f"{file} is not there: give the data's directory with --data DIR or in ATC_DATA")
    tasks = []
    with gzip.open(file) as lines:
        for line in lines:
            record = json.loads(line)
            called = [call["tool"] for call in record["calls"]]
            if record["source"] not in SOURCES[source] or not tools.keys() >= set(called):
                continue
            gold = frozenset(called)
            chain = frozenset(called[place] for place in _upstream(record.get("edges", ()), len(called) - 1))
            half = hashlib.sha256(record["id"].encode()).digest()[0] % 2
            arguments = tuple((call["tool"], name) for call in record["calls"] for name in call.get("args") or ())
            flows = tuple(flows_of(record))
            tasks.append(Task(called[-1], chain if "edges" in record else gold, gold, half, arguments, flows))
    return tools, tasks


def flows_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The arguments that came from earlier calls: by what the source refers to them with, else by the value itself."""
    calls = record["calls"]
    for first, second in record.get("edges", ()):
        supplier, consumer = calls[first], calls[second]
        references = (f"${supplier['label']}.",) if "label" in supplier else (f"API_call_{first}",)
        output = json.dumps(supplier.get("output"), ensure_ascii=False)
        for name, value in (consumer.get("args") or {}).items():
            text = json.dumps(value, ensure_ascii=False)
            if any(each in text for each in references) or ("output" in supplier and text.strip('"') in output):
                yield supplier["tool"], consumer["tool"], name


def _upstream(edges: Sequence[Sequence[int]], last: int) -> set[int]:
    found, todo = {last}, [last]
    while todo:
        at = todo.pop()
        new = {first for first, second in edges if second == at} - found
        found |= new
        todo += new
    return found


K = 3
"""Paths that are asked for."""
Search = Callable[[Fed, str], frozenset[str]]


def _exact(k: int) -> Search:
    return lambda graph, target: frozenset(
        chain.from_iterable(path.tools for path in best_paths(graph, target, k=k))
    )  # fmt: skip


SEARCHES: Mapping[str, Search] = {
    "exact, best path": _exact(1),
    f"exact, {K} best together": _exact(K),
    "alpha-beta (Alg. 1)": lambda graph, target: alpha_beta(graph.as_paper, target),
    "hybrid (Alg. 2)": lambda graph, target: hybrid(graph.as_paper, [target]),
    "breadth-first": lambda graph, target: breadth_first(graph.as_paper, target),
}


@dataclass(frozen=True)
class Line:
    """How one search did on one source.

    Attributes:
        whole: tasks whose whole chain was found.
        wanted: tools of the chains, without the targets; ``found`` of them.
        offered: tools that the search gave, without the targets; ``right``: of these in the solutions.
    """

    source: str
    edges: Edges
    search: str
    tools: int
    tasks: int
    whole: int
    wanted: int
    found: int
    offered: int
    right: int
    ms: float


def measured(source: Service, edges: Edges) -> list[Line]:
    """All searches on one source."""
    graphs = source.graphs(edges)
    for graph, _ in graphs:
        graph.as_paper  # noqa: B018  made before the clock runs
    return [_line(source, edges, graphs, name, search) for name, search in SEARCHES.items()]


def _line(
    source: Service, edges: Edges, graphs: Sequence[tuple[Fed, Sequence[Task]]], name: str, search: Search
) -> Line:
    took: list[float] = []
    results: list[tuple[Task, frozenset[str]]] = []
    for graph, tasks in graphs:
        known: dict[str, frozenset[str]] = {}
        for task in tasks:
            if task.target not in known:
                began = time.perf_counter()
                known[task.target] = search(graph, task.target)
                took.append(1000 * (time.perf_counter() - began))
            results.append((task, known[task.target]))
    return Line(
        source.name,
        edges,
        name,
        len(source.tools),
        len(results),
        whole=sum(task.chain <= found for task, found in results),
        wanted=sum(len(task.chain) - 1 for task, _ in results),
        found=sum(len((task.chain & found) - {task.target}) for task, found in results),
        offered=sum(len(found - {task.target}) for task, found in results),
        right=sum(len((task.gold & found) - {task.target}) for task, found in results),
        ms=round(median(took), 3),
    )


# -- the command -------------------------------------------------------------------------------------------------------


@guarded
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/ and restbench/.")
    ] = None,
    source: Annotated[str, typer.Option(help=f"Some of {', '.join(SOURCES)}.")] = ",".join(SOURCES),
    edges: Annotated[str, typer.Option(help=f"Some of {', '.join(get_args(Edges))}.")] = "schemas,seen,names",
    as_json: AsJson = False,
) -> None:
    """Compare searches of the tool graph."""
    if data is None:
        raise EnvironmentProblem("the benchmark of searches needs its data: give --data DIR or ATC_DATA")
    kinds: list[Edges] = [each for each in get_args(Edges) if each in _listed(edges, get_args(Edges), "--edges")]
    services = [service(data, each) for each in _listed(source, list(SOURCES), "--source")]
    lines = [line for kind in kinds for each in services for line in measured(each, kind)]
    if as_json:
        print_json({"found": [asdict(line) for line in lines]})
    else:
        _print_found(lines)


def _listed(given: str, known: Sequence[str], option: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"{option} knows no {name!r}: take of {', '.join(known)}")
    return names


def _print_found(lines: Sequence[Line]) -> None:
    table = Table(
        "edges", "source", "tasks", "search", "whole chain", "of its tools", "precision", "ms", box=box.SIMPLE
    )
    for line in lines:
        table.add_row(
            line.edges,
            line.source,
            str(line.tasks),
            line.search,
            share(line.whole, line.tasks),
            share(line.found, line.wanted),
            share(line.right, line.offered),
            f"{line.ms:.2f}",
        )
    out.print(table)


if __name__ == "__main__":
    typer.run(main)
