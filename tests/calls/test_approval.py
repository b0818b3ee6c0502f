"""Who decides over calls with effects: one vocabulary everywhere, and no unasked write that depends on a warning."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from atc import Agent, ApprovalRequest, Prober, Result, Toolset, UsageError, tool
from atc.calls import question
from atc.calls.approval import Approval, ask_at_terminal, checked_approve
from atc.errors import RunFailed, SettingsError
from atc.models.fake import FakeModel
from atc.settings import Settings
from tests.support.agent import agent, rejecting
from tests.support.broker import UNKNOWN, WRITE, House, counted, never
from tests.support.tools import make_tool

WARNING = "an e-mail address in the program stands in neither the task nor a response"
CATCHES = "```python\ntry:\n    answer = book(n=1)\nexcept ToolError as error:\n    answer = error.status\n```"


def request(*warnings: str) -> ApprovalRequest:
    return ApprovalRequest("book", {"n": 1}, WRITE, "Book it.", warnings)


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: True)


# -- the words -------------------------------------------------------------------------------------------------------


def yes(request: ApprovalRequest) -> bool:
    return True


@pytest.mark.parametrize(
    ("approve", "warnings", "plain", "warned"),
    [
        ("never", "ask", "denied", "denied"),
        ("never", "allow", "denied", "denied"),
        ("ask", "ask", ask_at_terminal, ask_at_terminal),
        ("ask", "allow", ask_at_terminal, ask_at_terminal),
        ("always", "ask", "allowed", "warned"),
        ("always", "allow", "allowed", "allowed"),
        (yes, "ask", yes, yes),
        (yes, "allow", yes, yes),
    ],
)
def test_each_word_means_one_thing(approve: Any, warnings: Any, plain: Any, warned: Any) -> None:
    rule = Approval(approve, warnings)
    assert (rule.decide(request()), rule.decide(request(WARNING))) == (plain, warned)


@pytest.mark.usefixtures("at_a_terminal")
def test_at_a_terminal_the_user_is_asked_about_a_warned_program_also_under_always() -> None:
    assert Approval("always").decide(request(WARNING)) is ask_at_terminal
    assert Approval("always").decide(request()) == "allowed"
    assert Approval("never").decide(request(WARNING)) == "denied"


def test_without_a_word_nothing_is_approved_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_approve(None) == "never"
    monkeypatch.setattr(question, "has_terminal", lambda: True)
    assert checked_approve(None) == "ask"


@pytest.mark.usefixtures("at_a_terminal")
def test_an_answer_may_hold_for_the_rest_of_a_series(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ["y", "a", "y", "n", "q"]

    async def line(*_: Any) -> str:
        return answers.pop(0)

    monkeypatch.setattr(question, "_line", line)
    sent, book = counted()
    house = House(make_tool("book", book, WRITE), make_tool("pay", book, WRITE), approve="ask")
    assert [house.call("book", n=n).error for n in range(4)] == [None] * 4
    first, second = capsys.readouterr().err.split("[y/a/q/N]: ")[0].split("[y/N]: ")
    assert "a: " not in first, "one write is no series"
    for covered in ("every other call of book in this task", "whatever its arguments", "with a warning", "repeats"):
        assert covered in second
    assert [data["index"] for kind, data in house.events if kind == "approval_asked"] == [1, 2]
    assert house.last.notes == ("allowed by your approval to all calls of this tool",)

    house.broker.warnings = {"book": (WARNING,)}
    assert house.call("book", n=4).error is None  # asked: it is not covered
    assert "a: " not in capsys.readouterr().err
    assert house.call("pay", n=5).status == "denied"  # nor is another tool
    assert house.call("pay", n=6).status == "denied"
    assert answers == []
    house.broker.warnings = {}
    for refused in (house.call("pay", n=7), house.call("book", n=8)):
        assert (refused.status, house.last.refused_by) == ("denied", "user")
        assert "all that need approval" in str(refused.error)
    assert len(sent) == 5
    house.broker.begin_stage(new_request=True)
    capsys.readouterr()
    answers += ["n"]
    assert house.call("book", n=9).status == "denied"
    assert "q: " not in capsys.readouterr().err, "the next task is asked about anew"


def test_without_a_terminal_each_line_answers_one_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def line(*_: Any) -> str:
        return "a"

    monkeypatch.setattr(question, "_line", line)
    house = House(make_tool("book", never, WRITE), approve="ask")
    assert [house.call("book", n=n).status for n in range(3)] == ["denied"] * 3
    assert "a: " not in capsys.readouterr().err


def test_the_trace_tells_who_decided() -> None:
    for approve, told in ((None, "never"), ("always", "always"), (yes, "function")):
        made = Agent([make_tool("look", lambda _: 1)], model=FakeModel([CATCHES]), approve=approve, max_revisions=0)
        assert made.store.find(made.run("look").run_id).first("run_started")["settings"]["approve"] == told  # type: ignore[index]


@pytest.mark.parametrize("approve", ["yes", "allow", True, 1, ""])
def test_what_is_no_word_and_no_function_is_wrong_use(approve: Any) -> None:
    with pytest.raises(UsageError, match="approve takes 'ask', 'never', 'always', 'park' or a function"):
        agent(approve=approve)
    with pytest.raises(UsageError, match="approve takes"):
        Prober(Toolset([make_tool("book", never, WRITE)]), approve=approve)


def test_an_agent_does_what_argument_then_setting_then_default_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(**given: Any) -> Any:
        tools = Toolset([make_tool("book", lambda _: "booked", UNKNOWN)])
        model = FakeModel([CATCHES] * 2)
        result = Agent(tools, model=model, sentence=False, max_revisions=0, **given).run("book it")
        return result.calls[0].status, result.calls[0].error_status

    assert status() == ("refused", "denied")
    assert status(approve="always") == ("ok", None)
    monkeypatch.setenv("ATC_APPROVE", "always")
    assert status() == ("ok", None)
    assert status(approve="never") == ("refused", "denied")
    monkeypatch.setenv("ATC_APPROVE", "sure")
    with pytest.raises(SettingsError, match="approve: "):
        status()
    with pytest.raises(SettingsError, match="warnings: "):
        Settings.load(approve="ask", warnings="never")


# -- at the broker ---------------------------------------------------------------------------------------------------


def test_a_warned_write_is_not_made_unasked_and_the_others_are() -> None:
    seen, function = counted()
    pay, look = make_tool("pay", lambda _: 5, WRITE), make_tool("look", lambda _: 1)
    house = House(make_tool("book", function, WRITE), pay, look)
    house.broker.begin_program({"book": (WARNING,)})
    reply = house.call("book", n=1)
    assert (reply.status, house.last.status, seen, house.journal.entries) == ("warned", "refused", [], {})
    assert WARNING in (reply.error or "")
    assert (house.call("look", n=1).value, house.call("pay", n=1).value) == (1, 5)
    house.broker.begin_program()
    assert house.call("book", n=1).value == "ok"


def test_a_function_is_asked_with_the_warnings_and_the_trace_says_so() -> None:
    asked: list[ApprovalRequest] = []
    house = House(make_tool("book", lambda _: 7, WRITE), approve=lambda r: asked.append(r) or True)
    house.broker.begin_program({"book": (WARNING,)})
    assert house.call("book", n=1).value == 7
    assert asked == [ApprovalRequest("book", {"n": 1}, WRITE, "book it.", (WARNING,))]
    kinds = [kind for kind, _ in house.events]
    assert kinds == ["approval_asked", "call_started", "call_sent", "call_ended"]
    assert house.events[0][1]["warnings"] == [WARNING]


# -- through a whole run ---------------------------------------------------------------------------------------------


class Meeting(TypedDict):
    title: str
    attendees: list[str]


class Calendar:
    """A calendar with two meetings, and the letters that were sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(effect="read")
        def list_events() -> list[Meeting]:
            """All events."""
            return [
                {"title": "Design review", "attendees": ["ann@example.org"]},
                {"title": "Payroll", "attendees": ["bob@example.org"]},
            ]

        @tool(effect="write")
        def send_email(to: str, text: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return "sent"

        self.tools = [list_events, send_email]

    def run(self, *programs: str, **settings: Any) -> Result:
        replies = [f"```python\n{program}```" for program in programs]
        settings = {"max_revisions": 0, "strategy": rejecting(1), "approve": "always", **settings}
        return Agent(self.tools, model=FakeModel(replies), sentence=False, **settings).run("write to them")


GUESSED = """
address = "ann@example.com"
send_email(to=address, text="Room 4")
answer = "done"
"""
HOPES = """
address = "ann@example.com"
try:
    send_email(to=address, text="Room 4")
except ToolError:
    pass
answer = "done"
"""
KNOWN = """
for event in list_events():
    send_email(to=event["attendees"][0], text="Room 4")
answer = "done"
"""
BESIDE = 'is_boss = "boss@example.org"\n' + KNOWN.replace('"done"', "is_boss")
AGAIN = GUESSED + "# again\n"
BOTH = ["ann@example.org", "bob@example.org"]


@pytest.mark.parametrize("programs", [(GUESSED, AGAIN), (HOPES, HOPES + "# again\n")], ids=["raises", "hopes"])
def test_a_write_that_depends_on_a_warning_is_sent_back_once_and_then_not_made_unasked(
    programs: tuple[str, ...],
) -> None:
    calendar = Calendar()
    result = calendar.run(*programs)
    assert (result.status, calendar.sent) == ("unsolved", [])
    assert [[finding.message for finding in each.findings] for each in result.revisions] == [[WARNING], []]
    assert result.fault is not None
    assert WARNING in result.fault.message
    assert 'warnings="allow"' in result.fault.hint
    with pytest.raises(RunFailed, match=r"stands in neither.*warnings="):
        result.unwrap()


def test_a_write_that_depends_on_no_warning_is_an_ordinary_one() -> None:
    calendar = Calendar()
    result = calendar.run(BESIDE)
    assert (result.value, calendar.sent) == ("boss@example.org", BOTH)
    assert len(result.revisions) == 1
    assert result.revisions[0].all_findings == ()


def test_a_program_that_went_on_is_not_sent_back_when_it_is_resumed() -> None:
    calendar = Calendar()
    result = calendar.run(GUESSED, AGAIN)
    resumed = Agent(
        calendar.tools, model=FakeModel([]), sentence=False, approve=yes, max_revisions=0, strategy=rejecting(1)
    ).resume(result.run_id)
    assert (resumed.status, len(resumed.revisions)) == ("answered", 1)
    assert calendar.sent == ["ann@example.com"]


def test_the_words_for_the_user_reach_no_model() -> None:
    calendar = Calendar()
    model = FakeModel([f"```python\n{program}```" for program in (GUESSED, AGAIN, KNOWN)])
    made = Agent(calendar.tools, model=model, sentence=False, approve="always", max_revisions=2)
    assert (made.run("write to them").status, calendar.sent) == ("answered", BOTH)
    sent_back, refused = (prompt[-1].content for prompt in model.prompts[1:])
    assert "write the program again as it is" in sent_back
    assert "was not called: it depends on what the check warned about" in refused
    assert "allow" not in refused


def test_a_program_that_heeds_the_warning_is_not_asked_about() -> None:
    calendar = Calendar()
    assert calendar.run(GUESSED, KNOWN).status == "answered"
    assert calendar.sent == BOTH


def test_who_allows_warnings_gets_what_the_program_does_at_once() -> None:
    calendar = Calendar()
    result = calendar.run(GUESSED, warnings="allow")
    assert (result.status, len(result.revisions), len(calendar.sent)) == ("answered", 1, 1)


def test_a_function_sees_the_warnings_that_the_write_depends_on() -> None:
    calendar, seen = Calendar(), list[tuple[str, ...]]()
    calendar.run(GUESSED, AGAIN, approve=lambda request: bool(seen.append(request.warnings)))
    assert set(seen) == {(WARNING,)}
    assert calendar.sent == []
    seen.clear()
    calendar.run(BESIDE, approve=lambda request: seen.append(request.warnings) or True)
    assert seen == [(), ()]
