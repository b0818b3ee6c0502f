"""The agent: every way a run can end, what it tells on the way, and that it never leaves the user guessing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import fails, says, serving
from support_tools import make_tool

import atc
from atc import Agent, CallPolicy, Event, Result, RunFailed, Settings, Toolset, UsageError
from atc.errors import EnvironmentProblem, JournalError, ModelError, ModelUnavailable, SandboxUnavailable
from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import CallHandler, Job, Outcome, Sandbox
from atc.models.base import Reply
from atc.models.fake import FakeModel, Scripted
from atc.tools.protocol import Effect

GOOD = "```python\nanswer = double(n=21)\n```"
BAD = "```python\nanswer = [1][double(n=21)]\n```"


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def slow(n: int) -> int:
    """A number, much later."""
    time.sleep(30)
    return n


def agent(*replies: Scripted, tools: Any = (double,), **settings: Any) -> Agent:
    return Agent(tools, model=FakeModel(replies), **{"answer": False, **settings})


def ended(result_or_agent: Agent | Result) -> dict[str, Any]:
    """The last event of a run's trace."""
    store = Agent([double]).store if isinstance(result_or_agent, Result) else result_or_agent.store
    last = list(store.find("last").events())[-1]
    assert last["kind"] == "run_ended"
    return dict(last["data"])


# -- how a run ends --------------------------------------------------------------------------------------------------


def test_a_task_is_answered() -> None:
    result = agent(GOOD).run("double 21")
    assert (result.status, result.value, result.unwrap(), result.answer) == ("answered", 42, 42, "42")
    assert result.program == "answer = double(n=21)\n"
    assert [(call.tool, call.arguments, call.value, call.line) for call in result.calls] == [
        ("double", {"n": 21}, 42, 1)
    ]
    assert result.isolation in ("process/N", "process/L")
    assert (result.usage.model_calls, result.usage.tool_calls) == (1, 1)
    assert result.fault is None


def test_a_program_that_fails_is_revised_with_what_went_wrong() -> None:
    made = agent(BAD, GOOD)
    result = made.run("double 21")
    assert (result.status, result.value, len(result.revisions)) == ("answered", 42, 2)
    assert [(call.attempt, call.status) for call in result.calls] == [(0, "ok"), (1, "replayed")]
    assert result.faults[0].line == 1


def test_a_run_without_an_answer_raises_only_when_it_is_unwrapped() -> None:
    result = agent(*["no code here"] * 99, max_revisions=1).run("double 21")
    assert (result.status, result.value, result.answer, len(result.revisions)) == ("unsolved", None, "", 2)
    assert result.fault is not None
    with pytest.raises(RunFailed, match=f"run {result.run_id} ended as unsolved: ") as caught:
        result.unwrap()
    assert caught.value.result is result


@pytest.mark.parametrize(
    "junk",
    ["", "   ", "I cannot do that.", "```python\n```", "```python\nprint('hi')\n```", "```python\nwhile",
     "\x00\ud800", "{" * 5000,
     Reply("```python\nanswer = [" + "1, " * 2000, "length", 10, 6000, 0.0)],
)  # fmt: skip
def test_a_junk_reply_costs_a_revision_and_no_more(junk: Scripted) -> None:
    result = agent(junk, junk, junk, junk, GOOD, max_revisions=3).run("double 21")
    assert result.status in ("answered", "unsolved")
    first = result.revisions[0]
    assert first.findings or first.fault
    result = agent(junk, GOOD).run("double 21")
    assert (result.status, result.value) == ("answered", 42)


def test_the_same_program_again_is_asked_for_differently() -> None:
    model = FakeModel([BAD, BAD, GOOD])
    result = Agent([double], model=model, answer=False).run("double 21")
    assert result.value == 42
    assert [revision.program for revision in result.revisions] == [
        "answer = [1][double(n=21)]\n",
        "answer = double(n=21)\n",
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget_model_calls": 1}, "1 model calls"),
        ({"budget_tokens": 20}, "tokens"),
        ({"budget_s": 0.4, "tools": (slow,)}, "0.4 s"),
    ],
)
def test_a_budget_that_is_used_up_ends_the_run(settings: dict[str, Any], words: str) -> None:
    program = GOOD.replace("double", "slow") if "tools" in settings else BAD
    began = time.monotonic()
    result = agent(program, program, **settings).run("double 21")
    assert result.status == "budget"
    assert result.fault is not None
    assert result.fault.kind == "limit"
    assert words in result.fault.message
    assert time.monotonic() - began < 15
    with pytest.raises(RunFailed, match="budget"):
        result.unwrap()


