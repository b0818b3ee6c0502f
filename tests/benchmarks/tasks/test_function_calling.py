"""Plain function calling in the ruler: the loop that any application writes, before a scripted endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import ANSWER_FORM
from benchmarks.tasks.gateway import Caps
from tests.support.fake_openai_server import answers
from tests.support.gateway import World, replies, solved

pytestmark = pytest.mark.slow  # the ruler's own tests, not the product's

SYSTEM = SYSTEMS["function-calling"]
ROME: tuple[str, dict[str, Any]] = ("weather", {"city": "Rome"})
NOWHERE: tuple[str, dict[str, Any]] = ("weather", {"city": "Nowhere"})
ROUTE: tuple[str, dict[str, Any]] = ("route", {"from_": "a", "to": "b"})


def test_all_calls_of_a_reply_are_made_in_order_and_answered() -> None:
    def see(world: World) -> None:
        assert world.calls == [NOWHERE, ROME, ("route", {"from": "a", "to": "b"})]
        first, second = world.requests
        assert [message["role"] for message in first["messages"]] == ["system", "user"]
        assert first["messages"][1]["content"].startswith("How warm is Rome?")
        assert ANSWER_FORM in first["messages"][1]["content"]
        asked, *told = second["messages"][2:]
        assert [call["id"] for call in asked["tool_calls"]] == ["call-0", "call-1", "call-2"]
        assert [message["tool_call_id"] for message in told] == ["call-0", "call-1", "call-2"]
        assert [json.loads(message["content"]) for message in told] == [
            {"error": "there is no city Nowhere"},
            {"city": "Rome", "degrees": 21},
            ["a", "b"],
        ]
        assert (world.spent.model_calls, world.spent.prompt_tokens, world.spent.completion_tokens) == (2, 22, 14)
        assert world.spent.tool_s > 0

    answer = solved(SYSTEM, replies(None, [NOWHERE, ROME, ROUTE]), replies("21"), see=see)
    assert (answer.ended, answer.value, answer.programs, answer.failed) == ("answered", 21, 2, 1)


def test_the_endpoint_gets_the_tools_as_schemas_with_what_they_return() -> None:
    def see(world: World) -> None:
        tools = {tool["function"]["name"]: tool["function"] for tool in world.requests[0]["tools"]}
        assert {tool["type"] for tool in world.requests[0]["tools"]} == {"function"}
        assert tools["weather"]["parameters"]["properties"]["city"]["description"] == "Which city."
        assert tools["weather"]["parameters"]["required"] == ["city"]
        described, _, returns = tools["weather"]["description"].partition("\n\nReturn schema:\n")
        assert "weather" in described
        assert json.loads(returns)["properties"]["degrees"] == {"type": "integer"}
        assert set(tools["route"]["parameters"]["properties"]) == {"from_", "to", "via"}

    solved(SYSTEM, replies("21"), see=see)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fly", "{}", "there is no function 'fly'"),
        ("../v1/models", "{}", "there is no function '../v1/models'"),
        ("weather", "{city", "the arguments are not JSON"),
        ("weather", "[1]", "the arguments are no JSON object"),
    ],
)
def test_what_is_no_call_is_told_as_its_result(name: str, arguments: str, told: str) -> None:
    def see(world: World) -> None:
        assert told in json.loads(world.requests[1]["messages"][-1]["content"])["error"]
        assert world.calls == []

    call = {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    wrong = answers(200, json.dumps({"choices": [{"index": 0, "message": message}]}).encode())
    answer = solved(SYSTEM, wrong, replies("21"), see=see)
    assert (answer.ended, answer.value, answer.failed) == ("answered", 21, 1)


def test_what_a_provider_adds_to_a_message_is_sent_back_to_it() -> None:
    def see(world: World) -> None:
        assert world.requests[1]["messages"][2]["reasoning_content"] == "hm"
        assert "refusal" not in world.requests[1]["messages"][2]

    function = {"name": "weather", "arguments": '{"city": "Rome"}'}
    message = {
        "role": "assistant", "content": None, "refusal": None, "reasoning_content": "hm",
        "tool_calls": [{"id": "x", "type": "function", "function": function}],
    }  # fmt: skip
    thought = answers(200, json.dumps({"choices": [{"index": 0, "message": message}]}).encode())
    assert solved(SYSTEM, thought, replies("21"), see=see).value == 21


def test_a_loop_without_an_answer_ends_with_its_replies() -> None:
    def see(world: World) -> None:
        assert world.spent.model_calls == len(world.calls) == 3
        assert world.spent.over == ""

    answer = solved(SYSTEM, replies(None, [ROME]), caps=Caps(model_calls=3), see=see)
    assert (answer.ended, answer.programs) == ("unsolved", 3)
    assert "Rome" in answer.program


def test_a_try_over_its_tokens_ends_with_the_budget() -> None:
    answer = solved(SYSTEM, replies(None, [ROME]), caps=Caps(tokens=30))
    assert (answer.ended, answer.programs) == ("budget", 2)
    assert "its 30 tokens are used up" in answer.error


def test_a_reply_without_a_word_is_no_answer_and_a_refusal_is_told() -> None:
    assert solved(SYSTEM, replies("")).ended == "unsolved"
    assert solved(SYSTEM, answers(200, b"{}")).ended == "unsolved"
    refused = solved(SYSTEM, answers(400, b'{"error": {"message": "too long"}}'))
    assert (refused.ended, "too long" in refused.error) == ("crash", True)


def test_its_version_is_a_digest_of_its_sources() -> None:
    assert len(asyncio.run(SYSTEM.version())) == 12
