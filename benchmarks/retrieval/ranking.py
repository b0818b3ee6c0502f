"""Finding tools: how well each method ranks a catalogue for a query, in the pools of the literature.

``python -m benchmarks.retrieval --data DIR`` builds an index for each pool (kept, and built again when the code that
makes it changes), ranks with every method, writes a JSON line for each query and prints a table; started again it goes
on where it was. ``--base`` says what the methods that widen or plan a task search by. Where a method asks a model,
queries take turns over the sources and all methods answer one before the next is taken: whatever is there when it is
stopped is balanced, and the table is over the queries that all methods have answered.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any, get_args

import typer
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from atc.catalogue.index.index import Mode
from atc.catalogue.index.metrics import ndcg
from atc.catalogue.index.minilm import MiniLM
from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc_research.toolqp.rewards import recall
from benchmarks.common import RESULTS, AsJson
from benchmarks.retrieval.data import MEDIUM, Catalogues, Query
from benchmarks.retrieval.methods import METHODS, Bench, Method
from benchmarks.rows import read_lines

METRICS: dict[str, Callable[[Sequence[str], frozenset[str]], float]] = {
    "nDCG@1": lambda ranked, gold: ndcg(ranked, gold, 1),
    "nDCG@3": lambda ranked, gold: ndcg(ranked, gold, 3),
    "nDCG@5": lambda ranked, gold: ndcg(ranked, gold, 5),
    "nDCG@10": lambda ranked, gold: ndcg(ranked, gold, 10),
    "R@10": lambda ranked, gold: recall(ranked, gold, 10),
    "C@10": lambda ranked, gold: completeness(ranked, gold, 10),
}
MACRO, GROUPS = "macro", ("single", "multi", "dependent")
RESAMPLES = 1_000
Line = dict[str, Any]


def completeness(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 where all wanted tools are among the first ``k``, else 0 (Completeness@k of ToolQP §4.1).

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    return float(recall(ranked, gold, k) == 1.0)


@checked_dataclass(frozen=True)
class Row:
    """What one method found for one query.

    Attributes:
        method: its name, with the base retriever where that is not the usual one.
        pool: that was searched. ``version``: of the method.
        ranked: ids, the likeliest first.
        ms: milliseconds; with a model, its time too.
    """

    method: str
    version: str
    pool: str
    query: str
    ranked: list[str]
    ms: float
    calls: int = 0
    tokens: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.method, self.version, self.pool, self.query


ROWS: TypeAdapter[Row] = TypeAdapter(Row)


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, if it is there."""
    return read_lines(file, ROWS) if file.exists() else []


def paired(rows: Sequence[Row], methods: Collection[str]) -> list[Row]:
    """The rows of those queries that each of the methods has answered: so methods are compared over the same ones."""
    answered: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        answered[row.query].add(row.method)
    return [row for row in rows if answered[row.query] >= set(methods)]


def summarise(rows: Sequence[Row], queries: Sequence[Query], subsets: bool = False) -> list[Line]:
    """A line for each method and source, then for each group and for all sources, which count alike (macro average).

    Args:
        rows: of one kind of pool.
        queries: the queries that they answer; those of other queries are left out.
        subsets: take a source's parts apart.
    """
    known = {query.id: query for query in queries}
    places: dict[tuple[str, str], list[tuple[Row, Query]]] = defaultdict(list)
    for row in rows:
        if (query := known.get(row.query)) is not None:
            name = f"{query.source}/{query.subset}" if subsets and query.subset else query.source
            places[row.method, name].append((row, query))
    methods = list(dict.fromkeys(method for method, _ in places))
    lines = [_line(method, name, [found]) for (method, name), found in sorted(places.items(), key=lambda p: p[0][1])]
    for group in (*GROUPS, MACRO):
        for method in methods:
            chosen = [found for (m, _), found in places.items() if m == method and group in (MACRO, found[0][1].group)]
            if chosen:
                lines.append(_line(method, group, chosen))
    return lines


def _line(method: str, place: str, sources: Sequence[Sequence[tuple[Row, Query]]]) -> Line:
    rows = [row for found in sources for row, _ in found]
    line: Line = {"method": method, "place": place, "sources": len(sources), "queries": len(rows)}
    for name, metric in METRICS.items():
        values = [[metric(row.ranked, query.gold) for row, query in found] for found in sources]
        line[name] = fmean(fmean(found) for found in values)
        if name in ("nDCG@10", "C@10"):
            line[f"{name} interval"] = bootstrapped(values)
    times = sorted(row.ms for row in rows)
    return line | {
        "p50 ms": median(times),
        "p95 ms": times[int(0.95 * (len(times) - 1))],
        "calls": median(row.calls for row in rows),
        "tokens": fmean(row.tokens for row in rows),
    }


