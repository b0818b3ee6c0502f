"""Rules that have a call wait for approval, whatever the choice over calls is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, tool
from atc.calls import question
from atc.calls.approval import ApprovalRequest
from atc.errors import SettingsError
from atc.run.approvals import waiting_run
from tests.support.permissions import file_of, written

RULES = '[[rules]]\nask = "pay"\nwait = "park"\n[[rules]]\nask = "*"\n'
PAY = 'answer = pay(cents=5)["paid"]'


class Till:
    """Tools, what they did, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path, rules: str = RULES) -> None:
        self.folder, self.paid, self.asked = folder, list[int](), list[ApprovalRequest]()
        self.rules = file_of(folder, rules)
        self.state, self.has_changed = "free", False

    def agent(self, *programs: str, **given: Any) -> Agent:
        @tool(effect="write")
        def pay(cents: int) -> dict[str, int]:
            """Pay."""
            self.paid.append(cents)
            return {"paid": cents}

        if self.has_changed:

            @tool(effect="write")
            def pay(cents: int) -> dict[str, int]:
                """Pay."""
                self.paid.append(2 * cents)
                return {"paid": cents}

        @tool(effect="write")
        def book(room: str) -> str:
            """Book a room."""
            return room

        @tool(effect="read")
        def look(room: str) -> str:
            """Look at a room."""
            return self.state

        settings = {"sentence": False, "runs_dir": self.folder / "runs", "learn": False, "max_revisions": 0}
        settings |= {"audit": self.folder / "audit.jsonl", "permissions": self.rules}
        replies = [f"```python\n{program}\n```" for program in programs]
        return Agent([pay, book, look], model=FakeModel(replies), **{**settings, **given})

    def ask(self, request: ApprovalRequest) -> bool:
        """Say yes to whatever is asked here."""
        self.asked.append(request)
        return True


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


@pytest.mark.parametrize("choice", ["ask", "always", "park", "function", None])
def test_a_rule_has_a_call_wait_whatever_the_choice_is(
    till: Till, choice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "has_terminal", lambda: choice == "ask")
    approve = till.ask if choice == "function" else choice
    waiting = till.agent(PAY, approve=approve).run("pay 5")
    assert (waiting.status, [call.arguments for call in waiting.pending]) == ("waiting", [{"cents": 5}])
    again = till.agent(approve=approve).resume(waiting.run_id)
    assert (again.status, again.pending, till.paid, till.asked) == ("waiting", waiting.pending, [], [])
    till.agent().approve(waiting.run_id)
    assert (till.agent(approve=approve).resume(waiting.run_id).value, till.paid) == (5, [5])


def test_a_never_that_was_set_stays_a_no(till: Till) -> None:
    refused = till.agent(PAY, approve="never").run("pay 5")
    assert (refused.status, refused.pending, till.paid) == ("denied", (), [])


def test_the_other_rules_ask_as_before(till: Till) -> None:
    done = till.agent('answer = book(room="4")', approve=till.ask).run("book room 4")
    assert (done.status, len(till.asked)) == ("answered", 1)


def test_what_needs_the_value_of_a_call_that_waits_ends_the_program_there(till: Till) -> None:
    program = 'paid = pay(cents=5)["paid"]\nbook(room=f"{paid}")\nanswer = paid + 1'
    waiting = till.agent(program, approve=till.ask).run("pay 5 and book")
    assert (waiting.status, [call.tool for call in waiting.pending], till.asked) == ("waiting", ["pay"], [])


def test_a_dry_run_plans_it_and_a_conversation_that_is_not_kept_refuses_it_and_says_why(till: Till) -> None:
    assert till.agent(PAY).run("pay 5", dry_run=True).status == "planned"
    with till.agent(PAY, 'answer = book(room="4")', approve=till.ask, keep_runs=False) as agent:
        conversation = agent.conversation()
        refused = conversation.run("pay 5")
        assert (refused.status, till.paid, till.asked) == ("denied", [], [])
        assert "a conversation that is not kept" in str(refused.calls[0].error)
        assert conversation.run("book room 4").status == "answered"


def test_a_task_of_a_conversation_waits_by_a_rule(till: Till) -> None:
    with till.agent(PAY, 'answer = book(room="4")', approve=till.ask) as agent, agent.conversation() as conversation:
        assert (conversation.run("pay 5").status, till.asked) == ("waiting", [])
        till.agent().approve(conversation.id)
        assert (conversation.resume().value, till.paid) == (5, [5])
        assert conversation.run("book room 4").status == "answered"


