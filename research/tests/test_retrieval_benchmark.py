"""Methods of retrieval that research adds to the benchmark: what a tool needs, and a model that plans the search."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import atc_research_benchmarks.ranking  # noqa: F401  registers the methods
from atc.models.cache import CachedModel
from atc.models.fake import FakeModel
from benchmarks.retrieval import ranking as retrieval
from benchmarks.retrieval.data import Catalogues
from benchmarks.retrieval.methods import METHODS, Bench
from benchmarks.retrieval.ranking import Row, paired, read_rows
from tests.benchmarks.retrieval.test_benchmark_retrieval import data, figure, ran
from tests.support.retrieval import HashedWords

pytestmark = pytest.mark.slow
__all__ = ["data"]


def test_what_a_tool_needs_counts_where_a_task_needs_both(data: Path) -> None:
    lines = ran(data, "hybrid,needs")
    assert figure(lines, "hybrid", "films", "C@10") == 0
    assert figure(lines, "needs", "films", "C@10") == 1
    assert figure(lines, "needs", "films", "nDCG@10") == pytest.approx(1)
    assert figure(lines, "needs", "town", "nDCG@1") == 1
    assert figure(lines, "hybrid", "macro", "R@10") == pytest.approx((0.5 + 1) / 2)  # sources count alike
    assert {line["place"] for line in lines} == {"films", "town", "multi", "single", "macro"}


def test_a_planners_calls_are_counted(data: Path) -> None:
    plan = "<plan>\n1. credits of a movie\n</plan>"
    lines = ran(data, "plan", replies=(plan, "<stop_retrieval>") * 4)
    assert figure(lines, "plan", "films", "calls") == 2
    assert figure(lines, "plan", "films", "tokens") > 0
    assert figure(lines, "plan", "town", "calls") == 0  # each is one tool, clearly


def test_one_conversation_serves_all_fusions(data: Path) -> None:
    inner = FakeModel(("<plan>\n1. credits of a movie\n</plan>", "<stop_retrieval>") * 3)
    catalogues = Catalogues(data)
    bench = Bench(catalogues, data / "work", CachedModel(inner, data / "replies"), HashedWords())
    names = ("plan", "plan-only", "plan-only-peak")
    arms = retrieval.arms_of([METHODS[name] for name in names], ["hybrid"])
    queries = catalogues.queries(sources=["films"])
    asyncio.run(retrieval._run(bench, arms, queries, data / "rows.jsonl"))
    assert len(inner.prompts) == 2  # a plan, and what came after it
    rows = {row.method: row for row in read_rows(data / "rows.jsonl")}
    assert [rows[name].calls for name in names] == [2, 1, 1]


def test_with_a_model_queries_take_turns_and_the_table_is_over_what_all_answered(data: Path) -> None:
    arms = retrieval.arms_of([METHODS["bm25"], METHODS["plan-only"]], ["hybrid"])
    queries = Catalogues(data).queries()
    order = [(query.source, arm.label) for _, query, arm in retrieval.in_turns(arms, queries)]
    assert order == [(s, m) for s in ("films", "town", "town") for m in ("bm25", "plan-only")]
    without = [query.source for _, query, _ in retrieval.in_turns(arms[:1], queries)]
    assert without == ["films", "town", "town"]
    rows = [Row(m, "v", q.pool, q.id, [], 1.0) for q in queries for m in ("a", "b")]
    assert {row.query for row in paired(rows[:-1], ["a", "b"])} == {query.id for query in queries[:-1]}
