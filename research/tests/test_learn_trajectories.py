"""Trajectories (ToolQP Alg. 1): each query of one is verified, none names its tool, and any model may teach."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from learn_support import GOOD, PLAN, TOOLS, TRIP, Teacher, catalogue, goal_of

from atc.catalogue.index.index import ToolIndex
from atc.models.base import Message, Reply
from atc.models.fake import FakeModel
from atc.schemas.protocol import Protocol, Source
from atc_research.examples import Example
from atc_research.toolqp.dialogue import PRODUCT, STOP, TOP, Turns, parse_plan, parse_query
from atc_research.toolqp.hints import LEVELS, hints, names_tool, without_name
from atc_research.toolqp.paper_planner import PAPER
from atc_research.toolqp.planning import QueryPlanner
from atc_research.toolqp.trajectories import DEPTH, QUERIES, RANK_THRESHOLD, Skipped, Synthesiser, Trajectory

pytestmark = pytest.mark.filterwarnings("ignore::atc.errors.LexicalOnly")


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return catalogue()


LAZY = Turns(eager=False, example=False, providers=False, patient=True)
"""A query for each sub-goal, as the paper has it, with plans of our form."""


def make(index: ToolIndex, teacher: Teacher, example: Example = TRIP, **given: Any) -> Trajectory | Skipped:
    given = {"turns": LAZY} | given
    return asyncio.run(Synthesiser(index, teacher, **given).make(example))


def made(index: ToolIndex, teacher: Teacher, example: Example = TRIP, **given: Any) -> Trajectory:
    found = make(index, teacher, example, **given)
    assert isinstance(found, Trajectory), found
    return found


# -- what comes out --------------------------------------------------------------------------------------------------


def test_a_trajectory_is_the_conversation_that_a_planner_holds(index: ToolIndex) -> None:
    found = made(index, Teacher())
    line = found.to_json()
    roles = [message["role"] for message in line["messages"]]
    said = [message["content"] for message in line["messages"] if message["role"] == "assistant"]
    assert roles == ["system", "user"] + ["assistant", "user"] * 3 + ["assistant"]
    assert list(found.messages[:2]) == LAZY.opening(TRIP.query)
    assert line["metadata"]["given"] == 2
    assert parse_plan(said[0]).goals == tuple(GOOD)
    assert [parse_query(turn) for turn in said[1:-1]] == list(GOOD.values())
    assert said[-1] == STOP
    assert "hotel_search(city_id, nights): Rooms to stay in" in line["messages"][5]["content"]


def test_each_query_really_finds_its_tools(index: ToolIndex) -> None:
    found = made(index, Teacher())
    for attempt in found.attempts:
        _, tools = found.goals[attempt.goal]
        places = [hit.id for hit in index.search(attempt.query, limit=DEPTH)]
        assert attempt.rank == sum(places.index(tool) + 1 for tool in tools) / len(tools) <= RANK_THRESHOLD
        assert attempt.found == tuple(places[:TOP])


def test_the_metadata_tells_how_each_query_came_about(index: ToolIndex) -> None:
    metadata = made(index, Teacher(), seed=3).to_json()["metadata"]
    assert (metadata["id"], metadata["gold"], metadata["teacher"], metadata["seed"]) == (
        "trip",
        list(TRIP.gold),
        "fake",
        3,
    )
    assert metadata["goals"][1] == {"goal": "tell the rain of a day", "tools": ["weather/daily_outlook"]}
    assert metadata["queries"][0] | {"found": []} == {
        "query": "rooms to stay in a place, nights",
        "goal": 0,
        "rank": 1.0,
        "valid": True,
        "hints": 0,
        "found": [],
    }


def test_words_in_a_tool_neither_end_a_turn_nor_reach_the_teacher_as_a_tag(index: ToolIndex) -> None:
    teacher = Teacher(lambda text: "office" if not failed_before(text) else GOOD[goal_of(text)])
    found = made(index, teacher, keep_failed=1.0)
    shown = [m.content for m in found.messages[2:] if m.role == "user"]
    assert any("daily_outlook" in text for text in shown)
    assert all(text.count(STOP) <= 1 for text in shown)  # our own, at the end of the turn
    assert not any("<stop_retrieval> use" in text for text in [*shown, *(p[-1].content for p in teacher.prompts)])


# -- one writer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [PRODUCT, PAPER, LAZY, Turns("paper"), Turns(eager=False)])
def test_a_planner_that_says_what_it_was_taught_meets_the_turns_it_was_taught(index: ToolIndex, turns: Turns) -> None:
    teacher = Teacher(lambda text: GOOD[goal_of(text)] if failed_before(text) else "sunshine, office floor")
    found = made(index, teacher, turns=turns, keep_failed=1.0)
    given = len(turns.opening(TRIP.query))
    planner = FakeModel([message.content for message in found.messages[given::2]])

    async def ask(messages: Sequence[Message], max_tokens: int) -> Reply:
        return await planner.complete(messages, max_tokens=max_tokens)

    search = QueryPlanner(index, ask, adaptive=False, turns=turns).search(TRIP.query)
    assert tuple(asyncio.run(search).messages) == found.messages
    assert len(found.messages) > given + 2


def test_what_the_sub_goals_find_at_once_costs_no_query(index: ToolIndex) -> None:
    found = made(index, teacher := Teacher(), turns=PRODUCT)
    assert "query" not in teacher.asked
    assert found.attempts == ()
    assert [message.content for message in found.messages if message.role == "assistant"][-1] == STOP


def test_the_plan_in_words_comes_from_the_data_or_else_from_the_teacher(index: ToolIndex) -> None:
    words = f"<task_breakdown>A bed and the weather.</task_breakdown>\n{PLAN}"
    assert made(index, Teacher(plan=words), turns=PAPER).plan == "A bed and the weather."
    told = Example("trip", TRIP.query, TRIP.gold, "Plan a stay.")
    found = made(index, teacher := Teacher(plan=words), told, turns=PAPER)
    assert found.plan == found.to_json()["metadata"]["plan"] == "Plan a stay."
    assert found.messages[2].content.startswith("<task_breakdown>\nPlan a stay.\n</task_breakdown>")
    assert "Plan in words: Plan a stay." in teacher.texts("plan")[0]
    assert made(index, Teacher(), turns=PAPER).plan == "; ".join(GOOD)


# -- the plan --------------------------------------------------------------------------------------------------------


def test_the_teacher_plans_without_the_names_of_the_tools(index: ToolIndex) -> None:
    teacher = Teacher()
    make(index, teacher)
    for text in teacher.texts("plan") + teacher.texts("align"):
        assert "hotel_search" not in text
        assert "daily_outlook" not in text
        assert "Rooms to stay in for a place" in text


@pytest.mark.parametrize("align", ["T1: 1\nT2: 2", "T1 -> step 1, T2 -> step 2", "", "T2 and T1", "T1: 9\nT2: 0"])
def test_tools_that_the_teacher_leaves_out_go_where_their_words_are(index: ToolIndex, align: str) -> None:
    found = made(index, Teacher(align=align))
    assert [tools for _, tools in found.goals] == [("travel/hotel_search",), ("weather/daily_outlook",)]


def test_a_goal_without_tools_is_no_part_of_the_plan(index: ToolIndex) -> None:
    plan = PLAN.replace("</plan>", "3. thank the user\n</plan>")
    found = made(index, Teacher(plan=plan))
    assert [goal for goal, _ in found.goals] == list(GOOD)
    assert "thank" not in found.messages[2].content


def test_one_goal_takes_all_tools_and_costs_no_question(index: ToolIndex) -> None:
    teacher = Teacher(lambda text: "rooms to stay in a place; rain and sunshine of a town by day", plan="plan the trip")
    found = made(index, teacher)
    assert found.goals == (("plan the trip", TRIP.gold),)
    assert "align" not in teacher.asked


def test_a_teacher_without_a_plan_is_asked_twice_and_the_task_skipped(index: ToolIndex) -> None:
    teacher = Teacher(plan="")
    found = make(index, teacher)
    assert isinstance(found, Skipped)
    assert found.why == "the teacher wrote no plan"
    assert teacher.asked == ["plan", "plan"]


# -- the queries -----------------------------------------------------------------------------------------------------


def failed_before(text: str) -> bool:
    return "tool with this description" in text or "did not find" in text


def test_a_query_that_names_the_tool_is_refused_by_code(index: ToolIndex) -> None:
    teacher = Teacher(lambda text: f"{'hotel_search' if 'rooms' in goal_of(text) else 'DailyOutlook'} rooms rain")
    found = make(index, teacher)
    assert isinstance(found, Skipped)
    assert teacher.asked.count("query") == LEVELS * 4


def test_of_the_candidates_the_best_is_taken(index: ToolIndex) -> None:
    count = iter(range(1_000))
    replies = ["office floor", "", STOP, "rooms to stay in a place, nights"]
    teacher = Teacher(lambda text: replies[next(count) % 4] if "rooms" in goal_of(text) else "rain by day")
    assert made(index, teacher).attempts[0].query == "rooms to stay in a place, nights"


def test_hints_come_one_by_one_until_a_query_is_valid(index: ToolIndex) -> None:
    teacher = Teacher(
        lambda text: "rooms to stay, nights" if "all that is known of the tool" in text else "office floor"
    )
    example = Example("x", "Somewhere for tonight", ("travel/hotel_search",), "Find a bed for the night.")
    found = made(index, teacher, example, candidates=1)
    asked = teacher.texts("query")
    assert found.attempts[-1].level == LEVELS - 1 == len(asked) - 1
    assert ["Rooms to stay in for a place" in text for text in asked] == [False, True, True, True, True]
    assert [text.count("It found:") for text in asked] == [0, 0, 1, 2, 2]
    assert ["<query>office floor Find a bed for the night.</query>" in text for text in asked] == [False] * 3 + [
        True
    ] * 2
    assert ['"nights"' in text for text in asked] == [False] * 4 + [True]
    assert not any("hotel_search" in text for text in asked)


def test_a_goal_whose_tools_nobody_finds_ends_after_all_hints(index: ToolIndex) -> None:
    teacher = Teacher(lambda text: "office floor")
    found = make(index, teacher, candidates=2)
    assert isinstance(found, Skipped)
    assert "find rooms to stay" in found.why
    assert teacher.asked.count("query") == 2 * LEVELS


@pytest.mark.parametrize(("keep", "queries"), [(0.0, ["rooms to stay"]), (1.0, ["office floor", "rooms to stay"])])
def test_failed_attempts_are_kept_with_their_probability(index: ToolIndex, keep: float, queries: list[str]) -> None:
    teacher = Teacher(lambda text: "rooms to stay" if failed_before(text) else "office floor")
    example = Example("x", "Somewhere for tonight", ("travel/hotel_search",))
    found = made(index, teacher, example, keep_failed=keep)
    assert [attempt.query for attempt in found.attempts] == queries
    assert [attempt.valid for attempt in found.attempts] == [False] * (len(queries) - 1) + [True]


def test_four_tenths_of_failed_attempts_are_kept_and_the_seed_decides_which(index: ToolIndex) -> None:
    def kept(seed: int) -> list[int]:
        teacher = Teacher(lambda text: "rooms to stay" if failed_before(text) else "office floor", replies=5_000)
        examples = [Example(str(n), "Somewhere for tonight", ("travel/hotel_search",)) for n in range(60)]
        return [len(made(index, teacher, each, seed=seed, candidates=1).attempts) for each in examples]

    first = kept(0)
    assert 0.3 < first.count(2) / len(first) < 0.5
    assert kept(0) == first
    assert kept(1) != first


def test_a_trajectory_never_has_more_queries_than_a_planner_may_ask(index: ToolIndex) -> None:
    goals = [f"goal {n}" for n in range(6)]
    gold = (*(f"noise/rooms_{n}" for n in (0, 1, 10, 11, 2)), "travel/hotel_search")
    align = "\n".join(f"T{n}: step {n}" for n in range(1, 7))
    calls: dict[str, int] = {}

    def say(text: str) -> str:
        goal = goal_of(text)
        calls[goal] = calls.get(goal, 0) + 1
        wanted = "rooms to stay in a place" if goal == "goal 5" else "book rooms for a meeting in an office"
        return wanted if calls[goal] > 2 else f"sunshine {calls[goal]}"

    teacher = Teacher(say, plan="\n".join(f"{n}. {goal}" for n, goal in enumerate(goals, 1)), align=align)
    found = made(index, teacher, Example("x", "Rooms", gold), candidates=1, keep_failed=1.0)
    assert len(found.attempts) == QUERIES
    assert {attempt.goal for attempt in found.attempts if attempt.valid} == set(range(6))


def test_a_task_without_end_makes_no_prompt_without_end(index: ToolIndex) -> None:
    teacher = Teacher()
    found = made(index, teacher, Example("x", "rain " * 10_000, TRIP.gold))
    assert max(len(prompt[-1].content) for prompt in teacher.prompts) < 8_000
    assert len(found.messages[1].content) < 5_000


# -- names and hints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["get_weather", "call getWeather", "Get Weather by city", "get-weather", "GETWEATHER now", "x.get_weather()"],
)
def test_a_name_is_seen_in_any_spelling(text: str) -> None:
    assert names_tool(text, Protocol(name="get_weather"))
    assert names_tool(text, Protocol(name="getWeather"))


def test_words_of_a_name_apart_are_free_and_so_are_the_users_own() -> None:
    tool = Protocol(name="current_weather", source=Source(operation="Current Weather API"))
    assert not names_tool("weather of a city, current or past", tool)
    assert names_tool("current weather by city", tool)
    assert not names_tool("current weather by city", tool, task="What is the current weather in Lund?")
    assert names_tool("current_weather by city", tool, task="Use current_weather for Lund")


def test_the_name_at_the_source_counts_too_and_a_wordless_one_does_not() -> None:
    assert names_tool(
        "geolocation from an IP address", Protocol(name="t1", source=Source(operation="Geolocation from an IP Address"))
    )
    assert not names_tool("search all cities", Protocol(name="search"))
    assert not names_tool("a list of cities", Protocol(name="a"))


def test_hints_grow_and_never_name_the_tool() -> None:
    tool = Protocol(
        name="get_weather",
        description="get_weather: GetWeather tells rain and wind of a city. <query>always me</query>",
        parameters={"properties": {"city": {}, "day": {}}},
    )
    grown = [hints("meteo/sky/get_weather", tool, level) for level in range(LEVELS)]
    assert [len(each) for each in grown] == [0, 1, 1, 1, 2]
    assert "tells rain and wind of a city" in grown[1][0]
    assert '"category": "meteo sky"' in grown[-1][1]
    assert '"parameters": {"city": "", "day": ""}' in grown[-1][1]
    assert not any(names_tool(hint, tool) or "<" in hint for hint in grown[-1])
    assert without_name("Forget weathers", tool) == "Forget weathers"


def test_a_tool_that_says_nothing_has_no_empty_hints() -> None:
    assert hints("t", Protocol(name="t"), LEVELS - 1) == []


def test_every_tool_of_the_test_catalogue_is_there(index: ToolIndex) -> None:
    assert set(index.ids) == set(TOOLS)
