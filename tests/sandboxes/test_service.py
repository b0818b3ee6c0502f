"""The sandbox service through its client: the same outcomes as next door, and nothing is left running."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc import Agent
from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.calls.program_start import ProgramStart
from atc.errors import FrameError, SandboxUnavailable, UsageError
from atc.models.fake import FakeModel
from atc.sandboxes.conformance import CHECKS, check_sandbox, kit
from atc.sandboxes.contract import TIERS, Job, Limits
from atc.sandboxes.remote import messages
from atc.sandboxes.remote.client import ServiceSandbox
from atc.serve.sandbox.service import ServiceSettings
from atc.serve.tokens import Tenants
from tests.support.sandbox import in_sandbox
from tests.support.service import OTHER, TOKEN, Running, no_tools, receive, send_program, serving, soon, spinning


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with serving({"default": TOKEN, "other": OTHER}) as running:
        yield running


# -- the same outcomes as the process sandbox ------------------------------------------------------------------------


def test_an_answer_and_what_was_printed_come_back(shared: Running) -> None:
    outcome = shared.run(
        "import sys\nprint('out ü')\nprint('err', file=sys.stderr)\nanswer = {'a': [1, 2.5, None, 2**70]}"
    )
    assert (outcome.kind, outcome.answered, outcome.value) == ("finished", True, {"a": [1, 2.5, None, 2**70]})
    assert (outcome.stdout, outcome.stderr) == ("out ü\n", "err\n")
    assert outcome.isolation in TIERS
    assert outcome.seconds > 0
    assert outcome.cpu_s > 0
    assert outcome.memory_bytes > 1 << 20


@pytest.mark.parametrize(
    "program",
    [
        "a = {}\n\nb = (1 +\n     a['key'])\n",
        "x = f()\nanswer = x['a'][0]['missing']",
        "def g(y):\n    return 1 / y\n\ng(0)",
        "y = = 2",
        "refuse()",
        "import os\nos._exit(3)",
        "import sys\nanswer = 1\nsys.exit()",
        "x = 1",
    ],
)
def test_every_end_is_told_as_the_process_sandbox_tells_it(shared: Running, program: str) -> None:
    tools = {"f": lambda _: {"a": [{"b": 1}]}, "refuse": lambda _: CallReply(error="no seats", status=409)}
    same = ("kind", "answered", "value", "error", "detail", "stdout", "isolation")
    here, there = in_sandbox(program, tools), shared.run(program, tools)
    assert {name: getattr(there, name) for name in same} == {name: getattr(here, name) for name in same}


def test_calls_run_at_once_and_keep_their_order(shared: Running) -> None:
    at_once = {"now": 0, "most": 0}
    together = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> Any:
        at_once["now"] += 1
        at_once["most"] = max(at_once["most"], at_once["now"])
        if at_once["most"] >= 8:
            together.set()
        await asyncio.wait_for(together.wait(), 30)
        await asyncio.sleep(0.01 * (4 - arguments["n"] % 4))
        at_once["now"] -= 1
        return arguments["n"]

    outcome = shared.run("answer = parallel([lambda n=n: slow(n=n) for n in range(30)])", {"slow": slow})
    assert outcome.value == list(range(30)), outcome
    assert at_once["most"] >= 8


def test_a_tool_error_can_be_caught_and_read(shared: Running) -> None:
    program = (
        "try:\n    book(day=1)\nexcept ToolError as error:\n    answer = [error.tool, error.status, error.message]"
    )
    assert shared.run(program, {"book": lambda _: CallReply(error="no seats", status=409)}).value == [
        "book",
        409,
        "no seats",
    ]


def test_a_start_holds_there_and_moves_with_the_replies(shared: Running) -> None:
    program = "import secrets, time\nanswer = [int(time.time()), f(), int(time.time()), secrets.token_hex(8)]"
    start = ProgramStart(1_000_000_000.0, "0f" * 32)

    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=1, passed_s=3600.5)

    sandbox = shared.sandbox()
    first, again = (asyncio.run(sandbox.run(Job(program, {"f": ()}, start=start), call)).value for _ in range(2))
    assert first[:3] == [1_000_000_000, 1, 1_000_003_600]
    assert again == first


@pytest.mark.parametrize(
    "start", [1, [], {}, {"at": 1.0}, {"at": "1", "seed": "0f" * 32}, {"at": 1.0, "seed": "0F" * 32, "more": 1}]
)
def test_a_start_of_another_form_is_refused(start: Any) -> None:
    with pytest.raises(FrameError, match="`start`"):
        messages.job_of({"op": "run", "program": "", "start": start}, Limits())


@pytest.mark.parametrize("hoisted", ["1", -1, True, 1.0, [], None, 10**6])
def test_a_number_of_definitions_of_another_form_is_refused(hoisted: Any) -> None:
    with pytest.raises(FrameError, match="`hoisted`"):
        messages.job_of({"op": "run", "program": "", "hoisted": hoisted}, Limits())


@pytest.mark.parametrize("passed", ["1", -1, True, [], 1e300])
def test_a_reply_of_another_time_is_refused(passed: Any) -> None:
    with pytest.raises(FrameError, match="`passed`"):
        messages.reply_of({"op": "reply", "id": 1, "value": 1, "passed": passed})


def test_a_failure_of_the_host_in_a_call_comes_out_and_ends_the_program(shared: Running) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("a bug of the host")

    with pytest.raises(RuntimeError, match="a bug of the host"):
        shared.run("try:\n    f()\nexcept BaseException: pass\nwhile True: pass", {"f": broken})
    assert soon(lambda: not spinning())


def test_one_sandbox_serves_many_event_loops(shared: Running) -> None:
    sandbox = shared.sandbox()
    outcomes = [asyncio.run(sandbox.run(Job(f"answer = {n}", {}), no_tools)) for n in range(3)]
    assert [outcome.value for outcome in outcomes] == [0, 1, 2]


def test_an_agent_runs_its_programs_there(shared: Running) -> None:
    def double(n: int) -> int:
        """Twice a number."""
        return 2 * n

    replies = ["```python\nanswer = [1][double(n=21)]\n```", "```python\nanswer = double(n=21)\n```"]
    with Agent(
        [double],
        model=FakeModel(replies),
        approve="always",
        sentence=False,
        sandbox=shared.url,
        sandbox_token=TOKEN,
        check=False,
    ) as agent:
        result = agent.run("twice 21")
    assert (result.status, result.value) == ("answered", 42)
    assert result.isolation == f"service/{shared.service.tier}"
    assert len(result.revisions) == 2
    assert TOKEN not in Path(str(result.trace)).read_text()


# -- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "limits", "kind", "words"),
    [
        ("while True: pass", {"wall_s": 0.3}, "limit", "longer than 0.3 s"),
        ("while True: pass", {"cpu_s": 1}, "limit", "more than 1 s of processor time"),
        ("for n in range(9): f()", {"calls": 3}, "limit", "more than 3 tool calls"),
        ("answer = len('x' * 300_000_000)", {"memory_bytes": 256 << 20}, "raised", "MemoryError"),
        ("answer = 'x' * 100_000", {"frame_bytes": 50_000}, "raised", "the limit is 50,000"),
    ],
)
def test_a_caller_may_allow_less(shared: Running, program: str, limits: dict[str, Any], kind: str, words: str) -> None:
    outcome = shared.run(program, {"f": lambda _: 1}, **limits)
    assert (outcome.kind, words in outcome.detail + str(outcome.error)) == (kind, True), outcome
    assert outcome.isolation == shared.service.tier


def test_a_caller_never_gets_more_than_the_service_allows() -> None:
    with serving(limits=Limits(wall_s=0.3)) as running:
        assert "longer than 0.3 s" in running.run("while True: pass", wall_s=100.0).detail
    with serving(limits=Limits(output_bytes=10, calls=2)) as running:
        assert "more than 2 tool calls" in running.run("for n in range(9): f()", {"f": lambda _: 1}).detail
        assert "90 bytes more" in running.run("print('x' * 99)").stdout


def test_inputs_and_waits_for_a_person_are_as_next_door(shared: Running) -> None:
    chosen = [check for check in CHECKS if check.group == "inputs" or "waits for a person" in check.name]
    words = ("only planned", "may end the program", "definitions at the end")
    chosen += [check for check in CHECKS if any(each in check.name for each in words)]
    make = lambda limits: ServiceSandbox(shared.url, TOKEN, limits, "F")  # noqa: E731
    report = asyncio.run(check_sandbox(make, chosen))
    assert [verdict for verdict in report.verdicts if verdict.result != "passed"] == []
    assert len(report.verdicts) >= 7


def test_a_caller_may_wait_for_a_person_as_long_as_the_service_allows() -> None:
    """The tool never answers and the clock never goes on again: the service's own bound ends the program."""

    async def go(url: str) -> Outcome:
        job = Job("f()", {"f": ()}, Limits(wall_s=0.5))

        async def ask(request: CallRequest) -> CallReply:
            with job.clock.paused():
                return await asyncio.get_running_loop().create_future()

        async with ServiceSandbox(url, TOKEN, Limits(), "F") as sandbox:
            return await sandbox.run(job, ask)

    with serving(pause_s=0.2) as running:
        outcome = asyncio.run(go(running.url))
    assert outcome.kind == "limit"
    assert outcome.detail.startswith("it ran longer than 0.5 s")
    assert soon(lambda: not spinning())


