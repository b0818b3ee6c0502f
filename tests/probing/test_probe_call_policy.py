"""What stands between probing and the tools: which are called at all, how often, and no call twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atc._records.records import RecordedSession
from atc.errors import CallRefused, ToolError
from atc.probing import call_policy
from atc.probing.call_policy import Budget, Door, Meter, door_of, metered, why_not
from atc.result import Effect
from atc.schemas.protocol import Protocol, Source
from atc.tools.tool import MissingCredential, Toolset
from tests.support.openapi import Answer, Server, document, operation, running_server
from tests.support.recordings import call, page, write
from tests.support.tools import make_tool


def test_only_reads_may_be_called_and_what_the_user_names() -> None:
    tools = {effect: Protocol(name=f"thing_{effect.value}", effect=effect) for effect in Effect}
    assert why_not(tools[Effect.READ]) == ""
    assert "effect is write" in why_not(tools[Effect.WRITE])
    assert "effect is unknown" in why_not(tools[Effect.UNKNOWN])
    assert why_not(tools[Effect.WRITE], ["thing_*"]) == ""
    assert why_not(tools[Effect.WRITE], ["other_*"])


def test_the_original_name_tells_too() -> None:
    hidden = Protocol(name="op_17", effect=Effect.READ, source=Source(operation="deleteUser"))
    assert "delete" in why_not(hidden)


def metered_transport(tool: Any, meter: Meter) -> Any:
    allowed, refused = metered(Toolset([tool]), meter, ("*",))
    assert refused == {}
    return allowed[tool.name].transport


def test_a_call_is_made_once_and_answered_so_again() -> None:
    made: list[Any] = []
    meter = Meter(Budget())
    transport = metered_transport(make_tool("t", lambda a: made.append(a) or [len(made)]), meter)

    async def go() -> None:
        answers = await asyncio.gather(
            *(transport({"n": 1}) for _ in range(5)), transport({"n": 1.0}), transport({"n": 2})
        )
        assert answers == [[1]] * 6 + [[2]]

    asyncio.run(go())
    assert (len(made), meter.total, meter.calls) == (2, 2, {"t": 2})


@pytest.fixture
def lamps() -> Iterator[tuple[Server, Any, Meter]]:
    with running_server() as server:
        server.answer = Answer(b'{"n": 1}')
        node = operation(parameters=[{"name": "lamp_id", "in": "path", "required": True, "schema": {}}])
        tools = Toolset.from_openapi(document({"/lamps/{lamp_id}": {"get": node}}), base_url=server.url)
        meter = Meter(Budget())
        yield server, metered_transport(tools["op"], meter), meter


def test_a_number_and_its_digits_in_a_path_are_one_call(lamps: tuple[Server, Any, Meter]) -> None:
    server, transport, _ = lamps

    async def go() -> None:
        for lamp_id in (11, "11", 12):
            assert await transport({"lamp_id": lamp_id}) == {"n": 1}

    asyncio.run(go())
    assert [seen.path for seen in server.seen] == ["/lamps/11", "/lamps/12"]


def test_a_call_that_fits_in_no_request_is_not_counted_as_sent(lamps: tuple[Server, Any, Meter]) -> None:
    server, transport, meter = lamps

    async def go() -> None:
        for lamp_id in ("..", ""):
            with pytest.raises(ToolError):
                await transport({"lamp_id": lamp_id})
        await transport({"lamp_id": 11})

    asyncio.run(go())
    assert (meter.sent.total(), len(server.seen), meter.total) == (1, 1, 3)


def test_a_refusal_is_kept_and_a_passing_failure_is_not() -> None:
    made: list[Any] = []

    def refuse(arguments: dict[str, Any]) -> Any:
        made.append(arguments)
        raise ToolError("no", status=503 if arguments["n"] else 404, transient=bool(arguments["n"]))

    transport = metered_transport(make_tool("t", refuse), Meter(Budget()))

    async def go() -> None:
        for number in (0, 0, 1, 1):
            with pytest.raises(ToolError, match="no"):
                await transport({"n": number})

    asyncio.run(go())
    assert [arguments["n"] for arguments in made] == [0, 1, 1]


@pytest.mark.parametrize(
    ("budget", "words", "made"),
    [
        (Budget(calls_a_tool=2), "its 2 calls of t", 2),
        (Budget(calls=3), "its 3 calls", 3),
        (Budget(response_bytes=8), "8 bytes", 2),
    ],
)
def test_a_budget_says_no_and_which(budget: Budget, words: str, made: int) -> None:
    meter = Meter(budget)
    transport = metered_transport(make_tool("t", lambda _: "four"), meter)

    async def go() -> int:
        for number in range(10):
            if number == made:
                with pytest.raises(CallRefused, match=words):
                    await transport({"n": number})
                return number
            await transport({"n": number})
        raise AssertionError("no budget held")

    assert asyncio.run(go()) == made
    assert meter.left("t") >= 0


def test_a_meter_lets_so_many_calls_through_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [1000.0], list[float]()

    async def sleep(seconds: float) -> None:
        assert seconds > 0
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(call_policy, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(call_policy, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    meter = Meter(Budget(calls_a_minute=3))
    times = []

    async def go() -> None:
        for _ in range(7):
            await meter.admit("t")
            times.append(now[0])
            now[0] += 1

    asyncio.run(go())
    for early, late in zip(times, times[3:], strict=False):
        assert late - early >= 60
    assert len(slept) == 2


def test_who_wants_a_credential_stops_what_needs_the_same_one() -> None:
    meter = Meter(Budget())
    key = (("key",),)
    meter.doors = {"a": Door("here", key), "b": Door("here", key), "c": Door("here"), "d": Door("there", key)}
    meter.refused("a", ToolError("no", status=401))
    assert [bool(meter.closed(tool)) for tool in "abcd"] == [True, True, False, False]
    assert meter.closed_itself("a")
    assert not meter.closed_itself("b")

    async def go() -> None:
        await meter.admit("c")
        with pytest.raises(CallRefused, match="a answered 401"):
            await meter.admit("b")

    asyncio.run(go())


def test_who_wants_a_credential_says_how_to_give_one() -> None:
    key, login = (("key", "more"), ("other",)), RecordedSession(file="s.har", origin="https://s")
    unused = MissingCredential("key", "ATC_AUTH_KEY", reason="untaken", session=login)
    assert Door("here", key, missing=unused).wanted(401).endswith("(--openapi session=memory), or set ATC_AUTH_KEY")
    missing = MissingCredential("key", "ATC_AUTH_KEY")
    assert "(`atc run --openapi auth.key=…`), or set ATC_AUTH_KEY" in Door("here", key, missing=missing).wanted(401)
    assert Door("here", key).wanted(401) == "it wants a credential: set ATC_AUTH_<SCHEME> for key+more or other"
    assert Door("here", session=login).wanted(401) == "it wants another credential: log in and record again"
    assert Door("here").wanted(403) == "it wants another credential"


def test_a_recorded_login_that_is_not_used_is_named_where_the_service_wants_one(tmp_path: Path) -> None:
    lists = call("https://s.example/orders", [{"order_id": 1}], headers={"authorization": "Bearer " + "k4" * 20})
    tool = Toolset.from_har(write(tmp_path / "s.har", page("https://s.example/"), lists), session="ask")["get_orders"]
    meter = Meter(Budget(), doors={tool.name: door_of(tool)})
    meter.refused(tool.name, ToolError("no", status=401))
    assert "--openapi session=memory" in meter.closed(tool.name)
    assert "ATC_AUTH_" in meter.closed(tool.name)


def test_a_tool_that_may_not_be_called_stops_no_other() -> None:
    meter = Meter(Budget())
    meter.doors = {name: Door("here", (("key",),)) for name in "ab"}
    meter.refused("a", ToolError("no", status=403))
    assert meter.closed("a")
    assert not meter.closed("b")


@pytest.mark.parametrize("status", [401, 403])
def test_a_service_that_turns_everybody_away_is_left_alone(status: int) -> None:
    meter = Meter(Budget())
    meter.doors = {name: Door("here") for name in "abcd"}
    for name in "abc":
        meter.refused(name, ToolError("no", status=status))
    assert "none let us in" in meter.closed("d")
    open_to_some = Meter(Budget())
    open_to_some.doors = meter.doors
    open_to_some.answered("d")
    for name in "abc":
        open_to_some.refused(name, ToolError("no", status=status))
    assert not open_to_some.closed("d")


def test_who_is_turned_away_with_one_thing_may_ask_for_another() -> None:
    meter = Meter(Budget())
    meter.doors = {"look": Door("here", names_a_thing=True)}
    meter.refused("look", ToolError("no", status=401))
    assert not meter.closed("look")
    meter.refused("look", ToolError("no", status=401))
    assert meter.closed("look")
