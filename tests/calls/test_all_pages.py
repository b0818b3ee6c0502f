"""The host's side of ``all_pages``: a call of the broker's for every page, bounds, and ends that nobody may take for
the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from atc._records.outcome import Outcome, ProgramError
from atc.calls import pages
from atc.calls.contract import CallReply, CallRequest
from atc.calls.journal import Journal
from atc.calls.pages import Pages
from atc.errors import ToolError
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.tool import Answered, Tool
from tests.support.broker import House

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
THINGS = {"type": "array", "items": {"type": "object", "properties": {"id": NUMBER}}}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TOKENS = obj(things=THINGS, next_token=TEXT)


class Transport:
    """Answers with a function of the arguments; an :class:`Answered` goes out as it is."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self._function = function

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        return self._function(arguments)

    def opened(self) -> None:
        return None


class Reading:
    """``all_pages`` over one tool."""

    def __init__(
        self,
        function: Callable[[dict[str, Any]], Any],
        returns: dict[str, Any] | None = THINGS,
        effect: Effect = Effect.READ,
        required: tuple[str, ...] = (),
        journal: Journal | None = None,
        parameters: dict[str, Any] | None = None,
        **policy: Any,
    ) -> None:
        known = parameters or {"page": {**NUMBER, "default": 1}, "size": NUMBER, "kind": TEXT}
        schema = {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}
        protocol = Protocol(name="things", parameters=schema, returns=returns, effect=effect)
        self.house = House(Tool(protocol, Transport(function)), **policy)
        self.pages = Pages(self.house.broker)
        self._number = 0

    def call(self, tool: str, arguments: Any) -> CallReply:
        self._number += 1
        return asyncio.run(self.pages.call(CallRequest(self._number, tool, arguments, 4)))

    def all(self, **arguments: Any) -> CallReply:
        return self.call("all_pages", {"tool": "things", "arguments": arguments})

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [call.arguments for call in self.house.broker.calls if call.status != "refused"]


def of_pages(*pages: list[int]) -> Callable[[dict[str, Any]], Any]:
    """Answers the pages, by number from 1, and empty ones behind the last."""
    return lambda a: [{"id": n} for n in dict(enumerate(pages, 1)).get(a.get("page", 1), [])]


def ids(reply: CallReply) -> list[int]:
    assert reply.error is None, reply.error
    return [item["id"] for item in reply.value]


def test_each_page_is_a_call_of_its_own_with_its_arguments_and_line() -> None:
    reading = Reading(of_pages([1, 2], [3]))
    assert ids(reading.all(kind="a")) == [1, 2, 3]
    assert reading.asked == [{"kind": "a"}, {"kind": "a", "page": 2}, {"kind": "a", "page": 3}]
    assert {call.line for call in reading.house.broker.calls} == {4}
    assert [kind for kind, _ in reading.house.events] == ["call_started", "call_ended"] * 3


def test_it_begins_where_the_arguments_say() -> None:
    assert ids(Reading(of_pages([1], [2], [3])).all(page=2)) == [2, 3]


def test_arguments_in_another_spelling_are_those_of_the_pages() -> None:
    reading = Reading(of_pages([1], [2], [3]), required=("page",))
    assert ids(reading.all(Page="2", Kind="a")) == [2, 3]
    assert reading.asked == [{"page": 2, "kind": "a"}, {"page": 3, "kind": "a"}, {"page": 4, "kind": "a"}]
    assert [bool(call.repairs) for call in reading.house.broker.calls] == [True, False, False]


def test_a_page_that_must_be_given_is_the_first_one() -> None:
    reading = Reading(of_pages([1], [2]), required=("page",))
    assert ids(reading.all()) == [1, 2]
    assert reading.asked[0] == {"page": 1}


@pytest.mark.parametrize("total", [{"total_pages": 2}, {"total": 3}, {"has_more": False}, {"meta": {"last_page": 2}}])
def test_what_a_response_says_of_the_end_saves_a_call(total: dict[str, Any]) -> None:
    def function(arguments: dict[str, Any]) -> Any:
        page = arguments.get("page", 1)
        more = {"has_more": page < 2} if "has_more" in total else total
        return {"things": [{"id": 1}, {"id": 2}] if page == 1 else [{"id": 3}], **more}

    reading = Reading(function, obj(things=THINGS))
    assert ids(reading.all()) == [1, 2, 3]
    assert len(reading.asked) == 2


def test_headers_go_first_and_set_only_what_speaks_of_pages() -> None:
    def function(arguments: dict[str, Any]) -> Any:
        page = arguments.get("page", 1)
        return Answered([{"id": page}], {"page": str(page + 1), "kind": "secret"} if page < 3 else False)

    reading = Reading(function)
    assert ids(reading.all(kind="open")) == [1, 2, 3]
    assert reading.asked == [{"kind": "open"}, {"kind": "open", "page": 2}, {"kind": "open", "page": 3}]


