"""Plans that were kept are said again, each to its own task."""

import asyncio
from pathlib import Path

from atc_research_benchmarks.plans import PLAN_ALONE, plans, recorded
from benchmarks.retrieval.data import Query


def _query(id: str, text: str) -> Query:
    return Query(id, text, frozenset({"t"}), "metatool", "metatool", "", "single")


def test_a_plan_that_was_kept_is_said_to_its_task_alone(tmp_path: Path) -> None:
    file = tmp_path / "plans.jsonl"
    file.write_text('{"id": "a", "plan": "<plan>1</plan>"}\n{"id": "b", "plan": "<plan>2</plan>"}\n{"id": "c", "pl')
    said = plans(file)
    assert said == {"a": "<plan>1</plan>", "b": "<plan>2</plan>"}
    ask = recorded(said, [_query("b", "two"), _query("a", "one")])
    assert asyncio.run(ask(PLAN_ALONE.opening("two"), 250)).text == "<plan>2</plan>"
    assert asyncio.run(ask(PLAN_ALONE.opening("one"), 250)).text == "<plan>1</plan>"