def test_a_run_has_so_many_tool_calls() -> None:
    program = "```python\nanswer = sum(double(n=n) for n in range(9))\n```"
    result = agent(program, max_calls=4, max_revisions=0).run("sum")
    assert (result.status, result.usage.tool_calls) == ("unsolved", 4)
    assert result.fault is not None
    assert "4 tool calls" in result.fault.message


def test_a_model_that_fails_in_the_middle_is_a_result() -> None:
    result = agent(BAD, ModelError("the endpoint broke off")).run("double 21")
    assert result.status == "failed"
    assert result.fault is not None
    assert "the endpoint broke off" in result.fault.message
    assert len(result.calls) == 1


@pytest.mark.parametrize("failure", [ModelError("gone"), ModelUnavailable("gone"), None])
def test_a_computed_answer_stands_when_its_sentence_fails(failure: Exception | None) -> None:
    replies: list[Scripted] = [GOOD] if failure is None else [GOOD, failure]
    budget: dict[str, Any] = {"budget_model_calls": 1} if failure is None else {}
    result = agent(*replies, answer=True, **budget).run("double 21")
    assert (result.status, result.value, result.answer) == ("answered", 42, "42")


def test_a_sentence_that_takes_too_long_does_not_cost_the_answer() -> None:
    def late(_: Any) -> str:
        time.sleep(1.2)
        return "It is 42."

    assert agent(GOOD, late, answer=True, budget_s=1.0).run("double 21").value == 42


def test_the_answer_is_a_sentence_with_known_numbers_only() -> None:
    assert agent(GOOD, "Twice 21 is 42.", answer=True).run("double 21").answer == "Twice 21 is 42."
    assert agent(GOOD, "Twice 21 is 43.", answer=True).run("double 21").answer == "42"


# -- what stops a run from outside, with a trace that says so --------------------------------------------------------


class Broken(Sandbox):
    """A sandbox that cannot be had any more when a program is to run."""

    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def prepare(self) -> None:
        return

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        raise self.error

    async def aclose(self) -> None:
        return


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


def test_a_checker_that_cannot_start_ends_the_trace_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> Any:
        raise EnvironmentProblem("ty is missing: pip install ty")

    monkeypatch.setattr("atc.agent.Checker", missing)
    made = agent(GOOD)
    with pytest.raises(EnvironmentProblem, match="ty is missing"):
        made.run("double 21")
    assert "ty is missing" in ended(made)["fault"]["message"]


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
    made._opened_model = lambda: (_ for _ in ()).throw(ModelUnavailable("no model"))  # type: ignore[method-assign]
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

    monkeypatch.setattr("atc.execution.journal.Journal.succeed", broken)
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
        made._on_event = lambda event: began.set() if event.kind == "call_started" else None
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
    time.sleep(1)
    return n
agent = Agent([slow], model=FakeModel(["```python\\nanswer = slow(n=1)\\n```"]), answer=False)
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
        [sys.executable, "-c", _INTERRUPTED, where], capture_output=True, text=True, timeout=30, check=False
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
    result = Agent([leak], model=model, answer=False, max_revisions=1).run("leak")
    assert result.trace is not None
    folder = Path(result.trace).parent
    told = "".join(path.read_text() for path in folder.iterdir()) + result.model_dump_json() + repr(model.prompts)
    assert "[secret]" in told
    assert "hunter2" not in told
    assert "sk-1234567890" not in told


# -- where and how often it runs -------------------------------------------------------------------------------------


def test_run_works_inside_a_running_loop() -> None:
    async def notebook() -> Result:
        return agent(GOOD).run("double 21")

    assert asyncio.run(notebook()).value == 42

    async def failing() -> Result:
        return agent(GOOD).run("   ")

    with pytest.raises(UsageError, match="the task is empty"):
        asyncio.run(failing())


def test_two_runs_at_once_do_not_meet() -> None:
    made = Agent([double], model=FakeModel([GOOD, GOOD.replace("21", "4")]), answer=False)

    async def go() -> list[Result]:
        return await asyncio.gather(made.arun("double 21"), made.arun("double 4"))

    results = asyncio.run(go())
    assert sorted(result.value for result in results) == [8, 42]
    assert len({result.run_id for result in results}) == 2
    assert all(len(result.calls) == 1 for result in results)


