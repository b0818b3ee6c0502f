"""The broker: what may be called, with what, how often, and what of it comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from support_tools import make_tool

from atc.errors import JournalError, ToolError
from atc.execution.broker import ApprovalRequest, Broker, CallPolicy
from atc.execution.journal import Journal
from atc.execution.redact import Redactor
from atc.execution.sandbox import CallReply, CallRequest
from atc.tools.protocol import Effect
from atc.tools.tool import Tool, Toolset

READ, WRITE, UNKNOWN = Effect.READ, Effect.WRITE, Effect.UNKNOWN


class House:
    """A broker over some tools, and all that it told."""

    def __init__(self, *tools: Tool, secrets: tuple[str, ...] = (), approve: Any = None, **policy: Any) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.journal = Journal()
        self.journal.begin_attempt()
        emit: Any = lambda kind, data: self.events.append((kind, data))  # noqa: E731
        made = CallPolicy(**{"retry_wait_s": 0.001, **policy})
        self.broker = Broker(Toolset(tools), self.journal, emit, made, approve, Redactor(secrets, {}))
        self.asked = 0

    async def acall(self, tool: str, /, **arguments: Any) -> CallReply:
        self.asked += 1
        return await self.broker.call(CallRequest(self.asked, tool, arguments, 1))

    def call(self, tool: str, /, **arguments: Any) -> CallReply:
        return asyncio.run(self.acall(tool, **arguments))

    @property
    def last(self) -> Any:
        return self.broker.calls[-1]


def never(_: Any) -> Any:
    raise AssertionError("the tool was called")


def counted(value: Any = "ok") -> tuple[list[Any], Callable[[dict[str, Any]], Any]]:
    seen: list[Any] = []

    def function(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        if isinstance(value, Exception):
            raise value
        return value

    return seen, function


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
        ({"n": "three"}, '"three" is not of type "integer"'),
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


@pytest.mark.parametrize(("effect", "status"), [(READ, "failed"), (WRITE, "in_doubt"), (UNKNOWN, "in_doubt")])
def test_a_call_takes_no_longer_than_it_may(effect: Effect, status: str) -> None:
    house = House(make_tool("slow", lambda _: asyncio.sleep(30), effect), call_timeout_s=0.05)
    reply = house.call("slow", n=1)
    assert (reply.error, reply.status) == ("no answer within 0.05 s", "timeout")
    assert house.last.status == status
    assert 0.04 < house.last.seconds < 5


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
    assert 0.1 <= time.perf_counter() - began < 3


def test_a_pause_longer_than_the_call_may_take_is_not_waited_for() -> None:
    seen, function = counted(ToolError("come back tomorrow", status=429, transient=True, retry_after=86_400))
    house = House(make_tool("look", function))
    began = time.perf_counter()
    assert house.call("look", n=1).error == "come back tomorrow"
    assert len(seen) == 1
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("retry_after", [-1.0, float("nan"), float("inf"), "soon"])
def test_an_odd_pause_is_not_believed(retry_after: Any) -> None:
    seen, function = counted(ToolError("busy", transient=True, retry_after=retry_after))
    assert House(make_tool("look", function)).call("look", n=1).error == "busy"
    assert len(seen) == 3


# -- responses -------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_a_large_structure_refused() -> None:
    tools = [make_tool("text", lambda _: "ü" * 1000), make_tool("listing", lambda _: ["x" * 10] * 100)]
    house = House(*tools, response_bytes=500)
    cut = house.call("text", n=1).value
    assert cut == "ü" * 250 + " … [cut: it has 2,002 bytes]"
    assert house.last.notes == ("the response was cut from 2,002 bytes",)
    reply = house.call("listing", n=1)
    assert reply.status == "too_large"
    assert "over the limit of 500: ask for less" in str(reply.error)


@pytest.mark.parametrize("response", [["x"] * 1000, float("nan"), {1, 2}, object(), "huge", "deep"])
def test_an_effect_whose_response_cannot_be_used_is_still_done(response: Any) -> None:
    if response == "huge":
        response = 10**5000
    if response == "deep":
        for _ in range(200):
            response = [response]
    house = House(
        make_tool("book", lambda _: response, WRITE), make_tool("look", lambda _: response), response_bytes=500
    )
    assert house.call("book", n=1) == CallReply(value=None)
    assert house.last.status == "ok"
    assert "it was done" in house.last.notes[0]
    house.journal.begin_attempt()
    house.call("book", n=1)
    assert house.last.status == "replayed"
    assert house.call("look", n=1).status in ("too_large", "bad_response")
    assert house.last.status == "failed"


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ({1: (2, 3)}, {"1": [2, 3]}),
        ("half \ud83d", "half ?"),
        (None, None),
        (2**60, 2**60),
        ({"a": [None, True, 1.5]}, {"a": [None, True, 1.5]}),
    ],
)
def test_a_response_is_plain_json(response: Any, value: Any) -> None:
    house = House(make_tool("look", lambda _: response))
    assert house.call("look", n=1).value == value
    assert house.last.value == value


def test_a_response_that_differs_from_its_schema_is_noted_and_kept() -> None:
    returns = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    house = House(make_tool("look", lambda _: {"n": "one"}, returns=returns))
    assert house.call("look", n=1).value == {"n": "one"}
    assert house.last.status == "ok"
    assert house.last.notes == ('response differs from its schema: $.n: "one" is not of type "integer"',)


@pytest.mark.parametrize(
    "wrong", [RuntimeError("bug"), OSError(5, "I/O"), KeyError("x"), asyncio.CancelledError(), RecursionError("deep")]
)
def test_whatever_a_transport_raises_is_the_tools_failure(wrong: BaseException) -> None:
    def raises(_: Any) -> Any:
        raise wrong

    house = House(make_tool("look", raises), make_tool("book", raises, WRITE))
    assert house.call("look", n=1).error is not None
    assert house.last.status == "failed"
    assert house.call("book", n=1).error is not None
    assert house.last.status == "in_doubt"


@pytest.mark.parametrize("status", [404.5, ["x"], True, "w" * 500])
def test_an_odd_status_of_a_users_tool_is_taken_as_text(status: Any) -> None:
    _, function = counted(ToolError({"not": "text"}, status=status))  # type: ignore[arg-type]
    reply = House(make_tool("look", function)).call("look", n=1)
    assert reply.error == "{'not': 'text'}"
    assert isinstance(reply.status, str)
    assert len(reply.status) <= 100


# -- secrets ---------------------------------------------------------------------------------------------------------


SECRET = 'sk-"very"/secret 1'
SPELLINGS = [SECRET, 'sk-\\"very\\"/secret 1', "sk-%22very%22%2Fsecret%201", "sk-%22very%22%2Fsecret+1"]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_secret_leaves_the_broker_nowhere(spelled: str) -> None:
    tools = [
        make_tool("look", lambda _: {"token": f"<{spelled}>", spelled: [spelled]}, any={}),
        make_tool("fails", counted(ToolError(f"401 for {spelled}", status=f"{spelled}"))[1], any={}),
        make_tool("book", lambda _: spelled, WRITE, any={}),
        make_tool("typed", never, any={"type": "integer"}),
    ]
    house = House(*tools, secrets=(SECRET,))
    replies = [house.call(tool.name, any=f"x {spelled}") for tool in tools] + [house.call(f"no {spelled}")]
    told = repr([replies, house.events, house.broker.calls, house.journal.entries])
    assert spelled not in told
    assert SECRET not in told
    assert replies[0].value == {"token": "<[secret]>", "[secret]": ["[secret]"]}
    assert replies[1].error == "401 for [secret]"


def test_what_the_environment_calls_a_secret_is_one() -> None:
    names = [
        "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGPASSWORD", "DB_PASS", "GITLAB_PAT", "MY_PWD",
        "ATC_AUTH_petstore", "apikey", "SSH_KEYS", "CLIENT_SECRETS",
    ]  # fmt: skip
    for name in names:
        assert Redactor((), {name: "hunter2hunter2"}).text("a hunter2hunter2 b") == "a [secret] b", name
    for name in ["PWD", "OLDPWD", "KEYBOARD", "TOKENIZERS_PARALLELISM", "MONKEY", "PATH", "PASSAGE"]:
        assert Redactor((), {name: "hunter2hunter2"}).text("a hunter2hunter2 b") == "a hunter2hunter2 b", name


def test_a_short_value_is_no_secret() -> None:
    assert Redactor(["demo"], {"X_TOKEN": "true"}).value({"demo": "true"}) == {"demo": "true"}


# -- several at once, and cut off ------------------------------------------------------------------------------------


def test_calls_run_at_once_and_are_numbered_as_they_came() -> None:
    async def slow(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.05 - arguments["n"] / 100)
        return arguments["n"]

    house = House(make_tool("look", slow))

    async def go() -> list[CallReply]:
        return await asyncio.gather(*(house.acall("look", n=n) for n in range(4)))

    began = time.perf_counter()
    assert [reply.value for reply in asyncio.run(go())] == [0, 1, 2, 3]
    assert time.perf_counter() - began < 0.15
    assert sorted((call.index, call.value) for call in house.broker.calls) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_equal_writes_at_once_are_as_many_as_were_asked_for() -> None:
    seen, function = counted()

    async def slow(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return function(arguments)

    house = House(make_tool("book", slow, WRITE))

    async def go() -> None:
        await asyncio.gather(house.acall("book", n=1), house.acall("book", n=1))

    for _ in range(2):
        asyncio.run(go())
        house.journal.begin_attempt()
    assert len(seen) == 2


@pytest.mark.parametrize(("effect", "status"), [(READ, "failed"), (WRITE, "in_doubt"), (UNKNOWN, "in_doubt")])
def test_a_call_that_is_cut_off_is_told(effect: Effect, status: str) -> None:
    house = House(make_tool("slow", lambda _: asyncio.sleep(30), effect))

    async def go() -> None:
        work = asyncio.create_task(house.acall("slow", n=1))
        await asyncio.sleep(0.02)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    assert (house.last.status, house.last.error_status) == (status, "stopped")
    assert [kind for kind, _ in house.events] == ["call_started", "call_ended"]


def test_a_write_that_cannot_be_written_down_is_not_made_or_stays_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise JournalError("the disk is full")

    seen, function = counted()
    house = House(make_tool("book", function, WRITE))
    monkeypatch.setattr(house.journal, "succeed", broken)
    with pytest.raises(JournalError):
        house.call("book", n=1)
    assert house.last.status == "in_doubt"
    monkeypatch.setattr(house.journal, "begin", broken)
    with pytest.raises(JournalError):
        house.call("book", n=2)
    assert seen == [{"n": 1}]


# -- once only -------------------------------------------------------------------------------------------------------


def test_a_revised_program_must_ask_for_what_was_done_before_it_does_other_things() -> None:
    seen, function = counted()
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    house.journal.begin_attempt()
    reply = house.call("book", n=2)
    assert reply.status == "already_done"
    assert '{"n": 1}' in str(reply.error)
    assert house.call("book", n=1).value == "ok"
    assert house.call("book", n=2).value == "ok"
    assert seen == [{"n": 1}, {"n": 2}]


def test_a_write_in_doubt_is_never_made_again_and_told_once() -> None:
    seen, function = counted(ToolError("lost", outcome="unknown"))
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    assert house.call("book", n=1).status == "in_doubt", "not by the same program"
    house.journal.begin_attempt()
    assert "might do it twice" in str(house.call("book", n=2).error), "not with other arguments"
    assert house.call("book", n=1).status == "in_doubt", "not by another program"
    house.call("book", n=2)
    assert seen == [{"n": 1}, {"n": 2}]
    assert [call.arguments for call in house.broker.calls if call.status == "in_doubt"] == [{"n": 1}, {"n": 2}]


def test_a_write_that_was_surely_refused_may_be_tried_again() -> None:
    seen, function = counted(ToolError("full", status=409, outcome="refused"))
    house = House(make_tool("book", function, WRITE))
    house.call("book", n=1)
    house.call("book", n=1)
    house.journal.begin_attempt()
    house.call("book", n=2)
    assert len(seen) == 3


def test_without_replay_everything_is_made_again() -> None:
    seen, function = counted()
    house = House(make_tool("book", function, WRITE), replay=False)
    house.call("book", n=1)
    house.journal.begin_attempt()
    house.call("book", n=1)
    assert len(seen) == 2
