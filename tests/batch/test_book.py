"""The file of results: what survives, what is refused, and that nobody else's file is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from atc.batch.book import Book, TaskResult, failed, not_begun
from atc.batch.tasks import BatchTask, tasks_of
from atc.errors import UsageError

ONE, TWO, THREE = tasks_of(["one", "two", "three"])
RUN = "20260101-000000-00000{}"


def answered(task: BatchTask, number: int = 1) -> TaskResult:
    return TaskResult(
        run_id=RUN.format(number), task=task.task, status="answered", value=[b"x"], answer="x", id=task.id
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_and_runs_survive(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with Book(path) as book:
        book.begin(ONE, RUN.format(1))
        book.started(ONE)
        book.end(answered(ONE), ONE)
        book.begin(TWO, RUN.format(2))
        book.begin(THREE, RUN.format(3))
        book.started(THREE)
    for file, half in ((path, b'{"id": "2", "sta'), (book.runs_path, b'{"kind": "star')):
        with file.open("ab") as cut:
            cut.write(half)  # a crash in the middle of a line
    with Book(path) as book:
        book.check([ONE, TWO, THREE])
        done = book.done(ONE)
        assert done is not None
        assert (done.status, done.value, done.run_id) == ("answered", [b"x"], RUN.format(1))
        assert book.done(TWO) is None
        assert {name: (begun.run_id, begun.started) for name, begun in book.begun.items()} == {
            "2": (RUN.format(2), False),
            "3": (RUN.format(3), True),
        }
        book.end(answered(TWO, 2), TWO)
        with pytest.raises(UsageError, match="another process"), Book(path):
            pass
    assert [row["id"] for row in rows(path)] == ["1", "2"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_task_that_changed_is_refused(tmp_path: Path) -> None:
    with Book(tmp_path / "r") as book:
        book.begin(ONE, RUN.format(1))
    with Book(tmp_path / "r") as book, pytest.raises(UsageError, match="'1'"):
        book.check(tasks_of(["another"]))


def test_what_a_budget_ended_goes_on_and_its_costs_stay_counted(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    over = not_begun(TWO, "tokens").model_copy(update={"run_id": RUN.format(2)})
    with Book(path) as book:
        for task, result in ((ONE, answered(ONE)), (TWO, over), (THREE, failed(THREE, RUN.format(3), "no"))):
            book.begin(task, result.run_id)
            book.end(result, task)
    lines = rows(path)
    for row in lines:
        row["prompt_tokens"], row["cost"] = 10, "0.5"
    path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    with Book(path) as book:
        assert [row["id"] for row in rows(path)] == ["1", "3"]
        assert (book.spent.tokens, str(book.spent.money)) == (30, "1.5")
        assert {name: begun.again for name, begun in book.begun.items()} == {"2": True}
    with Book(path, again=True) as book:
        assert [row["id"] for row in rows(path)] == ["1"]
        assert book.begun.keys() == {"2", "3"}
        assert (book.spent.tokens, str(book.spent.money)) == (30, "1.5")


@pytest.mark.parametrize(
    "content", ["hello", "hello\n", '{"task": "x"}\n', "[1]\n", '{"id": "1", "digest": "", "status": "answered"}\n']
)
def test_a_file_of_others_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r"
    path.write_text(content)
    with pytest.raises(UsageError, match="line 1"), Book(path):
        pass
    assert path.read_text() == content


@pytest.mark.parametrize(
    "wrong", [{"id": None}, {"prompt_tokens": -1}, {"model_calls": -1}, {"cost": "NaN"}, {"cost": "-1"}], ids=str
)
def test_a_row_that_nobody_wrote_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "r"
    with Book(path) as book:
        book.end(answered(ONE), ONE)
    path.write_text(json.dumps(rows(path)[0] | wrong) + "\n")
    with pytest.raises(UsageError, match="line 1, is nothing"), Book(path):
        pass


def test_results_go_to_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "r").symlink_to("/dev/zero")  # it has no end
    with pytest.raises(UsageError, match="no ordinary file"), Book(tmp_path / "r"):
        pass


def test_one_process_works_on_a_file_by_whatever_name(tmp_path: Path) -> None:
    path, link, other = tmp_path / "r", tmp_path / "link", tmp_path / "other"
    with Book(path) as book:
        link.symlink_to(path)
        os.link(path, other)
        for name in (link, other):
            with pytest.raises(UsageError, match="another process"), Book(name):
                pass
        book.begin(ONE, RUN.format(1))
        book.end(answered(ONE), ONE)
    with Book(link, again=True) as book:  # the link stays one, and the runs are those of the file
        done = book.done(ONE)
        assert done is not None
        assert done.status == "answered"
    assert link.is_symlink()