def test_a_read_that_a_rule_has_wait_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    till = Till(tmp_path, '[[rules]]\nask = "look"\nwait = "park"\n')
    refused = till.agent('answer = look(room="4")', approve=till.ask).run("look")
    assert (refused.status, till.asked) == ("denied", [])
    assert "it cannot wait" in str(refused.calls[0].error)


def test_of_two_rules_that_ask_the_one_counts_that_has_it_wait(tmp_path: Path) -> None:
    till = Till(
        tmp_path, '[[rules]]\nask = "*"\n[[rules]]\nask = "pay"\nwait = "park"\narguments = {cents = {min = 3}}\n'
    )
    assert till.agent(PAY, approve=till.ask).run("pay 5").status == "waiting"
    assert till.agent("answer = pay(cents=2)", approve=till.ask).run("pay 2").status == "answered"


@pytest.mark.parametrize(
    "rule", ['allow = "pay"\nwait = "park"', 'deny = "pay"\nwait = "park"', 'ask = "pay"\nwait = "1d"']
)
def test_wait_stands_beside_ask_alone(tmp_path: Path, rule: str) -> None:
    with pytest.raises(SettingsError, match="wait"):
        written(tmp_path, f"[[rules]]\n{rule}\n")


def test_who_is_asked_a_second_time_is_shown_what_was_done_already(till: Till) -> None:
    waiting = till.agent('paid = pay(cents=5)["paid"]\nanswer = pay(cents=paid + 1)').run("pay 5, then 6")
    till.agent().approve(waiting.run_id, by="ann")
    second = till.agent().resume(waiting.run_id)
    found = waiting_run(till.agent().store.run(waiting.run_id))
    assert (second.status, [call.arguments for call in found.pending]) == ("waiting", [{"cents": 6}])
    assert [(call.tool, call.arguments) for call in found.done] == [("pay", {"cents": 5})]


# -- the audit log -----------------------------------------------------------------------------------------------------


def audited(till: Till) -> list[tuple[str, ...]]:
    """What the audit log says of each step."""
    lines = [json.loads(line) for line in (till.folder / "audit.jsonl").read_text().splitlines()]
    return [tuple(str(line.get(name, "")) for name in ("verdict", "by", "who", "why")) for line in lines]


def test_each_step_of_a_call_that_waits_is_in_the_audit_log(till: Till) -> None:
    waiting = till.agent(PAY).run("pay 5")
    till.agent().resume(waiting.run_id)  # it waits on, and nothing is new
    till.agent().approve(waiting.run_id, by="ann")
    till.agent().resume(waiting.run_id)
    assert audited(till) == [
        ("parked", "rule 1", "", ""),
        ("approved", "user", "ann", ""),
        ("allowed", "user", "ann", ""),
    ]


def test_a_no_is_in_the_audit_log(till: Till) -> None:
    waiting = till.agent(PAY).run("pay 5")
    till.agent().approve(waiting.run_id, by="ann", deny=True)
    till.agent().resume(waiting.run_id)
    assert audited(till)[1:] == [("denied", "user", "ann", ""), ("refused", "user", "ann", "")]


@pytest.mark.parametrize("what", ["expired", "late", "tool", "reads"])
def test_the_audit_log_says_why_a_yes_does_not_hold(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(tmp_path, '[[rules]]\nask = "pay"\nwait = "park"\n')
    program = 'look(room="4")\npay(cents=5)\nanswer = 1'
    given: dict[str, Any] = {"reuse_reads_s": 0.0}
    waiting = till.agent(program, **given).run("pay 5")
    if what != "expired":
        till.agent().approve(waiting.run_id, by="ann")
    if what in ("expired", "late"):
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 8 * 86_400)
    if what == "reads":
        till.state = "taken"
    till.has_changed = what == "tool"
    again = till.agent(**given).resume(waiting.run_id)
    assert (again.status, till.paid) == ("waiting", [])
    became = [line for line in audited(till) if line[0] in ("voided", "expired")]
    expected = {"expired": ("expired", "nobody", "", ""), "late": ("voided", "user", "ann", "expired")}
    assert became == [expected.get(what, ("voided", "user", "ann", what))]
    assert [line[0] for line in audited(till)].count("parked") == 2


def test_a_call_waits_on_where_the_audit_log_cannot_be_written_and_is_not_made(till: Till) -> None:
    blocked = till.folder / "blocked"
    blocked.mkdir()
    waiting = till.agent(PAY, audit=blocked).run("pay 5")
    assert (waiting.status, "audit log cannot be written" in waiting.calls[0].notes[-1]) == ("waiting", True)
    till.agent().approve(waiting.run_id)
    assert (till.agent(audit=blocked).resume(waiting.run_id).status, till.paid) == ("denied", [])
