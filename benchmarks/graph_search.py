"""Searching the tool graph: are the tools that a target depends on in what is found, and how does the time grow?

``python -m benchmarks.graph_search --data DIR [--source nestools,…] [--edges schemas,seen]`` takes the last tool of
each known solution as the target, in the catalogue of its source, and compares: the exact search's best path, all tools
of its three best, the paper's two searches, and plain breadth-first, which finds all that can be found.
``python -m benchmarks.graph_search --growth`` draws graphs of a thousand to a million edges and times the same searches
in the same process; it needs no data. The task's words are given to none of them: what they state is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich import box
from rich.table import Table

from atc.cli.console import guarded, out
from atc.errors import EnvironmentProblem, UsageError
from atc.graph.and_or import Solutions, cheapest
from atc.graph.search import BUDGET, best_paths
from atc_research.naviagent.searches import alpha_beta, breadth_first, hybrid
from benchmarks.common import median, percentile, print_json, share
from benchmarks.graph_search_data import SOURCES, Drawn, Edges, Fed, Service, Shape, Task, drawn, service

K = 3
"""Paths that are asked for."""
SIZES = "1000,10000,24000,100000,1000000"
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


# -- growth ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grown:
    """One search on one drawn graph, in milliseconds.

    Attributes:
        proved: searches that ended within their steps. ``over``: of the others, what the best path costs in parts of
            what no path can undercut, in the median; 1 is the cheapest.
    """

    shape: Shape
    nodes: int
    edges: int
    search: str
    targets: int
    p50: float
    p95: float
    most: float
    proved: int | None = None
    over: float | None = None


def timed(edges: int, shape: Shape, targets: int) -> list[Grown]:
    """All searches on a drawn graph."""
    graph = drawn(edges, shape, targets)
    results: list[Solutions] = []

    def exact(target: str) -> None:
        results.append(cheapest(graph.needs.__getitem__, int(target[1:]), K, BUDGET))

    line = _timed(graph, shape, f"exact, {K} best", exact)
    over = [max(1.0, each.found[0].cost / each.bound) for each in results if each.stopped == "budget" and each.bound]
    lines = [replace(line, proved=len(results) - len(over), over=round(median(over), 3) if over else None)]
    lines.append(_timed(graph, shape, "alpha-beta (Alg. 1)", partial(alpha_beta, graph.paper)))
    lines.append(_timed(graph, shape, "hybrid (Alg. 2)", lambda target: hybrid(graph.paper, [target])))
    lines.append(_timed(graph, shape, "breadth-first", partial(breadth_first, graph.paper)))
    return lines


def _timed(graph: Drawn, shape: Shape, name: str, search: Callable[[str], object]) -> Grown:
    took = []
    for target in graph.targets:
        began = time.perf_counter()
        search(target)
        took.append(1000 * (time.perf_counter() - began))
    p50, p95, most = (round(percentile(took, each), 3) for each in (50, 95, 100))
    return Grown(shape, graph.nodes, graph.edges, name, len(took), p50, p95, most)


# -- the command -------------------------------------------------------------------------------------------------------


@guarded
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/, trajectories/ and restbench/.")
    ] = None,
    source: Annotated[str, typer.Option(help=f"Some of {', '.join(SOURCES)}.")] = ",".join(SOURCES),
    edges: Annotated[str, typer.Option(help=f"Some of {', '.join(get_args(Edges))}.")] = "schemas,seen,names",
    growth: Annotated[bool, typer.Option("--growth", help="Time the searches on drawn graphs instead.")] = False,
    sizes: Annotated[str, typer.Option(help="Edges of the drawn graphs.")] = SIZES,
    targets: Annotated[int, typer.Option(min=1, help="Targets on each drawn graph.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Compare searches of the tool graph."""
    if growth:
        grown = [line for shape in get_args(Shape) for size in _sizes(sizes) for line in timed(size, shape, targets)]
        if as_json:
            print_json({"growth": [asdict(line) for line in grown]})
        else:
            _print_growth(grown)
        return
    if data is None:
        raise EnvironmentProblem("the benchmark of searches needs its data: give --data DIR or ATC_DATA, or --growth")
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


def _sizes(given: str) -> list[int]:
    try:
        return [max(1, int(size)) for size in given.split(",")]
    except ValueError:
        raise UsageError(f"--sizes takes numbers and commas, not {given!r}") from None


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


def _print_growth(lines: Sequence[Grown]) -> None:
    table = Table("graph", "nodes", "edges", "search", "p50 ms", "p95 ms", "most ms", "proved", "over", box=box.SIMPLE)
    for line in lines:
        times = (f"{each:,.2f}" for each in (line.p50, line.p95, line.most))
        proved = "" if line.proved is None else share(line.proved, line.targets)
        over = "" if line.over is None else f"{line.over:.2f}"
        table.add_row(line.shape, f"{line.nodes:,}", f"{line.edges:,}", line.search, *times, proved, over)
    out.print(table)


if __name__ == "__main__":
    typer.run(main)
