"""``atc tools learn trajectories``: continues where it stopped, keeps what it has, and names what is wrong."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result as Ran
from learn_support import TRIP, Teacher, catalogue

from atc.errors import ModelError, UsageError
from atc.models.fake import FakeModel
from atc_research.examples import read_examples
from atc_research.toolqp import learn_trajectories
from atc_research.toolqp.dataset import Output
from tests.support.cli import atc as command

GOLD = list(TRIP.gold)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalogue().save("index")
    tasks(*({"id": f"t{n}", "query": f"{TRIP.query} ({n})", "gold": GOLD} for n in range(3)))


@pytest.fixture
def learn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    def run(teacher: FakeModel, *arguments: str) -> Ran:
        monkeypatch.setattr(learn_trajectories, "resolve_model", lambda *_, **__: teacher)
        return atc_learn(*arguments)

    return run


def atc_learn(*arguments: str) -> Ran:
    return command("tools", "learn", "trajectories", "tasks.jsonl", "--index", "index", "-o", "out.jsonl", *arguments)


def tasks(*lines: Any) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    Path("tasks.jsonl").write_text("".join(f"{text}\n" for text in texts))


def ids(path: str = "out.jsonl") -> list[str]:
    return [json.loads(line)["metadata"]["id"] for line in Path(path).read_text().splitlines()]


# -- what it does ----------------------------------------------------------------------------------------------------


def test_each_task_gets_a_line_that_trainers_take(learn: Callable[..., Ran]) -> None:
    ran = learn(Teacher(), "--turns", "paper")
    assert ran.exit_code == 0
    assert ids() == ["t0", "t1", "t2"]
    assert "3 trajectories in out.jsonl, 3 of them new" in ran.stdout
    assert "[3/3] t2: 2 queries" in ran.stderr
    assert "words only" in ran.stderr  # the index has no vectors, and says so
    for line in Path("out.jsonl").read_text().splitlines():
        assert [sorted(message) for message in json.loads(line)["messages"]] == [["content", "role"]] * 9
    assert not Path("out.skipped.jsonl").exists()


def test_the_same_seed_writes_the_same_file(learn: Callable[..., Ran]) -> None:
    learn(Teacher(), "--seed", "5")
    first = Path("out.jsonl").read_bytes()
    Path("out.jsonl").unlink()
    learn(Teacher(), "--seed", "5")
    assert Path("out.jsonl").read_bytes() == first


def test_a_summary_as_json(learn: Callable[..., Ran]) -> None:
    ran = learn(Teacher(), "--json", "--limit", "2", "--turns", "paper")
    summary = json.loads(ran.stdout)
    assert (summary["trajectories"], summary["new"], summary["skipped"]) == (2, 2, 0)
    assert summary["model_calls"] == 2 * (2 + 2 * 4)
    assert summary["prompt_tokens"] > 0


def test_what_is_written_is_not_made_again(learn: Callable[..., Ran]) -> None:
    learn(Teacher(), "--limit", "2")
    first = Path("out.jsonl").read_bytes()
    teacher = Teacher()
    ran = learn(teacher, "--json")
    assert json.loads(ran.stdout)["new"] == 1
    assert Path("out.jsonl").read_bytes().startswith(first)
    assert ids() == ["t0", "t1", "t2"]
    assert teacher.asked.count("plan") == 1
    silent = Teacher(replies=0)
    assert learn(silent).exit_code == 0  # nothing is left to do: no call


def test_a_task_that_was_skipped_is_told_and_not_tried_again(learn: Callable[..., Ran]) -> None:
    ran = learn(Teacher(plan=""), "--limit", "1")
    assert ran.exit_code == 1  # there is no trajectory at all
    assert "t0: skipped, the teacher wrote no plan" in ran.stderr
    (line,) = map(json.loads, Path("out.skipped.jsonl").read_text().splitlines())
    assert (line["id"], line["why"]) == ("t0", "the teacher wrote no plan")
    assert not Path("out.jsonl").exists()
    teacher = Teacher()
    assert learn(teacher).exit_code == 0
    assert ids() == ["t1", "t2"]


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (ModelError("the endpoint is gone"), 3)])
def test_what_was_made_before_an_end_is_kept(learn: Callable[..., Ran], stop: BaseException, code: int) -> None:
    class Stops(Teacher):
        async def complete(self, messages: Any, **given: Any) -> Any:
            if self.asked.count("plan") == 2:
                raise stop
            return await super().complete(messages, **given)

    ran = learn(Stops())
    assert ran.exit_code == code
    assert "1 trajectories are kept in out.jsonl: run it again" in ran.stderr
    assert ids() == ["t0"]
    assert learn(Teacher()).exit_code == 0
    assert ids() == ["t0", "t1", "t2"]


def test_a_line_that_was_half_written_is_made_again(learn: Callable[..., Ran]) -> None:
    learn(Teacher(), "--limit", "2")
    whole = Path("out.jsonl").read_bytes()
    for cut in (1, 5, len(whole) // 3):
        Path("out.jsonl").write_bytes(whole[:-cut])
        assert learn(Teacher(), "--limit", "2").exit_code == 0
        assert Path("out.jsonl").read_bytes() == whole


def test_a_task_whose_tools_are_not_indexed_is_skipped_without_a_call(learn: Callable[..., Ran]) -> None:
    tasks({"query": "x", "gold": ["no/such"]}, {"query": TRIP.query, "gold": GOLD})
    ran = learn(Teacher())
    assert ran.exit_code == 0
    assert "1: skipped, the index has no tool 'no/such'" in ran.stderr
    assert ids() == ["2"]


def test_a_zipped_file_of_tasks_is_read() -> None:
    with gzip.open("tasks.gz", "wt") as file:
        file.write('\n{"query": "q", "gold": ["a", "b", "a"]}\n')
    (example,) = read_examples("tasks.gz")
    assert (example.id, example.gold) == ("2", ("a", "b"))


# -- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 1: no JSON"),
        ("[" * 100_000, "line 1: no JSON"),
        ("[]", "line 1: no JSON object"),
        ({"gold": ["a"]}, "`query` must be a text"),
        ({"query": " ", "gold": ["a"]}, "`query` must be a text"),
        ({"query": "q"}, "`gold` must be a list"),
        ({"query": "q", "gold": []}, "`gold` must be a list"),
        ({"query": "q", "gold": "a"}, "`gold` must be a list"),
        ({"query": "q", "gold": [1]}, "`gold` must be a list"),
        ({"query": "q", "gold": ["a"], "id": None}, "`id` must be a text"),
        ({"query": "q", "gold": ["a"], "id": ""}, "`id` must be a text"),
        ("", "holds no tasks"),
    ],
)
def test_a_wrong_task_is_named_with_its_line(learn: Callable[..., Ran], line: Any, told: str) -> None:
    tasks(line)
    ran = learn(Teacher())
    assert ran.exit_code == 2
    assert told in ran.stderr
    assert "tasks.jsonl" in ran.stderr
    assert not Path("out.jsonl").exists()


def test_files_that_are_no_tasks_are_named() -> None:
    tasks({"id": 1, "query": "q", "gold": ["a"]}, {"id": "1", "query": "r", "gold": ["a"]})
    with pytest.raises(UsageError, match="line 2: the id '1' occurs twice"):
        read_examples("tasks.jsonl")
    Path("binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="line 1 is not UTF-8"):
        read_examples("binary")
    Path("cut.gz").write_bytes(gzip.compress(b'{"query": "q", "gold": ["a"]}\n' * 50)[:-20])
    for name in ("cut.gz", "nothing.jsonl", "index"):
        with pytest.raises(UsageError, match=f"{name} cannot be read"):
            read_examples(name)


def test_an_index_of_another_catalogue_is_told_before_any_call(learn: Callable[..., Ran]) -> None:
    tasks({"query": "q", "gold": ["no/such"]}, {"query": "r", "gold": ["nor/this"]})
    ran = learn(Teacher(replies=0))
    assert ran.exit_code == 2
    assert "no task has all its tools in the index; the first, '1', wants 'no/such'" in ran.stderr
    assert not Path("out.jsonl").exists()


def test_an_index_that_is_none_is_told() -> None:
    ran = command("tools", "learn", "trajectories", "tasks.jsonl", "--index", "nowhere", "-o", "out.jsonl")
    assert ran.exit_code == 3
    assert "nowhere" in ran.stderr


def test_an_output_of_other_tasks_is_left_alone(learn: Callable[..., Ran]) -> None:
    learn(Teacher())
    before = Path("out.jsonl").read_bytes()
    tasks({"id": "t0", "query": "another task", "gold": GOLD})
    ran = learn(Teacher(replies=0))
    assert ran.exit_code == 2
    assert "another task with the id 't0'" in ran.stderr
    assert Path("out.jsonl").read_bytes() == before


@pytest.mark.parametrize("held", ['{"a": 1}\n', "my notes", "my notes\n", '{"a": 1}'])
def test_a_file_of_something_else_is_left_alone(learn: Callable[..., Ran], held: str) -> None:
    Path("out.jsonl").write_text(held)
    ran = learn(Teacher(replies=0))
    assert ran.exit_code == 2
    assert "out.jsonl, line 1 is none that `atc tools learn trajectories` wrote" in ran.stderr
    assert Path("out.jsonl").read_text() == held


def test_an_output_that_cannot_be_is_named(learn: Callable[..., Ran]) -> None:
    for name in ("no/such/folder.jsonl", "index"):
        ran = learn(Teacher(replies=0), "-o", name)
        assert ran.exit_code == 2
        assert f"{name} cannot be written" in ran.stderr
    assert "is the file of the tasks itself" in learn(Teacher(replies=0), "-o", "tasks.jsonl").stderr


def test_two_runs_never_write_one_file(learn: Callable[..., Ran]) -> None:
    with Output("out.jsonl"):
        ran = learn(Teacher(replies=0))
        assert ran.exit_code == 2
        assert "being written by another run" in ran.stderr
    assert learn(Teacher()).exit_code == 0


def test_a_full_disk_is_told_and_leaves_whole_lines(learn: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = os.fsync, iter(range(10))

    def full(descriptor: int) -> None:
        if next(count) == 1:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    ran = learn(Teacher())
    assert ran.exit_code == 3
    assert "out.jsonl cannot be written (No space left on device)" in ran.stderr
    assert ids() == ["t0"]
    assert learn(Teacher()).exit_code == 0
    assert ids() == ["t0", "t1", "t2"]
