"""A write happens at most once for what it is meant to do, and whatever happened is told: after any failure, anywhere.

The property test drives broker and journal directly: random programs over a few tools, every way a call can fail, a
host that crashes at every point of a call (before, between and after the journal's lines, or within one), also with
all that was not synced, then revised programs and resumed runs. Below it: a real host process, really killed in the
middle of a write. Stages are tried in ``tests/calls/test_stages.py``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc.agent import Agent
from atc.calls.json_values import canonical
from atc.errors import JournalError
from atc.models.fake import FakeModel
from atc.result import Effect, Result
from atc.tools.tool import Toolset
from tests.support.crashes import CRASHES, Host, HostCrash, World, run_program, step
from tests.support.tools import make_tool

programs = st.lists(
    st.tuples(st.lists(step, max_size=5), st.sampled_from(CRASHES) | st.just("none"), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=4,
)


@given(programs, st.booleans())
def test_no_write_happens_more_often_than_one_program_asked_for_it(
    tmp_path_factory: pytest.TempPathFactory, runs: Any, keyed: bool
) -> None:
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    world = World(keyed=keyed)
    host = Host(world, path)
    most: Counter[tuple[str, str]] = Counter()
    most_of_tool: Counter[str] = Counter()
    for program, crash, at, reboot in runs:
        try:
            asked, _ = asyncio.run(run_program(host, program, crash, at))
        except HostCrash:
            asked = [(tool, canonical({"n": n})) for tool, n, *_ in program[: at + 1] if tool != "look"]
        if crash not in ("none", "cancelled"):
            host = host.again(reboot=reboot)  # the next process finds what is on disk
        for intent, count in Counter(asked).items():
            most[intent] = max(most[intent], count)
        done = Counter(world.effects)
        assert all(count <= most[intent] for intent, count in done.items()), (
            "done more often than any one program asked for"
        )
        by_tool = Counter(tool for tool, _ in asked)
        for tool, count in by_tool.items():
            most_of_tool[tool] = max(most_of_tool[tool], count)
        assert all(
            count <= most_of_tool[tool] for tool, count in Counter(tool for tool, _ in done.elements()).items()
        ), "with other arguments, and so more often than any one program asked for"
        told = Counter(
            (entry.tool, canonical(entry.arguments))
            for entry in host.journal.entries.values()
            if entry.effect is not Effect.READ and (entry.in_doubt or entry.state == "done")
        )
        assert all(count <= told[intent] for intent, count in done.items()), "done, and neither recorded nor in doubt"
        sure = Counter(
            (e.tool, canonical(e.arguments))
            for e in host.journal.entries.values()
            if e.state == "done" and e.effect is not Effect.READ
        )
        assert all(count <= done[intent] for intent, count in sure.items()), "recorded as done, and never done"
    host.journal.close()


@given(st.lists(st.tuples(st.sampled_from(["book", "pay"]), st.integers(0, 2)), max_size=4), st.data())
def test_a_program_run_again_does_nothing_again(
    tmp_path_factory: pytest.TempPathFactory, calls: Any, data: st.DataObject
) -> None:
    """The same calls, in any order, after any number of new processes: answered, and not one effect more."""
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    world = World()
    host = Host(world, path, call_timeout_s=30)
    asyncio.run(run_program(host, [(tool, n, "ok", False) for tool, n in calls], "none", 0))
    assert len(world.effects) == len(calls)
    for _ in range(2):
        again = data.draw(st.permutations(calls))
        host = host.again()
        asyncio.run(run_program(host, [(tool, n, "breaks", False) for tool, n in again], "none", 0))
        assert [call.status for call in host.broker.calls] == ["replayed"] * len(calls)
        assert len(world.effects) == len(calls)
    host.journal.close()


# -- through the whole house -----------------------------------------------------------------------------------------

BOOKS = """```python
place = look(n=1)
first = book(n=1)
second = book(n=2)
{rest}
```"""


def agent(model: list[Any], book: Any, tmp_path: Path, **settings: Any) -> Agent:
    tools = Toolset([make_tool("look", lambda a: {"n": a["n"]}), make_tool("book", book, Effect.WRITE)])
    given: dict[str, Any] = {"sentence": False, "check": False, "runs_dir": tmp_path / "runs", **settings}
    return Agent(tools, model=FakeModel(model), approve="always", **given)


def test_a_run_whose_journal_lost_something_is_refused_or_does_nothing_again(tmp_path: Path) -> None:
    """Cut at every line end, emptied, without its line ends: the trace knows which calls were begun."""
    booked: list[int] = []

    def book(arguments: dict[str, Any]) -> Any:
        booked.append(arguments["n"])
        return {"id": 100 + arguments["n"]}

    program = BOOKS.format(rest="answer = first['nothing']")
    made = agent([program] * 99, book, tmp_path, max_revisions=0)
    run = made.store.find(made.run("book two").run_id)
    content = run.journal.read_bytes()
    lines = content.splitlines(keepends=True)
    damaged = [b"".join(lines[:kept]) for kept in range(len(lines))] + [content.replace(b"\n", b""), content[40:]]
    ways = []
    for journal in damaged:
        run.journal.write_bytes(journal)
        try:
            ways.append(made.resume("last").status)
        except JournalError as error:
            ways.append(str(error))
        assert booked == [1, 2]
    assert ways.count("in_doubt") == 1, "only where no more than the last line, an outcome, was lost"
    assert all("start the task anew" in way for way in ways if way != "in_doubt")


def test_a_budget_that_ends_in_the_middle_of_a_write_leaves_it_in_doubt(tmp_path: Path) -> None:
    begun: list[int] = []

    async def book(arguments: dict[str, Any]) -> Any:
        begun.append(arguments["n"])
        await asyncio.sleep(60)

    for budget_s in (1.0, 10.0, 30.0):  # a busy machine may use up the first before the write begins
        result = agent([BOOKS.format(rest="answer = 1")], book, tmp_path, budget_s=budget_s).run("book two")
        if begun:
            break
    assert result.status == "budget"
    assert [(call.arguments, call.error_status) for call in result.in_doubt] == [({"n": 1}, "stopped")]


_HOST = """
import sys, time
from pathlib import Path
from atc import Agent, Toolset, tool
from atc.models.fake import FakeModel
folder = Path(sys.argv[1])
@tool(effect="write")
def book(n: int) -> dict:
    "Book it."
    with (folder / "booked").open("a") as file:
        file.write(f"{n}\\n")
    if n == 2 and not (folder / "second").exists():
        (folder / "in the middle").touch()
        time.sleep(300)
    return {"id": n}