def bootstrapped(values: Sequence[Sequence[float]]) -> tuple[float, float]:
    """95 % of a mean of means, by drawing anew within each source."""
    draw = random.Random(0)
    means = sorted(fmean(fmean(draw.choices(found, k=len(found))) for found in values) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def print_table(lines: Sequence[Line], console: Console) -> None:
    """The lines as a table, places one after the other."""
    table = Table(
        "source",
        "method",
        "queries",
        *METRICS,
        "95 % of nDCG@10",
        "95 % of C@10",
        "p50 ms",
        "p95 ms",
        "calls",
        box=box.SIMPLE_HEAD,
    )
    before = None
    for line in sorted(lines, key=_place):
        if before not in (None, line["place"]):
            table.add_section()
        intervals = (line[f"{name} interval"] for name in ("nDCG@10", "C@10"))
        shown = (f"{100 * line[name]:.1f}" for name in METRICS)
        table.add_row(
            line["place"] if line["place"] != before else "",
            line["method"],
            str(line["queries"]),
            *shown,
            *(f"{100 * low:.1f}-{100 * high:.1f}" for low, high in intervals),
            f"{line['p50 ms']:.1f}",
            f"{line['p95 ms']:.1f}",
            f"{line['calls']:g}",
        )
        before = line["place"]
    console.print(table)


def _place(line: Line) -> tuple[int, str]:
    last = (*GROUPS, MACRO)
    return (last.index(line["place"]) + 1, "") if line["place"] in last else (0, line["place"])


def draw(lines: Sequence[Line], file: Path) -> None:
    """Draw the lines of :func:`benchmarks.retrieval.ranking.summarise` that are over groups.

    Raises:
        EnvironmentProblem: matplotlib is not installed.
        UsageError: the file cannot be written, or there is nothing to draw.
    """
    if file.suffix not in (".svg", ".png"):
        raise UsageError(f"--picture takes a name that ends in .svg or .png, not {file}")
    shares = {(line["place"], line["method"]): line for line in lines}
    places = [place for place in (*GROUPS, MACRO) if any(place == known for known, _ in shares)]
    methods = list(dict.fromkeys(method for _, method in shares))
    if not places:
        raise UsageError("there is no ranking yet to draw")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EnvironmentProblem("the picture needs matplotlib: `pip install -e '.[bench]'`") from None
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
        shown = [(at, shares[place, method]) for at, place in enumerate(places) if (place, method) in shares]
        heights = [100 * line["nDCG@10"] for _, line in shown]
        low = [100 * (line["nDCG@10"] - line["nDCG@10 interval"][0]) for _, line in shown]
        high = [100 * (line["nDCG@10 interval"][1] - line["nDCG@10"]) for _, line in shown]
        places_at = [at + number * width for at, _ in shown]
        axes.bar(places_at, heights, width, yerr=[[max(0, x) for x in low], [max(0, x) for x in high]], label=method)
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(places))], places)
    axes.set(ylabel="nDCG@10, %, macro over sources, with its 95 % interval")
    axes.legend(fontsize=8)
    try:
        figure.savefig(file)
    except OSError as error:
        raise UsageError(f"the picture cannot be written to {file}: {error.strerror}") from None


DEPTH = 20
"""Ids kept of each ranking."""
DEFAULT = "bm25,lexical,dense,hybrid,needs"
AT_LEAST = 30
"""Queries that a source must have to be drawn."""


