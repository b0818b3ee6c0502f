"""Layer by layer: a program for each layer of tools, each a stage of one journal."""

from __future__ import annotations

from typing import Any

from atc import Agent, Result, Toolset
from atc.models.fake import FakeModel, Scripted
from atc.tools.tool import Tool
from tests.support.tools import make_tool

TEXT = {"type": "string"}
BY_PERSON = {"type": "string", "description": "The id of a city, from `find_person`."}
FIND = "```python\nanswer = find_person(who='Ann')\n```"
WEATHER = "```python\nanswer = get_weather(city_id=step1['home']['city_id'])['celsius']\n```"


def find_person(people: Any = None, calls: list[Any] | None = None) -> Tool:
    """Undocumented, so nobody knows where the id of a city stands."""

    def find(arguments: dict[str, Any]) -> Any:
        if calls is not None:
            calls.append(arguments)
        return people if people is not None else {"name": "Ann", "home": {"city": "Lyon", "city_id": "c-17"}}

    return make_tool("find_person", find, required=("who",), who=TEXT)


def get_weather(calls: list[Any] | None = None) -> Tool:
    def get(arguments: dict[str, Any]) -> Any:
        if calls is not None:
            calls.append(arguments)
        return {"celsius": 21 if arguments["city_id"] == "c-17" else -1}

    return make_tool("get_weather", get, required=("city_id",), city_id=BY_PERSON)


def ran(
    *replies: Scripted, tools: Any, task: str = "How warm is it where Ann lives?", **settings: Any
) -> tuple[Result, FakeModel]:
    model = FakeModel(replies)
    made = Agent(
        Toolset(tools), model=model, **{"sentence": False, "approve": "always", "strategy": "layered", **settings}
    )
    return made.run(task), model


def test_what_a_response_really_held_is_seen_before_the_next_program() -> None:
    result, model = ran(FIND, WEATHER, tools=[find_person(), get_weather()])
    assert (result.status, result.value) == ("answered", 21)
    first, second = (prompt[-1].content for prompt in model.prompts)
    assert ("def find_person" in first, "def get_weather" in first) == (True, False)
    assert ("def find_person" in second, "def get_weather" in second) == (False, True)
    assert "step1 = {'name': 'Ann', 'home': {'city': 'Lyon', 'city_id': 'c-17'}}" in second
    assert [revision.stage for revision in result.revisions] == [0, 1]
