"""Finding tools: how well each method ranks a catalogue for a query, in the pools of the literature or in all at once.

``python -m benchmarks.retrieval --data DIR`` builds an index for each pool (kept, and built again when the code that
makes it changes), ranks with every method, writes a JSON line for each query and prints a table; started again it goes
on where it was.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from atc.cli.console import INTERRUPTED, err, guarded, out, print_json
from atc.errors import EnvironmentProblem, UsageError
from atc.retrieval.minilm import MiniLM
from benchmarks.retrieval_data import ALL, Catalogues, Query
from benchmarks.retrieval_methods import METHODS, Bench, Method
from benchmarks.retrieval_picture import draw
from benchmarks.retrieval_report import ROWS, Row, print_table, read_rows, summarise

RESULTS = Path(__file__).with_name("results")
DEPTH = 20
"""Ids kept of each ranking."""
DEFAULT = "bm25,lexical,dense,hybrid,needs"


@guarded
def main(
    data: Annotated[Path | None, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")] = None,
    method: Annotated[str, typer.Option(help=f"Of {', '.join(METHODS)}.")] = DEFAULT,
    source: Annotated[str, typer.Option(help="Sources of queries; all, if not said.")] = "",
    per_source: Annotated[
        int, typer.Option(min=0, help="Queries of each source, always the same ones; 0 takes all.")
    ] = 100,
    all_in_one: Annotated[
        bool, typer.Option("--all", help="Search all tools together, not the source's pool.")
    ] = False,
    subsets: Annotated[bool, typer.Option("--subsets", help="A line for each part of a source.")] = False,
    model: Annotated[str | None, typer.Option(help="Of methods that ask one; as `atc run --model` takes it.")] = None,
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
    catalogues = Catalogues(data)
    sources = [name.strip() for name in source.split(",") if name.strip()]
    queries = catalogues.queries(per_source or None, sources)
    if unknown := set(sources) - {query.source for query in queries}:
        raise UsageError(f"there are no queries of {sorted(unknown)[0]!r} in {data}")
    encoder = MiniLM()
    if any(METHODS[name].ours for name in wanted):
        encoder.check()
    bench = Bench(catalogues, RESULTS / "retrieval", model, encoder)
    try:
        asyncio.run(_run(bench, [METHODS[name] for name in wanted], queries, all_in_one, file))
    except KeyboardInterrupt:
        err.print(f"interrupted; what was ranked is in {file}: the same command goes on from there", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    versions = {(name, bench.version(METHODS[name])) for name in wanted}
    rows = [row for row in read_rows(file) if (row.method, row.version) in versions and (row.pool == ALL) is all_in_one]
    lines = summarise(rows, queries, subsets)
    if picture is not None:
        draw(lines, picture)
    if as_json:
        print_json(lines)
    else:
        print_table(lines, out)


async def _run(bench: Bench, methods: Sequence[Method], queries: Sequence[Query], all_in_one: bool, file: Path) -> None:
    """Rank what the file does not hold yet, pool by pool: an index is large, and one is held at a time."""
    done = {row.key for row in read_rows(file)}
    by_pool: dict[str, list[Query]] = defaultdict(list)
    for query in queries:
        by_pool[ALL if all_in_one else query.pool].append(query)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as rows, Progress(console=err, transient=True) as progress:
            for pool, asked in sorted(by_pool.items()):
                for method in methods:
                    version = bench.version(method)
                    missing = [q for q in asked if (method.name, version, pool, q.id) not in done]
                    for query in progress.track(missing, description=f"{pool} {method.name}"):
                        rows.write(ROWS.dump_json(await _ranked(bench, method, version, pool, query)) + b"\n")
                        rows.flush()
    except OSError as error:
        raise UsageError(
            f"the rankings cannot be kept in {file}: {error.strerror}; make room or name another"
        ) from None
    finally:
        await bench.aclose()


async def _ranked(bench: Bench, method: Method, version: str, pool: str, query: Query) -> Row:
    index = bench.index(pool)
    before, began = bench.spent, time.perf_counter()
    ranked = await method.rank(bench, index, query.text)
    ms = 1000 * (time.perf_counter() - began)
    spent = bench.spent - before
    return Row(
        method.name,
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
