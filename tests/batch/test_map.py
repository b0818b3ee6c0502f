"""``Agent.map``: many tasks, their order, their failures, their budgets, and going on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from atc import Agent, FakeModel, tool
from atc.batch.book import Book, TaskResult
from atc.batch.limits import Limits
from atc.calls.parked import WAITS_S
from atc.errors import EnvironmentProblem, SandboxUnavailable, UsageError
from atc.models.messages import Message
from atc.traces.stores.base import new_run_id
from tests.support.agent import Broken

SAY = "```python\nanswer = {}\n```"


def scripted(reply: Callable[[str], str] = lambda task: SAY.format(repr(task)), **given: Any) -> Agent:
    """An agent whose model writes a program for the task that it is shown, of which the words are ``task N``."""

    def said(messages: Sequence[Message]) -> str:
        shown = messages[-1].content
        return reply(next(f"task {number}" for number in range(99, 0, -1) if f"task {number}" in shown))

    @tool(effect="read")
    def double(n: int) -> int:
        """Twice a number."""
        return 2 * n

    tools = given.pop("tools", [double])
    return Agent(tools, model=FakeModel([said] * 500), sentence=False, learn=False, check=False, **given)


def names(count: int) -> list[str]:
    return [f"task {number}" for number in range(1, count + 1)]


def number_of(task: str) -> str:
    return SAY.format(f"double(n={task.removeprefix('task ')})")


def test_results_come_in_the_order_of_the_tasks_and_a_failure_is_one() -> None:
    with scripted(lambda task: "no program" if task == "task 2" else number_of(task)) as agent:
        results = list(agent.map([*names(2), {"task": "task 3", "answer": "text", "id": "third"}, *names(5)[3:]]))
        assert [result.id for result in results] == ["1", "2", "third", "4", "5"]
        assert [result.value for result in results] == [2, None, None, 8, 10]
        assert [result.status for result in results] == ["answered", "unsolved", "unsolved", "answered", "answered"]
        assert all(agent.store.run(result.run_id).exists for result in results)
        with pytest.raises(UsageError, match="task 2: the task is empty"):
            agent.map(["task 1", " "])
        for wrong in ({"concurrency": 0}, {"on": "mars"}, {"limits": 5}):
            with pytest.raises(UsageError):
                agent.map(["task 1"], **wrong)


def test_a_budget_over_all_ends_what_runs_and_begins_nothing_more(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with scripted(number_of) as agent:
        results = list(agent.map(names(9), concurrency=2, limits=Limits(model_calls=3), results=file))
        assert [result.status for result in results].count("answered") == 3
        others = [result for result in results if result.status != "answered"]
        assert {(result.status, result.over) for result in others} == {("budget", "model_calls")}
        assert sum(result.begun for result in others) <= 2
        assert sum(result.usage.model_calls for result in results) == 3  # a call that was refused is none
        written = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(written) == 3 + sum(result.begun for result in others)
        again = list(agent.map(names(9), limits=Limits(model_calls=100), results=file))
        assert [result.value for result in again] == [2 * number for number in range(1, 10)]
        assert len(file.read_text().splitlines()) == 9


def test_seconds_over_all_end_a_program_that_runs() -> None:
    with scripted(lambda _: "```python\nwhile True:\n    pass\n```") as agent:
        results = list(agent.map(names(3), concurrency=1, limits=Limits(seconds=1.0)))
    assert [result.over for result in results] == ["seconds"] * 3
    assert [result.begun for result in results] == [True, False, False]


def test_who_breaks_off_stops_the_runs_and_goes_on_with_nothing_done_twice(tmp_path: Path) -> None:
    done: list[int] = []
    going, four, over = asyncio.Event(), asyncio.Event(), list[bool]()

    @tool(effect="write")
    async def note(n: int) -> int:
        """Write it down."""
        done.append(n)
        if len(done) == 4:
            four.set()
        return n

    @tool(effect="read")
    async def wait(n: int) -> int:
        """The number, later."""
        if n > 2 and not over:
            await going.wait()
        return n

    def program(task: str) -> str:
        number = task.removeprefix("task ")
        return f"```python\nanswer = note(n={number}) + wait(n={number})\n```"

    agent = scripted(program, tools=[note, wait], approve="always")
    file = tmp_path / "results.jsonl"

    async def first_two() -> None:
        async with aclosing(agent.amap(names(5), concurrency=2, ordered=False, results=file)) as found:
            await anext(found)
            await anext(found)
            await four.wait()

    asyncio.run(first_two())
    assert sorted(done) == [1, 2, 3, 4]
    assert [json.loads(line)["id"] for line in sorted(file.read_text().splitlines())] == ["1", "2"]
    over.append(True)
    with agent:
        results = list(agent.map(names(5), results=file))
        assert [result.value for result in results] == [2, 4, 6, 8, 10]
        assert sorted(done) == [1, 2, 3, 4, 5]
        assert len({result.run_id for result in results}) == 5
        assert list(agent.map(names(5), results=file)) == list(agent.map(names(5), results=file))


def test_between_the_end_of_a_run_and_its_row_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with scripted(lambda task: "no program" if task == "task 1" else number_of(task)) as agent:
        (before,) = agent.map(["task 1"], results=file)
        file.write_text("")  # killed before the row
        (result,) = agent.map(["task 1"], results=file)
        assert (result.status, result.run_id, result.fault) == ("unsolved", before.run_id, before.fault)
        assert result.usage == before.usage
    file = tmp_path / "others.jsonl"
    with scripted(lambda _: SAY.format("[double(n=1), b'x'.decode()]")) as agent:
        run_id = next(iter(agent.map(["task 1"], results=file))).run_id
        file.write_text("")  # killed before the row
        (result,) = agent.map(["task 1"], results=file)
        assert (result.status, result.value, result.run_id) == ("answered", [2, "x"], run_id)
        assert len(agent.store.list()) == 2
        file.write_text("")
        agent.store.run(run_id).delete()
        (gone,) = agent.map(["task 1"], results=file)
        assert gone.status == "failed"
        assert gone.fault is not None
        assert "what it did is not known" in gone.fault.message
        assert len(agent.store.list()) == 1


def test_a_run_that_another_process_works_on_gets_no_row(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with scripted(number_of) as agent:
        (before,) = agent.map(["task 1"], results=file)
        file.write_text("")
        stored = agent.store.run(before.run_id)
        trace = stored.trace
        trace.write_text("".join(trace.read_text().splitlines(keepends=True)[:-1]))  # cut off before its end
        journal = stored.open_journal()
        (busy,) = agent.map(["task 1"], results=file)
        assert (busy.status, busy.in_use, file.read_text()) == ("failed", True, "")
        journal.close()
        (result,) = agent.map(["task 1"], results=file)
        assert (result.status, result.value, result.run_id) == ("answered", 2, before.run_id)


def test_a_run_that_was_named_and_never_began_begins(tmp_path: Path) -> None:
    file, run_id = tmp_path / "results.jsonl", new_run_id()
    with scripted(number_of) as agent:
        list(agent.map(["task 1"], results=file))
        record = json.loads(file.with_name("results.jsonl.runs").read_text().splitlines()[0])
        file.with_name("results.jsonl.runs").write_text(json.dumps(record | {"run_id": run_id}) + "\n")
        file.write_text("")
        (result,) = agent.map(["task 1"], results=file)
        assert (result.status, result.run_id) == ("answered", run_id)


def test_what_every_task_needs_stops_the_batch(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    agent = scripted(sandbox=Broken(SandboxUnavailable("gone")))
    with pytest.raises(EnvironmentProblem, match="gone"):
        list(agent.map(names(5), results=file))
    assert file.read_text() == ""
    with pytest.raises(UsageError, match="keep_runs"):
        scripted(keep_runs=False).map(names(1), results=file)


# -- tasks that wait for approval --------------------------------------------------------------------------------------


class Desk:
    """Seats that are booked, and batches that each stand for a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.results, self.runs, self.booked, self.reads = folder / "results.jsonl", folder / "runs", list[int](), 0

    def agent(self) -> Agent:
        @tool(effect="write")
        def book(n: int) -> int:
            """Book a seat."""
            self.booked.append(n)
            return n

        @tool(effect="read")
        def seats() -> int:
            """How many seats there are."""
            self.reads += 1
            return 9

        def program(task: str) -> str:
            return SAY.format(1) if task == "task 3" else SAY.format(f"seats() + book(n={task.removeprefix('task ')})")

        given: dict[str, Any] = {"approve": "park", "runs_dir": self.runs, "reuse_reads_s": 0.0}
        return scripted(program, tools=[book, seats], **given)

    def batch(self, **given: Any) -> dict[str, TaskResult]:
        with self.agent() as agent:
            found = {result.id: result for result in agent.map(names(3), results=self.results, **given)}
        rows = [json.loads(line) for line in self.results.read_text().splitlines()]
        assert {row["id"]: row["status"] for row in rows} == {name: each.status for name, each in found.items()}
        assert {row["id"]: len(row.get("pending", ())) for row in rows} == {n: len(e.pending) for n, e in found.items()}
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def statuses(found: dict[str, TaskResult]) -> list[str]:
    return [found[name].status for name in ("1", "2", "3")]


