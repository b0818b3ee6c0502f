"""API-Bank by forced search, and the choice among sampled plans: what is counted, on dialogues and tools of our own."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from atc.models.fake import FakeModel
from benchmarks import plan_choice
from benchmarks.environments.api_bank import ApiBank
from benchmarks.plan_choice import CHOICES, Planned, Row
from benchmarks.retrieval_data import Catalogues, Query
from benchmarks.retrieval_methods import METHODS, Bench
from benchmarks.tool_searcher import Assistant, Tried, first_object, measured, read_tried, summary, targets
from tests.support.retrieval import HashedWords

pytestmark = pytest.mark.slow  # the benchmark's own tests, not the product's

TOOLS = {"AddAlarm": "Set an alarm.", "SendEmail": "Send an email to somebody."}
DAY = "2023-05-01"


def lines(path: Path, records: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(each) + "\n" for each in records)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    records = [
        {"id": f"api_bank/{name}", "name": name, "description": about, "source": "api_bank",
         "parameters": {"time": {"type": "str"}}} for name, about in TOOLS.items()
    ]  # fmt: skip
    lines(tmp_path / "retrieval" / "corpus_toolbench.jsonl.gz", [])
    lines(tmp_path / "retrieval" / "corpus_other.jsonl.gz", records)
    with gzip.open(tmp_path / "retrieval" / "pools.json.gz", "wt") as file:
        file.write("{}")
    alarm = {"tool": "AddAlarm", "args": {"time": "07:00"}, "output": "ok"}
    search = {"tool": "ToolSearcher", "args": {"keywords": "alarm"}, "output": "the answer of the search"}
    today = {"tool": "GetToday", "args": {}, "output": DAY}
    said = [("User", "wake me with an alarm at seven"), ("API", ""), ("API", ""), ("AI", "done"), ("User", "thanks")]
    dialogue = {"dialogue": [{"role": role, "text": text} for role, text in said], "gold": [search, alarm]}
    other = {"dialogue": [{"role": "User", "text": "the day?"}, {"role": "API", "text": ""}], "gold": [today]}
    tasks = [{"id": "a", "level": 2} | dialogue, {"id": "b", "level": 1} | other, {"id": "c", "level": 3, "gold": []}]
    lines(tmp_path / "executable" / "api_bank" / "tasks.jsonl.gz", tasks)
    documents = [
        {"name": name, "description": about, "parameters": {"time": {"type": "str", "description": "when"}}}
        for name, about in TOOLS.items()
    ]
    lines(tmp_path / "executable" / "api_bank" / "tools.jsonl.gz", documents)
    return tmp_path


def tried(data: Path, by: Any, offered: int, *replies: str) -> tuple[dict[str, Tried], FakeModel]:
    model = FakeModel(replies)
    bench = Bench(Catalogues(data), data / "work", model, HashedWords())
    environment = ApiBank(data)
    assistant = Assistant(bench, environment, by, offered)
    wanted = [target for target in targets(environment) if target.of == "a"]
    file = data / "rows.jsonl"
    for _ in range(2):  # the second goes on from the first, and asks for nothing
        asyncio.run(measured(assistant, bench, [METHODS["hybrid"]], wanted, file))
    return {row.target: row for row in read_tried(file)}, model


def test_the_search_is_no_target_and_shows_nothing_of_its_answer(data: Path) -> None:
    found = {target.of: target for target in targets(ApiBank(data))}
    assert found.keys() == {"a", "b"}
    assert (found["a"].tool, found["a"].level, found["a"].user) == ("AddAlarm", 2, "wake me with an alarm at seven")
    assert len(found["a"].dialogue) == 1  # nothing of the search, whose answer names the tool


def test_the_users_words_search_without_a_model(data: Path) -> None:
    rows, model = tried(data, "user", 0)
    (row,) = rows.values()
    assert (row.place, row.right, model.prompts) == (1, None, [])


@pytest.mark.parametrize(
    ("searched", "reply", "right"),
    [
        ("alarm", '{"tool": "add_alarm", "arguments": {"time": "07:00"}}', True),
        ("alarm", 'So: {"tool": "add_alarm", "arguments": {"time": "08:00"}}', False),
        ("alarm", '{"tool": "send_email", "arguments": {"time": "07:00"}}', False),
        ("alarm", '{"tool": "add_alarm", "arguments": {}}', False),
        ("alarm", "no JSON at all", False),
        ("email", "", False),
    ],
)
def test_a_call_is_right_with_the_tool_and_the_arguments_and_needs_what_was_found(
    data: Path, searched: str, reply: str, right: bool
) -> None:
    rows, model = tried(data, "model", 1, searched, *([reply] if searched == "alarm" else []))
    (row,) = rows.values()
    assert row.right is right
    assert len(model.prompts) == (2 if searched == "alarm" else 1)  # a tool that was not found is not called


def test_a_summary_counts_by_level_and_draws_dialogues() -> None:
    rows = [Tried("user hybrid 0", "v", f"{d}#{n}", place) for d, n, place in (("a", 0, 1), ("a", 1, 3), ("b", 0, 0))]
    (line,) = summary(rows, {row.target: 1 for row in rows})
    assert (line["found@1"], line["found@5"], line["calls"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 3)
    assert line["found@5 interval"] == (0.0, 1.0)
    assert "right" not in line


@pytest.mark.parametrize("text", ["", "{", "[" * 9_000, '{"a": ' * 9_000, "[1]", "x {y}"])
def test_a_reply_without_an_object_is_an_empty_one(text: str) -> None:
    assert first_object(text) == {}


def test_each_choice_takes_the_plan_that_it_says() -> None:
    plans = [Planned(0.9, 0.1, 0.2, 0), Planned(0.1, 0.9, 0.4, 0), Planned(0.8, 0.8, 0.6, 1), Planned(0.2, 0, 1.0, 1)]
    row = Row("q", "s", "v", Planned(0, 0, 0.5, 1), plans)
    chosen = {name: choice(row).ndcg for name, choice in CHOICES.items()}
    assert chosen == {
        "greedy": 0.5, "by lot": pytest.approx(0.55), "peak": 0.2, "coverage": 0.4, "both": 0.6, "oracle": 1.0,
    }  # fmt: skip
    lines = {line["choice"]: line for line in plan_choice.summary([row])}
    assert lines["oracle"]["gain"] == pytest.approx(0.5)
    assert lines["peak"]["gain interval"] == (pytest.approx(-0.3), pytest.approx(-0.3))


def test_plans_are_sampled_and_judged_and_not_asked_for_twice(data: Path) -> None:
    good, bad = "<plan>\n1. alarm\n</plan>", "<plan>\n1. email somebody\n</plan>"
    model = FakeModel([good, bad, good])
    bench = Bench(Catalogues(data), data / "work", model, HashedWords())
    query = Query("q", "wake me, alarm", frozenset({"api_bank/AddAlarm"}), "api_bank", "api_bank", "", "single")
    for _ in range(2):
        asyncio.run(plan_choice.measured(bench, [query], "v", 2, data / "plans.jsonl"))
    (row,) = plan_choice.read_plans(data / "plans.jsonl")
    assert row.greedy == row.sampled[1]
    assert row.sampled[1].coverage > row.sampled[0].coverage == 0
    assert CHOICES["coverage"](row).ndcg == 1
