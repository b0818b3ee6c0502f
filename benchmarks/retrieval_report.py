"""The tables over the rows of :mod:`benchmarks.retrieval`: how good each method's rankings are, and what they took."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass
from rich import box
from rich.console import Console
from rich.table import Table

from atc.retrieval.metrics import ndcg
from atc_research.toolqp.rewards import recall
from benchmarks.retrieval_data import Query
from benchmarks.retrieval_toolret import TOOLRET, Category, data_set_of

METRICS: dict[str, Callable[[Sequence[str], frozenset[str]], float]] = {
    "nDCG@1": lambda ranked, gold: ndcg(ranked, gold, 1),
    "nDCG@3": lambda ranked, gold: ndcg(ranked, gold, 3),
    "nDCG@5": lambda ranked, gold: ndcg(ranked, gold, 5),
    "nDCG@10": lambda ranked, gold: ndcg(ranked, gold, 10),
    "R@10": lambda ranked, gold: recall(ranked, gold, 10),
    "C@10": lambda ranked, gold: completeness(ranked, gold, 10),
}
MACRO, GROUPS = "macro", ("single", "multi", "dependent")
TOOLRET_ALL = "ToolRet"
TOOLRET_PLACES = (*(f"{TOOLRET_ALL} {category}" for category in get_args(Category)), TOOLRET_ALL)
RESAMPLES = 1_000
Line = dict[str, Any]


def completeness(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 where all wanted tools are among the first ``k``, else 0 (Completeness@k of ToolQP §4.1).

    Raises:
        ValueError: nothing is wanted, or ``k`` is below 1.
    """
    return float(recall(ranked, gold, k) == 1.0)


@dataclass(frozen=True)
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
    """The rows of a file; a line that was cut off is left out."""
    rows = []
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            rows.append(ROWS.validate_json(line))
        except ValueError:
            continue
    return rows


def paired(rows: Sequence[Row], methods: Collection[str]) -> list[Row]:
    """The rows of those queries that each of the methods has answered: so methods are compared over the same ones."""
    answered: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        answered[row.query].add(row.method)
    return [row for row in rows if answered[row.query] >= set(methods)]


def summarise(rows: Sequence[Row], queries: Sequence[Query], subsets: bool = False) -> list[Line]:
    """A line for each method and source, then for each group and for all sources, which count alike (macro average).

    Lines for ToolRet's data sets (:mod:`benchmarks.retrieval_toolret`) follow, which count alike too: for all that are
    there and for each of its categories.

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
    return lines + _toolret_lines(rows, known, methods)


def _toolret_lines(rows: Sequence[Row], known: Mapping[str, Query], methods: Sequence[str]) -> list[Line]:
    sets: dict[tuple[str, str], list[tuple[Row, Query]]] = defaultdict(list)
    for row in rows:
        if (query := known.get(row.query)) is not None and (name := data_set_of(query)):
            sets[row.method, name].append((row, query))
    lines = []
    for place in TOOLRET_PLACES:
        for method in methods:
            chosen = [
                found
                for (m, name), found in sets.items()
                if m == method and place in (TOOLRET_ALL, f"{TOOLRET_ALL} {TOOLRET[name].category}")
            ]
            if chosen:
                lines.append(_line(method, place, chosen))
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
    last = (*GROUPS, MACRO, *TOOLRET_PLACES)
    return (last.index(line["place"]) + 1, "") if line["place"] in last else (0, line["place"])