def test_a_replica_tells_for_how_long_a_clock_may_stand_still() -> None:
    with serving(pause_s=7.0) as running:
        assert running.post().json()["pause_s"] == 7.0
    with pytest.raises(UsageError, match="cannot be below 0"):
        ServiceSettings(Tenants({"default": TOKEN}), pause_s=-1.0)


def test_what_one_run_asked_for_less_of_the_next_one_has() -> None:
    with serving() as running:
        assert "80 bytes more" in running.run("print('x' * 99)", output_bytes=20).stdout
        assert running.run("print('x' * 99)").stdout == "x" * 99 + "\n"
        assert "longer than 0.2 s" in running.run("while True: pass", wall_s=0.2).detail
        assert running.run("import time\ntime.sleep(0.4)\nanswer = 1").value == 1


def test_a_response_that_cannot_be_passed_on_is_an_error_of_that_tool() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    tools = {"big": lambda _: "x" * 200_000, "deep": lambda _: deep, "half": lambda _: "\ud83d"}
    program = """
answer = []
for tool in (big, deep, half):
    try:
        answer.append(tool())
    except ToolError as error:
        answer.append(error.message)
"""
    with serving(message_bytes=100_000) as running:
        big, nested, half = running.run(program, tools).value
    assert "the service takes 100,000" in big
    assert "nested deeper" in nested
    assert half == "?"


