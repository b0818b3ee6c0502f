"""``None`` and ``""`` are answers where the type says so, or where two programs in a row found just that."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, FakeModel, Result, ToolError, tool
from tests.support.few import few

NULL = "answer = person(name='Ana')['email']"
AGAIN = "p = person(name='Ana')\nanswer = p.get('email')"
MISSING = "answer = person(name='Ana').get('e_mail')"
MISSING_AGAIN = "p = person(name='Ana')\nanswer = p.get('e_mail')"
TEXT = "answer = person(name='Ana')['note']"
TEXT_AGAIN = "p = person(name='Ana')\nanswer = p.get('note')"
FRIENDS = "answer = person(name='Ana')['friends']"
FRIENDS_AGAIN = "p = person(name='Ana')\nanswer = p.get('friends')"
NONE_LEFT = "answer = [n for n in [person(name='Ana')['name']] if n > 'Z']"
CAUGHT = "person(name='Ana')\ntry:\n    answer = broken(name='Ana')\nexcept ToolError:\n    answer = None"
CAUGHT_AGAIN = f"x = 1\n{CAUGHT}"
NOTHING: dict[str, Any] = {TEXT: "", FRIENDS: [], NONE_LEFT: []}
"""What these programs find; the others find None."""
UNSET = "if person(name='Ana')['email']:\n    answer = 'x'"
NO_CALL = "answer = None"
FIRST_PAGE = "answer = next((p['name'] for p in people()['items'] if p['name'] == 'Zoe'), None)"


@tool(effect="read")
def person(name: str) -> dict[str, Any]:
    """A person."""
    return {"name": name, "email": None, "note": "", "friends": []}


@tool(effect="read")
def broken(name: str) -> str:
    """A service that is down."""
    raise ToolError("it is down", status=503)


@tool(effect="read")
def people() -> dict[str, Any]:
    """All people, first page."""
    return {"items": [{"name": "Ana"}], "total": 40, "page": 1}


def run(*programs: str, wanted: Any = None, **settings: Any) -> tuple[Result, int]:
    model = FakeModel([f"```python\n{program}\n```" for program in programs] * 5)
    with Agent([person, broken, people], model=model, sentence=False, keep_runs=False, **settings) as agent:
        result = agent.run("What is the e-mail of Ana?", **({} if wanted is None else {"answer": wanted}))
    return result, len(result.revisions)


@pytest.mark.parametrize(
    ("programs", "wanted", "programs_run"),
    [
        ((NULL,), str | None, 1),
        ((NULL, AGAIN), None, 2),
        ((TEXT, TEXT_AGAIN), None, 2),
        ((FRIENDS, FRIENDS_AGAIN), None, 2),
        ((FRIENDS, FRIENDS_AGAIN), list[str], 2),
        ((NONE_LEFT, f"x = 1\n{NONE_LEFT}"), None, 2),
        ((TEXT, TEXT_AGAIN), str, 2),
        ((TEXT, TEXT_AGAIN), str | None, 2),  # a text may be empty: that says nothing of this one
        ((MISSING, MISSING_AGAIN), str | None, 2),  # no such key: perhaps it has another name
        ((MISSING, NULL), str | None, 2),
    ],
)
def test_nothing_is_the_answer(programs: tuple[str, ...], wanted: Any, programs_run: int) -> None:
    result, count = run(*programs, wanted=wanted)
    assert (result.status, count) == ("answered", programs_run), result.fault
    assert result.value == (next((nothing for each, nothing in NOTHING.items() if each in programs), None))


@pytest.mark.parametrize(
    ("programs", "wanted"),
    [
        ((CAUGHT, CAUGHT_AGAIN), None),
        ((CAUGHT, CAUGHT_AGAIN), str | None),
        ((UNSET, f"x = 1\n{UNSET}"), None),
        ((UNSET, f"x = 1\n{UNSET}"), str | None),
        ((NO_CALL, f"x = 1\n{NO_CALL}"), str | None),
        ((NULL, AGAIN), str),  # the type refuses it
        ((FIRST_PAGE, f"x = 1\n{FIRST_PAGE}"), None),
        ((NULL, TEXT), None),  # they do not agree
    ],
)
def test_nothing_is_no_answer(programs: tuple[str, ...], wanted: Any) -> None:
    result, _ = run(*programs, wanted=wanted, max_revisions=1)
    assert result.status in ("unsolved", "failed")


GUESS = "try:\n    n = broken(name='Ana')\nexcept ToolError:\n    n = 1\nanswer = n"
ABSENT = "try:\n    answer = absent(name='Bo')\nexcept ToolError:\n    answer = 'there is no Bo'"
IMPOSSIBLE = "raise NotImplementedError('no tool sends mail')"


@tool(effect="read")
def absent(name: str) -> str:
    """A person who is not there."""
    raise ToolError("there is no such person", status=404)


@pytest.mark.parametrize(
    "programs",
    [
        (GUESS, f"x = 1\n{GUESS}"),
        ("answer = broken(name='Ana')", "answer = 1", "x = 1\nanswer = 1"),
    ],
)
def test_what_goes_round_an_error_is_no_answer_even_twice(programs: tuple[str, ...]) -> None:
    result, _ = run(*programs, max_revisions=len(programs) - 1)
    assert result.status != "answered"


def test_what_a_tool_says_is_not_there_may_be_the_answer() -> None:
    model = FakeModel([f"```python\n{each}\n```" for each in (ABSENT, f"x = 1\n{ABSENT}")])
    with Agent([absent], model=model, sentence=False, keep_runs=False) as agent:
        result = agent.run("Is there a Bo?")
    assert (result.status, result.value) == ("answered", "there is no Bo")


def test_who_had_nothing_to_do_is_asked_to_say_so_and_no_tool_is_blamed() -> None:
    @tool(effect="read")
    def price(flight: str) -> dict[str, int]:
        """The price of a flight."""
        return {"euros": 310}

    @tool(effect="write")
    def book(flight: str) -> None:
        """Book a flight."""

    condition = "answer = None\nif price(flight='LH1')['euros'] < 200:\n    answer = book(flight='LH1')"
    said = f"{condition}\nelse:\n    answer = 'it costs more than 200 euros'"
    model = FakeModel([f"```python\n{program}\n```" for program in (condition, said)])
    with Agent([price, book], model=model, sentence=False, keep_runs=False, approve="always") as agent:
        result = agent.run("Book flight LH1 if it costs less than 200 euros.")
    assert (result.status, result.value) == ("answered", "it costs more than 200 euros")
    assert "or the data does not say, set it to a text that says why" in model.prompts[0][0].content
    revision = model.prompts[1][-1].content
    assert "This program failed at line 1:" in revision
    assert "set `answer` to a text that says why" in revision
    assert "The documentation of" not in revision


def test_an_answer_that_rests_on_no_call_is_remarked_as_such() -> None:
    result, count = run("answer = 1", "x = 1\nanswer = 1")
    assert (result.status, result.value, count) == ("answered", 1, 2)
    assert [(each.case, each.message) for each in result.remarks] == [
        ("no_calls", "the answer rests on no successful call of a tool")
    ]


@pytest.mark.parametrize("program", [IMPOSSIBLE, f"person(name='Ana')\nif True:\n    {IMPOSSIBLE}\nanswer = 1"])
def test_that_no_tool_can_do_the_task_ends_the_run_at_once(program: str) -> None:
    result, count = run(program, "answer = people()['total']")
    assert (result.status, count, result.usage.model_calls) == ("unsolved", 1, 1)
    assert result.fault is not None
    assert (result.fault.case, result.fault.tool) == ("impossible", None)
    assert "a tool that does this" in result.fault.hint
    assert result.fault.message.endswith("the program says that no tool can do the task: no tool sends mail")


def test_a_program_that_gave_up_is_asked_again_where_tools_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = {**few(monkeypatch, 1), "retrieval": "lexical"}
    result, count = run(IMPOSSIBLE, f"x = 1\n{IMPOSSIBLE}", **left_out)
    assert (result.status, count) == ("unsolved", 2)
    result, _ = run(IMPOSSIBLE, "find_tools(query='all people')", "answer = people()['total']", **left_out)
    assert (result.status, result.value) == ("answered", 40)
