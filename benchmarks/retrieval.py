"""Finding tools: how well each method ranks a catalogue for a query, in the pools of the literature or in all at once.

``python -m benchmarks.retrieval --data DIR`` builds an index for each pool (kept, and built again when the code that
makes it changes), ranks with every method, writes a JSON line for each query and prints a table; started again it goes
on where it was. ``--base`` says what the methods that widen or plan a task search by; ``--group toolret`` takes the
queries of ToolRet's data sets that are there. Where a method asks a model, queries take turns over the sources and all
methods answer one before the next is taken: whatever is there when it is stopped is balanced, and the table is over the
queries that all methods have answered.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.progress import Progress

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.retrieval.index import Mode
from atc.retrieval.minilm import MiniLM
from benchmarks.document_queries import LARGEST
from benchmarks.retrieval_data import ALL, MEDIUM, Catalogues, Query
from benchmarks.retrieval_methods import METHODS, Bench, Method
from benchmarks.retrieval_picture import draw
from benchmarks.retrieval_report import ROWS, Row, paired, print_table, read_rows, summarise
from benchmarks.retrieval_toolret import toolret_queries

RESULTS = Path(__file__).with_name("results")
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
    group: Annotated[
        str, typer.Option(help="`toolret`: the queries of its data sets; --per-source is then of one.")
    ] = "",
    per_source: Annotated[
        int, typer.Option(min=0, help="Queries of each source, always the same ones; 0 takes all.")
    ] = 100,
    all_in_one: Annotated[
        bool, typer.Option("--all", help="Search all tools together, not the source's pool.")
    ] = False,
    subsets: Annotated[bool, typer.Option("--subsets", help="A line for each part of a source.")] = False,
    model: Annotated[str | None, typer.Option(help="Of methods that ask one; as `atc run --model` takes it.")] = None,
    documents: Annotated[
        int, typer.Option(min=1, help="Tools of a pool that d2q and re-invoke-d2q ask the model about, at most.")
    ] = LARGEST,
    report: Annotated[bool, typer.Option("--report", help="Rank nothing more: the table of what is kept.")] = False,
    file: Annotated[Path, typer.Option("--out", help="Where each ranking is kept as a JSON line.")] = RESULTS
    / "retrieval.jsonl",
    picture: Annotated[Path | None, typer.Option(help="Draw nDCG@10 by group there: .svg or .png.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
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
    queries = _queries(Catalogues(data), source, drawn, group, per_source or None)
    arms = arms_of([METHODS[name] for name in wanted], bases)  # type: ignore[arg-type]
    encoder = MiniLM()
    if any(METHODS[name].ours for name in wanted):
        encoder.check()
    bench = Bench(Catalogues(data), RESULTS / "retrieval", model, encoder, documents)
    try:
        if not report:
            asyncio.run(_run(bench, arms, queries, all_in_one, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was ranked is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    versions = {(arm.label, bench.version(arm.method)) for arm in arms}
    rows = [row for row in read_rows(file) if (row.method, row.version) in versions and (row.pool == ALL) is all_in_one]
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


def _queries(catalogues: Catalogues, source: str, drawn: int, group: str, per_source: int | None) -> list[Query]:
    """The queries that are asked for.

    Raises:
        UsageError: a source or a group is unknown, or two choices are made at once.
    """
    sources = [name.strip() for name in source.split(",") if name.strip()]
    if sum((bool(sources), drawn > 0, bool(group))) > 1:
        raise UsageError("--source, --drawn and --group each choose the queries: take one of them")
    if group:
        if group != "toolret":
            raise UsageError(f"--group {group}: there is no such group of sources: take toolret")
        return toolret_queries(catalogues, per_source)
    queries = catalogues.queries(per_source, sources or (catalogues.drawn(drawn, AT_LEAST) if drawn else ()))
    if unknown := set(sources) - {query.source for query in queries}:
        raise UsageError(f"there are no queries of {sorted(unknown)[0]!r} in {catalogues.directory}")
    return queries


def in_turns(arms: Sequence[Arm], queries: Sequence[Query], all_in_one: bool) -> Iterator[tuple[str, Query, Arm]]:
    """What is ranked, in its order, each with the pool that is searched.

    Without a model pool by pool, for an index is large and one is held at a time. With one each source's first query
    comes before any source's second, and all arms answer a query before the next is taken.
    """
    by_pool: dict[str, list[Query]] = defaultdict(list)
    by_source: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_pool[ALL if all_in_one else query.pool].append(query)
        by_source[query.source].append(query)
    if not any(arm.method.asks for arm in arms):
        for pool, asked in sorted(by_pool.items()):
            yield from ((pool, query, arm) for arm in arms for query in asked)
        return
    for round_ in zip_longest(*by_source.values()):
        for query in filter(None, round_):
            yield from ((ALL if all_in_one else query.pool, query, arm) for arm in arms)


async def _run(bench: Bench, arms: Sequence[Arm], queries: Sequence[Query], all_in_one: bool, file: Path) -> None:
    """Rank what the file does not hold yet."""
    done = {row.key for row in read_rows(file)}
    versions = {arm.label: bench.version(arm.method) for arm in arms}
    wanted = [
        (pool, query, arm)
        for pool, query, arm in in_turns(arms, queries, all_in_one)
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


if __name__ == "__main__":
    typer.run(main)
