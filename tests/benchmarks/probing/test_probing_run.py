"""The benchmark of runs that see what tools answer beforehand: its tasks, its systems, and that it goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from atc.models.fake import FakeModel
from benchmarks.environments.atlas_tasks import load_tasks
from benchmarks.probing import run as probing_run
from benchmarks.probing.run import SYSTEMS, Question, Row, attempt, of_atlas, questions, read, table
from benchmarks.probing.services import SERVICES
from benchmarks.rows import append_line

NEXT = next(task for task in load_tasks() if task.id == "next-holiday-japan")
REFERENCE = f"```python\n{NEXT.reference}\n```"


def tried(system: str, *replies: str, question: Question, service: str = "atlas") -> Row:
    return asyncio.run(attempt(question, service, system, FakeModel(replies), 0))


def test_there_are_twenty_questions_of_the_museum_and_each_has_an_answer() -> None:
    found = questions("datasette", 20)
    assert len({each.id for each in found}) == len(found) == 20
    assert all(each.expected not in (None, [], {}) for each in found)
    assert found[:3] == questions("datasette", 3)


@pytest.mark.slow
def test_there_are_twenty_tasks_of_atlas_that_only_read() -> None:
    found = questions("atlas", 20)
    assert len({each.id for each in found}) == len(found) == 20
    assert all(each.expected is not None for each in found)


@pytest.mark.slow
def test_a_system_that_probes_knows_shapes_and_each_try_begins_anew() -> None:
    question = of_atlas(NEXT)
    for _ in range(2):
        row = tried("probe", REFERENCE, question=question)
        assert (row.solved, row.wrong, row.writes, row.calls, row.model_calls) == (True, False, 0, 1, 1)
        assert 0 < row.probed <= 10
    assert tried("plain", REFERENCE, question=question).probed == 0


@pytest.mark.slow
def test_a_wrong_answer_is_counted_and_a_look_too() -> None:
    question = of_atlas(NEXT)
    row = tried("plain", "```python\nanswer = get_country(country_code='JP')['name']\n```", question=question)
    assert (row.solved, row.wrong) == (False, True)
    look = "```python\nfound = get_country(country_code='JP')\nlook(found)\n```"
    row = tried("look", look, REFERENCE, question=question)
    assert (row.solved, row.looks, row.model_calls) == (True, 1, 2)


def test_a_file_of_tries_is_read_again_and_summed(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        Row(
            "atlas", "a", system, "m", 0, "answered", system == "probe", system != "probe", 2, 100, 3, 1, 0.5, 0, 0, 9.0
        )
        for system in reversed(SYSTEMS)
    ]
    for row in (*rows, rows[0]):
        append_line(file, probing_run._ROW.dump_json(row))
    known = read(file)
    assert [*known.values()] == rows
    lines = table([*known.values()])
    assert [line[2] for line in lines] == [*SYSTEMS]
    assert lines[1][:6] == ("atlas", "m", "probe", 1, 1, 0)


@pytest.mark.slow
@pytest.mark.skipif(not (SERVICES / "datasette").exists(), reason="`make services` installs it")
def test_the_museum_is_probed_by_paths_alone() -> None:
    (question,) = (each for each in questions("datasette", 20) if each.id == "how-many-works")
    program = "answer = len(get_by_database_by_table_json(database='museum', table='works')['rows'])"
    row = tried("probe", f"```python\n{program}\n```", question=question, service="datasette")
    assert (row.solved, row.probed > 0) == (True, True)
