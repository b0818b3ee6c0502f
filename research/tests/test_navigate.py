"""The agent of NaviAgent, to compare with: its decisions, its window, its subgraph in words, through the same gates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc import FakeModel, Toolset, UsageError
from atc.catalogue.graph.tool_graph import ToolGraph
from atc.errors import ToolError
from atc.result import Effect, Result
from atc_research.naviagent import subgraph
from atc_research.naviagent.navigate import WINDOW, Navigate
from atc_research.naviagent.subgraph import MAX_LINES, leading_to, tree_in_words
from atc_research.steps import MAX_STEPS
from benchmarks.systems import SYSTEMS
from tests.support.agent import agent
from tests.support.tools import make_tool

TEXT = {"type": "string"}


def decide(*decisions: dict[str, Any]) -> str:
    common = {"dependency_rank": 1, "intent": "the weather", "analysis": "because"}
    return json.dumps([common | decision for decision in decisions])


def retrieve(what: str, rank: int = 1) -> dict[str, Any]:
    return {"action": "retrieve_api", "recall_description": what, "dependency_rank": rank}


def call(tool: str, rank: int = 1, **params: Any) -> dict[str, Any]:
    return {"action": "call_api", "target_api": tool, "params": params, "dependency_rank": rank}


DONE = decide({"action": "direct_answer", "answer": "it is warm"})


class Weather:
    """A place by its name, and its weather by one of two services."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.down: set[str] = set()

        def place(arguments: dict[str, Any]) -> Any:
            return {"place_id": f"P-{arguments['town']}"}

        def weather(name: str) -> Any:
            def behind(arguments: dict[str, Any]) -> Any:
                self.made.append(name)
                if name in self.down:
                    raise ToolError("down", status=503, cause="unreachable")
                return {"degrees": 21, "place_id": arguments["place_id"]}

            return behind

        returned = {"type": "object", "properties": {"place_id": TEXT}, "required": ["place_id"]}
        self.tools = Toolset(
            [
                make_tool("find_place", place, required=("town",), returns=returned, town=TEXT),
                *(
                    make_tool(f"weather_{n}", weather(f"weather_{n}"), required=("place_id",), place_id=TEXT)
                    for n in "ab"
                ),
                make_tool("order_taxi", lambda _: "done", Effect.WRITE, required=("street",), street=TEXT),
                *(make_tool(f"stock_{n}", lambda _: 1) for n in range(6)),
            ]
        )

    def run(self, *replies: Any, strategy: Navigate | str = "navigate", **settings: Any) -> tuple[Result, FakeModel]:
        made = agent(*replies, strategy=strategy, tools=self.tools, **settings)
        result = made.run("the weather in Rome")
        assert isinstance(made._resources.model(), FakeModel)
        return result, made._resources.model()


@pytest.fixture(autouse=True)
def _searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is another part's: here all that supplies a target is kept."""

    def leading(graph: ToolGraph, targets: Any, search: str, have: Any = ()) -> list[str]:
        suppliers = [feed.supplier.tool for target in targets for feed in graph.feeds(target)]
        return list(dict.fromkeys([*targets, *suppliers]))

    monkeypatch.setattr("atc_research.naviagent.navigate.leading_to", leading)


def last_turn(model: FakeModel, number: int) -> str:
    return model.prompts[number][-1].content


def test_tools_are_retrieved_called_in_order_and_put_together() -> None:
    service = Weather()
    both = decide(call("weather_a", 2, place_id="P-Rome"), call("find_place", 1, town="Rome"))
    result, model = service.run(decide(retrieve("weather_a of a place")), both, DONE, '{"degrees": 21}')
    assert (result.status, result.value) == ("answered", {"degrees": 21})
    assert [made.tool for made in result.calls] == ["find_place", "weather_a"], "by dependency_rank"
    assert result.usage.model_calls == 4
    assert "(none yet: retrieve_api finds them)" in last_turn(model, 0)
    assert '"name": "weather_a"' in last_turn(model, 1)
    assert '"name": "find_place"' in last_turn(model, 1), "the graph adds what leads there"
    assert (
        "weather_a\n  - place_id: from place_id of find_place\n    find_place\n      - town: from the task"
        in last_turn(model, 1)
    )
    assert "Called with success: find_place, weather_a" in last_turn(model, 2)
    answer = last_turn(model, 3)
    assert 'weather_a({"place_id": "P-Rome"}) returned' in answer
    assert "the weather: it is warm" in answer


def test_without_the_graph_there_is_no_tree() -> None:
    _, model = Weather().run(decide(retrieve("weather_a")), DONE, "1", strategy=Navigate(graph="none"))
    assert "What leads to them" not in last_turn(model, 1)