def test_a_task_whose_calls_wait_is_a_row_that_goes_on_once_all_of_them_are_decided(desk: Desk) -> None:
    first = desk.batch()
    assert statuses(first) == ["waiting", "waiting", "answered"]
    assert [(call.tool, call.arguments) for call in first["1"].pending] == [("book", {"n": 1})]
    again = desk.batch(retry=True)
    assert (statuses(again), again["1"].pending, desk.reads) == (statuses(first), first["1"].pending, 2)  # nothing ran
    with desk.agent() as agent:
        agent.approve(first["2"].run_id)
    done = desk.batch()
    assert (statuses(done), done["2"].value, desk.booked) == (["waiting", "answered", "answered"], 11, [2])
    assert done["2"].run_id == first["2"].run_id
    with desk.agent() as agent:
        agent.approve(first["1"].run_id, deny=True)
    assert (statuses(desk.batch()), desk.booked) == (["denied", "answered", "answered"], [2])


def test_a_task_that_was_gone_on_with_elsewhere_ends_as_it_ended_there(desk: Desk) -> None:
    first = desk.batch()
    for name, deny in (("1", False), ("2", True)):
        with desk.agent() as agent:
            agent.approve(first[name].run_id, deny=deny)
            agent.resume(first[name].run_id)
    reads = desk.reads
    assert (statuses(desk.batch()), desk.booked, desk.reads) == (["answered", "denied", "answered"], [1], reads)


