"""A program of the caller's own, run by an agent that has no model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc import Agent, ToolError, UsageError, tool
from atc.models.fake import FakeModel
from atc.run.given_program import title_of

ASKED: list[str] = []


@tool(effect="read")
def weight_of(city: str) -> dict[str, int]:
    """Weigh a city."""
    ASKED.append(city)
    return {"tons": len(city)}


def test_a_program_runs_without_a_model_and_its_revision_repeats_nothing() -> None:
    ASKED.clear()
    with Agent([weight_of], model="embedded:none-such", budget_money=1, approve="never") as agent:
        first = agent.run_program("answer = weight_of(city=name)['pounds']", inputs={"name": "Oslo"})
        assert (first.status, first.usage.model_calls) == ("unsolved", 0)
        assert first.fault is not None
        second = agent.run_program("answer = weight_of(city=name)['tons'] * 2", run=first.run_id)
        assert (second.run_id, second.unwrap(), ASKED) == (first.run_id, 8, ["Oslo"])
        assert (second.answer, second.usage.model_calls) == ("8", 0)
        rejected = agent.run_program("answer = (")
        assert [each.kind for each in rejected.revisions[-1].findings] == ["syntax"]
        assert rejected.fault is not None
        assert rejected.fault.finding == rejected.revisions[-1].findings[0]
        assert rejected.fault.message.startswith("line 1: ")


def test_a_program_that_waits_for_a_yes_goes_on_by_itself_or_by_a_resume(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(effect="write")
    def send(text: str) -> int:
        """Send a text."""
        sent.append(text)
        return len(sent)

    program = "answer = [send(text=each) for each in texts]"
    with Agent([send], model="embedded:none-such", approve="park", runs_dir=tmp_path) as agent:
        waiting = [agent.run_program(program, inputs={"texts": ["a", "b"]}) for _ in range(2)]
        for each in waiting:
            assert (each.status, sent) == ("waiting", [])
            agent.approve(each.run_id)
        assert agent.run_program(run=waiting[0].run_id).unwrap() == [1, 2]
    with Agent([send], model="embedded:none-such", approve="never", runs_dir=tmp_path) as agent:
        assert agent.resume(waiting[1].run_id).unwrap() == [3, 4]
        with pytest.raises(UsageError, match="give a program, or the run"):
            agent.run_program()
    assert sent == ["a", "b", "a", "b"]


@pytest.mark.parametrize("sentence", [None, True])
def test_no_model_is_asked_for_a_sentence_or_for_arguments(sentence: bool | None) -> None:
    @tool(effect="read")
    def number_of(code: str) -> int:
        """Look a number up."""
        if code != "A-1":
            raise ToolError("the code must be like A-1", status=400)
        return 7

    heard: list[str] = []
    settings = {} if sentence is None else {"sentence": sentence}
    with Agent([number_of], approve="never", on_event=lambda event: heard.append(event.kind), **settings) as agent:
        assert agent.run_program("answer = number_of(code='A-1')").usage.model_calls == 0
        assert agent.run_program("answer = number_of(code='A1')").usage.model_calls == 0
    assert "program_written" in heard
    assert not [kind for kind in heard if kind.startswith("model_")]


def test_a_fenced_program_is_taken_and_its_faults_name_the_lines_of_what_was_given() -> None:
    with Agent([weight_of], model="embedded:none-such", approve="never") as agent:
        result = agent.run_program("```python\nanswer = await weight_of(city='Oslo')\n```")
        assert (result.status, result.value) == ("answered", {"tons": 4})
        assert len(result.revisions[-1].rewrites) == 2
        wrong = agent.run_program("```python\nx = weight_of(city='Oslo')\nanswer = x['tons'] / 0\n```")
        assert wrong.fault is not None
        assert (wrong.fault.line, wrong.fault.source_line) == (3, "answer = x['tons'] / 0")


@pytest.mark.parametrize("check", [True, False])
def test_a_model_may_write_in_the_dialect_that_it_knows(check: bool) -> None:
    names = "import asyncio\nnames = ['Oslo', 'Rom']"
    program = f"{names}\nfound = await asyncio.gather(*[tools.weight_of(city=n) for n in names])"
    model = FakeModel([f"```python\n{program}\nanswer = [each['tons'] for each in found]\n```"])
    with Agent([weight_of], model=model, keep_runs=False, sentence=False, check=check) as agent:
        result = agent.run("How heavy are Oslo and Rom?")
    assert (result.status, result.value, len(model.prompts)) == ("answered", [4, 3], 1)
    assert [note.partition(": ")[0] for note in result.revisions[0].rewrites] == ["line 3", "line 3"]


@pytest.mark.parametrize(
    ("source", "given", "what"),
    [
        ("", {}, "empty"),
        ("answer = 1", {"run": "none"}, "no run"),
        ("answer = 1", {"inputs": {"weight_of": 1}}, "tool"),
    ],
)
def test_what_cannot_be_run_is_said(source: str, given: dict[str, object], what: str, tmp_path: Path) -> None:
    with Agent([weight_of], approve="never", runs_dir=tmp_path) as agent, pytest.raises(UsageError, match=what):
        asyncio.run(agent.arun_program(source, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("answer = weight_of(city='Oslo')", "answer = weight_of(city='Oslo') (weight_of)"),
        ("# Weigh Oslo.\nanswer = weight_of(city='Oslo')", "Weigh Oslo. (weight_of)"),
        ("import math\n\n'Weigh it.'\nanswer = weight_of(city='Oslo')", "Weigh it. (weight_of)"),
        ("```python\nanswer = 6 * 7\n```", "answer = 6 * 7"),
        ("answer = (weight_of", "answer = (weight_of (weight_of)"),
        ("#", "#"),
        ("x = '" + "\u202e" * 500 + "'", None),
    ],
)
def test_a_run_is_named_by_its_programs_first_line_and_its_tools(source: str, title: str | None) -> None:
    with Agent([weight_of], model="embedded:none-such", approve="never") as agent:
        result = agent.run_program(source)
        row = agent.store.run(result.run_id).first("run_started")
    assert row is not None
    assert row["task"] == result.task
    if title is None:
        assert len(result.task) < 1_000
        assert result.task.isprintable()
    else:
        assert result.task == title


def test_the_many_tools_of_a_program_are_counted() -> None:
    names = [f"tool_{n}" for n in range(9)]
    called = "\n".join(f"{name}()" for name in reversed(names))
    assert title_of(called, names) == "tool_8() (tool_8, tool_7, tool_6, tool_5, tool_4, … 4 more)"


def test_the_name_of_a_run_gives_its_program_no_values() -> None:
    @tool(effect="write")
    def send(to: str) -> str:
        """Send it."""
        return to

    with Agent([send], model="embedded:none-such", approve="always") as agent:
        planned = agent.run_program("answer = send(to='ann')", dry_run=True).dry_run
        assert planned is not None
        assert [feed.kind for feed in planned.planned[0].feeds] == ["program"]  # it is no task that says so
        result = agent.run_program("answer = send(to='ann')")
        assert result.value == "ann"
