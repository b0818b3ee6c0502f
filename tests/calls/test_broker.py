"""The broker: what may be called, with what, after which yes, and how often."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import Any

import pytest

from atc.calls.approval import ApprovalRequest
from atc.errors import ToolError
from atc.result import Call, Effect
from tests.support.broker import READ, UNKNOWN, WRITE, House, counted, never
from tests.support.tools import make_tool


def test_a_call_of_the_broker_is_what_validation_would_have_made() -> None:
    seen, function = counted()
    house = House(make_tool("look", function, n={"type": "integer"}))
    assert house.call("look", n="3").error is None
    made = house.last
    assert made == Call(**dict(made)) == copy.deepcopy(made) == made.model_copy()
    assert made == Call.model_validate_json(made.model_dump_json())
    assert [*vars(made)] == [*Call.model_fields]
    assert made.model_dump(exclude_unset=True) == made.model_dump()
    assert seen == [made.arguments]
    with pytest.raises(ValueError, match="frozen"):
        made.line = 3  # type: ignore[misc]


# -- what may be called ----------------------------------------------------------------------------------------------


def test_only_granted_tools_are_called() -> None:
    house = House(make_tool("look", never), make_tool("shown", None))
    assert "'other' is not one of the tools" in str(house.call("other").error)
    assert "has no transport" in str(house.call("shown").error)
    assert [call.status for call in house.broker.calls] == ["refused", "refused"]
    assert house.last.error_status == "not_granted"
    assert house.broker.made == 0


@pytest.mark.parametrize(
    ("given", "sent", "note"),
    [
        ({"n": 1, "extra": 2}, {"n": 1}, "dropped unknown argument extra"),
        ({"n": "3"}, {"n": 3}, 'took "3" as 3 for n'),
        ({"n": 3.0}, {"n": 3}, "took 3.0 as 3 for n"),
        ({"n": 1, "flag": "True"}, {"n": 1, "flag": True}, 'took "True" as true for flag'),
        ({"n": 1, "word": 5}, {"n": 1, "word": "5"}, 'took 5 as "5" for word'),
        ({"n": 1, "many": "a"}, {"n": 1, "many": ["a"]}, 'took "a" as ["a"] for many'),
        ({"n": 1, "word": None}, {"n": 1}, "left out word, which was null"),
    ],
)
def test_safe_repairs_are_made_and_noted(given: dict[str, Any], sent: dict[str, Any], note: str) -> None:
    seen, function = counted()
    types = {"n": "integer", "flag": "boolean", "word": "string"}
    properties: Any = {name: {"type": kind} for name, kind in types.items()} | {
        "many": {"type": "array", "items": {"type": "string"}}
    }
    house = House(make_tool("look", function, required=("n",), **properties))
    assert house.call("look", **given).error is None
    assert seen == [sent]
    assert house.last.notes == (note,)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, '"n" is a required property'),
        ({"n": "a few"}, '"a few" is not of type "integer"'),
        ({"n": "NaN"}, 'is not of type "integer"'),
        ({"n": True}, 'true is not of type "integer"'),
        ({"n": 1, "unit": "furlong"}, "$.unit"),
        ({"n": 11}, "11 is greater than the maximum of 10"),
    ],
)
def test_wrong_arguments_are_refused_before_the_tool_sees_them(given: dict[str, Any], words: str) -> None:
    house = House(
        make_tool("look", never, required=("n",), n={"type": "integer", "maximum": 10}, unit={"enum": ["km", "mi"]})
    )
    assert words in str(house.call("look", **given).error)
    assert (house.last.status, house.last.error_status) == ("refused", "invalid_arguments")


def test_arguments_without_one_meaning_are_refused() -> None:
    house = House(make_tool("look", never, any={}))
    reply = house.call("look", any={"é": 1, "e\u0301": 2})
    assert reply.status == "invalid_arguments"
    assert "the same text in different Unicode forms" in str(reply.error)


# -- approval --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [(True, True), (False, False), (None, False), (1, False), ("yes", False), (RuntimeError("no terminal"), False)],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_only_a_plain_yes_lets_an_effect_happen(answer: Any, allowed: bool, asynchronous: bool) -> None:
    def say(request: ApprovalRequest) -> Any:
        assert (request.tool, request.arguments, request.effect, request.description) == (
            "book",
            {"n": 1},
            WRITE,
            "book it.",
        )
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def say_later(request: ApprovalRequest) -> Any:
        await asyncio.sleep(0)
        return say(request)

    seen, function = counted()
    house = House(make_tool("book", function, WRITE), approve=say_later if asynchronous else say)
    reply = house.call("book", n=1)
    assert (reply.error is None, len(seen)) == (allowed, int(allowed))
    if not allowed:
        assert (house.last.status, reply.status) == ("refused", "denied")
        assert house.journal.entries == {}


def test_what_may_have_an_effect_is_asked_about_and_a_read_is_not() -> None:
    asked: list[str] = []
    tools = [make_tool(effect.value + "_it", lambda _: 1, effect) for effect in Effect]
    house = House(*tools, approve=lambda request: asked.append(request.tool) or True)
    for tool in tools:
        assert house.call(tool.name, n=1).value == 1
    assert asked == ["write_it", "unknown_it"]


def test_a_no_is_remembered_and_questions_come_one_at_a_time() -> None:
    asked, at_once = [], []

    async def no(request: ApprovalRequest) -> bool:
        asked.append(request.arguments)
        at_once.append(1)
        await asyncio.sleep(0.01)
        at_once.pop()
        assert not at_once
        return False

    house = House(make_tool("book", never, WRITE), approve=no)

    async def go() -> None:
        await asyncio.gather(house.acall("book", n=1), house.acall("book", n=1), house.acall("book", n=2))

    asyncio.run(go())
    assert asked == [{"n": 1}, {"n": 2}]
    assert {call.error_status for call in house.broker.calls} == {"denied"}


def test_a_replay_needs_no_approval() -> None:
    asked: list[Any] = []
    house = House(make_tool("book", lambda _: 7, WRITE), approve=lambda request: asked.append(request) or True)
    house.call("book", n=1)
    house.journal.begin_attempt()
    assert house.call("book", n=1).value == 7
    assert (house.last.status, len(asked)) == ("replayed", 1)


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_run_has_so_many_calls_and_replays_are_free() -> None:
    seen, function = counted()
    house = House(make_tool("look", function), max_calls=3)
    for n in range(3):
        house.call("look", n=n)
    reply = house.call("look", n=9)
    assert (reply.status, len(seen)) == ("too_many_calls", 3)
    assert "3 tool calls" in str(reply.error)
    house.journal.begin_attempt()
    assert [house.call("look", n=n).error for n in range(3)] == [None] * 3
    assert len(seen) == 3


@pytest.mark.parametrize(("most", "few"), [(10, 1), (30, 3), (300, 20), (9, 0)])
def test_one_call_says_that_few_are_left(most: int, few: int) -> None:
    house = House(make_tool("look", lambda arguments: arguments["n"]), max_calls=most)
    for n in range(most + 1):
        house.call("look", n=n)
    noted = [(call.index, call.notes) for call in house.broker.calls if call.notes]
    assert [number for number, _ in noted] == [most - few] * (few > 0)
    assert all(f"{few} of this run's {most} calls " in notes[0] for _, notes in noted)


@pytest.mark.parametrize(("effect", "status"), [(READ, "failed"), (WRITE, "in_doubt"), (UNKNOWN, "in_doubt")])
def test_a_call_takes_no_longer_than_it_may(effect: Effect, status: str) -> None:
    house = House(make_tool("slow", lambda _: asyncio.sleep(30), effect), call_timeout_s=0.05)
    reply = house.call("slow", n=1)
    assert (reply.error, reply.status) == ("no answer within 0.05 s", "timeout")
    assert house.last.status == status
    assert 0.04 < house.last.seconds < 25


@pytest.mark.parametrize(("effect", "tries"), [(READ, 3), (WRITE, 1), (UNKNOWN, 1)])
def test_only_reads_are_tried_again(effect: Effect, tries: int) -> None:
    seen, function = counted(ToolError("busy", status=503, transient=True))
    house = House(make_tool("look", function, effect))
    reply = house.call("look", n=1)
    assert (reply.error, reply.status, len(seen)) == ("busy", 503, tries)
    assert len(house.last.notes) == tries - 1


def test_a_read_that_recovers_succeeds() -> None:
    answers = iter([ToolError("busy", transient=True), 5])

    def function(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    house = House(make_tool("look", function))
    assert house.call("look", n=1).value == 5
    assert house.last.notes == ("tried again after a passing failure (2)",)


def test_a_lasting_failure_is_not_tried_again() -> None:
    seen, function = counted(ToolError("no such thing", status=404))
    House(make_tool("look", function)).call("look", n=1)
    assert len(seen) == 1


def test_the_pause_that_a_service_asks_for_is_kept() -> None:
    seen, function = counted(ToolError("busy", transient=True, retry_after=0.05))
    began = time.perf_counter()
    House(make_tool("look", function)).call("look", n=1)
    assert len(seen) == 3
    assert 0.1 <= time.perf_counter() - began < 30


def test_a_pause_longer_than_the_call_may_take_is_not_waited_for() -> None:
    seen, function = counted(ToolError("come back tomorrow", status=429, transient=True, retry_after=86_400))
    house = House(make_tool("look", function))
    began = time.perf_counter()
    assert house.call("look", n=1).error == "come back tomorrow (it asks to wait 86,400 s)"
    assert len(seen) == 1
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("retry_after", [-1.0, float("nan"), float("inf"), "soon"])
def test_an_odd_pause_is_not_believed(retry_after: Any) -> None:
    seen, function = counted(ToolError("busy", transient=True, retry_after=retry_after))
    assert House(make_tool("look", function)).call("look", n=1).error == "busy"
    assert len(seen) == 3