@dataclass(frozen=True)
class Arm:
    """One column of a comparison: a method, and what it searches by."""

    method: Method
    base: Mode

    @property
    def label(self) -> str:
        return self.method.label(self.base)


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    method: Annotated[str, typer.Option(help=f"Of {', '.join(METHODS)}.")] = DEFAULT,
    base: Annotated[str, typer.Option(help=f"What methods search by: some of {', '.join(get_args(Mode))}.")] = "hybrid",
    source: Annotated[str, typer.Option(help="Sources of queries; all, if not said.")] = "",
    drawn: Annotated[
        int, typer.Option(min=0, help=f"So many sources, drawn of those with {AT_LEAST} queries and {MEDIUM} tools.")
    ] = 0,
    per_source: Annotated[
        int, typer.Option(min=0, help="Queries of each source, always the same ones; 0 takes all.")
    ] = 100,
    subsets: Annotated[bool, typer.Option("--subsets", help="A line for each part of a source.")] = False,
    model: Annotated[str | None, typer.Option(help="Of methods that ask one; as `atc run --model` takes it.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Rank nothing more: the table of what is kept.")] = False,
    file: Annotated[Path, typer.Option("--out", help="Where each ranking is kept as a JSON line.")] = RESULTS
    / "retrieval.jsonl",
    picture: Annotated[Path | None, typer.Option(help="Draw nDCG@10 by group there: .svg or .png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well tools are found."""
    if data is None:
        raise EnvironmentProblem("the benchmark of retrieval needs its data: give --data DIR or ATC_DATA")
    wanted = [name.strip() for name in method.split(",") if name.strip()]
    if wrong := [name for name in wanted if name not in METHODS]:
        raise UsageError(f"there is no method {wrong[0]!r}: take of {', '.join(METHODS)}")
    bases = [name.strip() for name in base.split(",") if name.strip()]
    if wrong := [name for name in bases if name not in get_args(Mode)]:
        raise UsageError(f"--base {wrong[0]}: there is no such base retriever: take of {', '.join(get_args(Mode))}")
    queries = _queries(Catalogues(data), source, drawn, per_source or None)
    arms = arms_of([METHODS[name] for name in wanted], bases)  # type: ignore[arg-type]
    encoder = MiniLM()
    if any(METHODS[name].ours for name in wanted):
        encoder.check()
    bench = Bench(Catalogues(data), RESULTS / "retrieval", model, encoder)
    try:
        if not report:
            asyncio.run(_run(bench, arms, queries, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was ranked is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    versions = {(arm.label, bench.version(arm.method)) for arm in arms}
    rows = [row for row in read_rows(file) if (row.method, row.version) in versions]
    lines = summarise(paired(rows, [arm.label for arm in arms]), queries, subsets)
    if picture is not None:
        draw(lines, picture)
    if as_json:
        print_json(lines)
    else:
        print_table(lines, out)


def arms_of(methods: Sequence[Method], bases: Sequence[Mode]) -> list[Arm]:
    """Each method by each base retriever; those that have one of their own once."""
    return [Arm(method, base) for method in methods for base in (bases if method.based else ("hybrid",))]


def _queries(catalogues: Catalogues, source: str, drawn: int, per_source: int | None) -> list[Query]:
    sources = [name.strip() for name in source.split(",") if name.strip()]
    if sources and drawn:
        raise UsageError("--source and --drawn both choose the queries: take one of them")
    queries = catalogues.queries(per_source, sources or (catalogues.drawn(drawn, AT_LEAST) if drawn else ()))
    if unknown := set(sources) - {query.source for query in queries}:
        raise UsageError(f"there are no queries of {sorted(unknown)[0]!r} in {catalogues.directory}")
    return queries


def in_turns(arms: Sequence[Arm], queries: Sequence[Query]) -> Iterator[tuple[str, Query, Arm]]:
    """What is ranked, in its order, each with the pool that is searched.

    Without a model pool by pool, for an index is large and one is held at a time. With one each source's first query
    comes before any source's second, and all arms answer a query before the next is taken.
    """
    by_pool: dict[str, list[Query]] = defaultdict(list)
    by_source: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_pool[query.pool].append(query)
        by_source[query.source].append(query)
    if not any(arm.method.asks for arm in arms):
        for pool, asked in sorted(by_pool.items()):
            yield from ((pool, query, arm) for arm in arms for query in asked)
        return
    for round_ in zip_longest(*by_source.values()):
        for query in filter(None, round_):
            yield from ((query.pool, query, arm) for arm in arms)


async def _run(bench: Bench, arms: Sequence[Arm], queries: Sequence[Query], file: Path) -> None:
    done = {row.key for row in read_rows(file)}
    versions = {arm.label: bench.version(arm.method) for arm in arms}
    wanted = [
        (pool, query, arm)
        for pool, query, arm in in_turns(arms, queries)
        if (arm.label, versions[arm.label], pool, query.id) not in done
    ]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as rows, Progress(console=err, transient=True) as progress:
            bar = progress.add_task("", total=len(wanted))
            for pool, query, arm in wanted:
                progress.update(bar, description=f"{pool} {arm.label}")
                rows.write(ROWS.dump_json(await _ranked(bench, arm, versions[arm.label], pool, query)) + b"\n")
                rows.flush()
                progress.advance(bar)
    except OSError as error:
        raise UsageError(
            f"the rankings cannot be kept in {file}: {error.strerror}; make room or name another"
        ) from None
    finally:
        await bench.aclose()


async def _ranked(bench: Bench, arm: Arm, version: str, pool: str, query: Query) -> Row:
    index = bench.index(pool, arm.base)
    before, began = bench.spent, time.perf_counter()
    ranked = await arm.method.rank(bench, index, query.text)
    ms = 1000 * (time.perf_counter() - began)
    spent = bench.spent - before
    return Row(
        arm.label,
        version,
        pool,
        query.id,
        ranked[:DEPTH],
        round(ms + 1000 * spent.kept_s, 3),
        spent.calls,
        spent.tokens,
    )
