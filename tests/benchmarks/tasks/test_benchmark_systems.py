"""The small systems beside ATC act as their papers say, and are stopped alike."""

from __future__ import annotations

import pytest

from tests.support.fake_openai_server import serving
from tests.support.ruler import says, tried, tried_at

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

ORDER = 'Thought: order it\nAction: order\nAction Input: {"item": "pen"}'


def test_react_calls_observes_and_answers() -> None:
    with serving(says(ORDER), says("Thought: done\nFinal Answer: 7")) as server:
        row = tried_at(server, "react")
        seen = server.requests[1]["messages"][-1]["content"]
    assert (row.solved, row.programs, row.tool_calls, row.model_calls) == (True, 2, 1, 2)
    assert seen == 'Observation: {"number": 7}'


def test_what_react_says_before_it_has_seen_an_observation_is_not_kept() -> None:
    hasty = f"{ORDER}\nThought: I know the answer\nFinal Answer: 3"
    with serving(says(hasty), says("Final Answer: 7")) as server:
        row = tried_at(server, "react")
        assert server.requests[1]["messages"][-2]["content"] == ORDER
    assert row.solved


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Action: fly\nAction Input: {}", "'fly' is not one of the tools of this task"),
        ("Action: order\nAction Input: nothing", "is no JSON object"),
        ('Action: order\nAction Input: ["pen"]', "takes its arguments as a JSON object"),
        ('Action: order\nAction Input: {"item": "moon"}', "error: not for sale"),
        ("I would like to order.", "there was no Action"),
    ],
)
def test_react_is_told_what_went_wrong(said: str, told: str) -> None:
    with serving(says(said), says(ORDER), says("Final Answer: 7")) as server:
        row = tried_at(server, "react")
        assert told in server.requests[1]["messages"][-1]["content"]
    assert (row.solved, row.failed) == (True, 1)


def test_react_that_never_answers_gives_up() -> None:
    row = tried([ORDER], "react")
    assert (row.status, row.solved, row.programs) == ("unsolved", False, 10)
    assert (row.writes, row.repeated_writes) == (1, 0)  # the journal refuses what was done


def test_a_plan_is_made_once_and_its_references_are_filled_in() -> None:
    plan = '[{"tool": "order", "args": {"item": "pen"}}, {"tool": "order", "args": {"item": "n$1.number"}}]'
    with serving(says(f"```json\n{plan}\n```"), says("7")) as server:
        row = tried_at(server, "plan")
        shown = server.requests[1]["messages"][-1]["content"]
    assert (row.solved, row.model_calls, row.tool_calls) == (True, 2, 2)
    assert 'order({"item": "n7"}) returned {"number": 7}' in shown


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ("no plan", "holds no JSON list"),
        ("[1]", "no list of steps"),
        ('[{"tool": "order", "args": {"item": "moon"}}]', "step 1, order: not for sale"),
        ('[{"tool": "order", "args": {"item": "$2.number"}}]', "step 2, which has not run"),
        (
            '[{"tool": "order", "args": {"item": "pen"}}, {"tool": "order", "args": {"item": "$1.no"}}]',
            "there is no no",
        ),
    ],
)
def test_a_plan_that_fails_is_told_and_made_anew(plan: str, told: str) -> None:
    good = '[{"tool": "order", "args": {"item": "pen"}}]'
    with serving(says(plan), says(good), says("7")) as server:
        row = tried_at(server, "plan")
        assert told in server.requests[1]["messages"][-1]["content"]
    assert (row.solved, row.failed) == (True, 1)


def test_codeact_keeps_variables_from_step_to_step_and_repeats_no_call() -> None:
    steps = [
        "```python\nresponse = order(item='pen')\nprint(response)\n```",
        "```python\nprint(response['nothing'])\n```",
        "```python\nfinal_answer(response['number'])\n```",
    ]
    with serving(*map(says, steps)) as server:
        row = tried_at(server, "codeact")
        seen = [request["messages"][-1]["content"] for request in server.requests[1:]]
    assert (row.solved, row.programs, row.failed, row.tool_calls) == (True, 3, 1, 1)
    assert "{'number': 7}" in seen[0]
    assert "KeyError: 'nothing'" in seen[1]


def test_what_codeact_says_without_code_after_a_step_is_its_answer() -> None:
    row = tried(["```python\nprint(order(item='pen'))\n```", "7"], "codeact")
    assert (row.solved, row.status, row.model_calls, row.tool_calls) == (True, "answered", 2, 1)


def test_codeact_without_code_is_asked_again_and_stopped_at_its_steps() -> None:
    row = tried(["I do not know."], "codeact")
    assert (row.status, row.model_calls, row.error) == ("unsolved", 10, "no answer in 10 steps")


def test_every_system_is_sampled_alike() -> None:
    with serving(says("Final Answer: 7"), says("x")) as server:
        tried_at(server, "react")
        tried_at(server, "atc")
        asked = server.requests
    assert {request["temperature"] for request in asked} == {0.3}
    assert asked[0]["seed"] == asked[1]["seed"] == 0


def test_layered_calls_act_in_layers_and_finish() -> None:
    finish = 'Action: Finish\nAction Input: {"answer": 7}'
    with serving(says(ORDER), says(finish)) as server:
        row = tried_at(server, "layered-calls")
        asked = [request["messages"] for request in server.requests]
    assert (row.solved, row.programs, row.tool_calls, row.model_calls, row.writes) == (True, 2, 1, 2, 1)
    assert "Step 1 of 1" in asked[0][-1]["content"]
    assert 'order({"item": "pen"}) returned {"number": 7}' in asked[1][-1]["content"]
    assert tried([ORDER, 'Action: Finish\nAction Input: {"missing": "it"}'], "layered-calls-flat").status == "unsolved"


def test_dfsdt_goes_back_and_repeats_no_write() -> None:
    back = "Thought: no\nGive Up"
    with serving(
        *map(says, [ORDER, back, ORDER, 'Action: order\nAction Input: {"item": "moon"}', "Final Answer: 7"])
    ) as server:
        row = tried_at(server, "dfsdt")
    assert (row.solved, row.writes, row.repeated_writes, row.model_calls) == (True, 1, 0, 5)
    assert tried(["I do not know."], "dfsdt").status == "budget", "the ruler's own cap comes first"
