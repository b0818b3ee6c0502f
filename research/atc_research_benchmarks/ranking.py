"""``python -m benchmarks.retrieval`` with more ways to rank: what found tools need, and plans before a search (ToolQP).

``python -m atc_research_benchmarks.ranking --data DIR --method hybrid,needs,plan --model embedded``. Its options
are those of that command: "--data", "--method", "--model", "--drawn", "--per-source" and others.
"""

from __future__ import annotations

from typing import Any

import typer

from atc_research.toolqp.planning import (
    Fusion,
    QueryPlanner,
    anchored_similarity,
    peak_rank,
    search_without_plan,
    with_providers,
)
from atc_research.toolqp.prerequisites import SURE, Prerequisites
from benchmarks.retrieval.methods import DEPTH, METHODS, Bench, Method, Opened, Rank
from benchmarks.retrieval.ranking import main


async def _needs(bench: Bench, pool: Opened, query: str) -> list[str]:
    ranked = [hit.id for hit in pool.tools.search(query, limit=DEPTH)]
    return with_providers(ranked, Prerequisites(pool.tools).of(ranked[:SURE], query))


async def _sieve_needs(bench: Bench, pool: Opened, query: str) -> list[str]:
    return search_without_plan(pool.tools, query, DEPTH).ranked(DEPTH)


def _planned(fusion: Fusion = anchored_similarity, **options: Any) -> Rank:
    async def rank(bench: Bench, pool: Opened, query: str) -> list[str]:
        return (await QueryPlanner(pool.tools, bench.ask, fusion=fusion, **options).search(query)).ranked(DEPTH)

    return rank


MORE = (
    Method("needs", _needs),
    Method("sieve-needs", _sieve_needs),
    Method("plan", _planned(), asks=True),
    Method("plan-only", _planned(queries=0), asks=True),
    Method("plan-only-peak", _planned(peak_rank, queries=0), asks=True),
)
METHODS.update({method.name: method for method in MORE})


if __name__ == "__main__":
    typer.run(main)
