"""A shop that has no document: somebody uses it in a browser, saves what it recorded, and then has tasks done there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, ApprovalRequest, FakeModel, Toolset
from atc.models.catalogue import CATALOGUE
from atc.models.embedded import EmbeddedModel, runtime_installed
from atc.models.fetch import models_dir
from atc.wording.origins import careful
from tests.support.browser import browsing
from tests.support.har import saved
from tests.support.shop import CSRF, PASSWORD, Shop, running_shop, visit

pytestmark = pytest.mark.slow


@dataclass
class Visited:
    """The shop, and the recording of a visit to it."""

    shop: Shop
    path: Path
    har: dict[str, Any]

    def tools(self, **options: Any) -> Toolset:
        return Toolset.from_har(self.path, **{"session": "memory", **options})

    def by_id(self, begin: str) -> tuple[str, str]:
        """The tool whose name begins so, and its argument, which has the rest of the name."""
        (name,) = (name for name in self.tools() if name.startswith(begin))
        return name, name.removeprefix(begin)


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    with running_shop() as shop, browsing() as page:
        har = visit(page, shop)
        yield Visited(shop, saved(har, tmp_path_factory.mktemp("har") / "shop.har"), har)


def solved(visited: Visited, task: str, program: str, approve: Any = "never") -> Any:
    """What a scripted program answers."""
    model = FakeModel([f"```python\n{program}\n```"])
    with Agent(visited.tools(), model=model, approve=approve, keep_runs=False, sentence=False) as agent:
        result = agent.run(task)
    assert result.status == "answered", result
    return result.value


def test_the_recording_becomes_the_tools_of_the_shop(visited: Visited) -> None:
    tools = visited.tools()
    effects = {re.sub(r"{\w+}", "{}", str(t.protocol.source.path)): t.protocol.effect.value for t in tools.values()}
    assert effects == {
        "GET /products": "read",
        "GET /products/{}": "read",
        "POST /cart/items": "write",
        "GET /cart": "read",
        "GET /orders": "read",
        "POST /orders": "write",
        "GET /orders/{}": "read",
    }
    assert not tools.missing_credentials()
    secrets = [*visited.shop.sessions, *visited.shop.sessions.values(), PASSWORD]
    text = json.dumps([tool.protocol.model_dump(mode="json") for tool in tools.values()])
    assert not [each for each in secrets if each in text or each in repr(tools)]


def test_a_price_is_found_by_a_search_and_an_id(visited: Visited) -> None:
    one, argument = visited.by_id("get_products_by_")
    program = (
        'found = get_products(q="oak table")["items"]\n'
        f'one = {one}({argument}=found[0]["sku"])\n'
        'answer = {"price": one["price"], "weight": one["weight_kg"]}'
    )
    assert solved(visited, "What do oak tables cost and weigh?", program) == {"price": 249.0, "weight": 4.5}


def test_the_last_order_is_looked_up(visited: Visited) -> None:
    one, argument = visited.by_id("get_orders_by_")
    program = f'last = get_orders()[-1]["order_number"]\nanswer = {one}({argument}=last)["status"]'
    assert solved(visited, "How is my last order?", program) == "placed"


def test_an_order_is_placed_after_a_question_that_says_whose_session_it_is(visited: Visited) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    program = (
        'sku = get_products(category="lamps", page=1)["items"][0]["sku"]\n'
        "post_cart_items(sku=sku, quantity=2)\n"
        'answer = post_orders(address={"street": "Hafenstr. 1", "city": "Bremen"})["order_number"]'
    )
    before = len(visited.shop.orders)
    number = solved(visited, "Order two desk lamps to Hafenstr. 1, Bremen.", program, approve)
    (order,) = visited.shop.orders[before:]
    assert order["order_number"] == number
    assert [item["quantity"] for item in order["items"]] == [2]
    assert [request.tool for request in asked] == ["post_cart_items", "post_orders"]
    for request in asked:
        (said,) = careful(request.data_flow)
        assert f"recorded in shop.har on {visited.har['log']['entries'][0]['startedDateTime'][:10]}" in said
        assert visited.shop.url in said
        assert "cookie shop_sid" in said
        assert f"header {CSRF.lower()}" in said
        assert not [each for each in visited.shop.sessions if each in repr(request)]


def test_a_login_that_the_shop_forgot_is_missing_with_the_reason(visited: Visited) -> None:
    tools = visited.tools()
    sessions = dict(visited.shop.sessions)
    visited.shop.forget()
    try:
        model = FakeModel(["```python\nanswer = get_orders()\n```"] * 4)
        with Agent(tools, model=model, keep_runs=False, max_revisions=2) as agent:
            result = agent.run("List my orders.")
    finally:
        visited.shop.sessions.update(sessions)
    assert result.status == "missing"
    assert "record again" in str(result.calls[-1].error)
    assert {each.reason for each in tools.missing_credentials()} == {"refused"}


def test_the_embedded_model_solves_a_task(visited: Visited) -> None:
    files = [models_dir() / entry.file for entry in CATALOGUE.values()]
    file = next((file for file in files if file.is_file()), None)
    if file is None or not runtime_installed():
        pytest.skip("no embedded model here: pip install -e '.[embedded]' && atc model pull")
    model = EmbeddedModel(file)
    try:
        with Agent(visited.tools(), model=model, approve="never", keep_runs=False) as agent:
            result = agent.run("What is the price of the product with the sku SKU-4211?")
    finally:
        asyncio.run(model.aclose())
    assert "199" in str(result.answer)