def test_the_window_has_three_turns_and_failed_tools_stay_known() -> None:
    service = Weather()
    service.down = {"weather_a"}
    turns = [decide(retrieve("weather_a weather_b")), decide(call("weather_a", place_id="P-1"))]
    turns += [decide(call("weather_b", place_id=f"P-{n}")) for n in range(2, 6)]
    result, model = service.run(*turns, DONE, "21")
    assert (result.value, service.made[-1]) == (21, "weather_b")
    final = last_turn(model, len(turns))
    assert final.count("- decided: ") == WINDOW
    assert "failed_apis: weather_a" in final
    assert "weather_a\n  - place_id" not in final, "nothing leads to it any more"
    assert "These tools failed, so something may be missing: weather_a" in last_turn(model, len(turns) + 1)


def test_wrong_arguments_are_no_failure_of_the_tool_and_one_that_works_again_has_none() -> None:
    service = Weather()
    service.down = {"weather_a"}
    wrong = decide(call("weather_a", town="Rome"))
    down = decide(call("weather_a", place_id="P-1"))

    def up(_: Any) -> str:
        service.down = set()
        return down

    _, model = service.run(decide(retrieve("weather_a")), wrong, down, up, DONE, "1")
    assert ["failed_apis" in last_turn(model, number) for number in range(2, 5)] == [False, True, False]


def test_a_service_that_is_down_with_nothing_in_its_place_is_the_ending() -> None:
    service = Weather()
    service.down = {"weather_a"}
    again = [decide(call("weather_a", place_id="P-1"))] * (MAX_STEPS - 1)
    result, _ = service.run(decide(retrieve("weather_a")), *again)
    assert (result.status, result.usage.model_calls) == ("missing", MAX_STEPS)


def test_a_tool_that_is_no_candidate_is_not_called() -> None:
    result, model = Weather().run(decide(call("order_taxi", street="x")), DONE, "1")
    assert result.calls == ()
    assert "'order_taxi' is no candidate tool" in last_turn(model, 1)


def test_what_is_not_approved_ends_the_run_at_once() -> None:
    order = decide(call("order_taxi", street="x"))
    result, _ = Weather().run(decide(retrieve("order_taxi")), order, approve="never")
    assert (result.status, result.usage.model_calls) == ("denied", 2)


def test_a_reply_that_is_no_decision_is_a_turn() -> None:
    wrong = ["nothing", '[{"action": "fly"}]']  # asked for twice by the format
    result, model = Weather().run(*wrong, DONE, "1")
    assert (result.status, result.value) == ("answered", 1)
    assert "no decisions" in last_turn(model, 2)
    unsolved, _ = Weather().run(*(["nothing"] * 2 * MAX_STEPS))
    assert (unsolved.status, len(unsolved.revisions)) == ("unsolved", MAX_STEPS)


def test_an_answer_has_the_type_that_was_asked_for() -> None:
    assert Weather().run(DONE, '"warm"', answer="number")[0].status == "unsolved"
    assert Weather().run(DONE, "21", answer="number")[0].value == 21


def test_the_user_is_asked_only_where_that_can_be() -> None:
    clarify = decide({"action": "clarify_intent", "answer": "Which city?"})
    result, model = Weather().run(clarify, DONE, '"Rome"', ask_user=lambda question: f"Rome, not {question}")
    assert [made.value for made in result.calls] == ["Rome, not Which city?"]
    assert "clarify_intent" in model.prompts[0][0].content
    stopped, _ = Weather().run(clarify, ask_user="stop")
    assert (stopped.status, stopped.question) == ("needs_input", "Which city?")
    plain, without = Weather().run(DONE, "1")
    assert "clarify" not in without.prompts[0][0].content + without.prompts[0][1].content
    assert plain.status == "answered"


def test_what_the_paper_has_without_learning_is_in_the_ruler() -> None:
    found = {name: SYSTEMS[name]._settings["strategy"] for name in SYSTEMS if name.startswith("navigate-")}  # type: ignore[attr-defined]
    assert {name: (each.graph, each.search) for name, each in found.items()} == {
        "navigate-base": ("none", "exact"),
        "navigate-static-a": ("static", "alpha_beta"),
    }
    with pytest.raises(UsageError, match="graph is one of none, static, learnt, not 'all'"):
        Navigate(graph="all")  # type: ignore[arg-type]


# -- the subgraph ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["exact", "alpha_beta", "heuristic"])
def test_each_search_keeps_what_supplies_the_target(search: Any) -> None:
    graph = ToolGraph(Weather().tools.protocols)
    kept = subgraph.leading_to(graph, ["weather_a"], search)
    assert kept[0] == "weather_a"
    assert set(kept) <= {"weather_a", "weather_b", "find_place"}
    assert search == "alpha_beta" or "find_place" in kept
    assert kept == leading_to(graph, ["weather_a"], search), "the same each time"


def test_a_tree_ends_though_tools_supply_each_other() -> None:
    returned = {"type": "object", "properties": {"thing_id": TEXT}, "required": ["thing_id"]}
    many = [
        make_tool(f"thing_{n}", lambda _: 1, required=("thing_id",), returns=returned, thing_id=TEXT)
        for n in range(200)
    ]
    graph = ToolGraph(Toolset(many).protocols)
    names = [tool.name for tool in many]
    text = tree_in_words(graph, names, names)
    assert len(text.splitlines()) <= MAX_LINES + 1
