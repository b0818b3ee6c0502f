"""The strategies that act step by step: through the same gates as programs, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Toolset
from atc.errors import ModelError, ToolError
from atc.result import Effect, Result
from atc_research.steps import MAX_STEPS, read_value
from tests.support.agent import agent
from tests.support.tools import make_tool


class Shop:
    """Reads a stock that falls with every look, and takes orders."""

    def __init__(self) -> None:
        self.looks, self.orders = 0, []  # type: int, list[str]

        def stock(arguments: dict[str, Any]) -> int:
            self.looks += 1
            return 10 - self.looks

        def order(arguments: dict[str, Any]) -> dict[str, Any]:
            if arguments["item"] == "moon":
                raise ToolError("not for sale", status="not_found")
            self.orders.append(arguments["item"])
            return {"number": len(self.orders), "item": arguments["item"]}

        item = {"item": {"type": "string"}}
        self.tools = Toolset(
            [
                make_tool("stock", stock),
                make_tool("order", order, Effect.WRITE, required=("item",), **item),
            ]
        )

    def run(self, strategy: str, *replies: Any, **settings: Any) -> Result:
        return agent(*replies, strategy=strategy, tools=self.tools, **settings).run("order a pen")


def act(tool: str, arguments: str) -> str:
    return f"Thought: go on\nAction: {tool}\nAction Input: {arguments}"


def code(source: str) -> str:
    return f"```python\n{source}\n```"


# -- react ------------------------------------------------------------------------------------------------------------


def test_react_reads_afresh_and_orders_once() -> None:
    shop = Shop()
    order = act("order", '{"item": "pen"}')
    result = shop.run("react", act("stock", "{}"), order, order, act("stock", "{}"), "Final Answer: [9, 8]")
    assert (result.status, result.value, shop.orders, shop.looks) == ("answered", [9, 8], ["pen"], 2)
    assert [call.error_status for call in result.calls] == [None, None, "already_done", None]
    assert [revision.fault is not None for revision in result.revisions] == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("strategy", "reply"),
    [
        ("react", act("order", '{"item": "pen"}')),
        ("plan", '[{"tool": "order", "args": {"item": "pen"}}]'),
        ("codeact", code("order(item='pen')")),
    ],
)
def test_what_is_not_approved_ends_the_run_at_once(strategy: str, reply: str) -> None:
    shop = Shop()
    result = shop.run(strategy, reply, approve="never")
    assert (result.status, result.usage.model_calls, shop.orders) == ("denied", 1, [])
    assert result.fault is not None
    assert "Approve it" in result.fault.hint


@pytest.mark.parametrize("strategy", ["react", "codeact"])
def test_steps_without_an_answer_come_to_an_end(strategy: str) -> None:
    replies = [act("stock", "{}"), code("stock()")] * MAX_STEPS
    result = Shop().run(strategy, *replies[strategy == "codeact" :: 2])
    assert (result.status, result.usage.model_calls) == ("unsolved", MAX_STEPS)
    assert Shop().run(strategy, ModelError("the endpoint is gone")).status == "failed"


@pytest.mark.parametrize("depth", [300, 600])
def test_arguments_that_are_nested_too_deep_are_refused_and_end_no_run(depth: int) -> None:
    deep = '{"item": ' + "[" * depth + "]" * depth + "}"
    assert Shop().run("react", act("order", deep), "Final Answer: 1").value == 1
    assert Shop().run("dfsdt", act("order", deep), "Final Answer: 1").value == 1
    result = Shop().run("plan", f'[{{"tool": "order", "args": {deep}}}]', max_revisions=0)
    assert result.status == "unsolved"


def test_a_long_run_of_spaces_is_read_in_no_time() -> None:
    assert Shop().run("react", "Action: stock" + " " * 200_000 + "x", "Final Answer: 1").value == 1


# -- plan -------------------------------------------------------------------------------------------------------------


def test_a_plan_that_is_made_anew_does_nothing_again() -> None:
    shop = Shop()
    begin = '[{"tool": "stock"}, {"tool": "order", "args": {"item": "pen"}}, '
    first, second = (begin + '{"tool": "order", "args": {"item": "' + item + '"}}]' for item in ("moon", "$2.item"))
    result = shop.run("plan", first, second, '{"done": 1}')
    assert (result.status, result.value) == ("answered", {"done": 1})
    assert (shop.orders, shop.looks) == (["pen", "pen"], 1)  # the second plan orders a second pen on purpose
    assert [(call.attempt, call.status) for call in result.calls] == [
        (0, "ok"),
        (0, "ok"),
        (0, "failed"),
        (1, "replayed"),
        (1, "replayed"),
        (1, "ok"),
    ]


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "[",
        "[1",
        "[[]]",
        "{}",
        '[{"tool": "order", "args": [1]}]',
        '[{"tool": 1}]',
        "[" * 100_000,
        '[{"tool": "order", "args": {"item": "$99999999999999999999.x"}}]',
        '[{"tool": "stock"}, {"tool": "order", "args": {"item": "$1[' + "9" * 5_000 + ']"}}]',
    ],
)
def test_a_plan_that_is_none_is_a_fault_and_no_crash(plan: str) -> None:
    shop = Shop()
    result = shop.run("plan", plan, max_revisions=0)
    assert (result.status, shop.orders) == ("unsolved", [])
    assert result.fault is not None
    assert result.fault.message


# -- codeact ----------------------------------------------------------------------------------------------------------


def test_whatever_python_can_hold_stays_from_step_to_step() -> None:
    shop = Shop()
    steps = [
        "import datetime\nclass Box:\n    pass\nbox = Box()\nbox.day = datetime.date(2024, 2, 29)\nleft = stock()",
        "def later(days):\n    return box.day + datetime.timedelta(days)\nmade = order(item='pen')\nmissing['key']",
        "print(left, stock(), made['number'])",
        "final_answer([str(later(1)), left, made])\nprint('never reached')",
    ]
    result = shop.run("codeact", *map(code, steps))
    assert result.value == ["2024-03-01", 9, {"number": 1, "item": "pen"}]
    assert (shop.orders, shop.looks) == (["pen"], 2)
    assert [revision.fault.message if revision.fault else "" for revision in result.revisions] == [
        "",
        "NameError: name 'missing' is not defined",
        "",
        "",
    ]
    assert [revision.program for revision in result.revisions] == [f"{step}\n" for step in steps]


def test_codeact_is_shown_what_the_last_step_printed_and_nothing_before() -> None:
    made = agent(code("print('first ``` one')"), code("print('second')\n1 / 0"), "7", strategy="codeact")
    assert made.run("count").value == 7
    seen = [prompts[-1].content for prompts in made._resources.model().prompts]  # type: ignore[union-attr]
    assert seen[1:] == ["It printed:\nfirst ''' one", "It printed:\nsecond\nZeroDivisionError: division by zero"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ('```json\n{"a": [1]}\n```', {"a": [1]}),
        ("'x'", "x"),
        (" in words ", "in words"),
        ("{[]: 1}", "{[]: 1}"),
        ("[" * 99_999, "[" * 99_999),
        ("...", "..."),
        ("{1, 2}", "{1, 2}"),
        ("NaN", "NaN"),
        ("(1, 2)", [1, 2]),
    ],
)
def test_an_answer_in_words_is_read_as_a_value(text: str, value: Any) -> None:
    assert read_value(text) == value