@pytest.mark.parametrize("decided", [False, True])
def test_a_task_that_waits_and_whose_row_was_not_written_yet(desk: Desk, decided: bool) -> None:
    first = desk.batch()
    desk.results.write_text("")  # as if the batch had been killed between the run's end and its row
    if decided:
        with desk.agent() as agent:
            agent.approve(first["1"].run_id)
    again = desk.batch()
    assert statuses(again) == ["answered" if decided else "waiting", "waiting", "answered"]
    assert (again["2"].pending, desk.booked) == (first["2"].pending, [1] if decided else [])


def test_a_batch_that_is_cut_off_while_it_goes_on_goes_on_again(desk: Desk) -> None:
    first = desk.batch()
    with desk.agent() as agent:
        agent.approve(first["1"].run_id)
    with Book(desk.results):  # it takes the rows out that go on, and ends there
        pass
    assert [json.loads(line)["id"] for line in desk.results.read_text().splitlines()] == ["3"]
    assert (statuses(desk.batch()), desk.booked) == (["answered", "waiting", "answered"], [1])


def test_it_waits_while_somebody_decides(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = desk.batch()
    with desk.agent() as agent:
        agent.approve(first["1"].run_id)
        journal = agent.store.run(first["1"].run_id).open_journal()
    try:
        assert statuses(desk.batch()) == ["waiting", "waiting", "answered"]
    finally:
        journal.close()


def test_calls_that_waited_too_long_are_asked_about_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = desk.batch()
    later = time.time() + WAITS_S + 1
    monkeypatch.setattr(time, "time", lambda: later)
    again = desk.batch()
    assert (again["1"].status != "answered", desk.booked) == (True, [])
    assert again["1"].pending != first["1"].pending
