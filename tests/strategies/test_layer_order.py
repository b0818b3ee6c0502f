"""Layers as an order: stubs by layer, a line behind the task, and the same bytes as before where nothing is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Agent, Effect, Protocol, Settings, Tool, Toolset
from atc.facts import Replacement
from atc.graph.suppliers import Suppliers
from atc.models import FakeModel, Message
from atc.strategies.layer_order import MAX_CHARACTERS, MAX_NAMES, NO_ORDER, LayerOrder
from atc.strategies.writer import Writer
from atc.tools.fit import Fitter

GOOD = "```python\nanswer = len(find_cities(name='Lyon'))\n```"
LINE = "\n\nThe order of these tools, where the task needs them:\n1. find_cities  2. get_weather, get_city"


class Nothing:
    """A transport that answers with an empty list."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return []

    def opened(self) -> None:
        return None


def tool(name: str, /, returns: Any = None, **parameters: str) -> Tool:
    properties = {each: {"type": type_} for each, type_ in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}

    protocol = Protocol(name=name, description=f"{name}.", parameters=schema, returns=returns, effect=Effect.READ)
    return Tool(protocol, Nothing())


CITY = {"type": "array", "items": {"type": "object", "properties": {"city_id": {"type": "string"}}}}
ALONE = [tool("roll_dice", {"type": "integer"}, sides="integer")]
USERS = [
    tool("get_weather", {"type": "string"}, city_id="string"),
    tool("get_city", {"type": "string"}, city_id="string"),
]
TOOLS = Toolset([*USERS, *ALONE, tool("find_cities", CITY, name="string")])
ORDER = LayerOrder((("roll_dice", "find_cities"), ("get_city", "get_weather")), frozenset({"find_cities"}))


def writer(order: LayerOrder, tools: Toolset = TOOLS, recurring: bool = True, **settings: Any) -> Writer:
    model = FakeModel([GOOD])
    quiet = lambda kind, data: None  # noqa: E731
    return Writer("t", tools, model, Settings.load(**settings), quiet, recurring=recurring, order=order)


def prompt_of(each: Writer) -> list[Message]:
    return asyncio.run(each.messages((), ()))


def places(text: str, names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: text.index(f"def {name}("))


def test_stubs_stand_by_layer_and_a_line_behind_the_task_names_the_layers() -> None:
    text = prompt_of(writer(ORDER))[-1].content
    assert places(text, [*TOOLS]) == ["roll_dice", "find_cities", "get_weather", "get_city"]
    assert text.endswith(f"Task: t{LINE}")


@pytest.mark.parametrize(
    ("order", "rules"),
    [
        (ORDER, "-layer-order"),
        (LayerOrder((tuple(TOOLS),)), ""),
        (LayerOrder((("not_offered",), tuple(TOOLS))), ""),
        (LayerOrder((), frozenset({"find_cities"})), ""),
    ],
)
def test_where_nothing_is_known_or_the_rule_is_off_the_prompt_is_as_before(order: LayerOrder, rules: str) -> None:
    before, now = prompt_of(writer(NO_ORDER)), prompt_of(writer(order, rules=rules))
    assert now == before
    assert places(now[-1].content, [*TOOLS]) == [*TOOLS]
    assert "order of these tools" not in now[-1].content


def test_json_documents_stand_by_layer_too() -> None:
    from atc.strategies.ways import Ways

    made = Writer(
        "t", TOOLS, FakeModel([GOOD]), Settings.load(), lambda kind, data: None, ways=Ways(tools="json"), order=ORDER
    )
    text = prompt_of(made)[-1].content
    assert text.index('"roll_dice"') < text.index('"find_cities"') < text.index('"get_weather"')
    assert text.endswith(LINE)


def prompts(task: str, tools: Toolset = TOOLS, **settings: Any) -> list[Message]:
    model = FakeModel([GOOD] * 9)
    with Agent(tools, model=model, sentence=False, keep_runs=False, max_revisions=1, **settings) as agent:
        agent.run(task)
    return list(model.prompts[0])


