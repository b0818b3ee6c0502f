"""An answer that rests on a part of a list, although the response says that there are more, is told so."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, FakeModel, Result, Toolset
from atc._records.events import Event
from tests.support.tools import NUMBER, make_tool

TEXT = {"type": "string"}
NAMES = ["Apple", "Bread", "Hammer", "Saw", "Teddy", "Kite", "Milk", "Drill", "Puzzle", "Cheese", "Wrench", "Yo-yo"]
PRODUCTS = [{"id": n, "name": name, "stock": n % 3} for n, name in enumerate(NAMES, 1)]
AT_MOST_TEN = {"type": "integer", "maximum": 10}
PRODUCT = {"type": "object", "properties": {"id": NUMBER, "name": TEXT, "stock": NUMBER}}


def list_products(arguments: dict[str, Any]) -> Any:
    start, limit = int(arguments.get("cursor") or 0), arguments.get("limit", 5)
    end = start + limit
    following = str(end) if end < len(PRODUCTS) else None
    return {"total": len(PRODUCTS), "items": PRODUCTS[start:end], "next_cursor": following}


def latest(_: dict[str, Any]) -> Any:
    return {"rows": PRODUCTS[:2], "has_more": True}


def cart(_: dict[str, Any]) -> Any:
    return {"items": PRODUCTS[:2], "total": 4200}


def rows(arguments: dict[str, Any]) -> Any:
    return PRODUCTS[: arguments["limit"]]


def tools() -> Toolset:
    listed = {
        "type": "object",
        "properties": {
            "total": NUMBER,
            "items": {"type": "array", "items": PRODUCT},
            "next_cursor": {"type": ["string", "null"]},
        },
    }
    return Toolset(
        [
            make_tool("list_products", list_products, returns=listed, cursor=TEXT, limit=AT_MOST_TEN),
            make_tool("rows", rows, limit=AT_MOST_TEN),
            make_tool("latest", latest),
            make_tool("cart", cart),
        ]
    )


def run(program: str, events: list[Event] | None = None, *replies: str) -> Result:
    model = FakeModel([f"```python\n{program}\nsay = 'All of them.'\n```", *replies])
    kept = [] if events is None else events
    with Agent(tools(), model=model, on_event=kept.append, keep_runs=False) as agent:
        result = agent.run("How many products are there?")
    assert (result.status, len(result.revisions)) == ("answered", 1), result.fault
    return result


COUNTED_IN_A_LOOP = """n = 0
for product in list_products()["items"]:
    if product["stock"]:
        n += 1
answer = n"""
OF_ITS_OWN = """def names(page):
    return [each["name"] for each in page["items"]]
answer = names(list_products())"""
NOT_AMONG_THEM = (
    'found = next((p for p in list_products()["items"] if p["name"] == "Yo-yo"), None)\nanswer = found is None'
)
FOUND_BY_WALKING = """found = None
for product in list_products()["items"]:
    if product["name"] == "{0}":
        found = product["id"]
        break
answer = found or "none"
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("answer = len(list_products()['items'])", "list_products() gave 5 of 12"),
        ("answer = [p['name'] for p in list_products()['items'][:10]]", "gave 5 of 12"),
        (COUNTED_IN_A_LOOP, "gave 5 of 12"),
        (OF_ITS_OWN, "gave 5 of 12"),
        (NOT_AMONG_THEM, "gave 5 of 12"),
        (FOUND_BY_WALKING.format("Yo-yo"), "gave 5 of 12"),
        ("answer = [row['name'] for row in latest(n=1)['rows']]", "latest(n=1) gave 2, and says that there are more"),
        ("answer = len(list_products(limit=10)['items'])", "gave 10 of 12"),  # the most that it takes
    ],
)
def test_a_part_that_is_taken_for_the_whole_is_remarked(program: str, said: str) -> None:
    result = run(program)
    (remark,) = result.remarks
    assert (remark.case, result.partial) == ("first_part", False)
    assert said in remark.message
    assert remark.message.endswith(", and the others were not read: the answer may rest on a part of them")
    assert result.answer != "All of them."  # what the program says of it, it says of the whole


@pytest.mark.parametrize("limit", [3, 5])
def test_so_many_as_the_program_asked_for_are_remarked_and_no_warning(limit: int) -> None:
    events: list[Event] = []
    result = run(f"answer = [p['name'] for p in list_products(limit={limit})['items']]", events)
    (remark,) = result.remarks
    assert (remark.case, result.answer) == ("first_few", "All of them.")
    assert f"gave {limit} of 12: the answer" in remark.message
    assert not any(event.data.get("unresolved") for event in events)


@pytest.mark.parametrize(
    "program",
    [
        "answer = list_products()['total']",
        "answer = list_products()",
        "answer = len(all_pages(list_products))",
        "answer = list_products(limit=1)['items'][0]['name']",
        "page = list_products()\nitems = page['items']\nanswer = [items[0]['name'], items[:2]]",
        "answer = next(p['id'] for p in list_products()['items'] if p['name'] == 'Saw')",
        "answer = next((p for p in list_products()['items'] if p['name'] == 'Saw'), None)",
        "answer = [p for p in list_products()['items'] if p['name'] == 'Saw' and p['id'] > 1][0]['id']",
        FOUND_BY_WALKING.format("Saw"),
        "items, page = [], list_products()\nwhile True:\n    items += page['items']\n"
        "    if not page['next_cursor']:\n        break\n    page = list_products(cursor=page['next_cursor'])\n"
        "answer = len(items)",
        "answer = len(list_products(limit=9, cursor='3')['items'])",
        "answer = sum(each['stock'] for each in cart(n=1)['items'])",
    ],
)
def test_what_needs_nothing_of_the_rest_is_not(program: str) -> None:
    assert run(program).remarks == ()
