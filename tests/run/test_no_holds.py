"""A no covers a call in its run however often it comes again, and is told where the run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, tool
from atc.calls import approving
from atc.calls.approval import ApprovalRequest
from tests.support.permissions import file_of

RETRY = """answer = 0
for n in range(3):
    try:
        answer = put(n=1)
        break
    except ToolError as error:
        answer = str(error.status)
"""
CATCH = "def one(n):\n    try:\n        return put(n=n)\n    except ToolError as e:\n        return str(e.status)\n"
FAILS = "\nanswer = [][9]"
ALLOW = '[[rules]]\nallow = "*"\n'


class House:
    """A write, what it did and who was asked, and agents that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made, self.asked = folder, list[int](), list[int]()

    def says_no(self, request: ApprovalRequest) -> bool:
        self.asked.append(request.arguments["n"])
        return self.asked[-1] not in (1, 2)

    def says_yes(self, request: ApprovalRequest) -> bool:
        self.asked.append(request.arguments["n"])
        return True

    def agent(self, *programs: str, **given: Any) -> Agent:
        @tool(effect="write")
        def put(n: int) -> int:
            """Put it."""
            self.made.append(n)
            return n

        settings = {"sentence": False, "learn": False, "runs_dir": self.folder / "runs", "approve": self.says_no}
        settings |= {"audit": self.folder / "audit.jsonl"}
        return Agent([put], model=FakeModel([f"```python\n{each}\n```" for each in programs]), **{**settings, **given})


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.parametrize("then", ["park", "always", "ask", "function", "rule"])
@pytest.mark.parametrize("first", ["function", "stopped", "park", "rule"])
def test_a_no_is_the_end_of_it(house: House, first: str, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_rules: dict[str, Any] = {}
    if "rule" in (first, then):  # the same file: it is changed to allow the call
        with_rules = {"permissions": file_of(house.folder, '[[rules]]\nask = "*"\nwait = "park"\n')}
    if first == "stopped":

        async def stops(_: ApprovalRequest) -> Any:
            house.asked.append(1)
            return approving._STOPPED

        monkeypatch.setattr(approving, "ask_at_terminal", stops)
        monkeypatch.setattr("atc.calls.approval.ask_at_terminal", stops)
    choices = {"function": house.says_no, "stopped": "ask", "park": "park", "rule": house.says_no}
    begun = house.agent(RETRY, approve=choices[first], max_revisions=0, **with_rules).run("put 1")
    if begun.status == "waiting":
        house.agent(**with_rules).approve(begun.run_id, deny=True, by="ann")
        house.asked.append(1)
    elif with_rules:
        pytest.skip("nothing waits")
    if with_rules:
        file_of(house.folder, ALLOW)
    choices = {"park": "park", "always": "always", "ask": "ask", "function": house.says_yes, "rule": "always"}
    for _ in range(2):
        again = house.agent(approve=choices[then], **with_rules).resume(begun.run_id)
        assert (again.status, again.pending, house.made, house.asked) == ("denied", (), [], [1])
        assert [(each.tool, each.arguments) for each in again.not_done] == [("put", {"n": 1})]
        assert {call.refused_by for call in again.calls} == {"user"}


LOST = {
    "refused first": CATCH + "answer = [one(1), one(3)]",
    "refused last": CATCH + "answer = [one(3), one(1)]",
    "left out": CATCH + "answer = one(3)",
    "left out, and another": CATCH + "answer = [one(3), one(4)]",
    "settled": "answer = len(parallel(lambda: put(n=1), lambda: put(n=3), settle=True))",
    "twice": CATCH + "answer = [one(1), one(1), one(3)]",
}


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("name", LOST)
def test_a_refusal_is_told_where_another_write_of_the_tool_was_done(house: House, name: str, stopped: bool) -> None:
    first = (LOST["settled"] if name == "settled" else CATCH + "x = [one(1), one(3)]") + FAILS
    if stopped:  # before its last program
        begun = house.agent(first, LOST[name] + FAILS, max_revisions=1).run("put them")
        result = house.agent(LOST[name], max_revisions=9).resume(begun.run_id)
    else:
        result = house.agent(first, LOST[name]).run("put them")
    assert (result.status, result.partial, house.asked.count(1), 1 in house.made) == ("denied", True, 1, False)
    assert [each.arguments for each in result.not_done] == [{"n": 1}]


def test_a_call_that_took_the_place_of_a_refused_one_answers_and_the_refusal_is_told(house: House) -> None:
    first, second = CATCH + "x = one(1)" + FAILS, CATCH + "answer = put(n=3)"
    result = house.agent(first, second).run("put it")
    assert (result.status, result.partial, house.made) == ("answered", False, [3])
    assert [fault.message.endswith("did not approve this call") for fault in result.remarks] == [True]
    both = CATCH + "x = [one(1), one(2)]" + FAILS  # one call takes the place of one
    assert house.agent(both, second).run("put it").status == "denied"


def test_equal_calls_of_one_form_have_each_its_answer(house: House) -> None:
    for answers, made in (((True, False), 1), ((False, True), 1), ((True, True), 2), ((False, False), 0)):
        house.made.clear()
        waiting = house.agent(CATCH + "answer = [one(1), one(1), one(1)][:2]", approve="park").run("put 1 twice")
        for call, yes in zip(waiting.pending, (*answers, False), strict=True):
            house.agent().approve(waiting.run_id, calls=[call.index], deny=not yes)
        for _ in range(2):
            ended = house.agent(approve="always").resume(waiting.run_id)
            assert (ended.status, len(house.made), len(ended.not_done)) == ("denied", made, 1)


def test_a_no_holds_for_another_program_of_the_run_and_for_no_other_task(house: House) -> None:
    with house.agent() as agent:
        begun = agent.run_program("answer = put(n=1)")
    with house.agent(approve="always") as agent:
        assert agent.run_program("x = 1\nanswer = put(n=x)", run=begun.run_id).status == "denied"
        assert agent.run_program("answer = put(n=1)").status == "answered"
    with house.agent("answer = put(n=2)", "answer = put(n=2)") as agent, agent.conversation() as talk:
        assert [talk.run("put 2").status for _ in range(2)] == ["denied", "denied"]
    assert house.asked == [1, 2, 2]  # the second task asks anew


def test_a_rule_that_allows_a_call_does_not_lift_the_no_to_it(house: House) -> None:
    rules = {"permissions": file_of(house.folder, '[[rules]]\nask = "put"\narguments = { n = 1 }\n' + ALLOW)}
    waiting = house.agent("put(n=1)\nanswer = put(n=3)", approve="park", **rules).run("put both")
    first, second = (call.index for call in waiting.pending)
    house.agent(**rules).approve(waiting.run_id, calls=[first])
    house.agent(**rules).approve(waiting.run_id, calls=[second], deny=True, by="ann")
    ended = house.agent(approve="park", **rules).resume(waiting.run_id)
    assert (ended.status, house.made, ended.calls[-1].error) == ("denied", [1], "ann did not approve this call")