def test_an_agent_shows_its_tools_by_layer() -> None:
    text = prompts("t")[-1].content
    assert text.endswith(LINE)
    assert places(text, [*TOOLS])[-2:] == ["get_weather", "get_city"]
    off = prompts("t", rules="-layer-order")[-1].content
    assert places(off, [*TOOLS]) == [*TOOLS]
    assert off.endswith("Task: t")
    alone = Toolset(USERS)
    assert prompts("t", alone) == prompts("t", alone, rules="-layer-order"), "one layer"


def test_what_every_task_begins_with_is_the_same_for_every_task() -> None:
    first, second = prompts("How far is Lyon?")[-1], prompts("And what of the weather there?")[-1]
    assert first.stable > 0
    assert first.content[: first.stable] == second.content[: second.stable]
    assert "order of these tools" not in first.content[: first.stable]


def test_what_is_found_later_stands_last_and_moves_nothing() -> None:
    found = Toolset([tool("toss", {"type": "integer"})])
    made = writer(ORDER)
    asyncio.run(made.prepare())
    before = made.shown
    made.offer(TOOLS + found)
    text = prompt_of(made)[-1].content
    assert before is not None
    assert before.text in text
    assert places(text, [*TOOLS, "toss"])[-1] == "toss"
    assert text.endswith(LINE), "it is in no layer that is known"


def test_a_broken_tool_is_not_in_the_line() -> None:
    broken: dict[str, tuple[Replacement, ...]] = {"get_city": ()}
    made = Writer(
        "t", TOOLS, FakeModel([GOOD]), Settings.load(), lambda kind, data: None, down=lambda: broken, order=ORDER
    )
    assert "\n1. find_cities  2. get_weather\n" in prompt_of(made)[-1].content


def many(count: int) -> tuple[LayerOrder, list[str]]:
    names = [f"tool_{number}" for number in range(count)]
    return LayerOrder((tuple(names[: count // 2]), tuple(names[count // 2 :])), frozenset(names)), names


def test_of_too_many_tools_the_likeliest_are_named_and_none_where_nothing_was_chosen() -> None:
    order, names = many(MAX_NAMES + 5)
    ranked = [*reversed(names)]
    line = order.line(ranked, chosen=True)
    assert {*line.replace(",", "").split()} - {"1.", "2."} == {*ranked[:MAX_NAMES]}
    assert order.line(ranked, chosen=False) == ""
    assert order.line(ranked, ranked[:1], chosen=True) == line.replace(f"{ranked[0]}, ", ""), "none takes its place"


def test_long_names_do_not_make_a_long_line() -> None:
    names = [f"{letter * MAX_CHARACTERS}" for letter in "abc"]
    order = LayerOrder((tuple(names[:1]), tuple(names[1:])), frozenset(names))
    assert order.line(names, chosen=True) == ""


NAMES = st.lists(st.sampled_from([f"t{n}" for n in range(12)]), unique=True)


@given(st.lists(NAMES, max_size=4), NAMES, NAMES)
def test_the_order_loses_no_tool_and_the_line_is_bounded(
    layers: list[list[str]], offered: list[str], hidden: list[str]
) -> None:
    order = LayerOrder(tuple(map(tuple, layers)))
    assert sorted(order.sorted(offered)) == sorted(offered)
    line, longest = order.line(offered, hidden, chosen=True), order.line(offered, chosen=True)
    assert len(line) <= len(longest) <= MAX_CHARACTERS + 8 * MAX_NAMES
    assert not any(f" {name}" in line for name in hidden)


@pytest.mark.parametrize("room", [60, 150, 300, 450, 600, 2_000])
def test_where_room_is_scarce_the_likeliest_have_it_though_they_stand_last(room: int) -> None:
    protocols = [each.protocol for each in TOOLS.values()]
    suppliers: Suppliers = {}
    names = [protocol.name for protocol in protocols]
    by_rank = Fitter(protocols, suppliers).within(room)
    by_layer = Fitter(protocols, suppliers, order=names[::-1]).within(room)
    assert by_layer.left_out == by_rank.left_out
    assert by_layer.grades == by_rank.grades
    shown = [name for name in names[::-1] if name in by_layer.grades]
    assert places(by_layer.text, shown) == shown