program = '''```python
ids = []
for n in [1, 2, 3]:
    try:
        ids.append(book(n=n)['id'])
    except ToolError as error:
        ids.append(error.status)
answer = ids
```'''
agent = Agent([book], model=FakeModel([program]), sentence=False, approve="always", runs_dir=folder / "runs")
if len(sys.argv) == 2:
    agent.run("book three")
else:
    (folder / "second").touch()
    print(agent.resume("last").model_dump_json())
"""


@pytest.mark.usefixtures("nothing_left")
def test_a_host_that_is_killed_in_the_middle_of_a_write_is_resumed(tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST, str(tmp_path)])
    deadline = time.monotonic() + 120
    while not (tmp_path / "in the middle").exists() and host.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with (tmp_path / "runs" / os.listdir(tmp_path / "runs")[0] / "trace.jsonl").open("a") as trace:
        trace.write('{"kind": "call_en')  # the line that it was writing
    host.send_signal(signal.SIGKILL)
    host.wait(60)
    ran = subprocess.run(
        [sys.executable, "-c", _HOST, str(tmp_path), "again"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    result = Result.model_validate_json(ran.stdout)
    assert (result.status, result.partial, result.value) == ("in_doubt", True, [1, "in_doubt", 3])
    assert (tmp_path / "booked").read_text() == "1\n2\n3\n"
    assert [(call.tool, call.arguments, call.error) for call in result.in_doubt] == [
        ("book", {"n": 2}, "the run was cut off during this call")
    ]
    assert [call.status for call in result.calls] == ["in_doubt", "replayed", "refused", "ok"]
