"""Who decides over calls with effects: one vocabulary everywhere, and no unasked write of a program with a warning."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from atc import Agent, ApprovalRequest, Prober, Result, Toolset, UsageError, tool
from atc.calls import question
from atc.calls.approval import Approval, ask_at_terminal, checked_approve
from atc.errors import RunFailed, SettingsError
from atc.models.fake import FakeModel
from atc.settings import Settings
from tests.support.agent import agent
from tests.support.broker import UNKNOWN, WRITE, House, counted, never
from tests.support.tools import make_tool

WARNING = "the task says 'Design review', but the program uses it nowhere"
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


def test_the_trace_tells_who_decided() -> None:
    for approve, told in ((None, "never"), ("always", "always"), (yes, "function")):
        made = Agent([make_tool("look", lambda _: 1)], model=FakeModel([CATCHES]), approve=approve, max_revisions=0)
        assert made.store.find(made.run("look").run_id).first("run_started")["settings"]["approve"] == told  # type: ignore[index]


@pytest.mark.parametrize("approve", ["yes", "allow", True, 1, ""])
def test_what_is_no_word_and_no_function_is_wrong_use(approve: Any) -> None:
    with pytest.raises(UsageError, match="approve takes 'ask', 'never', 'always' or a function"):
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


def test_a_warned_program_makes_no_write_unasked_and_the_next_program_does() -> None:
    seen, function = counted()
    house = House(make_tool("book", function, WRITE), make_tool("look", lambda _: 1))
    house.broker.begin_program([WARNING])
    reply = house.call("book", n=1)
    assert (reply.status, house.last.status, seen, house.journal.entries) == ("warned", "refused", [], {})
    assert WARNING in (reply.error or "")
    assert house.call("look", n=1).value == 1
    house.broker.begin_program()
    assert house.call("book", n=1).value == "ok"


def test_a_function_is_asked_with_the_warnings_and_the_trace_says_so() -> None:
    asked: list[ApprovalRequest] = []
    house = House(make_tool("book", lambda _: 7, WRITE), approve=lambda r: asked.append(r) or True)
    house.broker.begin_program([WARNING])
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
                {"title": "Payroll", "attendees": ["bob@example.org", "cy@example.org"]},
            ]

        @tool(effect="write")
        def send_email(to: str, text: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return "sent"

        self.tools = [list_events, send_email]

    def run(self, *programs: str, **settings: Any) -> Result:
        replies = [f"```python\n{program}```" for program in programs]
        settings = {"max_revisions": 0, "max_rejections": 1, "approve": "always", **settings}
        task = "send 'Room 4' to every attendee of 'Design review'"
        return Agent(self.tools, model=FakeModel(replies), sentence=False, **settings).run(task)


EVERYBODY = """
for event in list_events():
    for name in event["attendees"]:
        send_email(to=name, text="Room 4")
answer = "done"
"""
HOPES = EVERYBODY.replace(
    '        send_email(to=name, text="Room 4")\n',
    """        try:
            send_email(to=name, text="Room 4")
        except ToolError:
            pass
""",
)
RIGHT = EVERYBODY.replace("    for name", '    if event["title"] != "Design review":\n        continue\n    for name')
BROKEN = EVERYBODY.replace("list_events()", "list_event()")
AGAIN = EVERYBODY + "# again\n"


@pytest.mark.parametrize(
    "programs",
    [(EVERYBODY, AGAIN), (HOPES, HOPES + "# again\n"), (EVERYBODY, BROKEN)],
    ids=["raises", "hopes", "first"],
)
def test_a_program_that_left_the_meeting_out_mails_nobody_unasked(programs: tuple[str, ...]) -> None:
    calendar = Calendar()
    result = calendar.run(*programs)
    assert (result.status, calendar.sent) == ("unsolved", [])
    assert result.fault is not None
    assert WARNING in result.fault.message
    assert 'warnings="allow"' in result.fault.hint
    with pytest.raises(RunFailed, match=r"Design review.*warnings="):
        result.unwrap()


def test_a_resume_knows_what_an_earlier_program_had_and_the_last_one_forgot() -> None:
    calendar, task = Calendar(), "send Room 4 to every attendee of Design review"
    first = "meeting = 'Design review'\nanswer = list_events()[9][meeting]"
    again = EVERYBODY.replace('"Room 4"', '"room 4"')

    def agent_with(*programs: str, rejections: int) -> Agent:
        model = FakeModel([f"```python\n{program}\n```" for program in programs])
        bounds = {"max_revisions": 0, "max_rejections": rejections}
        return Agent(calendar.tools, model=model, sentence=False, approve="always", **bounds)

    result = agent_with(first, again, rejections=1).run(task)
    assert (result.status, calendar.sent) == ("unsolved", [])
    resumed = agent_with(rejections=0).resume(result.run_id)
    assert (resumed.status, calendar.sent) == ("unsolved", [])
    assert resumed.fault is not None
    assert "which an earlier program used and this one does not" in resumed.fault.message


def test_the_words_for_the_user_reach_no_model() -> None:
    calendar = Calendar()
    model = FakeModel([f"```python\n{program}```" for program in (EVERYBODY, AGAIN, RIGHT)])
    task = "send 'Room 4' to every attendee of 'Design review'"
    result = Agent(calendar.tools, model=model, sentence=False, approve="always", max_revisions=2).run(task)
    assert (result.status, calendar.sent) == ("answered", ["ann@example.org"])
    last = model.prompts[-1][-1].content
    assert "send_email(" in last
    assert "was not called: the program has an unresolved warning" in last
    assert "allow" not in last


def test_a_program_that_heeds_the_warning_is_not_asked_about() -> None:
    calendar = Calendar()
    assert calendar.run(EVERYBODY, RIGHT).status == "answered"
    assert calendar.sent == ["ann@example.org"]


def test_who_allows_warnings_gets_what_the_program_does() -> None:
    calendar = Calendar()
    assert calendar.run(EVERYBODY, AGAIN, warnings="allow").status == "answered"
    assert len(calendar.sent) == 3


def test_a_function_sees_the_warning_of_the_program_that_asks() -> None:
    calendar, seen = Calendar(), []
    calendar.run(EVERYBODY, AGAIN, approve=lambda request: bool(seen.append(request.warnings)))
    assert set(seen) == {(WARNING,)}
    assert calendar.sent == []
    seen.clear()
    calendar.run(RIGHT, approve=lambda request: seen.append(request.warnings) or True)
    assert seen == [()]


def test_the_best_of_several_first_programs_is_held_to_its_warning_too() -> None:
    calendar = Calendar()
    assert calendar.run(EVERYBODY, AGAIN, EVERYBODY, AGAIN, candidates=2, max_revisions=0).status == "unsolved"
    assert calendar.sent == []
