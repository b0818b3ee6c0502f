"""The benchmark of answers' kinds: asked once, kept, and held to recorded answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc.models.fake import FakeModel
from benchmarks.answer_kinds import Known, ask_all, kind_figures, known_tasks, row_figures
from benchmarks.environments import Task, open_environment
from benchmarks.rows import Row

NUMBER = Known("world", Task("a", "How many?", ()), "number", 7)
TEXT = Known("world", Task("b", "Which city is nearest to Rome?", ()), "text", "Lund")
UNKNOWN = Known("world", Task("c", "Do it.", ()), None)


def row(task: str, answer: object, solved: bool, program: str = "answer = f()") -> Row:
    return Row(
        env="world", task=task, system="atc", version="1", seed=0, model="m", terms="t", stated=True,
        status="answered", solved=solved, answer=repr(answer)[:500], program=program,
    )  # fmt: skip


def test_a_word_is_kept_and_asked_for_once(tmp_path: Path) -> None:
    file = tmp_path / "kinds.jsonl"
    first = asyncio.run(ask_all(FakeModel(["number", "record"]), [NUMBER, TEXT], file))
    file.write_text(file.read_text() + "{not json\n")
    model = FakeModel(["list"])
    again = asyncio.run(ask_all(model, [NUMBER, TEXT, UNKNOWN], file))
    assert again.items() >= first.items()
    assert len(model.prompts) == 1
    assert again["world", "c"].kind == "list"


def test_the_figures_count_what_is_right_and_what_would_be_warned_about(tmp_path: Path) -> None:
    tasks = [NUMBER, TEXT, UNKNOWN]
    asked = asyncio.run(ask_all(FakeModel(["number", "list", "text"]), tasks, tmp_path / "kinds.jsonl"))
    figures = kind_figures(tasks, asked)
    assert (figures["tasks"], figures["right"], figures["right_answers_warned_about"]) == (2, 1, 0)
    assert figures["by_kind"]["text"] == {"list": 1}
    rows = [
        row("a", 7, True),
        row("a", ["x" * 600], False),  # cut, and still a list
        row("b", 4.2, False),
        row("b", "Rome", False),
        row("c", 5, True),
        row("z", 5, True),
    ]
    found = row_figures(rows, tasks, asked)
    assert (found["answered"], found["wrong"]) == (5, 3)
    assert (found["kind_caught"], found["kind_false_alarms"]) == (2, 1)
    assert (found["datum_caught"], found["datum_false_alarms"]) == (1, 0)
    assert found["kind_by_word"]["number → list: caught"] == 1


def test_an_environment_without_its_data_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert known_tasks([open_environment("m3tooleval")], "all", None) == []
    assert "left out" in capsys.readouterr().err


@pytest.mark.slow
def test_the_tasks_of_atlas_have_answers_of_known_kinds() -> None:
    found = known_tasks([open_environment("atlas")], "all", None)
    assert len(found) == 40
