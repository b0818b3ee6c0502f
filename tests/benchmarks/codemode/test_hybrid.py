"""The ruler of direct calls, programs and both: its answers are right, and its loop counts what a model does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.codemode.hybrid import CONDITIONS, Replies, Row, answer_in, attempt, markdown_of, read_rows, table_of
from benchmarks.codemode.hybrid_tasks import MANY, TOOLS, Shop, many_tools, tasks
from tests.support.docs import ROOT
from tests.support.fake_openai_server import serving
from tests.support.gateway import replies

CALL = {tool.name: tool for tool in (*TOOLS, *many_tools())}


def called(shop: Shop, name: str, **arguments: Any) -> Any:
    return CALL[name].answer(shop, arguments)


def test_each_answer_is_what_the_tools_lead_to() -> None:
    shop, known = Shop(), tasks()
    assert known["lookup"].answer == {"email": called(shop, "get_customer", customer_id="C-1017")["email"]}
    cancelled = [
        each["total"]
        for each in called(shop, "list_orders", customer_id="C-1003")["orders"]
        if each["status"] == "cancelled"
    ]
    assert known["reduce"].answer == {"orders": len(cancelled), "sum": round(sum(cancelled), 2)}
    thing = called(shop, "get_order", order_id="O-5120")
    for name in ("shipment", "carrier", "hub"):
        thing = called(shop, f"get_{name}", **{f"{name}_id": thing[f"{name}_id"]})
    thing = called(shop, "get_employee", employee_id=thing["manager_id"])
    assert known["long chain"].answer == called(shop, "get_office", office_id=thing["office_id"])
    page, garden = 1, []
    while page:
        items = called(shop, "list_products", page=page)
        garden += [each["price"] for each in items["items"] if each["category"] == "garden" and each["price"] > 40]
        page = items["next_page"]
    assert known["pagination"].answer == {"products": len(garden), "highest": max(garden)}
    held = known["write after read"]
    assert [each["order_id"] for each in held.writes] == held.answer["orders"]
    assert len(known) == 8
    assert len(many_tools()) == MANY == len({each.name for each in many_tools()})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"days": 3}', {"days": 3}),
        ('```json\n{"days": 3}\n```', {"days": 3}),
        ('He has {some}: {"days": 3}', {"days": 3}),
        ("three", None),
    ],
)
def test_an_answer_is_read_out_of_what_stands_around_it(text: str, value: Any) -> None:
    assert answer_in(text) == value


def test_a_direct_try_counts_turns_tokens_and_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks()["lookup"]
    steps = [replies(calls=[("get_customer", {"customer_id": "C-1017"})]), replies(json.dumps(task.answer))]
    with serving(*steps) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        left = Replies(10)
        row = asyncio.run(attempt(task, "direct", "tiny", left))
    assert (row.right, row.ended, row.turns, row.tool_calls) == (True, "answered", 2, 1)
    assert left.left == 8
    assert len(server.requests[0]["tools"]) == len(TOOLS)
    assert row.client_calls == {"get_customer": 1}
    assert row.first_tokens < row.prompt_tokens - row.first_tokens  # the second request holds the first


@pytest.mark.slow  # starts `atc mcp` and its jail
@pytest.mark.parametrize("condition", ["code", "hybrid"])
def test_a_write_by_a_program_is_asked_about_and_judged_by_what_was_written(
    monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    task = tasks()["write after read"]
    source = (
        "rows = list_orders(customer_id='C-1008')['orders']\n"
        "found = [r['order_id'] for r in rows if r['status'] == 'open' and r['total'] > 300]\n"
        "for order in found:\n    set_order_status(order_id=order, status='on_hold')\n"
        "answer = {'orders': sorted(found)}"
    )
    steps = [replies(calls=[("run_program", {"source": source})]), replies(json.dumps(task.answer))]
    with serving(*steps) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        row = asyncio.run(attempt(task, condition, "tiny", Replies(10), direct=("get_order",)))
    assert (row.right, row.tool_calls, row.asked, row.errors) == (True, 3, 2, 0)
    names = [each["function"]["name"] for each in server.requests[0]["tools"]]
    assert ("get_order" in names) is (condition == "hybrid")
    assert "set_order_status" not in names
    assert ("directly" in server.requests[0]["messages"][0]["content"]) is (condition == "hybrid")


def test_the_latest_row_of_a_try_counts(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        Row("lookup", "direct", "m", right=False, ended="endpoint"),
        Row("lookup", "direct", "m", right=True, ended="answered", turns=2, prompt_tokens=10, completion_tokens=1),
        Row("lookup", "code", "m", right=True, ended="answered", turns=4, prompt_tokens=20, completion_tokens=2),
    ]
    file.write_text("".join(json.dumps(vars(each)) + "\n" for each in rows))
    lines = table_of(read_rows(file))
    assert [line["task"] for line in lines] == ["lookup", "all"]
    assert lines[1]["direct"] | {"turns": 2, "right": 1, "tries": 1} == lines[1]["direct"]
    assert lines[0]["code"]["prompt_tokens"] == 20
    assert set(lines[0]) - {"task"} <= set(CONDITIONS)
    assert markdown_of(read_rows(file)).splitlines()[-1] == "| all | 1 of 1 | 2 | 11 | 1 of 1 | 4 | 22 | – | – | – |"


def test_the_page_has_the_table_of_the_published_rows() -> None:
    page = (ROOT / "docs" / "benchmarks" / "code-mode.md").read_text(encoding="utf-8")
    folder = ROOT / "benchmarks" / "published" / "hybrid"
    assert markdown_of(read_rows(folder / "named.jsonl")) in page
    by_size = table_of(read_rows(folder / "by_size.jsonl"))[-1]["hybrid"]
    tokens = by_size["prompt_tokens"] + by_size["completion_tokens"]
    assert f"{tokens:,} tokens and {by_size['turns']} turns" in page
