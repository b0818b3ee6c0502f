"""What stops a run from outside leaves a whole trace, and a stream tells everything in order."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import atc
from atc import Agent, Event, Toolset
from atc.errors import EnvironmentProblem, JournalError, ModelUnavailable, SandboxUnavailable
from atc.models.fake import FakeModel
from atc.result import Effect
from tests.support.agent import BAD, GOOD, Broken, agent, double, ended, slow
from tests.support.tools import make_tool

# -- what stops a run from outside, with a trace that says so --------------------------------------------------------


@pytest.mark.parametrize(
    "error", [SandboxUnavailable("no namespaces left"), ModelUnavailable("moved"), RuntimeError("a bug")]
)
def test_what_cannot_go_on_is_raised_and_the_trace_is_whole(error: Exception) -> None:
    made = agent(GOOD, sandbox=Broken(error))
    with pytest.raises(type(error), match=str(error)):
        made.run("double 21")
    data = ended(made)
    assert data["status"] == "failed"
    assert str(error) in data["fault"]["message"]


def test_a_listener_that_fails_is_raised_and_the_trace_is_whole() -> None:
    def listener(event: Event) -> None:
        if event.kind == "call_ended":
            raise RuntimeError("a bug of the listener")

    made = agent(GOOD, on_event=listener)
    with pytest.raises(RuntimeError, match="a bug of the listener"):
        made.run("double 21")
    assert ended(made)["status"] == "failed"


def test_a_run_that_cannot_begin_leaves_no_trace(tmp_path: Path) -> None:
    made = Agent([double], model="gpt-x", base_url="http://127.0.0.1:9/v1", api_key="none", runs_dir=tmp_path / "here")
    made._resources.model = lambda: (_ for _ in ()).throw(ModelUnavailable("no model"))  # type: ignore[method-assign]
    with pytest.raises(ModelUnavailable):
        made.run("double 21")
    assert made.store.list() == []


def test_runs_that_cannot_be_kept_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="ATC_RUNS_DIR"):
        agent(GOOD, runs_dir=tmp_path / "file" / "runs").run("double 21")
    assert agent(GOOD, runs_dir=tmp_path / "file" / "runs", keep_runs=False).run("double 21").value == 42


def test_a_journal_that_breaks_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise JournalError("the disk is full")

    monkeypatch.setattr("atc.calls.journal.Journal.succeed", broken)
    book = make_tool("double", lambda a: 1, Effect.WRITE)
    result = agent(GOOD, tools=Toolset([book])).run("double 21")
    assert result.status == "failed"
    assert [(call.tool, call.status) for call in result.calls] == [("double", "in_doubt")]
    assert "the disk is full" in ended(result)["fault"]["message"]


@pytest.mark.usefixtures("nothing_left")
def test_a_cancelled_run_is_cleaned_up_and_its_trace_is_whole() -> None:
    made = agent(GOOD.replace("double", "slow"), tools=(slow,))

    async def go() -> None:
        began = asyncio.Event()
        made._on_event = lambda event: began.set() if event.kind == "call_sent" else None
        work = asyncio.create_task(made.arun("wait"))
        await began.wait()
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(go())
    assert ended(made)["fault"]["message"] == "the run was stopped from outside"
    assert [e["data"]["status"] for e in made.store.find("last").events() if e["kind"] == "call_ended"] == ["in_doubt"]


_INTERRUPTED = """
import os, signal, sys, threading, time
from atc import Agent
from atc.models.fake import FakeModel
def slow(n: int) -> int:
    "A number, much later."
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(3)
    return n
agent = Agent([slow], approve="always", model=FakeModel(["```python\\nanswer = slow(n=1)\\n```"]), sentence=False)
def go():
    try:
        agent.run("wait")
    except KeyboardInterrupt:
        last = list(agent.store.find("last").events())[-1]
        others = [thread for thread in threading.enumerate() if not thread.name.startswith("atc-")]
        print("interrupted", last["data"]["status"], len(others) < 4)  # beside the kept sandbox's own
async def notebook():
    go()
if sys.argv[1] == "notebook":
    import asyncio
    asyncio.new_event_loop().run_until_complete(notebook())
else:
    go()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("where", ["script", "notebook"])
def test_an_interrupt_stops_a_run_wherever_it_runs(where: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, where], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout == "interrupted failed True\n", ran.stderr


# -- events ----------------------------------------------------------------------------------------------------------


def test_a_stream_tells_everything_in_order_and_ends_with_the_result() -> None:
    async def go() -> list[Event]:
        return [event async for event in agent(BAD, GOOD).stream("double 21")]

    events = asyncio.run(go())
    kinds = [event.kind for event in events]
    assert kinds[:2] == ["run_started", "tools_chosen"]
    assert kinds[-2:] == ["answered", "run_ended"]
    assert kinds.index("program_written") < kinds.index("program_started") < kinds.index("call_started")
    assert kinds.count("model_started") == kinds.count("model_ended") == 2
    assert kinds.count("call_ended") == kinds.count("call_started") + sum(
        event.data["status"] == "replayed" for event in events if event.kind == "call_ended"
    )
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert events[-1].data["value"] == 42
    json.dumps([event.record() for event in events], allow_nan=False)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("until", ["run_started", "model_started", "program_started", "call_started"])
def test_a_stream_that_is_broken_off_stops_its_run(until: str) -> None:
    made = agent(GOOD.replace("double", "slow"), tools=(slow,))

    async def go() -> float:
        async with aclosing(made.stream("wait")) as events:
            async for event in events:
                if event.kind == until:
                    break
        return len([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])

    assert asyncio.run(go()) == 0
    assert ended(made)["status"] == "failed"


def test_a_stream_raises_what_the_run_raises_after_its_events() -> None:
    seen: list[str] = []

    async def go() -> None:
        async for event in agent(GOOD, sandbox=Broken(SandboxUnavailable("gone"))).stream("double 21"):
            seen.append(event.kind)

    with pytest.raises(SandboxUnavailable, match="gone"):
        asyncio.run(go())
    assert seen[-1] == "run_ended"
    assert "program_started" in seen


def test_events_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("ATC_API_KEY", "sk-1234567890")

    def leak(n: int) -> str:
        """Everything it should not say."""
        raise atc.ToolError(f"401: hunter2hunter2 and sk-1234567890 for {n}")

    program = "```python\ntry:\n    leak(n=1)\nexcept ToolError as error:\n    print(error)\n    raise\nanswer = 1\n```"
    model = FakeModel([program, program, program])
    result = Agent([leak], model=model, approve="always", sentence=False, max_revisions=1).run("leak")
    assert result.trace is not None
    folder = Path(result.trace).parent
    told = "".join(path.read_text() for path in folder.iterdir()) + result.model_dump_json() + repr(model.prompts)
    assert "[secret]" in told
    assert "hunter2" not in told
    assert "sk-1234567890" not in told
