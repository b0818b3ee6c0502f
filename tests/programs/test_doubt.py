"""What of a task a program leaves out: numbers and quoted texts, each asked about once."""

from __future__ import annotations

from typing import TypedDict

import pytest
from atc.programs.check.coverage import exchanged_facts, forgotten_facts, unused_facts

from atc import Effect, ToolError, tool
from atc.agent import Agent
from atc.models.fake import FakeModel
from atc.programs.program import Program
from atc.result import Call


class Place(TypedDict):
    latitude: float


class Spot(TypedDict):
    place_id: str


@tool(effect="read")
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


@pytest.mark.parametrize(
    ("task", "program", "missing"),
    [
        ("sell 200 pieces at 3.5", "answer = f(price=3.5)", ["200"]),
        ("sell 1,200 pieces", "answer = f(n=1200)", []),
        ("at 12:00 in Rome", "answer = f(zone='Rome')", ["12:00"]),
        ("at 12:00 in Rome", "answer = f(at='12:00')", []),
        ("at 9:30 pm", "answer = f(hour=9)", ["9:30"]),
        ("at 9:30 pm", "answer = f(at='21:30')", []),
        ("from 9:00 to 17:45", "answer = f(begin='09:00')", ["17:45"]),
        ("with 5% tax", "answer = f(1) * 1.05", []),
        ("with 5 % off", "answer = f(1) * 0.95", []),
        ("with 5% tax", "answer = f(rate=7)", ["5%"]),
        ("on 12 May 2025", "answer = f(day='2025-05-12')", []),
        ("at 2 PM, not 3 p.m.", "answer = f(at='14:00', till=15)", []),
        ("at 2 AM", "answer = f(at='14:00')", ["2"]),
        ("ages 10, 20", "answer = f(1)", ["10", "20"]),
        ("the top 3 of them", "n = 3\nanswer = f(1)", ["3"]),
        ("the top 3 of them", "n = 3\nanswer = f(1)[:n]", []),
        ("the 1 best, v2 of it", "answer = f()", []),
        ('those with "Red Hat"', "answer = f(name='red hat')", []),
        ("those with 'Red Hat'", "answer = f(name='hat')", ["'Red Hat'"]),
        ('from "E" to "A", on Monday', "answer = f('E', 'A')", []),
        ('from "E" to "A"', "answer = f('E')", ['"A"']),
        ("the city's and the state's", "answer = f()", []),
        ("use tool 7", "answer = tool_7()", []),
        ("sell 200", "this is no program", []),
        ("1. list them\n2. sell 200\n 3) end", "answer = f(200)", []),
        ("1. list them\n2. sell 200\n 3) end", "answer = f()", ["200"]),
        ("Today is Monday, 12 May 2025. Sell 200.", "answer = f()", ["200"]),
        ("The current date and time is 2025-05-12 09:30. Sell.", "answer = f()", []),
        ("Sell 200 today, it is late", "answer = f()", ["200"]),
        ("Sell these: 1) pens 2) ink (3) 40 clips", "answer = f(40)", []),
        ("Sell these: 1) pens 2) ink (3) 40 clips", "answer = f()", ["40"]),
        ("a table (for 4) and, in room 2) a bed", "answer = f()", ["4", "2"]),
        ("Answer in the format of 'xxx@xxx.xxx'", "answer = f()", []),
        ("How many? In the format of 'xx' (e.g., 9)", "answer = f()", []),
        ("Sell 200 (e.g. 9 or 10) for 4", "answer = f()", ["200", "4"]),
        ("Three of them. Example: 'Answer: [1000, 2000]'", "answer = f()", []),
        ("cancel 901", "done = cancel(id='901')\nanswer = f()", []),
        ("at 2:30 PM", "answer = f(at='14:30')", []),
        ("Answer in the format 'Mo-Fr' for \"Red Hat\"", "answer = f()", ['"Red Hat"']),
    ],
)
def test_what_a_program_leaves_out(task: str, program: str, missing: list[str]) -> None:
    assert unused_facts(task, Program(program)) == missing


@tool(effect="read")
def lost(n: int) -> int:
    """A number that nobody has."""
    raise ToolError("not found", status="404")


def test_a_call_that_fails_and_that_nothing_uses_costs_no_second_reply() -> None:
    model = FakeModel(["```python\nspare = lost(n=21)\nanswer = double(n=21)\n```"])
    result = Agent([lost, double], model=model, sentence=False).run("double 21")
    assert (result.status, result.value, len(model.prompts)) == ("answered", 42, 1)
    assert [call.tool for call in result.calls] == ["lost", "double"]
    assert "left out lost" in result.revisions[1].rewrites[0]


def test_a_run_asks_once_and_then_takes_the_program() -> None:
    reply = "```python\nanswer = double(n=21)\n```"
    other = "```python\nvalue = double(n=21)\nanswer = value\n```"
    result = Agent([double], model=FakeModel([reply, other]), sentence=False).run("double 21 for 300 people")
    assert (result.status, result.value) == ("answered", 42)
    assert [finding.kind for finding in result.revisions[0].findings] == ["unused_fact"]
    assert "300" in result.revisions[0].findings[0].message


def test_a_doubted_program_goes_before_one_that_cannot_run() -> None:
    doubted = "```python\nanswer = double(n=21)\n```"
    broken = "```python\nanswer = triple(n=300)\n```"
    result = Agent([double], model=FakeModel([doubted, broken]), sentence=False).run("double 21 for 300 people")
    assert (result.status, result.value) == ("answered", 42)
    assert [bool(revision.findings) for revision in result.revisions] == [True, True, False]