def test_an_earlier_programs_pages_are_replayed_with_what_their_headers_said(tmp_path: Any) -> None:
    made = []

    def function(arguments: dict[str, Any]) -> Any:
        made.append(arguments)
        return Answered([{"id": len(made)}], {"page": "7"} if len(made) == 1 else False)

    reading = Reading(function)
    reading.house.broker.journal = Journal(tmp_path / "journal.jsonl")
    reading.house.broker.journal.begin_attempt()
    assert ids(reading.all()) == [1, 2]
    reading.house.broker.journal.close()
    reading.house.broker.journal = Journal(tmp_path / "journal.jsonl")
    reading.house.broker.journal.begin_attempt()
    assert ids(reading.all()) == [1, 2]
    assert len(made) == 2
    assert [call.status for call in reading.house.broker.calls] == ["ok", "ok", "replayed", "replayed"]


def test_pages_are_read_anew_in_a_later_stage() -> None:
    made: list[Any] = []

    def function(arguments: dict[str, Any]) -> Any:
        made.append(arguments)
        return Answered([{"id": len(made)}], False if len(made) % 2 == 0 else {"page": "2"})

    reading = Reading(function)
    assert ids(reading.all()) == [1, 2]
    reading.house.broker.begin_program()
    assert ids(reading.all()) == [1, 2]
    reading.house.broker.begin_stage()
    assert ids(reading.all()) == [3, 4]
    assert [(c.stage, c.status) for c in reading.house.broker.calls][2:] == [(0, "replayed")] * 2 + [(1, "ok")] * 2


def test_items_may_hold_bytes() -> None:
    reading = Reading(lambda a: [b"\xff\x00"] if a.get("page", 1) == 1 else [], None)
    assert reading.all(page=1, size=1).value == [b"\xff\x00"]


@pytest.mark.parametrize("name", ["page", "size"])
def test_a_number_that_nothing_can_count_to_is_refused_and_ends_no_run(name: str) -> None:
    known = {"page": {"type": ["integer", "string"]}, "size": {"type": ["integer", "string"]}}
    reply = Reading(lambda _: [{"id": 1}], parameters=known).all(**{name: "9" * 5_000})
    assert reply.status in ("invalid_arguments", "same_page")


# -- ends that are none ----------------------------------------------------------------------------------------------


def endless(arguments: dict[str, Any]) -> Any:
    return [{"id": arguments.get("page", 1)}]


def failed(reply: CallReply, status: str) -> str:
    assert reply.value is None
    assert reply.status == status
    assert reply.error is not None
    return reply.error


def test_too_many_pages_are_an_error_that_says_how_far_it_came() -> None:
    reading = Reading(endless)
    error = failed(reading.all(), "too_many_pages")
    assert (
        "all_pages(things) cannot be finished: there are more than 50 pages (50 items of 50 pages were read)" in error
    )
    assert len(reading.asked) == 50
    last = reading.house.last
    assert (last.tool, last.status, last.error) == ("things", "refused", error)


def test_too_many_items_or_bytes_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_ITEMS", 3)
    failed(Reading(of_pages([1, 2], [3, 4])).all(), "too_many_items")
    monkeypatch.setattr(pages, "MAX_ITEMS", 100)
    monkeypatch.setattr(pages, "MAX_BYTES", 30)
    failed(Reading(of_pages([1, 2], [3, 4])).all(), "too_large")


def test_the_runs_own_limit_of_calls_holds() -> None:
    reading = Reading(endless, max_calls=5)
    failed(reading.all(), "too_many_calls")
    assert reading.house.broker.made == 5


def test_a_tool_that_does_not_turn_pages_is_seen() -> None:
    assert "answers the same items for another page" in failed(Reading(lambda _: [{"id": 1}]).all(), "same_page")


def test_a_service_that_repeats_its_last_page_or_refuses_the_next_is_at_its_end_after_a_short_page() -> None:
    def clamped(arguments: dict[str, Any]) -> Any:
        return [{"id": 1}, {"id": 2}] if arguments.get("page", 1) == 1 else [{"id": 3}]

    def refusing(arguments: dict[str, Any]) -> Any:
        if arguments.get("page", 1) > 2:
            raise ToolError("no such page", status=404)
        return clamped(arguments)

    for function in (clamped, refusing):
        assert ids(Reading(function).all(size=2)) == [1, 2, 3]
    assert failed(Reading(refusing).all(), 404) == "no such page"  # nothing shows that the last page was short