def test_a_program_that_is_too_large_is_not_sent() -> None:
    with serving(message_bytes=100_000) as running:
        with pytest.raises(SandboxUnavailable, match="does not take this program: it takes 200,"):
            running.run(f"answer = '{'x' * 200_000}'")
        assert running.run("answer = 1").value == 1


# -- nothing is left running -----------------------------------------------------------------------------------------


def test_a_run_that_is_cancelled_ends_its_program(shared: Running) -> None:
    async def go() -> None:
        begun = asyncio.Event()

        async def call(request: CallRequest) -> CallReply:
            begun.set()
            return CallReply()

        async with shared.sandbox() as sandbox:
            work = asyncio.create_task(sandbox.run(Job("f()\nwhile True: pass", {"f": ()}), call))
            await begun.wait()
            assert await asyncio.to_thread(soon, spinning)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(go())
    assert soon(lambda: not spinning())
    assert soon(lambda: shared.metric("atc_runs_running") == 0)


@pytest.mark.parametrize("how", ["close", "vanish"])
def test_a_caller_who_goes_takes_the_program_along(shared: Running, how: str) -> None:
    before = shared.metric('atc_runs_total{outcome="disconnected"}')
    with shared.channel() as channel:
        send_program(channel, "f()\nwhile True: pass", {"f": []})
        assert receive(channel) == {"op": "call", "id": 1, "tool": "f", "args": {}, "line": 1}
        channel.send('{"op":"reply","id":1,"value":null}')
        assert soon(spinning)
        if how == "close":
            channel.close()
        else:
            channel.socket.shutdown(socket.SHUT_RDWR)
    assert soon(lambda: not spinning())
    assert soon(lambda: shared.metric('atc_runs_total{outcome="disconnected"}') == before + 1)


def test_a_jail_or_its_parent_that_is_killed_ends_one_run_and_no_more(shared: Running) -> None:
    def kill(_: Any) -> None:
        for pid in kit.sandbox_processes():
            os.kill(pid, signal.SIGKILL)

    outcome = shared.run("f()\nanswer = 1", {"f": kill})
    assert (outcome.kind, outcome.isolation) == ("killed", shared.service.tier)
    assert shared.run("answer = 2").value == 2
