"""The rule ``no-tool-needed``: a program without a call may answer a task that states all, if the user wants it."""

from __future__ import annotations

import pytest

from atc import Agent, FakeModel
from atc.programs.check.stated import states_all
from atc.programs.program import Program
from benchmarks.no_tool import STATED, measured
from tests.support.agent import double

PERCENT = "What is 17 % of 340?"


@pytest.mark.parametrize(
    ("task", "program"),
    [
        (PERCENT, "answer = 340 * 0.17"),
        (PERCENT, "percent = 17\nanswer = round(340 * percent / 100, 2)"),
        ("Sort 'pear' and 'apple'.", "answer = sorted(['pear', 'apple'])"),
    ],
)
def test_what_the_task_states_is_enough(task: str, program: str) -> None:
    assert states_all(task, Program(program))


@pytest.mark.parametrize(
    ("task", "program"),
    [
        (PERCENT, "answer = 57.8"),  # from memory
        (PERCENT, "answer = 340"),  # repeated
        (PERCENT, "answer = 340 * 0.5"),  # another number
        (PERCENT, "answer = 340 * 100 / 2"),  # a fact left out
        (PERCENT, "answer = '17 of 340 is a lot' + str(17 * 340)"),
        (PERCENT, "import datetime\nanswer = 340 * 17 * datetime.date.today().year"),
        (PERCENT, "from os import getpid\nanswer = 340 * 17 * getpid()"),
        (PERCENT, "answer = 340 * 17 * len(b'xyzu')"),
        (PERCENT, "answer ="),
        ("How many of the 340 people in Rome are over 17?", "answer = 340 - 17"),
        ("Convert 340 USD at 17 percent.", "answer = 340 * 17"),
        ("What is the weather?", "answer = 'the weather'.upper()"),
        ("The city nearest to 'Rome'?", "answer = 'Rome'.title()"),
    ],
)  # fmt: skip
def test_in_doubt_a_tool_is_needed(task: str, program: str) -> None:
    assert not states_all(task, Program(program))


@pytest.mark.parametrize(("rules", "status"), [("default", "unsolved"), ("+no-tool-needed", "answered")])
def test_it_answers_only_where_the_rule_is_on(rules: str, status: str) -> None:
    model = FakeModel(["```python\nanswer = 340 * 17 / 100\n```"] * 9)
    settings = {"sentence": False, "keep_runs": False, "max_revisions": 1, "rules": rules}
    result = Agent([double], model=model, **settings).run(PERCENT)  # type: ignore[arg-type]
    assert (result.status, result.value) == (status, 57.8 if status == "answered" else None)
    assert result.calls == ()


def test_an_answer_that_only_repeats_is_sent_back_with_the_rule_too() -> None:
    model = FakeModel(["```python\nanswer = 340\n```"] * 9)
    settings = {"sentence": False, "keep_runs": False, "max_revisions": 1, "rules": "+no-tool-needed"}
    assert Agent([double], model=model, **settings).run(PERCENT).status == "unsolved"  # type: ignore[arg-type]


@pytest.mark.slow
def test_of_the_tasks_that_need_a_tool_none_is_answered_without() -> None:
    figures = measured()
    assert figures.wrong.total() == 0
    assert (figures.passed["states all"], figures.made["states all"]) == (12, len(STATED))
