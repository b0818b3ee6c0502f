"""A program's share of the host: what is counted for it, and that it ends where that is used up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from atc import Agent, Toolset, tool
from atc._records.outcome import Outcome
from atc.calls.clock import HostTime
from atc.calls.contract import CallReply, CallRequest
from atc.errors import FrameError, UsageError
from atc.models.fake import FakeModel
from atc.run.base import Ending, Strategy
from atc.run.run import Run
from atc.sandboxes.channel import frames as shares
from atc.sandboxes.channel.frames import WINDOW_S, HostShare
from atc.sandboxes.contract import Job, Limits
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.remote import messages
from atc.traces.stores.files import FileRun

pytestmark = pytest.mark.usefixtures("nothing_left")


class _Clocks:
    """The wall and the processor's clock, as a test moves them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = self.processor = 0.0
        monkeypatch.setattr(shares.time, "perf_counter", lambda: self.wall)
        monkeypatch.setattr(shares.time, "thread_time", lambda: self.processor)

    def work(self, seconds: float, taken_away: float = 0.0) -> None:
        self.processor += seconds
        self.wall += seconds + taken_away


def test_pieces_are_summed_up_and_never_more_than_the_processor_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, account = _Clocks(monkeypatch), HostTime()
    share = HostShare(account, 1.0, lambda: None)
    share.counting(lambda: clocks.work(0.001))()
    clocks.work(5.0)  # other runs
    assert (account.used_s, share.used_s()) == (0.0, pytest.approx(0.001))
    share.counting(lambda: clocks.work(0.002, taken_away=3.0))()
    assert account.used_s == pytest.approx(0.003), "a processor that was taken away is nobody's work"


def test_steps_are_counted_and_waiting_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, account = _Clocks(monkeypatch), HostTime()
    share = HostShare(account, 1.0, lambda: None)

    async def work() -> str:
        clocks.work(WINDOW_S)
        await asyncio.sleep(0)
        clocks.work(WINDOW_S)
        try:
            await asyncio.Event().wait()
        finally:
            clocks.work(WINDOW_S)
        return "never"

    async def go() -> None:
        async def counted() -> str:
            return await share.steps(work())

        task = asyncio.create_task(counted())
        for _ in range(3):
            await asyncio.sleep(0)
            clocks.work(10.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert share.used_s() == pytest.approx(3 * WINDOW_S)


def test_a_share_that_is_used_up_is_told_and_begins_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, account, told = _Clocks(monkeypatch), HostTime(), []
    account.used_s = 100.0  # by the run's programs before
    share = HostShare(account, 0.02, lambda: told.append(account.used_s))
    for _ in range(5):
        share.counting(lambda: clocks.work(0.006))()
    assert told == [pytest.approx(100.024), pytest.approx(100.03)]
    assert share.used_s() == pytest.approx(0.03)


def _spin(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


def _run(program: str, call: Any, **limits: float) -> tuple[Outcome, HostTime]:
    account = HostTime()

    async def go() -> Outcome:
        async with ProcessSandbox() as sandbox:
            job = Job(program, {"f": ("x",)}, Limits(wall_s=60.0, **limits), host_time=account)  # type: ignore[arg-type]
            return await sandbox.run(job, call)

    return asyncio.run(go()), account


def test_a_program_that_makes_the_host_work_beyond_its_share_is_ended() -> None:
    calls = 0

    async def call(request: CallRequest) -> CallReply:
        nonlocal calls
        calls += 1
        _spin(0.03)
        return CallReply(value=1)

    ended, account = _run("while True: f(x=1)", call, host_s=0.1)
    assert (ended.kind, ended.detail) == ("limit", "the host spent more than 0.1 s of processor time on its calls")
    assert calls <= 5
    assert 0.1 < ended.host_s < 5.0
    assert ended.host_s == pytest.approx(account.used_s)


def test_it_is_ended_between_the_steps_of_one_call() -> None:
    async def call(request: CallRequest) -> CallReply:
        while True:  # as many pages of one call would
            _spin(0.02)
            await asyncio.sleep(0)

    ended, _ = _run("f(x=1)", call, host_s=0.05)
    assert (ended.kind, "processor time on its calls" in ended.detail) == ("limit", True)


def test_reading_its_frames_counts_though_no_call_comes_of_them() -> None:
    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=1)

    ended, _ = _run("for n in range(4): f(x=[[0] * 50_000])\nanswer = 1", call)
    assert ended.kind == "finished"
    assert ended.host_s > 0.004


def test_a_run_tells_what_the_host_did_for_it() -> None:
    @tool(effect="read")
    async def computing() -> int:
        """Compute."""
        _spin(0.2)
        return 1

    agent = Agent(
        Toolset.from_functions(computing),
        model=FakeModel(["```python\nanswer = computing()\n```"]),
        sentence=False,
        keep_runs=False,
        host_s=0.15,
    )
    with agent:
        result = agent.run("Compute.")
    assert result.unwrap() == 1, "the user's own function is not on the program's account"
    assert result.usage.host_seconds > 0


def test_a_service_takes_the_limit_as_any_other_and_needs_none() -> None:
    most = Limits(host_s=2.0)
    tools = {"op": "run", "program": "answer = 1", "tools": {}, "inputs": {}}
    assert messages.job_of({**tools, "limits": {}}, most).limits.host_s == 2.0
    assert messages.job_of({**tools, "limits": {"host_s": 0.5}}, most).limits.host_s == 0.5
    assert messages.job_of({**tools, "limits": {"host_s": 9}}, most).limits.host_s == 2.0
    with pytest.raises(FrameError, match="host_s must be a number"):
        messages.job_of({**tools, "limits": {"host_s": "9"}}, most)
    with pytest.raises(UsageError, match="host_s"):
        Limits(host_s=0)


def test_a_deadline_holds_while_tools_are_chosen() -> None:
    class Slow(Strategy):
        name = "slow"

        async def choose_tools(self, context: Run, stored: FileRun | None) -> None:
            await asyncio.sleep(3600)

        async def solve(self, context: Run) -> Ending:
            raise AssertionError("no tool was chosen")

    @tool(effect="read")
    def nothing() -> int:
        """Nothing."""
        return 0

    tools = Toolset.from_functions(nothing)
    with Agent(tools, model=FakeModel([]), strategy=Slow(), keep_runs=False, budget_s=0.05) as agent:
        result = agent.run("Compute.")
    assert (result.status, result.fault is not None and result.fault.kind) == ("budget", "limit")


def test_what_is_inside_of_a_piece_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    share = HostShare(HostTime(), 1e9, lambda: None)
    charged: list[float] = []
    monkeypatch.setattr(share, "charge", charged.append)

    async def nothing() -> None:
        return

    def first_step() -> None:
        with contextlib.suppress(StopIteration):
            next(iter(share.steps(nothing()).__await__()))

    share.counting(first_step)()
    assert len(charged) == 1


def test_reading_what_a_program_prints_is_counted() -> None:
    async def call(request: CallRequest) -> CallReply:
        return CallReply()

    ended, account = _run("import os\nwhile True: os.write(2, b'x')", call, host_s=0.05)
    assert (ended.kind, "processor time" in ended.detail) == ("limit", True)
    assert ended.host_s == pytest.approx(account.used_s)
