"""A comparison with what is none of a field's choices is a warning, and a remark where the run did not settle it."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, FakeModel, Toolset
from atc.models.base import Message
from atc.programs.check.checker import Checker
from atc.programs.program import Program
from atc.schemas.protocol import Protocol
from tests.support.tools import make_tool

STATUS = {"$ref": "#/$defs/Status"}
ORDER = {"type": "object", "properties": {"status": STATUS, "note": {"type": "string"}, "size": {"enum": [1, 2]}}}
ORDERS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": ORDER}},
    "$defs": {"Status": {"type": "string", "enum": ["open", "shipped", "cancelled"]}},
}
NOTHING_CANCELED = "answer = len([o for o in list_orders()['items'] if o['status'] == 'canceled'])"


def said(program: str) -> list[str]:
    checker = Checker([Protocol(name="list_orders", description="", parameters={"properties": {}}, returns=ORDERS)])
    found = checker.check(Program(program))
    assert all((each.kind, each.case, each.severity) == ("not_in_enum", "compared", "warning") for each in found)
    return [each.message for each in found]


@pytest.mark.parametrize(
    "program",
    [
        NOTHING_CANCELED,
        "n = 0\nfor o in list_orders()['items']:\n    if 'canceled' != o.get('status'):\n        n += 1\nanswer = n",
        "answer = [o for o in list_orders()['items'] if o['status'] in ('canceled', 'deleted')]",
        "answer = [o for o in list_orders()['items'] if o['size'] == 3]",
    ],
)
def test_what_is_never_so_by_the_document_is_a_warning(program: str) -> None:
    (message,) = said(program)
    assert message.startswith("list_orders(...)['items'][…]['s")
    assert message.endswith(("is one of 'open', 'shipped', 'cancelled'", "is one of '1', '2'"))


@pytest.mark.parametrize(
    "test",
    [
        "o['status'] == 'cancelled'",
        "o['status'] in ('cancelled', 'canceled')",
        "o['status'] == 'canceled' or o['status'] == 'cancelled'",
        "o['status'].upper() == 'CANCELED'",
        "o.get('status', 'none') == 'none'",
        "o['status'] == ''",
        "o['status'] is None",
        "o['note'] == 'canceled'",
        "o['status'] == word",
        "(o.get('status') or 'canceled') == 'canceled'",
    ],
)
def test_what_may_be_so_is_none(test: str) -> None:
    assert said(f"word = str(1)\nanswer = [o for o in list_orders()['items'] if {test}]") == []


def test_each_comparison_of_a_line_is_told() -> None:
    both = said("answer = [o for o in list_orders()['items'] if o['status'] == 'Open' and o['size'] == 'LARGE']")
    assert ["'Open'" in both[0], "'LARGE'" in both[1]] == [True, True]


def test_a_program_that_fails_is_revised_with_what_no_error_tells() -> None:
    prompts: list[str] = []

    def write(messages: list[Message]) -> str:
        prompts.append(messages[-1].content)
        return (
            f"```python\n{NOTHING_CANCELED}\n```" if len(prompts) > 1 else f"{NOTHING_CANCELED}\nanswer = 1 // answer"
        )

    tools = Toolset([make_tool("list_orders", lambda _: {"items": []}, returns=ORDERS, n={"type": "integer"})])
    with Agent(tools, model=FakeModel([write, write]), sentence=False, keep_runs=False) as agent:
        agent.run("How many orders are canceled?")
    assert "ZeroDivisionError" in prompts[1]
    assert "is compared with 'canceled', and its document says that it is one of" in prompts[1]


def run(orders: list[dict[str, Any]]) -> Any:
    tools = Toolset([make_tool("list_orders", lambda _: {"items": orders}, returns=ORDERS, n={"type": "integer"})])
    with Agent(tools, model=FakeModel([f"```python\n{NOTHING_CANCELED}\n```"]), sentence=False, keep_runs=False) as it:
        return it.run("How many orders are canceled?")


def test_an_answer_that_rests_on_it_has_a_remark_unless_the_document_is_wrong() -> None:
    result = run([{"status": "open"}])
    assert (result.status, result.value, [each.case for each in result.remarks]) == ("answered", 0, ["unresolved"])
    assert "'canceled'" in result.remarks[0].message
    assert run([{"status": "open"}, {"status": "canceled"}]).remarks == ()
