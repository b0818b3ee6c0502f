"""Where an argument came from, as a person reads it: what strangers write is first, and nothing imitates the words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.redaction import Redactor
from atc._records.origins import UNKNOWN, Origin, Origins, data_flow
from atc._records.records import DataFlow, Feed, PendingCall, PlannedCall
from atc.calls import question
from atc.calls.approval import ApprovalRequest, question_of
from atc.result import Effect
from atc.serve.mcp.asking import message_of
from atc.serve.ui.shown_calls import shown_arguments
from atc.wording import origins as said
from atc.wording import plans

TASK, LITERAL, NOBODY = Origin(kind="task"), Origin(kind="literal"), Origin(kind="unknown")


def tool(name: str, *path: str, how: Any = "value") -> Origin:
    return Origin(kind="tool", tool=name, path=path, how=how)


def flow_of(untrusted: tuple[str, ...] = (), saw: tuple[str, ...] = (), **origins: Origins) -> DataFlow:
    found = data_flow(origins, untrusted, saw, {"read_mail"})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("origins", "text"),
    [
        ([TASK], "the task"),
        ([LITERAL], "the program alone"),
        ([Origin(kind="author")], "the program's author"),
        ([NOBODY], "nobody knows"),
        (
            [tool("get_contact", "iban"), tool("read_mail", "sender", how="call"), Origin(kind="literal", how="call")],
            "get_contact.iban via read_mail.sender (strangers write that)",
        ),
        (
            [tool("list_x"), tool("read_mail", "a", how="choice")],
            "chosen by read_mail.a (strangers write that); list_x",
        ),
        (
            [TASK, tool("read_mail", how="author")],
            "written after its author saw read_mail (strangers write that); the task",
        ),
        (
            [tool("a"), tool("b"), tool("c"), tool("d"), tool("read_mail", "z"), tool("read_mail", "z", how="call")],
            "read_mail.z (strangers write that), a, b and 2 more",
        ),
        ([tool("x", "the task", "b")], "x['the task'].b"),
        ([tool("x", "a (strangers write that)"), tool("the task\n")], "'the task\\n', x['a (strangers write that)']"),
    ],
)  # fmt: skip
def test_one_wording(origins: list[Origin], text: str) -> None:
    assert said.came_from(origins, {"read_mail"}) == text


def test_what_cannot_be_followed_may_be_theirs_where_it_is_asked_about() -> None:
    flow = flow_of(("to",), to=UNKNOWN, text=UNKNOWN)
    assert said.argument_came_from(flow, "to") == "nobody knows (strangers may write that)"
    assert said.argument_came_from(flow, "text") == "nobody knows"


PATHS = st.lists(st.text(max_size=20), max_size=3).map(tuple)


@given(st.text(max_size=30), PATHS)
def test_no_name_from_outside_steers_the_line_or_passes_for_a_word_of_it(name: str, path: tuple[str, ...]) -> None:
    text = said.came_from([tool(name, *path)], ())
    assert "\n" not in text
    assert text.isprintable()
    assert text not in {"the task", "the program alone", "the program's author", "nobody knows"}
    outside = text.replace("\\'", "").replace('\\"', "")
    assert "(strangers" not in outside or "'" in outside or '"' in outside


REQUEST = ApprovalRequest(
    tool="send",
    arguments={**{f"a{number}": number for number in range(60)}, "to": "x@y.example", "message": {"cc": "z"}},
    effect=Effect.WRITE,
    description="",
    origins={
        "a0": frozenset({TASK}),
        "to": frozenset({tool("read_mail", "body")}),
        "message": frozenset({LITERAL, tool("read_mail", "cc")}),
        "message.cc": frozenset({tool("read_mail", "cc")}),
    },
    untrusted=("to", "message.cc"),
    author_saw=("read_mail",),
    strangers=("read_mail",),
)


def shown(request: ApprovalRequest, capsys: pytest.CaptureFixture[str]) -> list[str]:
    asyncio.run(question.ask(*question_of(request)))
    return capsys.readouterr().err.split("\n")


def test_a_question_says_first_what_strangers_may_have_chosen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setenv("COLUMNS", "200")
    lines = shown(REQUEST, capsys)
    assert lines[:7] == [
        "allow send? effect: write",
        "careful:",
        "  | strangers may have chosen to and message.cc",
        "  | the program was written after its model saw what read_mail answered (strangers write that)",
        "arguments:",
        "  | to = 'x@y.example' ← read_mail.body (strangers write that)",
        "  | message = {'cc': 'z'} ← read_mail.cc (strangers write that), the program's text",
    ]
    assert lines[7] == "  |   message.cc = 'z' ← read_mail.cc (strangers write that)"
    assert lines[8] == "  | a0 = 0 ← the task"


def test_the_page_and_a_waiting_call_say_the_same() -> None:
    page = shown_arguments(Redactor(), REQUEST.arguments, (), REQUEST.data_flow)
    assert page["careful"][0] == "strangers may have chosen to and message.cc"
    assert page["arguments"][0] == ["to", "'x@y.example'"]
    assert ["to", "read_mail.body (strangers write that)"] in page["origins"]
    call = PendingCall(
        index=1, tool="send", effect="write", arguments=REQUEST.arguments, data_flow=REQUEST.data_flow
    )  # fmt: skip
    kept = PendingCall.model_validate_json(call.model_dump_json())
    assert kept == call
    text = plans.pending_call(kept)
    assert "     to ← read_mail.body (strangers write that)" in text
    assert "     careful: strangers may have chosen to and message.cc" in text


def test_an_argument_that_nothing_is_wrong_with_is_told_by_its_feed_where_that_is_sure() -> None:
    sure = Feed(argument="to", kind="response", tool="find", call=1, path=("id",))
    unsure = Feed(argument="to", kind="program")
    flow = flow_of(to=frozenset({tool("find", "id")}))
    assert plans.origins([sure], {"to": 1}, flow) == {"to": [("", "id of find (call 1)")]}
    assert plans.origins([unsure], {"to": 1}, flow) == {"to": [("", "find.id")]}
    assert plans.origins([unsure], {"to": 1}, flow_of(to=UNKNOWN)) == {"to": [("", "the program alone")]}
    assert plans.origins([], {"to": 1}, flow_of(to=UNKNOWN)) == {"to": [("", "nobody knows")]}


def test_a_refusal_names_the_argument_and_its_origin() -> None:
    flow = flow_of(("to",), ("read_mail",), to=frozenset({tool("read_mail", "body")}))
    assert said.suspicion(flow) == (
        "to ← read_mail.body (strangers write that); "
        "the program was written after its model saw what read_mail answered (strangers write that)"
    )


def test_a_record_of_a_program_with_very_many_origins_is_bounded_and_keeps_what_strangers_write() -> None:
    many = frozenset(tool(f"t{number}") for number in range(500)) | {tool("read_mail", "zz")}
    flow = flow_of(("n999",), **{f"n{number}": many for number in range(1000)})
    assert len(flow.origins) == 100
    assert flow.origins["n999"][0] == tool("read_mail", "zz")
    assert flow.left_out == 1000 * 501 - 100 * 50
    assert len(said.argument_came_from(flow, "n999")) < 200


def test_the_form_of_a_client_says_it_in_lines_of_code_where_nothing_is_markdown() -> None:
    link = "message.[yes](http://evil)"
    asked = replace(REQUEST, arguments={"message": {"[yes](http://evil)": 1}}, untrusted=(link,), origins={})
    lines = message_of(asked, Redactor(), 60).split("\n")
    assert any("strangers may have chosen" in line for line in lines)
    assert all(line.startswith("    ") for line in lines if "evil" in line)


def test_a_plan_of_many_calls_says_which_of_them_strangers_may_have_chosen_before_all_else() -> None:
    clean, theirs = flow_of(to=frozenset({TASK})), flow_of(("to",), ("read_mail",), to=UNKNOWN)
    flows = {1: None, 2: clean, **dict.fromkeys(range(3, 40), theirs)}
    calls = [PlannedCall(index=n, tool="pay", effect="write", data_flow=each) for n, each in flows.items()]
    assert said.careful_of_plan(calls[:2]) == []
    chosen, saw = said.careful_of_plan(calls)
    assert chosen.endswith("of calls 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 27 more calls")
    assert saw == said.author_saw(["read_mail"])
