"""A refusal says which arguments came from which response where its words may be about them, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, ToolError, Toolset
from atc.result import Effect
from tests.support.tools import NUMBER, make_tool

LINE = {"type": "object", "properties": {"product_id": NUMBER, "quantity": NUMBER}}
BOTH = """customer = find(what="customers")["items"][0]
product = find(what="products")["items"][0]
answer = order(customer_id=customer["id"], lines=[{"product_id": product["id"], "quantity": 7}])"""
LITERAL = """customer = find(what="customers")["items"][0]
answer = order(customer_id=customer["id"], lines=[{"product_id": 44, "quantity": 7}])"""


def find(arguments: dict[str, Any]) -> Any:
    return {"items": [{"id": 31 if arguments["what"] == "customers" else 44}]}


@pytest.mark.parametrize(
    ("program", "words", "status", "named"),
    [
        (LITERAL, "only 0 of Saw left", 409, []),
        (BOTH, "only 0 of Saw left", 409, []),
        (BOTH, "no stock for product_id 44", 409, ["lines"]),
        (BOTH, "no such product: 44", 404, ["lines"]),
        (BOTH, "customer id is closed", 409, ["customer_id"]),
        (BOTH, "31 is unknown, 444 is not", 404, ["customer_id"]),
        (BOTH, "it cannot be ordered", 400, ["customer_id", "lines"]),
    ],
)
def test_what_a_refusal_may_be_about(program: str, words: str, status: int, named: list[str]) -> None:
    def order(_: dict[str, Any]) -> Any:
        raise ToolError(words, status=status)

    tools = [
        make_tool("find", find, what={"type": "string"}),
        make_tool("order", order, Effect.WRITE, customer_id=NUMBER, lines={"type": "array", "items": LINE}),
    ]
    with Agent(Toolset(tools), approve="always", keep_runs=False) as agent:
        fault = agent.run_program(program).fault
    assert fault is not None
    assert (fault.tool, words in fault.message) == ("order", True)
    assert [name for name, _ in fault.origins] == named
    assert ("argument " in fault.evidence) == bool(named)
