"""The benchmark of planning: one plan for both arms, and scores from places alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc.catalogue.index.index import ToolIndex
from atc.catalogue.index.metrics import ndcg
from atc.errors import EnvironmentProblem, ModelUnavailable
from atc.models.cache import CachedModel
from atc.models.fake import FakeModel
from atc.schemas.protocol import Protocol
from atc_research_benchmarks.plan_search import ARMS, DEPTH, Row, places, read_rows, scores, searched, summary
from benchmarks.retrieval.data import Query

TOOLS = {"rates": "Rates of a currency.", "shops": "Shops near a place.", "forecast": "Forecast for a place."}
QUERY = Query(
    "q", "what is it worth there, and then is an umbrella needed", frozenset({"rates", "forecast"}), "s", "p", "", ""
)


def index() -> ToolIndex:
    return ToolIndex.build([(name, Protocol(name=name, description=text)) for name, text in TOOLS.items()], None)


def test_both_arms_share_one_plan_and_queries_cost_their_replies(tmp_path: Path) -> None:
    inner = FakeModel(["<plan>\n1. rates of a currency\n2. forecast\n</plan>", "<stop_retrieval>"])
    row = asyncio.run(searched(CachedModel(inner, tmp_path), index(), QUERY))
    assert len(inner.prompts) == 2
    assert row.replies == {"plan": 1, "plan + queries": 2}
    assert row.places["plan"] == [1, 2]
    assert (row.goals, row.queries, set(row.places)) == (2, 0, set(ARMS))
    assert {line["arm"]: line["replies"] for line in summary([row])}["as the paper ranks"] == 2


def test_a_planner_that_does_not_answer_makes_no_row() -> None:
    class Away(FakeModel):
        async def generate(self, request: object) -> object:  # type: ignore[override]
            raise ModelUnavailable("nobody is there")

    with pytest.raises(EnvironmentProblem, match="nobody is there"):
        asyncio.run(searched(Away([]), index(), QUERY))


def test_places_are_enough_for_the_scores() -> None:
    ranked = ["x", "forecast", *(f"y{n}" for n in range(9)), "rates"]
    at = places(ranked, QUERY)
    row = Row("m", "s", "q", 2, {"plan": at}, 0, 0, {}, {}, 0.0)
    assert at == [2, 12]
    assert scores(row, "plan") == (ndcg(ranked[:DEPTH], QUERY.gold, 10), 0.0)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b'{"planner": "m", "sou')
    assert read_rows(tmp_path / "rows") == []
