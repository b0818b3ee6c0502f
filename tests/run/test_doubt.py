"""What a warning does in a run: nothing as a rule; it goes with a failure, or has a program sent back once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from atc import Agent, Effect, Result, ToolError, Toolset, tool
from atc.models.fake import FakeModel
from atc.run.given_program import GivenRun, run_given
from tests.support.agent import rejecting
from tests.support.tools import make_tool

TEXT = {"type": "string"}
DOCUMENTED = {"type": "object", "properties": {"order_history": {"type": "array", "items": {"type": "object"}}}}
REAL = {"history": [{"id": "o1", "total": 5}], "name": "Ann"}


class Shop:
    """A shop whose document names other keys than its service answers with."""

    def __init__(self) -> None:
        self.did: list[str] = []
        find = make_tool("customer", lambda a: REAL, returns=DOCUMENTED, required=("who",), who=TEXT)
        made = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
        mail = make_tool("mail", self.mail, Effect.WRITE, returns=made, required=("to",), to=TEXT, text=TEXT)
        self.tools = Toolset([find, mail])

    def mail(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.did.append(arguments["to"])
        return {"ok": True, "number": len(self.did)}

    def run(self, *programs: str, **settings: Any) -> tuple[Result, list[str]]:
        model = FakeModel([f"```python\n{program}\n```" for program in programs])
        given = {"sentence": False, "approve": "always", **settings}
        with Agent(self.tools, model=model, **given) as agent:
            result = agent.run("what did Ann order? write to Ann")
        return result, [prompt[-1].content for prompt in model.prompts]


@pytest.mark.parametrize(
    "program",
    [
        "answer = customer(who='Ann')['history'][0]['total']",
        "answer = [order['total'] for order in customer(who='Ann')['history']][0]",
        "mail(to=customer(who='Ann')['name'])\nanswer = 5",
        "c = customer(who='Ann')\nif c['name']:\n    mail(to='Ann')\n    answer = 5\nelse:\n    answer = c['history']",
        "mail(to='Ann')\nanswer = customer(who='Ann').get('history')[0]['total']",
        "mail(to='Ann')\nc = customer(who='Ann')\nanswer = c['history'][0]['total'] if 'history' in c else 0",
        "c = customer(who='Ann')\nmail(to='A')\ntry:\n    answer = c['history'] and 5\nexcept KeyError:\n    pass",
        "for order in customer(who='Ann')['history']:\n    mail(to='Ann', text=str(order))\nanswer = 5",
    ],
)
def test_a_right_program_over_an_incomplete_document_runs_at_once(program: str) -> None:
    result, prompts = Shop().run(program)
    assert (result.status, result.value, len(prompts)) == ("answered", 5, 1)
    assert [revision.all_findings for revision in result.revisions] == [()]


def test_a_program_that_fails_where_it_was_warned_is_told_so_and_costs_no_revision() -> None:
    wrong = "answer = customer(who='Ann')['orders']"
    right = "answer = customer(who='Ann')['history'][0]['total']"
    result, prompts = Shop().run(wrong, wrong + "  # again", right, max_revisions=0, strategy=rejecting(2))
    assert (result.status, result.value) == ("answered", 5)
    first, second, third = result.revisions
    assert [(f.kind, f.name) for f in first.all_findings] == [("unknown_field", "orders")]
    assert (first.findings, third.all_findings) == ((), ())
    assert second.fault is not None
    assert second.fault.finding is not None
    assert second.fault.finding.known == ("history", "name"), "what the run saw beats the document"
    assert "order_history" not in prompts[-1].partition("Failed")[2]


def test_failures_that_were_foretold_are_bounded_too() -> None:
    wrong = "answer = customer(who='Ann')['orders']"
    result, prompts = Shop().run(*(wrong + f"  # {n}" for n in range(9)), max_revisions=0, strategy=rejecting(2))
    assert (result.status, len(prompts)) == ("unsolved", 3)


def test_a_failure_after_a_write_costs_a_revision_though_it_was_foretold() -> None:
    shop = Shop()
    wrong = "mail(to='Ann')\nanswer = customer(who='Ann')['orders']"
    result, prompts = shop.run(wrong, wrong + "  # sure", wrong + "  # again", max_revisions=0, strategy=rejecting(1))
    assert (result.status, len(prompts), shop.did) == ("unsolved", 2, ["Ann"])
    assert [bool(revision.findings) for revision in result.revisions] == [True, False]


def test_a_program_that_would_fail_half_way_is_sent_back_once_and_the_model_may_insist() -> None:
    shop = Shop()
    program = "done = mail(to='Ann')\nanswer = done['number']"
    result, prompts = shop.run(program, program + "  # sure")
    assert (result.status, result.value, shop.did) == ("answered", 1, ["Ann"])
    assert [[f.name for f in revision.all_findings] for revision in result.revisions] == [["number"], []]
    assert "write the program again as it is" in prompts[1]
    result, prompts = Shop().run(program, warnings="allow")
    assert (result.value, len(prompts)) == (1, 1)
    result, prompts = Shop().run(program, strategy=rejecting(0))
    assert (result.value, len(prompts)) == (1, 1), "no reply is left for it"


def test_a_key_that_the_run_has_seen_is_not_asked_about_and_one_that_it_has_not_is_told_by_what_it_saw() -> None:
    look = "answer = customer(who='Ann')['orders'] + 1"
    halfway = "mail(to='Ann')\nanswer = customer(who='Ann')['{}'][0]['total']"
    result, prompts = Shop().run(look, halfway.format("history"))
    assert (result.status, result.value, len(prompts)) == ("answered", 5, 2)
    result, prompts = Shop().run(look, halfway.format("order_log"), halfway.format("history"))
    (finding,) = result.revisions[1].findings
    assert (finding.name, finding.known, finding.severity) == ("order_log", ("history", "name"), "warning")
    assert "its keys are 'order_history'" not in prompts[2]
    assert "known are 'order_history'" not in prompts[2]


def test_of_two_notes_that_contradict_each_other_the_one_of_the_document_says_what_was_seen() -> None:
    halfway = "mail(to='Ann')\nanswer = customer(who='Ann')['past'][0]['total']"
    other = "answer = customer(who='Ann')['order_history'][0]['total']"
    _, prompts = Shop().run(halfway, other, "answer = customer(who='Ann')['history'][0]['total']")
    assert "no key 'past' is known of customer(...); known are 'order_history'" in prompts[1]
    assert "known are 'order_history'" not in prompts[2]
    assert "no key 'past' is known of customer(...); known are 'history', 'name'" in prompts[2]


def test_a_note_that_a_key_is_not_known_is_left_out_once_it_was_met() -> None:
    halfway = "mail(to='Ann')\nanswer = customer(who='Ann')['history'][0]['total']"
    other = "answer = customer(who='Ann')['order_history'][0]['total']"
    _, prompts = Shop().run(halfway, other, halfway)
    assert "no key 'history' is known" in prompts[1]
    assert "no key 'history' is known" not in prompts[2]
    assert prompts[2].count("if it is right, write the program again as it is") == 1


@dataclass
class Order:
    number: int


@tool(effect="read")
def order_of(name: str) -> Order:
    """The order of somebody."""
    return Order(7)


@pytest.mark.parametrize("key", ["number", "total"])
def test_a_key_that_the_class_of_a_functions_answer_does_not_have_never_runs(key: str) -> None:
    model = FakeModel([f"```python\nanswer = order_of(name='Ann')['{key}']\n```"])
    with Agent([order_of], model=model, sentence=False, strategy=rejecting(0)) as agent:
        result = agent.run("the order of Ann")
    assert (result.status, len(result.calls)) == (("answered", 1) if key == "number" else ("unsolved", 0))


class Place(TypedDict):
    place_id: str


def test_an_id_that_nobody_gave_runs_where_it_only_reads_and_is_told_once_the_tool_fails() -> None:
    @tool(effect="read")
    def locate(name: str) -> Place:
        """Find a place."""
        return {"place_id": "p-17"}

    @tool(effect="read")
    def rain(place_id: str) -> float:
        """Tell the rain of today, in mm."""
        if place_id != "p-17":
            raise ToolError("nothing is measured there", status=404)
        return 3.5

    def run(*codes: str) -> Result:
        model = FakeModel([f"```python\nanswer = {code}\n```" for code in codes])
        return Agent([locate, rain], model=model, sentence=False, max_revisions=0, strategy=rejecting(1)).run(
            "rain in Lyon"
        )

    assert [revision.all_findings for revision in run("rain(place_id='p-17')").revisions] == [()]
    result = run("rain(place_id='p-1')", "rain(place_id=locate(name='Lyon')['place_id'])")
    assert (result.status, result.value) == ("answered", 3.5)
    assert [[f.kind for f in revision.all_findings] for revision in result.revisions] == [["invented_id"], []]


# -- a given program -------------------------------------------------------------------------------------------------

HALF_WAY = "done = mail(to='Ann')\nanswer = done['number']"


def given(agent: Agent, source: str, run: str | None = None) -> GivenRun:
    return asyncio.run(run_given(agent, source, revises=run))


def test_a_given_program_is_sent_back_once_and_runs_when_it_comes_again() -> None:
    shop = Shop()
    with Agent(shop.tools, approve="always") as agent:
        first = given(agent, HALF_WAY)
        assert (first.facts.rejected, [f.severity for f in first.facts.findings], shop.did) == (True, ["warning"], [])
        again = given(agent, HALF_WAY, first.result.run_id)
        assert (again.result.status, again.result.value, again.facts.findings) == ("answered", 1, [])
        assert shop.did == ["Ann"]


def test_a_given_program_runs_at_once_where_nobody_could_insist_or_warnings_are_allowed() -> None:
    for settings in ({"keep_runs": False}, {"warnings": "allow"}):
        with Agent(Shop().tools, approve="always", **settings) as agent:
            made = given(agent, HALF_WAY)
            assert (made.result.status, made.facts.findings) == ("answered", [])


def test_a_given_program_is_told_the_warning_that_its_failure_bears_out() -> None:
    with Agent(Shop().tools) as agent:
        made = given(agent, "answer = customer(who='Ann')['orders']")
        assert (made.facts.rejected, [f.name for f in made.facts.findings]) == (False, ["orders"])
        fine = given(agent, "answer = customer(who='Ann')['name']")
        assert (fine.result.value, fine.facts.findings) == ("Ann", [])
