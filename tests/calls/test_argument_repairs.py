"""Arguments that no rule puts right: the model is asked, within bounds, and no effect happens twice for it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.calls.argument_repairs import Complaint
from atc.calls.contract import CallRequest
from atc.calls.journal import Journal
from atc.errors import JournalError, ToolError
from atc.result import Effect
from atc.tools.tool import Toolset
from tests.support.broker import READ, WRITE, House, counted, never
from tests.support.crashes import CRASHES, WAYS, Host, HostCrash, World
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
    return House(*tools, repairer=script, **policy)


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
    stopped = []

    async def asks(complaint: Complaint) -> dict[str, Any]:
        stopped.append(house.broker.clock.stopped)
        return {"year": "2000"}

    house = House(weather(lambda _: 1), repairer=asks)
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
    house = house_of(script, weather(never), secrets=("s3cret-word",))
    assert house.call("weather", year="s3cret-word").status == "invalid_arguments"
    assert script.asked == []


def test_no_part_of_a_credential_is_left_where_a_value_is_cut() -> None:
    secret = "s3cret-" + "Zq9" * 20
    house = House(weather(lambda arguments: 1), secrets=(secret,))
    house.call("weather", Year=["x" * 180 + secret], year="x" * 3_960 + secret)  # refused
    house.call("weather", year=[{"year": "x" * 180 + secret}])
    house.call("weather", other="x" * 180 + secret, year="5")
    written = json.dumps([call.model_dump(mode="json") for call in house.broker.calls])
    assert "dropped" in written
    assert secret[:12] not in written


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

    house = House(weather(lambda arguments: arguments["year"]), repairer=asks)

    async def go() -> list[Any]:
        years = ("2000 ad", "2001 ad", "2000 ad", "2001 ad", "2002 ad")
        return await asyncio.gather(*(house.acall("weather", year=year) for year in years))

    assert [reply.value for reply in asyncio.run(go())] == ["2000", "2001", "2000", "2001", "2002"]
    assert (most, asked) == (1, ["2000 ad", "2001 ad", "2002 ad"])


def test_what_is_missing_is_not_asked_for() -> None:
    script = Script()
    house = house_of(script, weather(never))
    assert house.call("weather", unit="celsius").status == "invalid_arguments"
    assert script.asked == []


# -- writes ------------------------------------------------------------------------------------------------------------


def book(function: Any) -> Any:
    text = {"type": "string"}
    return make_tool("book", function, WRITE, required=("room_id",), room_id=text, roomId=text, guest=text, note=text)


@pytest.mark.parametrize(
    "said",
    [
        {"room_id": "7"},
        {"room_id": "7", "guest": "Eve"},
        {"room_id": "Ada", "guest": "7"},
        {"room_id": "7", "guest": "Ada", "note": "7"},
        {"room_id": "7", "note": "Ada"},
    ],
)
def test_the_repair_of_a_write_says_the_same_or_is_none(said: dict[str, Any]) -> None:
    house = house_of(Script(said), book(never))
    assert house.call("book", **{"room-id": "7", "guest": "Ada"}).status == "invalid_arguments"
    assert house.journal.entries == {}


def test_a_write_is_repaired_in_its_spelling_and_approved_as_it_is_sent() -> None:
    seen, function = counted()
    approved: list[dict[str, Any]] = []
    script = Script({"room_id": "7", "guest": "Ada"})
    house = house_of(script, book(function), approve=lambda request: approved.append(request.arguments) or True)
    assert house.call("book", **{"room-id": "7", "guest": "Ada"}).value == "ok"
    assert seen == approved == [{"room_id": "7", "guest": "Ada"}]
    (repair,) = house.last.repairs
    assert (repair.path, repair.name, repair.given) == (("room-id",), "room_id", "7"), house.last.repairs


def test_the_same_arguments_are_the_same_call_in_a_later_program_and_answered_without_asking() -> None:
    seen, function = counted()
    script = Script({"room_id": "7"})
    house = house_of(script, book(function))
    for _ in range(3):
        assert house.call("book", **{"room-id": "7"}).value == "ok"
        house.broker.begin_program()
    assert (seen, len(script.asked)) == ([{"room_id": "7"}], 1)
    assert [call.status for call in house.broker.calls] == ["ok", "replayed", "replayed"]
    assert house.call("book", room_id="7").status is None, "and it is the call that they mean"
    assert len(seen) == 1


@pytest.mark.parametrize(
    "error",
    [
        ToolError("no such room", status=400, outcome="refused"),
        ToolError("no such room", status="invalid_arguments", outcome="refused"),
        ToolError("lost", status=422, outcome="unknown"),
        ToolError("too slow", status="timeout", outcome="unknown"),
    ],
)
def test_a_write_that_was_sent_is_never_repaired_for_its_service_may_lie(error: ToolError) -> None:
    seen, function = counted(error)  # it acts, and then refuses
    script = Script({"room_id": "8"})
    house = house_of(script, book(function))
    assert house.call("book", room_id="7").error is not None
    assert (seen, script.asked) == ([{"room_id": "7"}], [])


def test_a_repaired_write_in_doubt_stays_in_doubt_however_it_is_spelt() -> None:
    seen, function = counted(ToolError("lost", outcome="unknown"))
    script = Script({"room_id": "7"})
    house = house_of(script, book(function))
    for arguments in ({"room-id": "7"}, {"room-id": "7"}, {"room_id": "7"}):
        house.call("book", **arguments)
        house.broker.begin_program()
    assert [call.status for call in house.broker.calls] == ["in_doubt", "refused", "refused"]
    assert {call.error_status for call in house.broker.calls[1:]} == {"in_doubt"}
    assert (len(seen), len(script.asked)) == (1, 1)


def test_a_call_whose_program_ended_while_the_model_was_asked_is_not_made() -> None:
    async def slow(complaint: Complaint) -> dict[str, Any]:
        house.broker.begin_program()
        return {"room_id": "7"}

    house = House(book(never), repairer=slow)
    assert house.call("book", **{"room-id": "7"}).status == "stopped"
    assert house.journal.entries == {}


# -- after a resume ----------------------------------------------------------------------------------------------------


class Process:
    """A process with a broker over a journal on disk."""

    def __init__(self, path: Path, function: Any, *answers: Any, **more: Any) -> None:
        self.script = Script(*answers)
        self.house = house_of(self.script, book(function), journal=Journal(path), **more)

    def book(self, **arguments: Any) -> Any:
        return self.house.call("book", **arguments)


@pytest.mark.parametrize("error", [None, ToolError("lost", outcome="unknown")])
def test_a_resumed_run_makes_the_same_call_whatever_the_model_would_say_now(
    tmp_path: Path, error: ToolError | None
) -> None:
    seen, function = counted(error or "ok")
    first = Process(tmp_path / "journal.jsonl", function, {"room_id": "7", "guest": "Ada"})
    first.book(**{"room-id": "7", "guest": "Ada"})
    first.house.journal.close()
    second = Process(tmp_path / "journal.jsonl", function, {"room_id": "7", "guest": "Eve"})
    reply = second.book(**{"room-id": "7", "guest": "Ada"})
    assert (reply.value, reply.status) == (("ok", None) if error is None else (None, "in_doubt"))
    assert (len(seen), second.script.asked) == (1, [])
    second.house.journal.close()


def test_a_repair_is_read_back_with_the_arguments_as_they_were_given(tmp_path: Path) -> None:
    first = Process(tmp_path / "journal.jsonl", lambda _: "ok", {"room_id": "7"})
    first.book(**{"room-id": "7"})
    first.book(room_id="8")
    first.house.journal.close()
    journal = Journal(tmp_path / "journal.jsonl")
    one, other = journal.entries.values()
    assert (one.original, one.repaired_for, one.arguments) == ({"room-id": "7"}, "gate", {"room_id": "7"})
    assert (other.original, other.repaired_for) == (None, "")
    journal.close()


@pytest.mark.parametrize("damage", [{"original": []}, {"repaired_for": "nobody"}, {"repaired_for": 7}])
def test_a_journal_with_other_arguments_than_any_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = tmp_path / "journal.jsonl"
    first = Process(path, lambda _: "ok", {"room_id": "7"})
    first.book(**{"room-id": "7"})
    first.house.journal.close()
    begin, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(begin) | damage), *rest, ""]))
    with pytest.raises(JournalError, match="line 1 is not a journal record"):
        Journal(path)


def test_a_tool_that_changed_meanwhile_is_not_sent_what_no_longer_fits(tmp_path: Path) -> None:
    first = Process(tmp_path / "journal.jsonl", lambda _: "ok", {"room_id": "7"})
    first.book(**{"room-id": "7"})
    first.house.journal.close()
    second = Process(tmp_path / "journal.jsonl", never, None)
    second.house.broker.tools = Toolset([make_tool("book", never, WRITE, required=("room",), room={"type": "string"})])
    assert second.book(**{"room-id": "7"}).status == "invalid_arguments"
    second.house.journal.close()


# -- after the service refused -----------------------------------------------------------------------------------------


def strict(status: Any = 400) -> tuple[list[Any], Any]:
    """A service that takes years of four digits, and says so."""
    seen: list[Any] = []

    def function(arguments: dict[str, Any]) -> Any:
        seen.append(arguments["when"])
        if len(arguments["when"]) != 4:
            raise ToolError("year should be 4 digits", status=status)
        return f"the year {arguments['when']}"

    return seen, make_tool("films", function, required=("when",), when={"type": "string"})


def test_a_read_that_the_service_refuses_is_repaired_and_is_a_call_of_its_own() -> None:
    seen, tool = strict()
    script = Script({"when": "2000"})
    house = house_of(script, tool)
    assert house.call("films", when="2000-2019").value == "the year 2000"
    first, second = house.broker.calls
    assert (first.status, first.error_status, first.repaired_by, first.arguments) == (
        "failed",
        400,
        second.index,
        {"when": "2000-2019"},
    )
    assert (second.status, second.original, second.repairs[0].sent) == ("ok", {"when": "2000-2019"}, "2000")
    assert [(e.state, e.repaired_for) for e in house.journal.entries.values()] == [("refused", ""), ("done", "service")]
    assert script.asked[0].by == "service"
    assert [kind for kind, _ in house.events] == ["call_started", "call_ended", "call_started", "call_ended"]
    house.broker.begin_program()
    assert house.call("films", when="2000-2019").value == "the year 2000"
    assert (seen, len(script.asked), house.last.status) == (["2000-2019", "2000"], 1, "replayed")


def test_where_the_repair_is_refused_too_the_program_reads_why_its_own_arguments_were() -> None:
    seen, tool = strict()
    script = Script({"when": "2019-2000"})
    house = house_of(script, tool)
    assert "4 digits" in str(house.call("films", when="2000-2019").error)
    assert (seen, [call.status for call in house.broker.calls]) == (["2000-2019", "2019-2000"], ["failed", "failed"])
    house.broker.begin_program()
    house.call("films", when="2000-2019")
    assert len(script.asked) == 1, "asked once"


@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 500, 503, "timeout", "ValueError", None])
def test_a_read_that_failed_otherwise_is_not_repaired(status: Any) -> None:
    _, tool = strict(status)
    script = Script()
    assert house_of(script, tool, read_attempts=1).call("films", when="2000-2019").error is not None
    assert script.asked == []


def test_what_the_service_says_twice_the_model_is_not_asked_about_again() -> None:
    tool = make_tool(
        "films",
        lambda a: (_ for _ in ()).throw(ToolError("no", status=400)),
        required=("when",),
        when={"type": "string", "maxLength": 6},
    )
    script = Script({"when": "2000"})
    house = house_of(script, tool)
    assert house.call("films", when="2000-2019").error == "no"
    assert (len(script.asked), len(house.broker.calls)) == (1, 1)


def test_the_second_call_counts_among_the_calls_of_a_run() -> None:
    seen, tool = strict()
    script = Script({"when": "2000"})
    house = house_of(script, tool, max_calls=1)
    assert house.call("films", when="2000-2019").status == 400
    assert (len(seen), script.asked) == (1, [])


@pytest.mark.parametrize("where", ["asked", "called"])
def test_a_run_that_is_stopped_in_a_repair_has_told_what_was_done(where: str) -> None:
    seen: list[Any] = []

    async def function(arguments: dict[str, Any]) -> Any:
        seen.append(arguments["when"])
        if len(seen) == 1:
            raise ToolError("4 digits", status=400)
        await asyncio.sleep(30)

    async def asks(complaint: Complaint) -> dict[str, Any]:
        if where == "asked":
            await asyncio.sleep(30)
        return {"when": "2000"}

    house = House(make_tool("films", function, required=("when",), when={"type": "string"}), repairer=asks)

    async def go() -> None:
        work = asyncio.create_task(house.acall("films", when="2000-2019"))
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    ended = [call.status for call in house.broker.calls]
    assert ended == ["failed"] if where == "asked" else ended == ["failed", "failed"]
    assert not house.broker.clock.stopped


# -- at most once, whatever the model says and wherever the process ends -----------------------------------------------

SPELLINGS = ["room_id", "roomId", "room-id"]
asked_for = st.tuples(
    st.sampled_from([*SPELLINGS, "room-id"]), st.integers(0, 1), st.sampled_from(WAYS) | st.just("ok"), st.booleans()
)
programs = st.lists(
    st.tuples(st.lists(asked_for, max_size=4), st.sampled_from(CRASHES), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=4,
)


def with_reserve(host: Host, names: list[str]) -> Host:
    """The host with a write of which one key has two meanings; the model says one or the other each time."""
    room = {"type": "integer"}
    host.broker.grant(Toolset([make_tool("reserve", partial(host._act, "reserve"), WRITE, room_id=room, roomId=room)]))

    async def asks(complaint: Complaint) -> dict[str, Any]:
        names.append(names.pop(0))
        return {names[-1]: next(iter(complaint.arguments.values()))}

    host.repairer = asks
    return host


async def run(host: Host, program: list[Any], crash: str, at: int) -> list[int]:
    """Run a program to its first error that it does not catch; the rooms that it asked for."""
    host.broker.begin_program()
    rooms = []
    for number, (name, room, way, caught) in enumerate(program):
        host.world.way, host.crash = way, crash if number == at else "none"
        rooms.append(room)
        work = asyncio.create_task(host.broker.call(CallRequest(number + 1, "reserve", {name: room}, 1)))
        if host.crash == "cancelled":
            await asyncio.wait([work], timeout=0.005)
            work.cancel()
            await asyncio.wait([work])
            break
        if (await work).error is not None and not caught:
            break
    return rooms


@given(programs, st.permutations(["room_id", "room_id", "roomId"]))
def test_no_room_is_reserved_more_often_than_one_program_asked_for_it(
    tmp_path_factory: pytest.TempPathFactory, runs: Any, names: list[str]
) -> None:
    world, path = World(), tmp_path_factory.mktemp("run") / "journal.jsonl"
    host = with_reserve(Host(world, path), names)
    most: Counter[int] = Counter()
    for program, crash, at, reboot in runs:
        try:
            rooms = asyncio.run(run(host, program, crash, at))
        except HostCrash:
            rooms = [room for _, room, *_ in program[: at + 1]]
        if crash not in ("none", "cancelled"):
            host = with_reserve(host.again(reboot=reboot), names)
        for room, count in Counter(rooms).items():
            most[room] = max(most[room], count)
        done = Counter(next(iter(json.loads(arguments).values())) for _, arguments in world.effects)
        assert all(count <= most[room] for room, count in done.items()), world.effects
    host.journal.close()


def test_an_error_in_the_body_of_a_read_is_repaired_where_it_names_an_argument() -> None:
    def function(arguments: dict[str, Any]) -> Any:
        return {"degrees": 7} if arguments["year"] == "2000" else {"error": "the year must be 2000"}

    script = Script({"year": "2000"})
    house = house_of(script, weather(function))
    assert house.call("weather", year="1999").value == {"degrees": 7}
    first, second = house.broker.calls
    assert first.body_error is not None
    assert (first.status, first.repaired_by, first.body_error.key) == ("ok", second.index, "error")
    assert (second.body_error, second.value) == (None, {"degrees": 7})


@pytest.mark.parametrize(
    ("body", "effect", "asked"),
    [
        ({"error": "closed today"}, READ, 0),
        ({"error": "the year must be 2000"}, WRITE, 0),
        ({"error": "the year must be 2000"}, READ, 1),
    ],
)
def test_else_the_program_gets_the_body_as_it_is(body: Any, effect: Effect, asked: int) -> None:
    seen, function = counted(body)
    script = Script({"year": "2000"})
    house = house_of(script, weather(function, effect))
    assert house.call("weather", year="1999").value == body, "nothing is raised in the program"
    assert (len(script.asked), len(seen)) == (asked, 1 + asked)
    assert house.broker.calls[0].body_error is not None
    house.journal.begin_attempt()
    assert house.call("weather", year="1999").value == body
    assert (house.last.status, len(seen)) == ("replayed", 1 + asked), "and what was done is not done again"
    assert house.last.body_error is not None


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ValueError("year: 1999 is before 2000"), 1),
        (TypeError("wrong format: give it as 2000"), 1),
        (ValueError("closed"), 0),
        (KeyError("year"), 0),
    ],
)
def test_an_exception_of_a_function_that_names_an_argument_is_repaired(error: Exception, asked: int) -> None:
    seen, function = counted(error)
    script = Script({"year": "2000"})
    assert house_of(script, weather(function)).call("weather", year="1999").error is not None
    assert (len(script.asked), len(seen)) == (asked, 1 + asked)