def test_cursors_that_lead_in_a_circle_are_seen() -> None:
    def circle(arguments: dict[str, Any]) -> Any:
        following = {"": "a", "a": "b", "b": "a"}[arguments.get("next_token", "")]
        return {"things": [{"id": 1}], "next_token": following}

    reading = Reading(circle, TOKENS, parameters={"next_token": TEXT})
    assert "lead back to one that was read (3 items of 3 pages were read)" in failed(reading.all(), "loop")


def test_a_cursor_that_stays_behind_the_last_page_is_the_end() -> None:
    def bookmarked(arguments: dict[str, Any]) -> Any:
        at = int(arguments.get("bookmark", "0"))
        return {"things": [{"id": at}] if at < 2 else [], "bookmark": str(min(at + 1, 2))}

    reading = Reading(bookmarked, obj(things=THINGS, bookmark=TEXT), parameters={"bookmark": TEXT})
    assert ids(reading.all()) == [0, 1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"things": [{"id": 1}], "has_more": True}, "does not say where the next page begins"),
        ({"things": [{"id": 1}], "next_token": "/next?opaque=1"}, "holds none of its arguments"),
    ],
)
def test_a_next_page_that_cannot_be_asked_for_is_an_error(answer: Any, why: str) -> None:
    reading = Reading(lambda _: answer, TOKENS, parameters={"next_token": TEXT})
    assert why in failed(reading.all(), "no_next_page")


def test_the_failure_of_a_page_is_the_tools_own() -> None:
    def broken(arguments: dict[str, Any]) -> Any:
        if arguments.get("page", 1) == 2:
            raise ToolError("the disk is full", status=507)
        return [{"id": 1}]

    reading = Reading(broken)
    assert failed(reading.all(), 507) == "the disk is full"
    assert (reading.house.last.tool, reading.house.last.arguments) == ("things", {"page": 2})


def test_what_is_no_list_is_no_page() -> None:
    failed(Reading(lambda _: {"things": {"id": 1}}, obj(things=THINGS)).all(), "not_paged")


# -- who may be read -------------------------------------------------------------------------------------------------


def never(_: dict[str, Any]) -> Any:
    raise AssertionError("the tool was called")


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.UNKNOWN])
def test_only_reads_are_read_page_by_page(effect: Effect) -> None:
    assert "things is not" in failed(Reading(never, effect=effect).all(), "not_paged")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tool": "things"},
        {"tool": 3, "arguments": {}},
        {"tool": "things", "arguments": []},
        {"tool": "things", "arguments": {}, "url": "http://x"},
    ],
)
def test_what_a_program_forges_is_refused(arguments: Any) -> None:
    failed(Reading(never).call("all_pages", arguments), "invalid_arguments")


def test_what_is_not_granted_is_refused_as_ever() -> None:
    failed(Reading(never).call("all_pages", {"tool": "others", "arguments": {}}), "not_granted")
    failed(Reading(never).all(color="red", page="x"), "invalid_arguments")


# -- where a failing value came from ---------------------------------------------------------------------------------


def test_an_error_in_an_item_is_placed_in_its_page() -> None:
    reading = Reading(lambda a: {"things": of_pages([1, 2], [3])(a)}, obj(things=THINGS))
    reading.call("things", {})
    reading.all()

    def placed(number: int, *path: str | int) -> Any:
        error = ProgramError("KeyError", "'x'", origin=(number, path))
        made = reading.pages.placed(Outcome("raised", error=error)).error
        assert made is not None
        return made.origin

    assert placed(1, "things", 0) == (1, ("things", 0))
    assert placed(2, 1, "id") == (2, ("things", 1, "id"))
    assert placed(2, 2, "id") == (3, ("things", 0, "id"))
    for path in ((3,), (-1,), ("id",), ()):
        assert placed(2, *path) is None
    assert placed(9, 0) is None
    assert reading.pages.placed(Outcome("finished")).error is None


def test_the_call_that_failed_is_named_by_its_number_in_the_run() -> None:
    def third_fails(arguments: dict[str, Any]) -> Any:
        if arguments.get("page", 1) > 2:
            raise ToolError("gone", status=500)
        return of_pages([1, 2], [3, 4])(arguments)

    reading = Reading(third_fails, read_attempts=1)
    reading.call("things", {})
    reading.all()  # its third page fails
    reading.call("others", {})  # refused

    def named(number: int | None) -> int | None:
        made = reading.pages.placed(Outcome("raised", error=ProgramError("ToolError", "x", call=number))).error
        assert made is not None
        return made.call

    failed_at = [call.index for call in reading.house.broker.calls if not call.succeeded]
    assert [named(number) for number in (2, 3)] == failed_at
    assert [named(number) for number in (1, 9, None)] == [None] * 3, "it did not fail, or was not made"
    reading.house.journal.begin_attempt()
    assert named(2) is None, "that was another program's"
