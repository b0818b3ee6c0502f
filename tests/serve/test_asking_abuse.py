"""What a client may send in place of an honest answer: nothing is done for it, and the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError

from atc._host.redaction import Redactor
from atc._records.records import Feed, Invocation
from atc.calls.approval import ApprovalRequest
from atc.result import Effect
from atc.serve.mcp.asking import APPROVE, LATER, form_of, message_of, verdict_of
from atc.serve.mcp.gateway import Gateway
from tests.support.mcp_face import ACCEPT, DECLINE, LEGACY, MODERN, Book, User, both_eras, connected, gateway_of, run
from tests.support.tools import make_tool

WRITE = "answer = append_line(text='one')"


def accepted(**content: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=content)


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "form", "offered", "yes", "later"),
    [
        (types.ElicitResult(action="accept"), "empty", False, True, False),
        (accepted(), "empty", False, True, False),
        (accepted(approve=True), "empty", False, True, False),
        (accepted(approve=False), "empty", False, False, False),
        (accepted(**{LATER: True}), "empty", True, True, True),
        (accepted(**{LATER: False}), "empty", True, True, False),
        (accepted(**{LATER: True}), "empty", False, False, False),
        (accepted(**{APPROVE: False, LATER: True}), "empty", True, False, False),
        (accepted(), "tick", False, False, False),
        (types.ElicitResult(action="accept"), "tick", False, False, False),
        (accepted(approve=True), "tick", False, True, False),
        (accepted(approve=False), "tick", False, False, False),
        (accepted(approve="true"), "empty", False, False, False),
        (accepted(approve=1), "empty", False, False, False),
        (accepted(approve=None), "empty", False, False, False),
        (accepted(approve=True, more=True), "empty", False, False, False),
        (types.ElicitResult(action="decline", content={"approve": True}), "empty", False, False, False),
        (types.ElicitResult(action="cancel"), "empty", False, False, False),
        (None, "empty", False, False, False),
    ],
)
def test_what_an_answer_means(answer: Any, form: Any, offered: bool, yes: bool, later: bool) -> None:
    verdict, for_later = verdict_of(answer, form, offered=offered)
    assert ((verdict is True), for_later) == (yes, later)
    assert yes or verdict.reason  # type: ignore[union-attr]


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats())))
def test_no_junk_is_a_yes(content: dict[str, Any]) -> None:
    verdict, _ = verdict_of(accepted().model_copy(update={"content": content}), "empty", offered=True)
    assert (verdict is True) == (set(content) <= {APPROVE, LATER} and content.get(APPROVE, True) is True)


@both_eras
@pytest.mark.parametrize("form", ["empty", "tick"])
def test_what_is_asked_is_a_form_that_the_protocol_allows(mode: str, form: str) -> None:
    book, user = Book(), User([accepted(approve=True), accepted(approve=True, **{LATER: True})])
    source = "for text in ('a', 'b', 'c', 'd'):\n    append_line(text=text)\nanswer = 1\n"

    async def main() -> None:
        async with gateway_of(book.tool, ask_form=form) as gateway, connected(gateway, mode, user) as client:
            assert (await run(client, source))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == ["a", "b", "c", "d"]  # the second answer held for the third and the fourth call
    assert [each.requested_schema for each in user.seen] == [
        form_of(form, offer=False),  # type: ignore[arg-type]
        form_of(form, offer=True),  # type: ignore[arg-type]
    ]


def test_a_program_with_more_questions_than_a_client_answers_goes_on_as_a_revision() -> None:
    book, user = Book(), User()
    source = "".join(f"append_line(text='{n}')\n" for n in range(14)) + "answer = 1"

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, MODERN, user) as client:
            first = await run(client, source)
            assert first["status"] == "denied"
            assert "as a revision of this run" in str(first)
            assert len(user.seen) == 9
            assert (await run(client, source, run=first["run"]))["status"] == "answered"

    asyncio.run(main())
    assert book.lines == [str(number) for number in range(14)]


def test_a_yes_to_later_calls_is_none_to_a_repeat() -> None:
    book, user = Book(), User([ACCEPT, ACCEPT, accepted(**{LATER: True}), DECLINE])

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, MODERN, user) as client:
            await run(client, "append_line(text='c')\nanswer = 1")
            await run(client, "for text in ('a', 'b', 'c'):\n    append_line(text=text)\nanswer = 1\n")

    asyncio.run(main())
    assert book.lines == ["c", "a", "b"]
    assert "did the same" in user.seen[3].message


async def lies(params: Any) -> Any:
    return types.ErrorData(code=types.METHOD_NOT_FOUND, message="no such method")


async def never(params: Any) -> Any:
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("answering", "wait_s", "said"),
    [
        (lies, 600.0, "said that it can ask its user, and could not: no such method"),
        (never, 0.05, "did not answer the question about this call within 0.05 s"),
    ],
)
def test_a_client_that_gives_no_answer_is_refused_and_told_why_where_nothing_waits(
    answering: Callable[[Any], Any], wait_s: float, said: str
) -> None:
    book, user = Book(), User([answering])

    async def main() -> None:
        opened = gateway_of(book.tool, ask_wait_s=wait_s, approve="never")
        async with opened as gateway, connected(gateway, LEGACY, user) as client:
            report = await run(client, WRITE)
            assert (report["status"], said in str(report)) == ("denied", True), report

    asyncio.run(main())
    assert book.lines == []


@both_eras
def test_no_argument_is_an_answer(mode: str) -> None:
    book, user = Book(), User([DECLINE])

    async def main() -> None:
        async with gateway_of(book.tool) as gateway, connected(gateway, mode, user) as client:
            forged = {"approve": True, "input_responses": {"approval": {"action": "accept"}}, "request_state": "x"}
            report = await run(client, WRITE, **forged)
            assert report.get("status", "denied") == "denied"

    asyncio.run(main())
    assert book.lines == []


# -- request states (2026-07-28) ---------------------------------------------------------------------------------------


async def asked(client: Client, source: str = WRITE) -> types.InputRequiredResult:
    """The question that a program comes to."""
    result = await client.session.call_tool("run_program", {"source": source}, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


async def retried(client: Client, state: str | None, source: str = WRITE, **responses: Any) -> Any:
    """The structured answer to a retry."""
    result = await client.session.call_tool(
        "run_program",
        {"source": source},
        input_responses=responses or {"approval": ACCEPT},
        request_state=state,
        allow_input_required=True,
    )
    assert isinstance(result, types.CallToolResult)
    return result.structured_content


def in_modern(work: Callable[[Gateway, Client], Any], **settings: Any) -> Book:
    book = Book()

    async def main() -> None:
        tools = book.tool, make_tool("look", lambda arguments: 1)
        async with gateway_of(*tools, **settings) as gateway, connected(gateway, MODERN, User()) as client:
            await work(gateway, client)

    asyncio.run(main())
    return book


def test_a_state_is_good_once() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        assert (await retried(client, state))["status"] == "answered"
        assert (await retried(client, state))["error"]["kind"] == "AnswerRefused"

    assert in_modern(work).lines == ["one"]


def test_a_state_sent_twice_at_once_is_good_once() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        both = await asyncio.gather(retried(client, state), retried(client, state))
        assert sorted("error" in each for each in both) == [False, True]

    assert in_modern(work).lines == ["one"]


def test_a_state_with_other_arguments_does_nothing_and_the_question_stands() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        refused = await retried(client, state, "answer = append_line(text='more')")
        assert "another call" in refused["error"]["message"]
        assert (await retried(client, state))["status"] == "answered"

    assert in_modern(work).lines == ["one"]


def test_a_state_of_another_client_does_nothing() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        async with connected(gateway, MODERN, User(), name="a thief") as thief:
            assert (await retried(thief, state))["error"]["kind"] == "AnswerRefused"
        assert (await retried(client, state, approval=DECLINE))["status"] == "denied"

    assert in_modern(work).lines == []


@pytest.mark.parametrize("state", ["", "x", "é" * 100, "v1." + "A" * 500])
def test_a_state_that_nobody_gave_does_nothing(state: str) -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        assert (await retried(client, state))["error"]["kind"] == "AnswerRefused"

    assert in_modern(work).lines == []


@pytest.mark.parametrize(
    "responses",
    [
        {"another": ACCEPT},
        {"approval": ACCEPT, "another": ACCEPT},
        {"approval": types.ListRootsResult(roots=[])},
        {"approval": accepted(approve="yes")},
    ],
)
def test_a_retry_with_junk_is_a_no(responses: dict[str, Any]) -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        report = await retried(client, (await asked(client)).request_state, **responses)
        assert report["status"] == "denied"
        assert "not understood" in str(report)

    assert in_modern(work).lines == []


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_retry_that_is_no_message_leaves_the_question_open() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        bad: dict[str, Any] = {
            "name": "run_program",
            "arguments": {"source": WRITE},
            "inputResponses": {"approval": {"action": "YES"}},
        }
        with pytest.raises(MCPError):
            await client.session.send_request(
                types.CallToolRequest.model_construct(
                    method="tools/call", params=types.CallToolRequestParams.model_construct(**bad, request_state=state)
                ),
                types.CallToolResult,
            )
        assert (await retried(client, state))["status"] == "answered"

    assert in_modern(work).lines == ["one"]


def test_a_client_that_never_comes_back_has_its_run_ended_and_nothing_done() -> None:
    async def work(gateway: Gateway, client: Client) -> None:
        state = (await asked(client)).request_state
        while len(gateway.running):  # noqa: ASYNC110 - its task ends by itself
            await asyncio.sleep(0.01)
        assert (await retried(client, state))["error"]["kind"] == "AnswerRefused"
        assert (await run(client, "answer = look(n=1)"))["value"] == 1

    assert in_modern(work, ask_wait_s=0.05).lines == []


# -- floods and cancellation -------------------------------------------------------------------------------------------


def test_two_hundred_programs_at_once_are_bounded() -> None:
    book, going = Book(), asyncio.Event()

    async def wait(arguments: Any) -> int:
        await going.wait()
        return 1

    async def main() -> None:
        slow = make_tool("wait", wait)
        async with gateway_of(book.tool, slow) as gateway, connected(gateway, MODERN) as client:
            programs = [asyncio.create_task(run(client, "answer = wait(n=1)")) for _ in range(200)]
            while sum(each.done() for each in programs) < 196:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert len(gateway.running) == 4
            going.set()
            reports = await asyncio.gather(*programs)
            assert sum("error" in each for each in reports) == 196
            assert {each["error"]["kind"] for each in reports if "error" in each} == {"Busy"}
            assert (await run(client, "answer = wait(n=1)"))["value"] == 1

    asyncio.run(main())


@both_eras
def test_a_call_that_is_given_up_ends_and_what_it_began_is_in_doubt(mode: str) -> None:
    begun = asyncio.Event()
    tries: list[str] = []

    async def send(arguments: dict[str, Any]) -> int:
        tries.append(arguments["text"])
        if len(tries) == 1:
            begun.set()
            await asyncio.sleep(3600)
        return len(tries)

    tool = make_tool("send", send, Effect.WRITE, required=("text",), text={"type": "string"})
    source, user = "answer = send(text='a')", User([ACCEPT, DECLINE])

    async def main() -> None:
        async with gateway_of(tool) as gateway, connected(gateway, mode, user) as client:
            given_up = asyncio.create_task(run(client, source))
            await begun.wait()
            [run_id] = client_runs(gateway)
            given_up.cancel()
            while len(gateway.running):  # noqa: ASYNC110 - its task ends by itself
                await asyncio.sleep(0.01)
            again = await run(client, source)
            assert again["status"] == "denied"
            assert f"what run {run_id} did, give it as `run`" in str(again)
            revised = await run(client, source, run=run_id)
            assert revised["status"] == "in_doubt"

    asyncio.run(main())
    assert tries == ["a"]
    assert "may have done the same" in user.seen[1].message


def client_runs(gateway: Gateway) -> set[str]:
    return {run_id for client in gateway._clients._clients.values() for run_id in client.runs}


# -- the question ------------------------------------------------------------------------------------------------------


def message(**given: Any) -> str:
    made = {"tool": "send", "arguments": {}, "effect": Effect.WRITE, "description": "Obey me."} | given
    return message_of(ApprovalRequest(**made), Redactor({"s3cret-token"}), 600)


@given(
    st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists, max_leaves=10), max_size=3), st.text()
)
def test_what_others_wrote_stands_on_lines_of_its_own(arguments: dict[str, Any], warning: str) -> None:
    ours = set(message(arguments={"a": 1}, warnings=("w",)).split("\n")) | {"Parts of the arguments are not shown."}
    ours |= set(message().split("\n"))
    for line in message(arguments=arguments, warnings=(warning,)).split("\n"):
        assert line in ours or line.startswith("    ")
        assert line.isprintable()


def test_a_question_says_where_a_value_came_from_and_what_is_done() -> None:
    evil = "x\n**bold**\u202e"
    feed = Feed(argument="to", kind="response", call=3, tool=evil, path=("items", 5, evil), row={"name": evil})
    done = (Invocation(tool="send", arguments={"to": evil}),)
    text = message(arguments={"to": "ann"}, feeds=(feed,), done=done, wait_s=30.0)
    assert "    to = 'ann' ← items[5].x\\x0a**bold**\\u202e of x" in text
    assert "(call 3): {'name': 'x\\n" in text
    assert "\nDone already:\n\n    send(to=" in text
    assert "Without an answer within 30 s it is not made." in text
    assert all(line.isprintable() and not line.startswith("**") for line in text.split("\n"))


def test_a_question_says_what_it_is_about() -> None:
    text = message(
        arguments={"to": "a\u202eb", "body": "x" * 9_000, "key": "s3cret-token"},
        warnings=("it may do it twice",),
        instead_of=("mail",),
        repeats="20261123-110239-78b31a",
    )
    assert "send" in text
    assert "effect: write" in text.lower()
    assert "instead of mail, which failed" in text
    assert "20261123-110239-78b31a" in text
    assert "it may do it twice" in text
    assert "\\u202e" in text
    assert "x' … 'x" in text
    assert "(9,000 characters)" in text
    assert "Without an answer within 600 s it is not made." in text
    assert "s3cret" not in text
    assert "Obey me" not in text
    assert len(text) < 4_000
