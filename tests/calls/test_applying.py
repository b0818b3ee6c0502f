"""Whatever a program calls under a plan, what is sent is a beginning of the plan."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.redaction import Redactor
from atc._records.records import PlannedCall
from atc.calls import applying
from atc.calls.applying import Applying
from atc.calls.approval import Approval
from atc.calls.broker import Broker
from atc.calls.contract import CallReply, CallRequest
from atc.calls.entry import call_key
from atc.calls.forms import NOTHING, filled, read_form
from atc.calls.journal import Journal
from atc.calls.parked import Decision, parts_of
from atc.calls.plans import KeptCall, Plan, digest
from atc.errors import ToolError
from atc.result import Effect
from atc.tools.tool import Toolset
from tests.support.tools import make_tool

CALLS = st.lists(st.tuples(st.sampled_from(["buy", "mail", "look"]), st.integers(0, 2)), max_size=6)


class Applied:
    """A broker that applies a plan, and what its tools were sent."""

    def __init__(self, planned: list[tuple[str, int]], fails_at: int | None = None) -> None:
        self.sent: list[tuple[str, int]] = []

        async def buy(arguments: dict[str, Any], name: str = "buy") -> Any:
            await asyncio.sleep(0)
            self.sent.append((name, arguments["n"]))
            if len(self.sent) - 1 == fails_at:
                raise ToolError("no", outcome="refused")
            return {"id": arguments["n"]}

        async def mail(arguments: dict[str, Any]) -> Any:
            return await buy(arguments, "mail")

        tools = Toolset(
            [
                make_tool("buy", buy, Effect.WRITE, n={}),
                make_tool("mail", mail, Effect.UNKNOWN, n={}),
                make_tool("look", lambda given: given, n={}),
            ]
        )
        calls = [_kept(at, tools, *call) for at, call in enumerate(planned, start=1)]
        yes = Decision(True, "ann", time.time())
        self.applying = Applying(Plan("", "", time.time(), tuple(calls)), yes, Redactor((), {}))
        self.broker = Broker(
            tools=tools,
            journal=Journal(),
            emit=lambda kind, data: None,
            approval=Approval("never"),
            applying=self.applying,
        )
        self.broker.begin_program()

    async def call(self, number: int, tool: str, n: Any) -> CallReply:
        return await self.broker.call(CallRequest(number, tool, {"n": n}, 1))


def _kept(number: int, tools: Toolset, tool: str, n: int) -> KeptCall:
    effect = tools[tool].protocol.effect
    shown = PlannedCall(index=number, tool=tool, effect=effect.value, arguments={"n": n})
    known = {"n": digest(n)}
    key = call_key(tool, {"n": n}, tools.source_keys.get(tool))
    return KeptCall(number, key, parts_of(tools[tool], ""), effect, known, {}, shown)


def writes(calls: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [call for call in calls if call[0] != "look"]


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "OUT_OF_TURN_S", 0.01)


@given(planned=CALLS, made=CALLS, fails_at=st.none() | st.integers(0, 4))
def test_one_after_the_other(planned: list[Any], made: list[Any], fails_at: int | None) -> None:
    plan = writes(planned)
    house = Applied(plan, fails_at)

    async def run() -> list[CallReply]:
        return [await house.call(number, *call) for number, call in enumerate(made, start=1)]

    replies = asyncio.run(run())
    same = 0
    for wanted, asked in zip(plan, writes(made), strict=False):
        if wanted != asked or fails_at == same - 1:
            break
        same += 1
    assert house.sent == plan[:same]
    assert all(reply.error is None for reply, call in zip(replies, made, strict=True) if call[0] == "look")
    left = plan[same - (fails_at is not None and fails_at == same - 1) :]
    assert [(call.tool, call.arguments["n"]) for call in house.applying.left()] == left
    ends = [reply.ends for reply, call in zip(replies, made, strict=True) if call[0] != "look"]
    assert ends == sorted(ends)  # once one ends the program, all do


@given(planned=CALLS, data=st.data(), fails_at=st.none() | st.integers(0, 4))
def test_all_at_once_in_any_order(planned: list[Any], data: st.DataObject, fails_at: int | None) -> None:
    plan = writes(planned)
    made = data.draw(st.permutations(plan))
    house = Applied(plan, fails_at)

    async def run() -> None:
        await asyncio.gather(*(house.call(number, *call) for number, call in enumerate(made, start=1)))

    asyncio.run(run())
    assert house.sent == plan[: len(plan) if fails_at is None else fails_at + 1]


# -- how an argument is made of what planned calls answer --------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ({"hole": [1, ["id"]]}, 7),
        ({"hole": [1, ["ids", 1]]}, "b"),
        ({"hole": [1, ["ids", -1]]}, "b"),
        ({"text": [{"value": "id "}, {"hole": [1, ["id"]]}, {"text": [{"hole": [1, ["none"]]}]}]}, "id 7None"),
        ({"list": [{"hole": [1, ["id"]]}, {"value": {"hole": [1, []]}}]}, [7, {"hole": [1, []]}]),
        ({"object": {"a": {"hole": [2, []]}}}, {"a": "text"}),
        ({"hole": [1, ["no"]]}, NOTHING),
        ({"hole": [1, ["ids", 2]]}, NOTHING),
        ({"hole": [1, [0]]}, NOTHING),
        ({"hole": [2, [0]]}, NOTHING),
        ({"hole": [3, []]}, NOTHING),
        ({"text": [{"hole": [1, []]}]}, NOTHING),
        ({"list": [{"hole": [3, []]}]}, NOTHING),
    ],
)
def test_a_form_is_filled(form: Any, value: Any) -> None:
    answers = {1: {"id": 7, "ids": ["a", "b"], "none": None}, 2: "text"}
    assert read_form(form, lambda number: number) == form
    found = filled(form, answers)
    assert found is NOTHING if value is NOTHING else found == value


DEEP: Any = {"value": 1}
for _ in range(200):
    DEEP = {"list": [DEEP]}


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"hole": [0, []]},
        {"hole": [True, []]},
        {"hole": [1, [None]]},
        {"hole": [1, ["a"] * 13]},
        {"hole": [1]},
        {"hole": 1},
        {"value": 1, "hole": [1, []]},
        {"text": [{"value": 1}]},
        {"text": [{"list": []}]},
        {"list": [{"other": 1}]},
        {"object": {"a": None}},
        {"object": []},
        DEEP,
    ],
)
def test_what_is_no_form_is_none(raw: Any) -> None:
    assert read_form(raw, lambda number: number) is None