def test_threads_may_share_an_agent() -> None:
    made = Agent([double], model=FakeModel([GOOD] * 3), answer=False)
    values: list[Any] = []
    threads = [threading.Thread(target=lambda: values.append(made.run("double 21").value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [42] * 3


@pytest.mark.usefixtures("nothing_left")
def test_one_agent_with_a_real_endpoint_and_its_own_sandbox_runs_many_times() -> None:
    with serving(says(GOOD), says(GOOD), fails(401)) as server:
        sandbox = ProcessSandbox()
        with Agent(
            [double], model="tiny", base_url=server.url, api_key="sk-12345678", answer=False, sandbox=sandbox
        ) as made:
            assert made.run("double 21").value == 42
            assert made.run("double 21 again").value == 42
            with pytest.raises(ModelUnavailable):
                made.run("double 21 once more")
        made.close()


def test_keep_runs_false_leaves_nothing(tmp_path: Path) -> None:
    result = agent(GOOD, keep_runs=False, runs_dir=tmp_path / "none").run("double 21")
    assert (result.value, result.trace) == (42, None)
    assert not (tmp_path / "none").exists()


def test_runs_are_for_their_owner_only() -> None:
    result = agent(GOOD).run("double 21")
    assert result.trace is not None
    folder = Path(result.trace).parent
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


# -- approval --------------------------------------------------------------------------------------------------------


def test_effects_wait_for_a_yes() -> None:
    booked: list[Any] = []
    tools = Toolset([make_tool("book", lambda a: booked.append(a) or "done", Effect.WRITE)])
    program = "```python\ntry:\n    answer = book(n=1)\nexcept ToolError as error:\n    answer = error.status\n```"
    for verdict, expected in ((True, "done"), (False, None)):
        made = Agent(
            tools, model=FakeModel([program] * 9), answer=False, max_revisions=0, approve=lambda _, v=verdict: v
        )
        result = made.run("book it")
        assert (result.value if result.status == "answered" else None) == expected
    assert booked == [{"n": 1}]
    assert result.calls[0].error_status == "denied"


# -- resume ----------------------------------------------------------------------------------------------------------


def cut_off(program: str) -> tuple[str, list[int]]:
    """The id of a run that was stopped in the middle of its third booking, and what it booked."""
    booked: list[int] = []
    third = asyncio.Event()

    async def book(arguments: dict[str, Any]) -> Any:
        booked.append(arguments["n"])
        if arguments["n"] == 3:
            third.set()
            await asyncio.sleep(30)
        return {"id": arguments["n"]}

    made = agent(program, tools=Toolset([make_tool("book", book, Effect.WRITE)]))

    async def go() -> None:
        work = asyncio.create_task(made.arun("book three"))
        await third.wait()
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(go())
    return made.store.find("last").run_id, booked


BOOK = """```python
ids = [book(n=n)['id'] for n in [1, 2]]
try:
    book(n=3)
except ToolError as error:
    ids.append(error.status)
answer = ids
```"""


@pytest.mark.parametrize("keep_runs", [True, False])
def test_a_run_goes_on_where_it_was_cut_off(keep_runs: bool) -> None:
    run_id, booked = cut_off(BOOK)
    assert booked == [1, 2, 3]
    again = agent(
        tools=Toolset([make_tool("book", lambda a: booked.append(a["n"]), Effect.WRITE)]), keep_runs=keep_runs
    )
    result = again.resume(run_id[-6:])
    assert (result.run_id, result.task, result.status, result.value) == (
        run_id,
        "book three",
        "answered",
        [1, 2, "in_doubt"],
    )
    assert booked == [1, 2, 3]
    assert [call.arguments for call in result.in_doubt] == [{"n": 3}]
    with pytest.raises(UsageError, match="ended with an answer: there is nothing to resume"):
        again.resume(run_id)


def test_a_resumed_run_writes_on_in_its_trace() -> None:
    run_id, _ = cut_off(BOOK)
    made = agent(tools=Toolset([make_tool("book", lambda a: None, Effect.WRITE)]))
    trace = made.store.run(run_id).trace
    with trace.open("ab") as file:
        file.write('{"kind": "call_ended", "data": {"value": "ü'.encode()[:-1])
    made.resume(run_id)
    kinds = [event["kind"] for event in made.store.run(run_id).events()]
    assert kinds.count("run_started") == kinds.count("run_ended") == 2
    assert all(json.loads(line) for line in trace.read_bytes().splitlines())


def test_a_run_cut_off_before_its_first_program_starts_anew() -> None:
    made = agent(ModelError("gone"))
    result = made.run("double 21")
    again = agent(GOOD)
    assert again.resume(result.run_id).value == 42


def test_only_one_process_resumes_a_run() -> None:
    run_id, _ = cut_off(BOOK)
    tools = Toolset([make_tool("book", lambda a: time.sleep(0.01), Effect.WRITE)])

    async def go() -> list[Any]:
        both = [agent(tools=tools).aresume(run_id) for _ in range(2)]
        return await asyncio.gather(*both, return_exceptions=True)

    outcomes = asyncio.run(go())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["JournalError", "Result"]


@pytest.mark.parametrize("name", ["", "last", "20200101-000000-abcdef", "../etc"])
def test_a_run_that_is_not_there_cannot_be_resumed(name: str) -> None:
    with pytest.raises(UsageError, match="no run is named"):
        agent().resume(name)


def test_a_trace_without_a_beginning_cannot_be_resumed() -> None:
    made = agent()
    stored = made.store.run("20200101-000000-abcdef")
    stored.make()
    stored.trace.write_text('garbage\n{"kind": "run_ended"}\nnull\n[1]\n')
    with pytest.raises(UsageError, match="has no beginning"):
        made.resume("abcdef")


# -- wrong use -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["", "  \n", 42, None, ["x"]])
def test_a_task_is_words(task: Any) -> None:
    with pytest.raises(UsageError, match="the task is empty: say in plain words"):
        agent(GOOD).run(task)


def test_a_task_is_not_endless() -> None:
    with pytest.raises(UsageError, match="20,001 characters; the limit is 20,000"):
        agent(GOOD).run("x" * 20_001)


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "at least one tool"),
        (Toolset(), "at least one tool"),
        (double, "not function"),
        ("atlas", "not str"),
        (None, "not NoneType"),
    ],
)
def test_an_agent_needs_tools(tools: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent(tools)


@pytest.mark.parametrize("name", ["answer", "parallel", "ToolError"])
def test_no_tool_takes_a_name_that_programs_use(name: str) -> None:
    with pytest.raises(UsageError, match=f"no tool may be named '{name}'"):
        Agent(Toolset([make_tool(name, lambda a: 1)]))


def test_a_tool_whose_schema_is_none_is_refused_before_anything_runs() -> None:
    made = agent(GOOD, tools=Toolset([make_tool("double", lambda a: 1, n={"type": "integr"})]))
    with pytest.raises(UsageError, match="the parameters of double is not a usable JSON Schema"):
        made.run("double 21")
    assert made.store.list() == []


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(atc.UsageError, match="max_revision: "):
        Agent([double], max_revision=1)
    assert issubclass(type(Settings.load()), Settings)


def test_a_policy_goes_before_the_settings() -> None:
    result = agent(
        "```python\nanswer = [double(n=n) for n in (1, 2)]\n```", policy=CallPolicy(max_calls=1), max_revisions=0
    ).run("x")
    assert result.usage.tool_calls == 1


def test_isolation_that_cannot_be_had_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from atc.execution import process

    real = process.start_zygote

    def without_landlock(settings: dict[str, Any]) -> Any:
        if settings["tier"] != "F":
            raise SandboxUnavailable("Landlock: this kernel does not have it")
        return real(settings)

    monkeypatch.setattr(process, "start_zygote", without_landlock)
    with pytest.raises(SandboxUnavailable, match=r"cannot isolate a program as required .*Landlock"):
        agent(GOOD).run("double 21")
    result = agent(GOOD, sandbox_require="F").run("double 21")
    assert (result.value, result.isolation) == (42, "process/F")


def test_where_there_is_no_sandbox_nobody_waits_for_the_model() -> None:
    class Absent(Broken):
        async def prepare(self) -> None:
            raise self.error

    class Slow(FakeModel):
        async def complete(self, *args: Any, **more: Any) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError("it was waited for")

    made = Agent([double], model=Slow([]), sandbox=Absent(SandboxUnavailable("no engine answers")))
    began = time.monotonic()
    with pytest.raises(SandboxUnavailable, match="no engine answers"):
        made.run("double 21")
    assert time.monotonic() - began < 30


def test_it_does_not_matter_where_the_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "with a space"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in ("sandbox", "prompts", "frames.py", "run.py", "json.py"):
        (here / name).write_text("raise SystemExit('shadowed')") if name.endswith(".py") else (here / name).mkdir()
    assert agent(GOOD).run("double 21").value == 42
    assert os.getcwd() == str(here)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
