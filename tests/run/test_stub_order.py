"""Tools stand in a prompt in the order of their layers, suppliers first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from atc import Agent, Effect, Protocol, Sketch, Tool, Toolset
from atc.catalogue.graph.suppliers import Suppliers
from atc.models.fake import FakeModel
from atc.models.messages import Message
from atc.run.writer import DEFAULT_OPTIONS, Writer, WritingOptions
from atc.tools.stub_budget import Fitter
from tests.support.writer import run_of

pytestmark = pytest.mark.inline

GOOD = "```python\nanswer = len(find_cities(name='Lyon'))\n```"


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
LAYERS = (("roll_dice", "find_cities"), ("get_city", "get_weather"))


def writer(layers: Sequence[Sequence[str]], options: WritingOptions = DEFAULT_OPTIONS) -> Writer:
    run = run_of("t", TOOLS, FakeModel([GOOD]))
    run.sketch = Sketch(TOOLS, layers=tuple(map(tuple, layers)))
    return Writer(run, options)


def prompt_of(each: Writer) -> list[Message]:
    return asyncio.run(each.messages((), ()))


def places(text: str, names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: text.index(f"def {name}("))


def test_stubs_stand_by_layer_and_no_line_names_the_layers() -> None:
    text = prompt_of(writer(LAYERS))[-1].content
    assert places(text, [*TOOLS]) == ["roll_dice", "find_cities", "get_weather", "get_city"]
    assert text.endswith("\n\nTask: t")
    assert "order" not in text


@pytest.mark.parametrize("layers", [(), (tuple(TOOLS),), (("not_offered",), tuple(TOOLS))])
def test_where_no_order_is_known_the_tools_stand_as_they_were_offered(layers: Sequence[Sequence[str]]) -> None:
    assert places(prompt_of(writer(layers))[-1].content, [*TOOLS]) == [*TOOLS]


def test_json_documents_stand_by_layer_too() -> None:
    text = prompt_of(writer(LAYERS, options=WritingOptions(tools="json")))[-1].content
    assert text.index('"roll_dice"') < text.index('"find_cities"') < text.index('"get_weather"')


def prompts(task: str, tools: Toolset = TOOLS) -> list[Message]:
    model = FakeModel([GOOD] * 9)
    with Agent(tools, model=model, sentence=False, keep_runs=False, max_revisions=1) as agent:
        agent.run(task)
    return list(model.prompts[0])


def test_an_agent_shows_its_tools_by_layer() -> None:
    assert places(prompts("t")[-1].content, [*TOOLS])[-2:] == ["get_weather", "get_city"]


def test_what_every_task_begins_with_is_the_same_for_every_task() -> None:
    first, second = prompts("How far is Lyon?")[-1], prompts("And what of the weather there?")[-1]
    assert first.stable > 0
    assert first.content[: first.stable] == second.content[: second.stable]


def test_what_is_found_later_stands_last_and_moves_nothing() -> None:
    found = Toolset([tool("toss", {"type": "integer"})])
    made = writer(LAYERS)
    asyncio.run(made.prepare())
    before = made.shown
    made.offer(TOOLS + found)
    text = prompt_of(made)[-1].content
    assert before is not None
    assert before.text in text
    assert places(text, [*TOOLS, "toss"])[-1] == "toss"


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
