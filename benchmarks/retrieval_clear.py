"""When does a search need no plan? How often one tool fits a task clearly, and how good the ranking is then.

``python -m benchmarks.retrieval_clear --data DIR [--per-source 100] [--json]``

The rule is :func:`atc.retrieval.planner.one_tool_suffices`, and that there are no prerequisites. Each source
counts alike; a group's figure is the mean of its sources. Needs no language model. Indexes are those of
:mod:`benchmarks.retrieval`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.table import Table

from atc.cli.console import err, guarded, out, print_json
from atc.errors import ModelUnavailable
from atc.models.base import Message, Reply
from atc.retrieval.metrics import ndcg
from atc.retrieval.minilm import MiniLM
from atc.retrieval.planner import QueryPlanner
from benchmarks.retrieval_data import Catalogues, Query
from benchmarks.retrieval_methods import Bench
from benchmarks.tasks import RESULTS

GROUPS = ("single", "multi", "dependent")


def measured(bench: Bench, queries: Sequence[Query]) -> dict[str, dict[str, Any]]:
    """Of each group: the share of its queries that are clear, and nDCG@10 of these and of all."""
    shares, theirs, everyones = (defaultdict[str, list[float]](list) for _ in range(3))
    by_source: dict[tuple[str, str, str], list[Query]] = defaultdict(list)
    for query in queries:
        by_source[query.pool, query.source, query.group].append(query)
    for (pool, source, group), asked in sorted(by_source.items()):
        index, gains, sure = bench.index(pool).tools, [], []
        for query in asked:
            found = asyncio.run(QueryPlanner(index, _nobody).search(query.text))
            gains.append(ndcg(found.ranked(10), query.gold, 10))
            sure += gains[-1:] if found.skipped else []
        err.print(f"{source}, {group}: {len(asked)} queries", style="dim", markup=False)
        shares[group].append(len(sure) / len(asked))
        everyones[group].append(fmean(gains))
        theirs[group] += [fmean(sure)] if sure else []
    return {
        group: {
            "sources": len(shares[group]),
            "clear_percent": round(100 * fmean(shares[group]), 1),
            "ndcg_of_clear": round(100 * fmean(theirs[group]), 1) if theirs[group] else None,
            "ndcg_of_all": round(100 * fmean(everyones[group]), 1),
        }
        for group in GROUPS
        if shares[group]
    }


async def _nobody(messages: Sequence[Message], max_tokens: int) -> Reply:
    raise ModelUnavailable("no model is asked")


@guarded
def main(
    data: Annotated[Path, typer.Option(envvar="ATC_DATA", help="Directory with retrieval/.")],
    per_source: Annotated[int, typer.Option(min=0, help="Queries of each source; 0: all.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Measure the rule by which a task is not planned."""
    catalogues, encoder = Catalogues(data), MiniLM()
    encoder.check()
    found = measured(Bench(catalogues, RESULTS / "retrieval", None, encoder), catalogues.queries(per_source or None))
    if as_json:
        print_json(found)
        return
    table = Table("queries", "sources", "clear %", "nDCG@10 of these", "of all", title="one tool fits clearly")
    for group, line in found.items():
        table.add_row(group, *(str(value) for value in line.values()))
    out.print(table)


if __name__ == "__main__":
    typer.run(main)
