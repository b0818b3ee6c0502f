"""Arguments that no rule puts right: the model is asked, within bounds, and no effect happens twice for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from atc.calls.repairer import Complaint
from atc.result import Effect
from tests.support.broker import READ, WRITE, House, counted, never
from tests.support.tools import make_tool

DATE = {"type": "string", "pattern": r"^\d{4}$"}
UNIT = {"enum": ["celsius", "fahrenheit"]}


class Script:
    """A repairer that gives what it was told to, in order, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    async def __call__(self, complaint: Complaint) -> Mapping[str, Any] | None:
        self.asked.append(complaint)
        await asyncio.sleep(0)
        answer: Mapping[str, Any] | None = self.answers.pop(0)
        return answer


def house_of(script: Script, *tools: Any, **policy: Any) -> House:
    house = House(*tools, **policy)
    house.broker.repairs.repairer = script
    return house


def weather(function: Any, effect: Effect = READ) -> Any:
    return make_tool("weather", function, effect, required=("year",), year=DATE, unit=UNIT)


def test_what_no_rule_repairs_the_model_does_and_the_call_says_so() -> None:
    seen, function = counted()
    script = Script({"year": "2000", "unit": "celsius"})
    house = house_of(script, weather(function))
    assert house.call("weather", year="2000-2019", unit="celsius").value == "ok"
    assert seen == [{"year": "2000", "unit": "celsius"}]
    call = house.last
    assert (call.arguments, call.original) == (seen[0], {"year": "2000-2019", "unit": "celsius"})
    (repair,) = call.repairs
    assert (repair.kind, repair.path, repair.given, repair.sent) == ("model", ("year",), "2000-2019", "2000")
    (complaint,) = script.asked
    assert (complaint.by, complaint.protocol.name) == ("gate", "weather")
    assert "2000-2019" in complaint.reason
    entry = house.journal.entries[1]
    assert (entry.arguments, entry.original, entry.repaired_for) == (seen[0], call.original, "gate")


def test_the_clock_of_the_program_stands_still_meanwhile() -> None:
    house = House(weather(lambda _: 1))
    stopped = []

    async def asks(complaint: Complaint) -> dict[str, Any]:
        stopped.append(house.broker.clock.stopped)
        return {"year": "2000"}

    house.broker.repairs.repairer = asks
    assert house.call("weather", year="2000-2019").value == 1
    assert (stopped, house.broker.clock.stopped) == ([True], False)


@pytest.mark.parametrize(
    "said",
    [
        None,
        "2000",
        [],
        {},
        {"year": "2000-2019"},
        {"year": 2000},
        {"year": "1999"},  # stands nowhere
        {"year": "2000", "unit": "kelvin"},
        {"year": "2000", "city": "Rome"},
        {"year": "2000", "__proto__": {"admin": True}},
        {"year": "2000", 5: 1},
        {"year": float("nan")},
        {"year": "2000", "unit": float("inf")},
        {"amount": 1, "to": "mallory"},
        {"year": "2000" * 300_000},
        {"year": b"2000"},
        {"year": "2000\ud800"},
    ],
)
def test_what_the_model_may_not_say_is_refused_as_it_was(said: Any) -> None:
    house = house_of(Script(said), weather(never))
    reply = house.call("weather", year="2000-2019")
    assert (reply.status, house.last.status) == ("invalid_arguments", "refused")
    assert "2000-2019" in str(reply.error)
    assert (house.last.repairs, house.last.original, house.journal.entries) == ((), None, {})


@pytest.mark.parametrize(
    "given",
    [
        {"year": "x" * 1_000_000},
        {"year": float("nan")},
        {"year": b"2000"},
        {"year": ["2000"] * 2000},
        {"é": 1, "e\u0301": 2},
    ],
)
def test_what_cannot_be_shown_is_not_asked_about(given: dict[str, Any]) -> None:
    script = Script()
    house = house_of(script, weather(never))
    assert house.call("weather", **given).status == "invalid_arguments"
    assert script.asked == []


def test_a_credential_is_not_shown_to_a_model() -> None:
    script = Script()
    house = House(weather(never), secrets=("s3cret-word",))
    house.broker.repairs.repairer = script
    assert house.call("weather", year="s3cret-word").status == "invalid_arguments"
    assert script.asked == []


def test_the_model_is_asked_a_few_times_a_run_and_failures_count() -> None:
    script = Script(None, {"year": "1"}, {"year": "2002"})
    house = house_of(script, weather(lambda arguments: arguments["year"]), repairs=3)
    for year in ("2000 or so", "2001 or so", "2002 or so", "2003 or so"):
        house.call("weather", year=year)
    assert [call.status for call in house.broker.calls] == ["refused", "refused", "ok", "refused"]
    assert (len(script.asked), house.broker.repairs.asked) == (3, 3)


@pytest.mark.parametrize("off", [{"repairs": 0}, {"max_calls": 0}])
def test_the_model_is_not_asked(off: dict[str, Any]) -> None:
    script = Script()
    assert house_of(script, weather(never), **off).call("weather", year="no").status == "invalid_arguments"
    assert script.asked == []


def test_nor_for_a_write_that_nobody_would_approve_or_a_page_of_several_or_a_tool_that_broke() -> None:
    script = Script()
    house = house_of(script, weather(never, WRITE), approve="never")
    assert house.call("weather", year="no").status == "invalid_arguments"
    house = house_of(script, weather(never))
    house.broker.ban("weather", ())
    assert house.call("weather", year="no").status == "invalid_arguments"
    assert script.asked == []


def test_calls_at_once_ask_one_after_the_other_and_the_same_arguments_once() -> None:
    at_once, most, asked = 0, 0, []

    async def asks(complaint: Complaint) -> dict[str, Any]:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        asked.append(complaint.arguments["year"])
        await asyncio.sleep(0.01)
        at_once -= 1
        return {"year": complaint.arguments["year"][:4]}

    house = House(weather(lambda arguments: arguments["year"]))
    house.broker.repairs.repairer = asks

    async def go() -> list[Any]:
        years = ("2000 ad", "2001 ad", "2000 ad", "2001 ad", "2002 ad")
        return await asyncio.gather(*(house.acall("weather", year=year) for year in years))

    assert [reply.value for reply in asyncio.run(go())] == ["2000", "2001", "2000", "2001", "2002"]
    assert (most, asked) == (1, ["2000 ad", "2001 ad", "2002 ad"])
