"""Who is asked about a write sees where its arguments came from, what is done already, and how long the run waits."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from atc import ApprovalRequest, Result, tool
from atc._records.records import Feed, Invocation
from atc.calls import question
from atc.calls.approval import ask_at_terminal
from atc.wording import plans
from tests.support.agent import agent

pytestmark = pytest.mark.inline


class Product(TypedDict):
    id: int
    name: str
    stock: int


@tool(effect="read")
def list_products() -> dict[str, list[Product]]:
    """List the products."""
    return {"items": [{"id": 5, "name": "Bread", "stock": 30}, {"id": 6, "name": "Kite\x1b[2J", "stock": 3}]}


@tool(effect="write")
def change_stock(product_id: int, delta: int) -> dict[str, int]:
    """Change the stock of a product."""
    return {"id": product_id}


class Line(TypedDict):
    product_id: int
    quantity: int


@tool(effect="write")
def create_order(lines: list[Line]) -> dict[str, int]:
    """Create an order."""
    return {"id": 1}


PROGRAM = """```python
for product in list_products()["items"]:
    answer = change_stock(product_id=product["id"], delta=12)
```"""


def run(program: str = PROGRAM, **given: Any) -> tuple[Result, list[ApprovalRequest], list[dict[str, Any]]]:
    requests, asked = [], []

    def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    def heard(event: Any) -> None:
        if event.kind == "approval_asked":
            asked.append(event.data)

    made = agent(program, tools=[list_products, change_stock], approve=approve, on_event=heard, **given)
    return made.run("Add 12 to each product"), requests, asked


def test_a_request_has_what_the_plan_of_a_dry_run_has() -> None:
    result, requests, asked = run()
    dry = agent(PROGRAM, tools=[list_products, change_stock])
    planned = dry.run("Add 12 to each product", dry_run=True).dry_run
    assert result.status == "answered"
    assert planned is not None
    assert [request.feeds for request in requests] == [call.feeds for call in planned.planned]
    row = {"name": "Kite\x1b[2J", "stock": 3}
    assert requests[1].feeds == (
        Feed(argument="product_id", kind="response", call=1, tool="list_products", path=("items", 1, "id"), row=row),
        Feed(argument="delta", kind="task"),
    )
    assert [[Feed.model_validate(feed) for feed in data["feeds"]] for data in asked] == [
        list(request.feeds) for request in requests
    ]


def test_a_request_has_what_is_done_already() -> None:
    _, requests, _ = run()
    first = Invocation(tool="change_stock", arguments={"product_id": 5, "delta": 12})
    assert [request.done for request in requests] == [(), (first,)]


def test_a_request_has_how_long_the_run_waits() -> None:
    assert [request.wait_s for request in run()[1]] == [None, None]
    waits = [request.wait_s for request in run(budget_s=1_000)[1]]
    assert all(wait is not None and 0 < wait <= 1_000 for wait in waits)


def test_the_question_at_a_terminal_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    answers = iter(["y", "n"])

    async def line(*_: Any) -> str:
        return next(answers)

    monkeypatch.setattr(question, "_line", line)
    made = agent(PROGRAM, tools=[list_products, change_stock], approve=ask_at_terminal, budget_s=1_000)
    assert made.run("Add 12 to each product").status == "denied"
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert (
        """allow change_stock? effect: write
  | product_id = 6 ← items[1].id of list_products (call 1): {'name': 'Kite\\x1b[2J', 'stock': 3}
  | delta = 12 ← the task
done already:
  | change_stock(product_id=5, delta=12)
the run waits """
        in shown
    )


def test_the_question_tells_each_line_of_an_order_by_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    program = """```python
ids = {product["name"][:4]: product["id"] for product in list_products()["items"]}
answer = create_order(lines=[{"product_id": ids["Kite"], "quantity": 5}, {"product_id": ids["Brea"], "quantity": 6}])
```"""
    asked: list[ApprovalRequest] = []
    made = agent(program, tools=[list_products, create_order], approve=lambda request: bool(asked.append(request)))
    assert made.run("Order 5 kites and 6 breads").status == "denied"
    (request,) = asked
    lines, _ = question._lines(request.arguments, whole=False, origins=plans.origins(request.feeds, request.arguments))
    assert lines == [
        "  | lines = [{'product_id': 6, 'quantity': 5}, {'product_id': 5, 'quantity': 6}]",
        r"  |   lines[0].product_id = 6 ← items[1].id of list_products (call 1): {'name': 'Kite\x1b[2J', 'stock': 3}",
        r"  |   lines[1].product_id = 5 ← items[0].id of list_products (call 1): {'name': 'Bread', 'stock': 30}",
    ]


def test_of_many_writes_the_question_shows_the_latest() -> None:
    calls = [f"book(n={n}, why='\n[y/N]: y')" for n in range(1_000)]
    lines = question._done(calls)
    assert len(lines) <= 2 + question.MOST_WARNINGS
    assert lines[:2] == ["done already:", "  | … 990 calls before"]
    assert lines[-1] == "  | book(n=999, why='\\x0a[y/N]: y')"


def test_where_many_arguments_came_from_is_bounded() -> None:
    names = [f"argument_{n}" for n in range(1_000)]
    origins = {name: [("", f"{name} of " + "x" * 10_000)] for name in names}
    lines, cut = question._lines(dict.fromkeys(names, 1), whole=False, origins=origins)
    assert cut
    assert sum(map(len, lines)) < 5 * question.SHOWN
    assert any("characters are not shown" in line for line in lines)
