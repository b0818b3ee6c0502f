"""ComplexFuncBench: recorded calls answer, others find nothing, and a task is solved by making its own calls."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc.errors import EnvironmentProblem, ToolError
from atc.tools.stubs import render_stub
from benchmarks.environments import Episode
from benchmarks.environments.complexfuncbench import MAX_LIST, TOOLS, ComplexFuncBench
from benchmarks.environments.self_test import judge
from tests.support.tools import call

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)
TOKEN = "t" * 150


def parameter(kind: str, description: str = "", required: bool = False, enum: list[str] | None = None) -> Any:
    return {"type": kind, "description": description, "required": required, "enum": enum or [], "default": None}


def document(name: str, path: str, **parameters: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name} finds things.",
        "host": "api.example",
        "endpoint": f"/api/v1/{path}",
        "parameters": parameters,
    }


DOCUMENTS = [
    document("Find_Place(Inns)", "inns/findPlace", query=parameter("string", "a place", required=True)),
    document(
        "List_Rooms",
        "inns/listRooms",
        inn_id=parameter("string", "It can be retrieved from `api/v1/inns/findPlace`**(Find Place)**.", required=True),
        day=parameter("string", "YYYY-MM-DD", required=True),
        adults=parameter("number", "How many. The **default** value is set to **1**."),
        sort=parameter("string", "The order", enum=["BEST", "CHEAPEST"]),
    ),
    document("Near_By", "inns/nearBy", latitude=parameter("number", required=True)),
    document("Offer", "boats/offer", token=parameter("string", "retrieved from a search", required=True)),
    document("Trips", "boats/trips", legs=parameter("array", "the legs", required=True)),
    document("Never_Called", "boats/never", query=parameter("string", required=True)),
]


def step(tool: str, response: Any, **arguments: Any) -> dict[str, Any]:
    return {"label": "", "tool": tool, "args": {}, "resolved": arguments, "response": response}


RECORDS = [
    {
        "id": "one",
        "query": "On 2024-12-01 I need a room in the Old Town of Vienna.",
        "gold": [
            step("Find_Place(Inns)", [{"inn_id": 17, "name": "Swan"}], query="Old Town, Vienna"),
            step("List_Rooms", {"rooms": [1, 2, 3]}, inn_id="17", day="2024-12-01", adults=1),
        ],
    },
    {
        "id": "two",
        "query": "Where is the Old Town of Vienna, what is near 48.2 and what is the offer?",
        "gold": [
            step("Find_Place(Inns)", [{"inn_id": 17, "name": "Swan", "__kind": "inn"}] * 3, query="Old Town, Vienna"),
            step("Near_By", [{"name": "Opera"}, {"token": TOKEN[:120]}], latitude=48.2),
            step("Offer", {"price": 3}, token=TOKEN),
        ],
    },
    {
        "id": "three",
        "query": "Which boats go?",
        "gold": [step("Trips", [{"boat": "Anna"}], legs=[{"fromId": "VIE", "toId": "BTS"}])],
    },
]


@pytest.fixture
def environment(tmp_path: Path) -> ComplexFuncBench:
    return made(tmp_path, RECORDS, DOCUMENTS)


def made(data: Path, records: list[dict[str, Any]], documents: list[dict[str, Any]]) -> ComplexFuncBench:
    folder = data / "executable" / "complexfuncbench"
    folder.mkdir(parents=True)
    for name, lines in (("tasks", records), ("tools", documents)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return ComplexFuncBench(data)


def opened(environment: ComplexFuncBench, task: str) -> Episode:
    return environment.open(next(one for one in environment.tasks() if one.id == task))


def test_its_own_solutions_pass_and_nothing_less_does(environment: ComplexFuncBench) -> None:
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (3, [], [], [])
    episode = opened(environment, "one")
    call(episode, "list_rooms", inn_id="17", day="2024-12-01")
    assert not episode.check(None)
    call(episode, "find_place_inns", query="Old Town, Vienna")
    assert episode.check("whatever is answered")


@pytest.mark.parametrize(
    "arguments",
    [
        {"inn_id": 17, "day": "2024-12-01"},
        {"day": " 2024-12-01", "inn_id": "17", "adults": "1", "sort": "BEST"},
        {"inn_id": 17.0, "day": "2024-12-01", "adults": 1.0, "sort": ""},
    ],
)
def test_the_same_call_in_other_words_is_the_same_call(environment: ComplexFuncBench, arguments: Any) -> None:
    assert call(opened(environment, "one"), "list_rooms", **arguments) == {"rooms": [1, 2, 3]}


@pytest.mark.parametrize(
    "arguments",
    [
        {"inn_id": 18, "day": "2024-12-01"},
        {"inn_id": 17, "day": "2024-12-02"},
        {"inn_id": 17, "day": "2024-12-01", "adults": 2},
        {"inn_id": 17, "day": "2024-12-01", "sort": "CHEAPEST"},
        {"inn_id": 10**5000, "day": "2024-12-01"},
    ],
)
def test_what_was_not_recorded_finds_nothing_and_solves_nothing(environment: ComplexFuncBench, arguments: Any) -> None:
    episode = opened(environment, "one")
    call(episode, "find_place_inns", query="Old Town, Vienna")
    with pytest.raises(ToolError, match="list_rooms: nothing was found") as caught:
        call(episode, "list_rooms", **arguments)
    assert (caught.value.status, caught.value.outcome) == (404, "refused")
    assert not episode.check(None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"day": "2024-12-01"}, "inn_id is required"),
        ({"inn_id": None, "day": "2024-12-01"}, "inn_id is required"),
        ({"inn_id": {"id": 1}, "day": "2024-12-01"}, "inn_id must be of type string"),
        ({"inn_id": 17, "day": "2024-12-01", "adults": "two"}, "adults must be of type number"),
        ({"inn_id": 17, "day": "2024-12-01", "sort": "WORST"}, "sort must be one of BEST, CHEAPEST"),
    ],
)
def test_a_wrong_argument_is_named(environment: ComplexFuncBench, arguments: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        call(opened(environment, "one"), "list_rooms", **arguments)
    assert caught.value.status == 422


def test_a_list_argument_takes_objects_in_their_order_only(environment: ComplexFuncBench) -> None:
    episode, leg = opened(environment, "three"), {"fromId": "VIE", "toId": "BTS"}
    assert call(episode, "trips", legs=[dict(reversed(leg.items()))]) == [{"boat": "Anna"}]
    with pytest.raises(ToolError, match="nothing was found"):
        call(episode, "trips", legs=[leg, leg])
    with pytest.raises(ToolError, match="must be of type array"):
        call(episode, "trips", legs=["VIE"])


@pytest.mark.parametrize("query", ["old town vienna", "Vienna, Old Town", "the Old Town of Vienna", "Old Town"])
def test_a_search_understands_a_place_in_other_words(environment: ComplexFuncBench, query: str) -> None:
    assert call(opened(environment, "one"), "find_place_inns", query=query) == [{"inn_id": 17, "name": "Swan"}]


@pytest.mark.parametrize("query", ["New Town, Vienna", "Vienna", "of the", "Graz"])
def test_a_search_takes_no_other_place_for_it(environment: ComplexFuncBench, query: str) -> None:
    with pytest.raises(ToolError, match="nothing was found"):
        call(opened(environment, "one"), "find_place_inns", query=query)


def test_a_task_sees_its_own_record_first_and_the_fullest_of_the_others(environment: ComplexFuncBench) -> None:
    assert len(call(opened(environment, "one"), "find_place_inns", query="Old Town, Vienna")) == 1
    assert len(call(opened(environment, "three"), "find_place_inns", query="Old Town, Vienna")) == 3


def test_texts_count_as_far_as_the_record_keeps_them_and_places_up_to_a_few_steps(
    environment: ComplexFuncBench,
) -> None:
    episode = opened(environment, "two")
    assert call(episode, "offer", token=TOKEN[:120]) == {"price": 3}
    assert call(episode, "near_by", latitude=48.2004)[0] == {"name": "Opera"}
    for tool, wrong in (("offer", {"token": TOKEN[:119]}), ("near_by", {"latitude": 48.21})):
        with pytest.raises(ToolError, match="nothing was found"):
            call(episode, tool, **wrong)


def test_a_task_whose_text_and_responses_lack_an_identifier_is_not_stated(environment: ComplexFuncBench) -> None:
    assert all(task.stated for task in environment.tasks() if task.id != "three")
    assert not next(task.stated for task in environment.tasks() if task.id == "three")


def test_a_look_up_may_be_missing_where_what_it_tells_came_from_elsewhere(tmp_path: Path) -> None:
    places = [document(f"Find_{kind}", f"inns/find{kind}", query=parameter("string", required=True))
              for kind in ("Location", "Destination")]  # fmt: skip
    gold = [
        step("Find_Location", [{"latitude": 48.2, "id": 5}], query="Opera"),
        step("Find_Destination", [{"latitude": 48.2, "id": 6}], query="Opera"),
        step("Near_By", [{"name": "Opera"}], latitude=48.2),
        step("Find_Destination", [{"id": 7}], query="Lobby"),
    ]
    environment = made(tmp_path, [{"id": "four", "query": "What is near the Opera, and the Lobby?", "gold": gold}],
                       [*DOCUMENTS, *places])  # fmt: skip

    def solves(*numbers: int) -> bool:
        episode = opened(environment, "four")
        for number in numbers:
            call(episode, gold[number]["tool"].lower(), **gold[number]["resolved"])
        return episode.check(None)

    assert solves(0, 1, 2, 3)
    assert solves(0, 2, 3)  # the other look-up told the latitude too
    assert solves(1, 2, 3)
    assert not solves(2, 3)  # nobody told it
    assert not solves(0, 1, 3)
    assert not solves(0, 1, 2)  # nothing takes what the last one tells: it may be what was asked for


@pytest.mark.parametrize(
    ("day", "stated"),
    [("2024-11-15", True), ("2024-11-12", True), ("2024-11-13", True), ("2024-11-18", False), ("2024-11-01", False)],
)
def test_a_task_for_the_cheapest_day_is_stated_where_a_response_or_the_text_tells_it(
    tmp_path: Path, day: str, stated: bool
) -> None:
    prices = document("Get_Min_Price", "inns/minPrice", query=parameter("string", required=True))
    gold = [
        step("Get_Min_Price", [{"departureDate": "2024-11-12", "price": 89}], query="inn 93"),
        step("List_Rooms", {"rooms": [1]}, inn_id="93", day=day),
    ]
    record = {"id": "five", "query": "A night in inn 93 on the cheapest day around November 15th?", "gold": gold}
    assert [task.stated for task in made(tmp_path, [record], [*DOCUMENTS, prices]).tasks()] == [stated]


def test_tools_are_offered_beside_the_needed_ones_but_none_without_a_record(environment: ComplexFuncBench) -> None:
    for task in environment.tasks():
        assert set(task.tools) == {"find_place_inns", "list_rooms", "near_by", "offer", "trips"}


def test_a_document_tells_the_types_and_shows_another_task_s_response(environment: ComplexFuncBench) -> None:
    protocol = opened(environment, "three").tools["find_place_inns"].protocol
    assert [len(example.response) for example in protocol.examples] == [MAX_LIST]
    assert "inn_id: int" in render_stub(protocol)
    assert "__kind" not in render_stub(protocol)
    own = opened(environment, "one").tools["find_place_inns"].protocol
    assert not own.examples  # the only recorded search is the one that this task is about
    rooms = opened(environment, "two").tools["list_rooms"].protocol
    assert "retrieved from `find_place_inns`" in rooms.parameters["properties"]["inn_id"]["description"]


def test_without_its_data_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="complexfuncbench has no data"):
        ComplexFuncBench(tmp_path).tasks()


# With the data ------------------------------------------------------------------------------------------------------


@needs_data
def test_every_recorded_solution_answers_as_recorded_and_solves_its_task() -> None:
    environment = ComplexFuncBench(DATA)
    verdict = asyncio.run(judge(environment))
    assert (verdict.tasks, verdict.without, verdict.unsolved, verdict.taken) == (487, [], [], [])
    assert sum(task.stated for task in environment.tasks()) == 390
    for task in environment.tasks():
        assert len(task.tools) >= TOOLS
        responses = [step["response"] for step in environment.records[task.id]["gold"]]
        assert [
            environment.calls.answer(task.id, tool, made) for tool, made in environment.gold(task).calls
        ] == responses


@needs_data
def test_no_example_of_complexfuncbench_shows_a_call_of_the_solution() -> None:
    environment = ComplexFuncBench(DATA)
    for task in environment.tasks()[::10]:
        for protocol in environment.open(task).tools.protocols:
            for example in protocol.examples:
                made = (protocol.name, example.arguments)
                assert not any(environment.calls.same(wanted, made) for wanted in environment.gold(task).calls)
