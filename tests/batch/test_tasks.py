"""Tasks of a batch: what is read, and that all that is wrong is told at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atc.batch.tasks import MAX_LINE, MAX_TOLD, BatchTask, lines_of, read_tasks, tasks_of
from atc.errors import UsageError
from tests.support.images import PNG


def read(*lines: Any) -> list[BatchTask]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return read_tasks((line + b"\n" for line in raw), "tasks.jsonl")


def test_texts_and_records_are_tasks_with_ids() -> None:
    given = read(
        "one", {"task": " two ", "id": 7, "answer": "number", "instructions": "short"}, b"", b'\xef\xbb\xbf"x"'
    )
    assert [(task.id, task.task) for task in given] == [("1", "one"), ("7", "two"), ("4", "x")]
    assert given[1].answer == "number"
    assert given[1].instructions == "short"
    assert len({task.digest for task in given}) == 3
    assert read("one")[0].digest == read({"task": "one", "id": "other"})[0].digest
    schema = read({"task": "one", "answer": {"type": "integer"}})[0]
    assert schema.opened_answer().schema == {"type": "integer"}
    assert schema.digest != given[0].digest


def test_all_wrong_lines_are_told_with_their_numbers() -> None:
    lines: list[Any] = [
        "fine", b"{", [], {}, {"task": ""}, {"task": "x", "tsk": 1}, {"task": "x", "id": "1"}, b'"\xff"',
        b'{"task": NaN}', {"task": "x", "answer": {"type": 3}},
        {"task": "x", "answer": "os:system"}, {"task": "x", "answer": "FILE.json"},
        {"task": "x", "images": ["none.png"]}, {"task": "x", "images": "x"}, {"task": "x", "id": "a\nb"},
        {"task": "x", "id": True}, b'{"task": "x", "task": "y"}', b"[" * 100_000, {"task": "x", "instructions": 1},
        b'"' + b"x" * MAX_LINE + b'"',
    ]  # fmt: skip
    with pytest.raises(UsageError) as raised:
        read(*lines)
    told = str(raised.value).splitlines()
    assert [line.split(":")[0] for line in told] == [f"tasks.jsonl, line {number}" for number in range(2, 21)]
    assert "the id '1' is that of 1, too" in told[5]
    assert "names code or a file" in told[9]


def test_of_very_many_wrong_lines_the_rest_is_counted() -> None:
    with pytest.raises(UsageError) as raised:
        read(*["x", *[{}] * (MAX_TOLD + 5)])
    told = str(raised.value).splitlines()
    assert (len(told), told[-1]) == (MAX_TOLD + 1, "and 5 more")
    with pytest.raises(UsageError, match="no task"):
        read()


def test_a_caller_may_give_types_and_bytes(tmp_path: Path) -> None:
    tasks = tasks_of(["x", {"task": "y", "answer": int, "images": [PNG]}, BatchTask("z", id="z")])
    assert [task.id for task in tasks] == ["1", "2", "z"]
    for wrong in ("x", {"task": "x"}, [3], []):
        with pytest.raises(UsageError):
            tasks_of(wrong)


def test_images_are_beside_the_file_and_an_endless_line_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b'{"task": "x", "images": ["a.png"]}\n' + b"y" * (3 * MAX_LINE) + b"\n" + b'"z"')
    lines = list(lines_of(str(file)))
    assert [len(line) > MAX_LINE for line in lines] == [False, True, False]
    with pytest.raises(UsageError, match="line 2: it has more than"):
        read_tasks(lines, "tasks.jsonl", tmp_path)
    (task, _) = read_tasks([lines[0], lines[2]], "tasks.jsonl", tmp_path)
    assert task.images == (str(tmp_path / "a.png"),)
    with pytest.raises(UsageError, match="cannot be read"):
        list(lines_of(str(tmp_path / "none")))
