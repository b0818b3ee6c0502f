"""The chain goes over to layer by layer: after two whole programs failed, or at once. What was done stays demanded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc import Agent, Result, ToolError, Toolset
from atc.errors import ModelError
from atc.models.fake import FakeModel, Scripted
from atc.result import Effect
from atc.tools.tool import Tool
from tests.strategies.test_layered import (
    FIND,
    PERSON,
    SKIP,
    TASK,
    TEXT,
    WEATHER,
    code,
    find_person,
    get_weather,
    taken_from,
)
from tests.support.tools import make_tool

AFTER_TWO, AT_ONCE = "+layered-after-two", "+layered-undocumented"
GUESSES = [
    code(f"person = find_person(who='Ann')\nanswer = get_weather(city_id=person['{key}'])['celsius']")
    for key in ("town", "place", "address")
]


def ran(
    *replies: Scripted, tools: list[Tool], rules: str, task: str = TASK, **settings: Any
) -> tuple[Result, list[str]]:
    model = FakeModel(replies)
    given: dict[str, Any] = {"sentence": False, "approve": "always", "rules": rules, "check": False, **settings}
    result = Agent(Toolset(tools), model=model, **given).run(task)
    return result, [prompt[-1].content for prompt in model.prompts]


def test_after_two_whole_programs_the_run_goes_on_layer_by_layer() -> None:
    tools = [find_person(), get_weather()]
    result, prompts = ran(*GUESSES[:2], FIND, WEATHER, tools=tools, rules=AFTER_TWO)
    assert (result.status, result.value) == ("answered", 21)
    assert ["step 1 of 2" in prompt or "last step" in prompt for prompt in prompts] == [False, False, True, True]
    assert "This program failed" not in prompts[2]
    assert [call.status for call in result.calls] == ["ok", "replayed", "replayed", "ok"]


def test_a_run_that_looked_at_values_stays_whole() -> None:
    look, tools = code("person = find_person(who='Ann')\nlook(person)"), [find_person(), get_weather()]
    answer = code("answer = get_weather(city_id=person['home']['city_id'])['celsius']")
    result, prompts = ran(look, *GUESSES[:2], answer, tools=tools, rules=AFTER_TWO)
    assert (result.status, result.value) == ("answered", 21)
    assert ["step 1 of 2" in prompt or "last step" in prompt for prompt in prompts] == [False] * 4


def test_a_program_that_was_only_refused_does_not_count() -> None:
    refused = code("answer = no_such_tool(who='Ann')")
    result, prompts = ran(
        refused, GUESSES[0], refused.replace("no_such", "unknown"), GUESSES[1], FIND, WEATHER,
        tools=[find_person(), get_weather()], rules=AFTER_TWO, check=True,
    )  # fmt: skip
    assert result.value == 21
    assert ["step 1" in prompt for prompt in prompts] == [False, False, False, False, True, False]


@pytest.mark.parametrize("rules", ["default", "all,-layered-after-two,-layered-undocumented"])
def test_without_the_rules_the_chain_stays_the_chain(rules: str) -> None:
    result, prompts = ran(*GUESSES, tools=[find_person(), get_weather()], rules=rules, max_revisions=2)
    assert result.status == "unsolved"
    assert not any("step 1 of" in prompt for prompt in prompts)


def test_where_no_order_is_known_there_is_nothing_to_go_over_to() -> None:
    bad = [code(f"answer = find_person(who='Ann')['{key}']") for key in "abcd"]
    other = make_tool("other", lambda _: 1)
    result, prompts = ran(*bad, tools=[find_person(), other], rules=f"{AFTER_TWO},{AT_ONCE}", max_revisions=3)
    assert (result.status, len(prompts)) == ("unsolved", 4)
    assert not any("step 1 of" in prompt for prompt in prompts)


def test_a_fault_that_no_program_can_help_ends_the_run_all_the_same() -> None:
    weather = get_weather(effect=Effect.WRITE)
    write = code("answer = get_weather(city_id='c-17')")
    result, _ = ran(GUESSES[0], write, tools=[find_person(), weather], rules=AFTER_TWO, approve="never", task="c-17?")
    assert result.status == "denied"


# -- what failed programs did ------------------------------------------------------------------------------------------


def shop(booked: list[Any]) -> list[Tool]:
    def book(arguments: dict[str, Any]) -> Any:
        booked.append(arguments["room_id"])
        return {"booking": f"b-{arguments['room_id']}"}

    return [
        make_tool("find_room", lambda _: {"room": "r-1"}, required=("city",), city=TEXT),
        make_tool("book_room", book, Effect.WRITE, required=("room_id",), room_id=taken_from("find_room")),
        make_tool("send_bill", lambda a: {"sent": a["to"]}, Effect.WRITE, to=taken_from("book_room")),
    ]


FAILS = [
    code(f"room = find_room(city='Lyon')['room']\nanswer = book_room(room_id=room)['{key}']")
    for key in ("id", "number")
]
ROOM = code("answer = find_room(city='Lyon')")


@pytest.mark.parametrize("skipped", [False, True])
def test_what_failed_programs_did_is_demanded_and_done_once(skipped: bool) -> None:
    booked: list[Any] = []
    same = code("answer = book_room(room_id='r-1')")
    bill = code("answer = send_bill(to=step2['booking'])['sent']")
    replies = [*FAILS, SKIP if skipped else ROOM, same, bill]
    result, prompts = ran(*replies, tools=shop(booked), rules=AFTER_TWO, task="Book r-1 in Lyon, send the bill.")
    assert (result.status, result.value, booked) == ("answered", "b-r-1", ["r-1"])
    assert "book_room(room_id='r-1')" in prompts[3]  # it is told what is done
    assert "and are done" not in prompts[2]  # the tool is not offered there
    assert "and are done" not in prompts[4]  # committed: nobody asks for it again
    assert [call.status for call in result.calls if call.tool == "book_room"] == ["ok", "replayed", "replayed"]


@pytest.mark.parametrize("skipped", [False, True])
def test_another_write_of_that_tool_waits_for_the_one_that_was_done(skipped: bool) -> None:
    booked: list[Any] = []
    other = code("answer = book_room(room_id='r-2')")
    both = code("answer = [book_room(room_id='r-1'), book_room(room_id='r-2')]")
    bill = code("answer = send_bill(to=step2[1]['booking'])['sent']")
    replies = [*FAILS, SKIP if skipped else ROOM, other, both, bill]
    result, _ = ran(*replies, tools=shop(booked), rules=AFTER_TWO, task="Book r-1 and r-2 in Lyon, send the bill.")
    assert (result.status, booked) == ("answered", ["r-1", "r-2"])
    refused = next(call for call in result.calls if call.status == "refused")
    assert refused.arguments == {"room_id": "r-2"}


def test_a_run_that_was_handed_over_goes_on_with_its_step(tmp_path: Path) -> None:
    booked: list[Any] = []
    given: dict[str, Any] = {
        "sentence": False,
        "approve": "always",
        "rules": AFTER_TWO,
        "runs_dir": tmp_path,
        "check": False,
    }
    task = "Book r-1 in Lyon, send the bill."
    cut = Agent(Toolset(shop(booked)), model=FakeModel([*FAILS, ROOM, ModelError("gone")]), **given).run(task)
    assert cut.status == "failed"
    bill = code("answer = send_bill(to=step2['booking'])['sent']")
    model = FakeModel([code("answer = book_room(room_id=step1['room'])"), bill])
    result = Agent(Toolset(shop(booked)), model=model, **given).resume(cut.run_id)
    assert (result.value, booked) == ("b-r-1", ["r-1"])
    assert "def find_room" not in model.prompts[0][-1].content
    first = Agent(Toolset(shop(booked)), model=FakeModel([*FAILS, ModelError("gone")]), **given).run(task)
    model = FakeModel([ROOM, ModelError("gone")])
    Agent(Toolset(shop(booked)), model=model, **given).resume(first.run_id)
    assert "step 1 of 3" in model.prompts[0][-1].content


# -- at once -----------------------------------------------------------------------------------------------------------


def test_a_response_that_nobody_documented_is_seen_before_it_feeds_another_tool() -> None:
    result, prompts = ran(FIND, WEATHER, tools=[find_person(), get_weather()], rules=AT_ONCE)
    assert (result.value, len(prompts)) == (21, 2)
    assert "step 1 of 2" in prompts[0]


def test_a_documented_response_is_left_to_one_program() -> None:
    home = {"type": "object", "properties": {"city_id": TEXT}}
    returns = {"type": "object", "properties": {"name": TEXT, "home": home}}
    documented = make_tool("find_person", lambda _: PERSON, returns=returns, required=("who",), who=TEXT)
    whole = code("person = find_person(who='Ann')\nanswer = get_weather(city_id=person['home']['city_id'])['celsius']")
    result, prompts = ran(whole, tools=[documented, get_weather()], rules=AT_ONCE)
    assert (result.value, len(prompts)) == (21, 1)


def test_the_papers_way_never_goes_over() -> None:
    tools = [find_person(), get_weather()]
    replies = [GUESSES[0], "find_person", GUESSES[1], "find_person", GUESSES[2], "find_person"]
    result, prompts = ran(*replies, tools=tools, rules="all", strategy="atc-paper", max_revisions=2)
    assert result.status == "unsolved"
    assert not any("step 1 of" in prompt for prompt in prompts)


def test_a_tool_that_broke_and_is_routed_round_is_no_failed_program() -> None:
    def down(_: Any) -> Any:
        raise ToolError("internal", status=500)

    shape = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
    city = taken_from("find_person")
    tools = [
        find_person(),
        make_tool("weather_a", down, returns=shape, required=("city_id",), city_id=city),
        make_tool("weather_b", lambda _: {"celsius": 21}, returns=shape, required=("city_id",), city_id=city),
    ]
    first = GUESSES[0].replace("get_weather", "weather_a")
    second = first.replace("['town']", "['home']['city_id']")
    result, prompts = ran(first, second, second.replace("weather_a", "weather_b"), tools=tools, rules=AFTER_TWO)
    assert (result.value, len(prompts)) == (21, 3)
    assert "step 1 of" not in prompts[2]
