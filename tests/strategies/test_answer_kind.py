"""The kind of value that a task asks for: asked once, a warning alone, and what was computed is never lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc import Effect, Result, Settings, Toolset
from atc.agent import Agent
from atc.errors import ModelError, ModelUnavailable
from atc.models.base import Model, ModelRequest, Reply
from atc.models.fake import FakeModel
from atc.strategies.answer_kind import KINDS, UNLIKELY, Kind, kind_of, kind_question, unlikely_kind
from tests.support.tools import make_tool

NUMBER = "```python\nanswer = measure(n=1)['km']\n```"
TEXT = "```python\nanswer = measure(n=1)['city']\n```"
LIST = "```python\nanswer = [measure(n=1)['km']]\n```"
BROKEN = "```python\nanswer = [][measure(n=1)['km']]\n```"
UNKNOWN = "```python\nanswer = measured(n=1)\n```"
ON = {"rules": "+answer-kind"}


def run(*replies: Any, effect: Effect = Effect.READ, task: str = "which city is far?", **settings: Any) -> Result:
    calls: list[Any] = []

    def measure(arguments: dict[str, Any]) -> Any:
        calls.append(arguments)
        return {"km": 4.2, "city": "Lund"}

    tools = Toolset([make_tool("measure", measure, effect=effect)])
    given = {"sentence": False, "approve": "always", **ON} | settings
    with Agent(tools, model=FakeModel(list(replies)), **given) as agent:
        result = agent.run(task)
    assert len(calls) == 1, "what was read is answered from the journal"
    return result


def purposes(result: Result) -> list[str]:
    assert result.trace is not None
    with open(result.trace) as lines:
        events = [json.loads(line) for line in lines]
    return [event["data"]["purpose"] for event in events if event["kind"] == "model_ended"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (4, "number"), (4.2, "number"), ("4.2", "number"), ("1,200 %", "number"), ("€ 12.50", "number"),
        ("-3", "number"),
        (True, "yes/no"), ("Yes.", "yes/no"), ("no", "yes/no"), ("no city", "text"), ("Lund", "text"), ("4 km", "text"),
        ("2024-05-06", "text"), ([], "list"), ((1, 2), "list"), ({}, "record"), (None, None), ("", None), (" ", None),
        (b"x", None), (float("nan"), None), (float("inf"), None),
    ],
)  # fmt: skip
def test_the_kind_of_a_value(value: object, kind: Kind | None) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("asked", "value", "unlikely"),
    [
        ("text", 4.2, True), ("text", ["Lund"], True), ("text", "Lund", False), ("text", "10115", False),
        ("number", "Lund", True), ("number", "4 km", False), ("number", [4], True), ("number", 4, False),
        ("list", 4, True), ("list", {"Lund": 4}, False), ("list", "a, b", False), ("list", [], False),
        ("yes/no", 4, True), ("yes/no", "yes, at noon", False), ("yes/no", True, False),
        ("record", 4, False), ("record", "Lund", False), ("text", None, False),
    ],
)  # fmt: skip
def test_which_values_are_unlikely(asked: Kind, value: object, unlikely: bool) -> None:
    assert (unlikely_kind(asked, value) is not None) is unlikely


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(JSON, st.sampled_from(KINDS))
def test_a_value_of_the_asked_kind_is_never_unlikely(value: object, asked: Kind) -> None:
    found = kind_of(value)
    assert asked not in UNLIKELY[asked]
    if found == asked or found is None:
        assert unlikely_kind(asked, value) is None


def test_another_kind_is_asked_about_once_and_the_better_program_answers() -> None:
    result = run(NUMBER, "text", TEXT)
    assert (result.status, result.value) == ("answered", "Lund")
    first, second = result.revisions
    assert [finding.kind for finding in first.findings] == ["answer_kind"]
    assert first.findings[0].severity == "warning"
    assert first.findings[0].message == "the task asks for a text; the program's answer is a number"
    assert (second.findings, second.fault) == ((), None)
    assert purposes(result) == ["program", "answer_kind", "program"]


@pytest.mark.parametrize("worse", [NUMBER, LIST, BROKEN, UNKNOWN])
def test_the_first_answer_stands_where_what_comes_in_its_place_is_no_better(worse: str) -> None:
    extra = [worse] if worse == NUMBER else []  # the same program again is asked for once more, hotter
    result = run(NUMBER, "text", worse, *extra)
    assert (result.status, result.value, result.fault) == ("answered", 4.2, None)
    assert result.program == result.revisions[0].program
    assert len(result.revisions) == 3


def test_an_answer_of_the_asked_kind_costs_the_question_alone() -> None:
    result = run(TEXT, "text")
    assert (result.value, len(result.revisions)) == ("Lund", 1)
    assert purposes(result) == ["program", "answer_kind"]


def test_the_model_is_asked_once_a_run() -> None:
    assert purposes(run(NUMBER, "text", LIST)).count("answer_kind") == 1


def test_without_the_rule_nothing_is_asked() -> None:
    result = run(NUMBER, rules="default")
    assert (result.value, purposes(result)) == (4.2, ["program"])
    assert "answer-kind" not in Settings().active_rules


def test_nothing_is_asked_again_where_something_with_an_effect_was_done() -> None:
    result = run(NUMBER, "text", effect=Effect.WRITE)
    assert (result.value, len(result.revisions)) == (4.2, 1)


TYPED = {"type": "object", "properties": {"km": {"type": "number"}, "city": {"type": "string"}},
         "required": ["km", "city"]}  # fmt: skip


def run_typed(*replies: Any, **settings: Any) -> tuple[Result, list[int]]:
    """A run over a tool with an effect, whose response has types."""
    done: list[int] = []

    def book(arguments: dict[str, Any]) -> Any:
        done.append(arguments["n"])
        return {"km": 4.2, "city": "Lund"}

    tools = Toolset([make_tool("measure", book, effect=Effect.WRITE, returns=TYPED)])
    with Agent(tools, model=FakeModel(list(replies)), sentence=False, approve="always", **ON, **settings) as agent:
        return agent.run("book it; in which city?"), done


@pytest.mark.parametrize(
    ("written", "kind", "said"),
    [
        ("measure(n=1)['km']", "text", "a number"),
        ("[measure(n=1)['city']]", "text", "a list"),
        ("measure(n=1)", "number", "several named values"),
        ("len(measure(n=1))", "list", "a number"),
        ("measure(n=1)['km'] > 3", "text", "yes or no"),
    ],
)
def test_a_kind_that_the_types_tell_is_asked_about_before_the_program_does_anything(
    written: str, kind: str, said: str
) -> None:
    better = {"text": "measure(n=2)['city']", "number": "measure(n=2)['km']", "list": "[measure(n=2)]"}[kind]
    result, done = run_typed(f"```python\nanswer = {written}\n```", kind, f"```python\nanswer = {better}\n```")
    assert (result.status, done) == ("answered", [2])
    assert result.revisions[0].findings[0].message.endswith(f"the program's answer is {said}")


@pytest.mark.parametrize("kind", ["record", "list"])
def test_what_the_types_do_not_refuse_runs(kind: str) -> None:
    result, done = run_typed(TEXT, kind)
    assert (result.value, done) == ("Lund", [1])


def test_the_program_that_was_warned_about_runs_where_the_next_one_cannot() -> None:
    result, done = run_typed(NUMBER, "text", UNKNOWN)
    assert (result.value, done) == (4.2, [1])


def test_a_kind_is_asked_about_once_before_and_after_the_run() -> None:
    result, done = run_typed(NUMBER, "text", "```python\nx = measure(n=1)\nanswer = x['km']\n```")
    assert (result.value, done, len(result.revisions)) == (4.2, [1], 2)


def test_such_a_warning_makes_no_write_unsafe() -> None:
    assert run_typed(NUMBER, "text", UNKNOWN, warnings="ask")[0].status == "answered"


def test_where_the_user_gives_the_type_nothing_is_asked() -> None:
    tools = Toolset([make_tool("measure", lambda arguments: {"km": 4.2, "city": "Lund"})])
    model = FakeModel([NUMBER])
    with Agent(tools, model=model, sentence=False, answer=float, **ON) as agent:
        assert agent.run("which city?").value == 4.2


def test_no_rejection_left_is_no_question() -> None:
    assert purposes(run(NUMBER, max_rejections=0)) == ["program"]


@pytest.mark.parametrize("word", ["text", "sentence", ModelError("lost")])
def test_a_reply_of_no_use_is_no_warning(word: Any) -> None:
    replies = [NUMBER, word, *(["still no kind"] if word == "sentence" else [])]
    if word == "text":
        replies.append(TEXT)
    result = run(*replies)
    assert result.value == ("Lund" if word == "text" else 4.2)


@pytest.mark.parametrize("error", [ModelError("lost"), ModelUnavailable("gone")])
def test_an_answer_stands_where_the_model_is_lost_meanwhile(error: Exception) -> None:
    result = run(NUMBER, "text", error)
    assert (result.status, result.value, result.fault) == ("answered", 4.2, None)
    assert result.answer == "4.2"


@pytest.mark.parametrize("calls", [1, 2])
def test_an_answer_stands_where_the_budget_is_used_up_meanwhile(calls: int) -> None:
    result = run(NUMBER, "text", budget_model_calls=calls)
    assert (result.status, result.value) == ("answered", 4.2)


class Slow(Model):
    """Writes a program, says a kind, and then writes for ever."""

    name, context_tokens = "slow", 16_000

    def __init__(self) -> None:
        self._replies = [NUMBER, "text"]

    async def generate(self, request: ModelRequest) -> Reply:
        if not self._replies:
            await asyncio.Event().wait()
        return Reply(self._replies.pop(0), "stop", 1, 1, 0.0)


@pytest.mark.slow
def test_an_answer_stands_where_the_time_is_used_up_meanwhile() -> None:
    tools = Toolset([make_tool("measure", lambda arguments: {"km": 4.2, "city": "Lund"})])
    with Agent(tools, model=Slow(), sentence=False, budget_s=5.0, **ON) as agent:
        result = agent.run("which city?")
    assert (result.status, result.value) == ("answered", 4.2)


def test_what_did_something_meanwhile_is_no_longer_the_same_run_of_reads() -> None:
    done: list[int] = []
    book = make_tool("book", lambda arguments: done.append(1) or {"ok": True}, effect=Effect.WRITE)
    tools = Toolset([make_tool("measure", lambda arguments: {"km": 4.2, "city": "Lund"}), book])
    writes = "```python\nbook(n=1)\nanswer = [][measure(n=1)['km']]\n```"
    both = "```python\nbook(n=1)\nanswer = measure(n=1)['city']\n```"
    model = FakeModel([NUMBER, "text", writes, both])
    with Agent(tools, model=model, sentence=False, approve="always", **ON) as agent:
        result = agent.run("which city?")
    assert (result.value, done) == ("Lund", [1])


def test_a_long_task_is_shown_in_part() -> None:
    model = FakeModel([TEXT, "text"])
    tools = Toolset([make_tool("measure", lambda arguments: {"km": 4.2, "city": "Lund"})])
    with Agent(tools, model=model, sentence=False, **ON) as agent:
        agent.run("Begin. " + "word " * 3_000 + "Which city?")
    question = model.prompts[1][-1].content
    assert "Begin." in question
    assert "Which city?" in question
    assert len(question) < 3_000


def test_the_question_ends_with_the_task_and_its_examples_are_of_all_kinds() -> None:
    system, *turns, last = kind_question("How far\nis it?")
    assert (system.role, last.role, last.content) == ("system", "user", "How far is it?")
    assert {message.content for message in turns if message.role == "assistant"} == set(KINDS)
    assert all(message.content for message in turns)
    assert not any(message.fixed for message in [system, *turns]), "the slot's file is the programs' alone"
