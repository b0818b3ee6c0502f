"""The environments of the ruler judge rightly: their own solutions pass, and nothing else does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ToolError
from atc.result import Effect
from benchmarks.environments import Episode, Task
from benchmarks.environments.atlas import AtlasEnvironment
from benchmarks.environments.base import calculate
from benchmarks.environments.comptoolbench import COMPUTED, CompToolBench, Record, answer, compute, stated
from benchmarks.environments.comptoolbench_answers import solved
from benchmarks.environments.m3tooleval import Browser, M3ToolEval, Travel, right

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

DATA = Path(os.environ["ATC_DATA"]) if os.environ.get("ATC_DATA") else None
needs_data = pytest.mark.skipif(
    DATA is None, reason="ATC_DATA names no data directory: this data is not in the repository"
)


def call(episode: Episode, tool: str, arguments: dict[str, Any]) -> Any:
    transport = episode.tools[tool].transport
    assert transport is not None
    return asyncio.run(transport(dict(arguments)))  # type: ignore[arg-type]


# Atlas ---------------------------------------------------------------------------------------------------


def replayed(environment: AtlasEnvironment, task: Task) -> Episode:
    """An episode in which the calls of the reference program were made."""
    episode = environment.open(task)
    for made_call in environment._reference(environment._tasks[task.id]).calls:
        call(episode, made_call.tool, made_call.arguments)
    return episode


def test_atlas_takes_every_reference_solution_and_no_other_answer() -> None:
    environment = AtlasEnvironment()
    for task in environment.tasks():
        episode = replayed(environment, task)
        expected = environment._reference(environment._tasks[task.id]).value
        assert episode.check(expected), task.id
        assert not any(episode.check(wrong) for wrong in (None, "no such place", -1234.5, {"a": 1}, ["x"])), task.id
        assert episode.repeated_writes == 0
        assert len(episode.calls) >= 1


def test_atlas_looks_at_the_trips_beside_the_answer() -> None:
    environment = AtlasEnvironment()
    task = next(task for task in environment.tasks() if environment._tasks[task.id].writes)
    expected = environment._reference(environment._tasks[task.id]).value
    assert not environment.open(task).check(expected)
    twice = replayed(environment, task)
    write = next(made for made in twice.calls if made.effect is Effect.WRITE)
    call(twice, write.tool, write.arguments)
    assert not twice.check(expected)
    assert twice.repeated_writes == 1


STEP = {"id": "s1", "tool": "get_exchange_rate", "args": {"from_currency": "EUR", "amount": 2}, "output": {}}
RATE = {**STEP, "output": {"from_currency": "EUR", "rate": 1.5, "amount": 2.0, "converted_amount": 3.0}}
ECHO = {"id": "s1", "tool": "shout", "args": {"text": "hey"}, "output": {"text": "hey", "loud": "HEY!"}}


def one_step(step: dict[str, Any]) -> dict[str, Any]:
    return {"gold": [step], "final_step": "s1", "expected": step["output"]}


def test_comptoolbench_takes_the_output_its_news_or_the_value_that_was_asked_for() -> None:
    rate, echo = one_step(RATE), one_step(ECHO)
    assert all(
        solved(rate, value)
        for value in (RATE["output"], 3.0, "3.00", {"value": 3}, {"rate": 1.5, "converted_amount": 3})
    )
    assert not any(solved(rate, value) for value in (1.5, 2.0, {"rate": 1.5}, {"converted_amount": 4}, None, [], {}))
    assert all(solved(echo, value) for value in (ECHO["output"], "HEY!", {"loud": "HEY!"}, {"answer": "HEY!"}))
    assert not any(
        solved(echo, value) for value in ("hey", {"text": "hey"}, {"loud": "hey"}, {"loud": "HEY!", "more": 1})
    )


def test_comptoolbench_takes_one_part_for_each_parallel_step_in_their_order() -> None:
    other = {**RATE, "id": "s2", "output": {**RATE["output"], "rate": 5, "converted_amount": 10.0}}
    task = {"gold": [RATE, other], "final_step": "s1", "expected": {"A": RATE["output"], "B": other["output"]}}
    assert all(
        solved(task, value) for value in (task["expected"], [3, 10], {"USD": 3, "PLN": 10}, [RATE["output"], 10])
    )
    assert not any(solved(task, value) for value in ([10, 3], [3], 3, [3, 10, 10], {"A": 3}))


def test_comptoolbench_takes_the_one_that_was_to_be_picked_and_no_rival_beside_it() -> None:
    steps = [
        {"id": name, "tool": "get_weather", "args": {"city": name}, "output": {"city": name, "degrees": degrees}}
        for name, degrees in (("Oslo", 4), ("Rome", 20))
    ]
    task = {"gold": steps, "final_step": "Rome", "expected": {"warmest": "Rome", "temperature": 20}}
    assert all(solved(task, value) for value in ("Rome", {"city": "Rome", "degrees": 20}, ["Rome", 20], "It is Rome"))
    assert not any(
        solved(task, value) for value in ("Oslo", ["Rome", "Oslo"], {"Rome": 4}, {"city": "Rome", "degrees": 4}, 20)
    )


def test_comptoolbench_knows_a_task_that_does_not_say_enough() -> None:
    tools = {name: {"parameters": {"properties": {}}} for name in ("shout", "send_email")}
    assert stated({"query": "Shout 'hey'.", "gold": [ECHO]}, tools)
    assert not stated({"query": "Shout something.", "gold": [ECHO]}, tools)
    mail = {"tool": "send_email", "args": {"body": "HEY!"}, "output": {}}
    assert not stated({"query": "Shout 'hey' and send it.", "gold": [ECHO, mail]}, tools)


def recorded(tool: str, arguments: dict[str, Any], output: Any, **descriptions: str) -> Record:
    properties = {name: {"description": text} for name, text in descriptions.items()}
    record = Record({tool: {"parameters": {"properties": properties}}})
    record.add(tool, arguments, output)
    return record


def test_comptoolbench_answers_from_the_record_whatever_the_order_of_arguments_or_a_default() -> None:
    record = recorded("find", {"a": 1, "b": "x"}, {"found": 1}, n="how many (default 5)")
    assert answer(record, "find", {"b": "x", "a": 1.0, "n": 5}) == {"found": 1}
    with pytest.raises(ToolError, match="no data for these arguments") as caught:
        answer(record, "find", {"a": 2, "b": "x"})
    assert caught.value.outcome == "refused"


def test_comptoolbench_confirms_any_write_under_an_identifier_of_its_own() -> None:
    sent = {"message_id": "msg_1", "to": "a@b.example", "note": "sent to a@b.example", "cc": None}
    record = recorded("send_email", {"to": "a@b.example", "body": "old"}, sent)
    got = answer(record, "send_email", {"to": "c@d.example", "body": "new"})
    assert (got["to"], got["note"], got["cc"]) == ("c@d.example", "sent to c@d.example", None)
    assert got["message_id"].startswith("msg_")
    assert got["message_id"] != "msg_1"


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 + (3 * 4)", 14), ("10/4", 2.5), ("2^3", 8), ("-sqrt(16)", -4.0), ("max(1, 7)", 7), ("7 % 4", 3)],
)
def test_the_calculator_computes(text: str, value: float) -> None:
    assert calculate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "(1).real",
        "9**9**9**9",
        "'a' * 3",
        "1/0",
        "x",
        "1 if 1 else 2",
        "",
        "[1]",
        "True + 1",
        "(" * 500,
    ],
)
def test_the_calculator_computes_nothing_but_bounded_arithmetic(text: str) -> None:
    with pytest.raises(ToolError, match="cannot evaluate"):
        calculate(text)


def test_m3tooleval_compares_with_a_tolerance_and_takes_a_sole_item_for_itself() -> None:
    assert all(right(value, 82.93) for value in (82.93, "82.93", "$82.93", [82.93], {"price": 82.93}))
    assert not any(right(value, 82.93) for value in (83.93, None, [82.93, 1], "", True))
    assert right(["A", 3], ["A", 3])
    assert not right("A", ["A", 3])
    assert right("engineering", "Engineering")


def test_m3tooleval_browses_a_site_a_window_at_a_time() -> None:
    page = "\n".join(f"line {n}" for n in range(6)) + " [Clickable '/a']"
    browser = Browser({"/": page, "/a": "the end", "/hidden": "unlinked"})
    assert "[Viewing page 1 of 2]" in browser.view()
    use: dict[str, Callable[..., Any]] = browser.functions()
    assert "line 5" in use["scroll_down"]()
    assert use["scroll_down"]() == browser.view()
    assert use["click_url"]("/a").startswith("[Opened page: /a]\n")
    assert "[Web Page Name: /]\n[Viewing page 1 of 2]" in use["go_to_previous_page"]()
    assert use["click_url"]("/nowhere") == "[URL not found.]"
    assert "unlinked" not in browser.linked_text()


def test_m3tooleval_finds_hotels_that_have_all_that_is_wanted() -> None:
    hotels = [{"location": '"A"', "preferences": wanted} for wanted in (["wifi"], ["wifi", "pool"])]
    travel = Travel({"flights": [], "hotels": hotels})
    assert travel.book_hotel("A", "pool", "wifi") == hotels[1:]
    assert travel.find_flights("A", "B", "2026-01-01") == []
    with pytest.raises(ValueError, match=r"Destination \[Z\] is not supported"):
        travel.find_flights("A", "Z", "2026-01-01")


# With the data ------------------------------------------------------------------------------------------------------


@needs_data
def test_every_recorded_solution_of_comptoolbench_runs_and_passes() -> None:
    environment = CompToolBench(DATA)
    wrong = (None, "", [], {}, -12345.678, "no idea", {"x": 1}, [1, 2, 3], [None] * 3)
    for task in environment.tasks():
        own, episode = environment.records[task.id], environment.open(task)
        outputs = {step["id"]: call(episode, step["tool"], step["args"]) for step in own["gold"]}
        assert outputs == {step["id"]: step["output"] for step in own["gold"]}
        assert episode.check(own["expected"]), task.id
        assert task.id.startswith("L2") or episode.check(outputs[own["final_step"]]), task.id
        assert not any(episode.check(value) for value in wrong), task.id
        others = [other["expected"] for other in environment.records.values() if other["expected"] != own["expected"]]
        assert not any(episode.check(value) for value in others), task.id
        assert episode.repeated_writes == 0


@needs_data
def test_what_comptoolbench_computes_is_what_was_recorded() -> None:
    steps = [step for record in CompToolBench(DATA).records.values() for step in record["gold"]]
    held = [step for step in steps if step["tool"] in COMPUTED]
    assert {step["tool"] for step in held} == COMPUTED.keys()
    assert [(step["tool"], compute(step["tool"], step["args"])) for step in held] == [
        (s["tool"], s["output"]) for s in held
    ]


@needs_data
def test_no_example_of_comptoolbench_gives_a_part_of_the_solution_away() -> None:
    environment = CompToolBench(DATA)
    for task in environment.tasks():
        outputs = [step["output"] for step in environment.records[task.id]["gold"]]
        examples = [example for known in environment.open(task).tools.protocols for example in known.examples]
        assert not [example for example in examples if example.response in outputs], task.id


@needs_data
def test_the_tools_of_m3tooleval_compute_what_was_recorded() -> None:
    environment = M3ToolEval(DATA)
    domains: dict[str, dict[str, Any]] = {}
    for example in environment._data.document("io_examples.json.gz"):
        functions = domains.setdefault(example["domain"], environment.functions(example["domain"]))
        if "error" in example:
            with pytest.raises(ValueError) as caught:
                functions[example["tool"]](*example["args"])
            assert repr(caught.value) == example["error"]
        else:
            assert functions[example["tool"]](*example["args"]) == example["output"], example["tool"]
    assert len(domains) == 5


@needs_data
def test_every_task_of_m3tooleval_takes_its_expected_answer_and_no_other() -> None:
    environment = M3ToolEval(DATA)
    assert len(environment.tasks()) == 36
    for task in environment.tasks():
        episode, expected = environment.open(task), environment._read()[task.id]["expected"]
        assert set(episode.tools) == set(task.tools)
        assert episode.check(expected), task.id
        assert not any(episode.check(value) for value in (None, "no", -1, [], {}, [1, 2, 3], "XXXXX")), task.id