def test_the_last_program_is_taken_as_it_is() -> None:
    reply = "```python\nanswer = double(n=21)\n```"
    result = Agent([double], model=FakeModel([reply]), sentence=False, max_revisions=0).run("double 21 for 300 people")
    assert (result.status, result.value, len(result.revisions)) == ("answered", 42, 1)


def test_a_doubted_program_runs_when_the_one_in_its_place_fails() -> None:
    doubted = "```python\nanswer = double(n=21)\n```"
    failing = "```python\nanswer = 1 / (double(n=300) - double(n=21) - 558)\n```"
    result = Agent([double], model=FakeModel([doubted, failing]), sentence=False).run("double 21 for 300 people")
    assert (result.status, result.value) == ("answered", 42)
    assert [bool(revision.findings) for revision in result.revisions] == [True, False, False]


def test_a_doubted_program_does_not_run_where_something_was_done_meanwhile() -> None:
    done = []

    @tool(effect="write")
    def order(n: int) -> int:
        """Order so many."""
        done.append(n)
        return n

    doubted = "```python\nanswer = order(n=21)\n```"
    failing = "```python\nanswer = 1 / (order(n=300) - 300 + 0 * 21)\n```"
    model = FakeModel([doubted, *[failing] * 7])
    result = Agent([order], model=model, approve="always", sentence=False).run("order 21 for 300 people")
    assert (result.status, done) == ("unsolved", [300])


def test_a_program_that_heeds_a_doubt_is_mended_before_the_doubted_one_runs() -> None:
    @tool(effect="read")
    def find_place(name: str) -> Spot:
        """Find a place."""
        return {"place_id": "p7"}

    @tool(effect="read")
    def rain(place_id: str) -> float:
        """Tell the rain of today, in mm."""
        return 3.5 if place_id == "p7" else 0.0

    replies = ["rain(place_id='Lyon')", "rain(place_id=find_place(nom='Lyon', x=1)['place_id'])"]
    right = "rain(place_id=find_place(name='Lyon')['place_id'])"
    model = FakeModel([f"```python\nanswer = {code}\n```" for code in (*replies, right)])
    result = Agent([find_place, rain], model=model, sentence=False).run("rain in Lyon")
    assert (result.status, result.value) == ("answered", 3.5)
    assert [bool(revision.findings) for revision in result.revisions] == [True, True, False]


def test_what_is_from_memory_is_asked_about_again_once_its_tool_has_failed() -> None:
    @tool(effect="read")
    def locate(name: str) -> Place:
        """Find a place."""
        return {"latitude": 45.8}

    @tool(effect="read")
    def rain(latitude: float) -> float:
        """Tell the rain of today, in mm."""
        if latitude != 45.8:
            raise ValueError("nothing is measured there")
        return 3.5

    guesses = ["```python\nanswer = rain(latitude=1.5)" + "\n# again" * n + "\n```" for n in range(3)]
    right = "```python\nanswer = rain(latitude=locate(name='Lyon')['latitude'])\n```"
    result = Agent([locate, rain], model=FakeModel([*guesses, right]), sentence=False).run("rain in Lyon")
    assert (result.status, result.value) == ("answered", 3.5)
    assert [[f.kind for f in revision.findings] for revision in result.revisions] == [
        ["from_memory"], [], ["from_memory"], []
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "forgotten"),
    [
        ("answer = f(country='FR')", ["Springfield", "New  York"]),
        ("answer = [c for c in f() if c['name'] == 'SPRINGFIELD']", ["New  York"]),
        ("answer = f(name='old springfield, new  york')", []),
        ("no program", []),
    ],
)
def test_a_name_of_the_task_that_an_earlier_program_had_is_missed(program: str, forgotten: list[str]) -> None:
    task = "How many people live in the largest city of Springfield and New  York? Give the population."
    before = "c = f(name='springfield', other='US')['city']\nanswer = {'largest': c.get('population')}"
    earlier = [Program(text) for text in (before, "x = (", "answer = f(name='New  York', of='of')")]
    assert forgotten_facts(task, Program(program), earlier) == forgotten


def test_what_day_it_is_may_be_left_out_by_a_later_program() -> None:
    task = "What was the wind in Lyon on this day last year? Today is Tuesday, 2024-04-16."
    earlier = Program("today = '2024-04-16'\nanswer = f(day=today, place='Lyon')")
    assert forgotten_facts(task, Program("answer = f(day='2023-04-16', place='Lyon')"), [earlier]) == []
    assert forgotten_facts(task, Program("answer = f(day='2023-04-16')"), [earlier]) == ["Lyon"]


def test_what_an_answer_stands_for_is_not_missed() -> None:
    given = {"username": "user1", "password": "pass1"}
    login = Call(
        index=0, attempt=0, tool="login", arguments=given, effect=Effect.READ, status="ok", value={"token": "n9m8"}
    )
    assert exchanged_facts(Program("answer = delete(token='N9M8')"), [login]) == {"user1", "pass1"}
    assert exchanged_facts(Program("answer = delete(token='other')"), [login]) == set()
    assert (
        exchanged_facts(Program("answer = delete(token='n9m8')"), [login.model_copy(update={"status": "refused"})])
        == set()
    )
