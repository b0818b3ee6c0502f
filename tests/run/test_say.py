"""The sentence of an answer is the program's own: no model is asked for it, and what it makes up is not used."""

from __future__ import annotations

from typing import Any

import pytest

from atc import Agent, ToolError, Toolset
from atc.models.fake import FakeModel
from tests.support.tools import make_tool

TEXT = {"type": "string"}


def weather(arguments: dict[str, Any]) -> Any:
    if arguments["city"] == "Rome":
        raise ToolError("no station", status=404)
    return {"degrees": 12.5, "station": "Bron", "seen": "2026-11-23T07:00:00Z", "note": "a\u202eb\x1b[31m"}


def agent(program: str, **settings: Any) -> Agent:
    described = {"type": "string", "description": "the place of a Station"}
    tools = Toolset([make_tool("weather", weather, city=described)])
    return Agent(tools, model=FakeModel([f"```python\n{program}\n```"]), keep_runs=False, max_revisions=0, **settings)


def answer(program: str, task: str = "How warm is it in Lyon?", **settings: Any) -> str:
    with agent(f"found = weather(city='Lyon')\n{program}", **settings) as made:
        result = made.run(task)
    assert (result.status, result.usage.model_calls) == ("answered", 1)
    return result.answer


def test_a_program_says_its_answer() -> None:
    program = "answer = found['degrees'] * 2\nsay = f\"It is {answer} at {found['station']} in Lyon.\""
    assert answer(program) == "It is 25.0 at Bron in Lyon."


@pytest.mark.parametrize(
    "say",
    [
        '"It is 13 degrees."',  # a number that nothing gave
        '"It is warm in Paris."',
        '"It was seen on 2026-11-24."',
        "f\"Seen in {'Par' 'is'}, not here.\"",
        "' '.join(['It', 'is', 'in', 'Marseille', '.'])",
        "'x' * 2_001",
        "12",
        "None",
        "['It is warm.']",
        "'   '",
    ],
)
def test_what_a_sentence_makes_up_is_not_used(say: str) -> None:
    assert answer(f"answer = found['degrees']\nsay = {say}") == "12.5"


def test_a_literal_that_the_task_or_a_value_has_is_no_invention() -> None:
    program = "answer = found['degrees']\nsay = f'In Lyon the station Bron had {answer} on 2026-11-23, at least 12.'"
    assert answer(program, "How warm is it in Lyon, and is it at least 12?").startswith("In Lyon the station Bron had")


@pytest.mark.parametrize(
    "say",
    [
        '"It costs 0 EUR without VAT, which is OK for the ID."',
        '"It is warm at the Station in Lyon."',  # the document of the tool has the word
        'f"It is {answer} at {found[\'station\']}, which is not in Oslo." if "Oslo" != "Lyon" else ""',
    ],
)
def test_abbreviations_and_words_of_documents_and_of_filters_are_no_invention(say: str) -> None:
    assert answer(f"answer = found['degrees']\nsay = {say}", "How warm is it in Lyon, at 0 cost?") != "12.5"


def test_why_a_sentence_is_left_out_is_a_remark() -> None:
    program = "found = weather(city='Lyon')\nanswer = found['degrees']\nsay = 'It is warm in Paris, in 2031, in Nice.'"
    with agent(program) as made:
        (remark,) = made.run("How warm is it in Lyon?").remarks
    assert (remark.case, remark.value) == ("unsaid", ["2031", "Nice", "Paris"])
    assert "'2031', 'Nice', 'Paris' in it stand in neither the task nor a document nor a response" in remark.message
    caught = "try:\n    weather(city='Rome')\nexcept ToolError:\n    pass\nanswer = weather(city='Lyon')['degrees']"
    with agent(f"{caught}\nsay = 'Well.'") as made:
        remarks = made.run("How warm is it?").remarks
    assert [(each.case, each.tool) for each in remarks] == [("failed", "weather"), ("unsaid", "weather")]


def test_without_a_sentence_or_where_none_is_wanted_the_value_stands() -> None:
    assert answer("answer = found['degrees']") == "12.5"
    assert answer("answer = found['degrees']\nsay = f'It is {answer}.'", sentence=False) == "12.5"


def test_after_a_call_that_failed_the_value_stands() -> None:
    caught = "try:\n    weather(city='Rome')\nexcept ToolError:\n    pass\nanswer = found['degrees']\nsay = 'All well.'"
    assert answer(caught) == "12.5"


def test_what_is_invisible_is_left_out() -> None:
    said = answer("answer = 1\nsay = f\"It says {found['note']}.\"")
    assert said.startswith("It says ab")
    assert not set("\u202e\x1b") & set(said)


def test_a_tool_or_an_input_of_that_name_is_no_sentence() -> None:
    tools = Toolset([make_tool("say", lambda _: "Hello.", text=TEXT)])
    with Agent(tools, model=FakeModel(["answer = say(text='x')"]), keep_runs=False) as made:
        assert made.run("Say x.").answer == "Hello."
    with agent("") as made:
        given = made.run_program("answer = weather(city=say)['degrees']", inputs={"say": "Lyon"})
    assert given.answer == "12.5"
