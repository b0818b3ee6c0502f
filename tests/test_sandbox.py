"""The process sandbox: what a program gets, what it cannot reach, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support_sandbox import forced, in_sandbox, left_behind, run_once

from atc.errors import SandboxUnavailable
from atc.execution import process, zygote
from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import TIERS, CallReply, CallRequest, Job, Outcome
from atc.execution.zygote import Zygote
from atc.resources import resource_dir

pytestmark = pytest.mark.usefixtures("nothing_left")


async def _no_tools(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_as_json_values() -> None:
    values = {
        "6 * 7": 42,
        "{'a': [1, 2.5, None, True], 'b': 'ü 😀'}": {"a": [1, 2.5, None, True], "b": "ü 😀"},
        "(1, 2)": [1, 2],
        "{3, 1, 2}": [1, 2, 3],
        "{1: 'one'}": {"1": "one"},
        "range(3)": [0, 1, 2],
        "{'a': 1}.keys()": ["a"],
        "__import__('datetime').date(2024, 5, 1)": "2024-05-01",
        "__import__('datetime').timedelta(minutes=2)": 120.0,
        "__import__('decimal').Decimal('1.5')": 1.5,
        "__import__('uuid').UUID(int=1)": "00000000-0000-0000-0000-000000000001",
        "b'bytes'": "Ynl0ZXM=",
        "'half \\ud83d'": "half ?",
        "2**1000": 2**1000,
    }
    outcome = in_sandbox(f"answer = [{', '.join(values)}]")
    assert (outcome.kind, outcome.answered) == ("finished", True)
    assert outcome.isolation in TIERS
    assert outcome.value == list(values.values())


def test_dataclasses_and_enums_answer_too() -> None:
    program = """
import dataclasses, enum
class Colour(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Car:
    colour: Colour
    doors: int
answer = [Car(Colour.RED, 4)]
"""
    assert in_sandbox(program).value == [{"colour": "red", "doors": 4}]


@pytest.mark.parametrize(
    ("program", "type_", "words"),
    [
        ("answer = object()", "TypeError", "answer is a object, which has no JSON form"),
        ("answer = {'a': [lambda: 1]}", "TypeError", "answer['a'][0] is a function"),
        ("answer = float('nan')", "ValueError", "answer is nan"),
        ("answer = []\nanswer.append(answer)", "ValueError", "contains itself"),
        ("answer = 10**5000", "ValueError", "give such a number as text"),
        ("answer = 'x' * 5_000_000", "ValueError", "the limit is 2,097,152: give less"),
        ("answer = {(1, 2j): 3, object(): 4}", "TypeError", "a key of type object"),
    ],
)
def test_what_is_no_json_value_is_a_clear_error_in_the_program(program: str, type_: str, words: str) -> None:
    outcome = in_sandbox(program)
    assert outcome.kind == "raised"
    assert outcome.error is not None
    assert outcome.error.type == type_
    assert words in outcome.error.message


def test_a_program_without_an_answer_has_none() -> None:
    outcome = in_sandbox("x = 1")
    assert (outcome.kind, outcome.answered, outcome.value) == ("finished", False, None)


# -- errors ----------------------------------------------------------------------------------------------------------


def test_an_exception_tells_its_line_and_its_span() -> None:
    outcome = in_sandbox("a = {}\n\nb = (1 +\n     a['key'])\n")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line, outcome.error.span) == ("KeyError", 4, (4, 4, 5, 13))
    assert outcome.error.trace == (("<module>", 4),)


def test_an_exception_in_a_function_tells_the_way_to_it() -> None:
    outcome = in_sandbox("def f(x):\n    return 1 / x\n\nanswer = f(0)\n")
    assert outcome.error is not None
    assert (outcome.error.line, outcome.error.trace) == (2, (("<module>", 4), ("f", 2)))


def test_a_program_that_does_not_parse_tells_the_line() -> None:
    outcome = in_sandbox("x = 1\ny = = 2\n")
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("SyntaxError", 2)


@pytest.mark.parametrize(
    ("leave", "kind"), [("sys.exit()", "finished"), ("sys.exit(0)", "finished"), ("sys.exit('bad')", "raised")]
)
def test_leaving_early_in_peace_keeps_the_answer(leave: str, kind: str) -> None:
    outcome = in_sandbox(f"import sys\nanswer = 1\n{leave}\nanswer = 2")
    assert outcome.kind == kind
    assert outcome.value == (1 if kind == "finished" else None)


def test_a_tool_error_can_be_caught_and_read() -> None:
    program = """
try:
    book(day=1)
except ToolError as error:
    answer = [error.tool, error.status, error.message, str(error)]
"""
    outcome = in_sandbox(program, {"book": lambda _: CallReply(error="no seats", status=409)})
    assert outcome.value == ["book", 409, "no seats", "book: no seats"]


def test_a_tool_error_that_is_not_caught_names_tool_and_line() -> None:
    outcome = in_sandbox("x = 1\nbook()", {"book": lambda _: CallReply(error="no seats", status=409)})
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.tool, outcome.error.line) == ("ToolError", "book", 2)


# -- calls -----------------------------------------------------------------------------------------------------------


def test_arguments_go_out_and_responses_come_in_whatever_they_hold() -> None:
    seen: list[Any] = []

    def echo(arguments: dict[str, Any]) -> Any:
        seen.append(arguments)
        return arguments

    program = (
        "import datetime\nanswer = echo('ü😀\\x00', n=[1, {'a': None}], when=datetime.date(2024, 1, 2), half='\\udc00')"
    )
    outcome = in_sandbox(program, {"echo": echo}, {"echo": ["text", "n"]})
    assert seen == [{"text": "ü😀\x00", "n": [1, {"a": None}], "when": "2024-01-02", "half": "?"}]
    assert outcome.value == seen[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("f(float('inf'))", "f(x=…) is inf"),
        ("f(object())", "f(x=…) is a object"),
        ("f(10**400)", "give such a number as text"),
        ("f('x' * 5_000_000)", "the arguments of f would take"),
        ("f(1, 2)", "f() takes 1 arguments but 2 were given"),
        ("f(1, x=2)", "f() got multiple values for argument 'x'"),
    ],
)
def test_arguments_that_cannot_be_sent_raise_where_the_call_stands(call: str, words: str) -> None:
    outcome = in_sandbox(f"y = 1\nf(0)\n{call}", {"f": lambda _: 1}, {"f": ["x"]})
    assert outcome.error is not None
    assert words in outcome.error.message
    assert outcome.error.line == 3


def test_parallel_calls_run_at_once_and_keep_their_order() -> None:
    gate = {"waiting": 0, "most": 0}

    async def slow(arguments: dict[str, Any]) -> Any:
        gate["waiting"] += 1
        gate["most"] = max(gate["most"], gate["waiting"])
        await asyncio.sleep(0.02 * (4 - arguments["n"] % 4))
        gate["waiting"] -= 1
        return arguments["n"]

    program = "answer = parallel([lambda n=n: slow(n=n) for n in range(40)])"
    assert in_sandbox(program, {"slow": slow}).value == list(range(40))
    assert gate["most"] >= 8


def test_little_memory_is_enough_for_parallel_calls() -> None:
    program = "answer = parallel([lambda n=n: f(n=n) for n in range(40)])"
    assert in_sandbox(program, {"f": lambda a: a["n"]}, memory_bytes=256 << 20).value == list(range(40))


def test_many_threads_may_call_at_once() -> None:
    """More calls than may be in flight wait their turn; none is lost and nothing hangs."""

    async def big(arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0.01)
        return [arguments["n"], "x" * 200_000]

    program = """
import threading
got = []
threads = [threading.Thread(target=lambda n=n: got.append(big(n=n, pad="y" * 50_000)[0])) for n in range(40)]
[t.start() for t in threads]
[t.join() for t in threads]
answer = sorted(got)
"""
    outcome = in_sandbox(program, {"big": big}, calls_in_flight=4)
    assert outcome.value == list(range(40)), outcome


def test_a_call_tells_the_line_that_made_it() -> None:
    lines: list[int] = []

    async def go() -> None:
        async def call(request: CallRequest) -> CallReply:
            lines.append(request.line)
            return CallReply(value=1)

        async with ProcessSandbox() as sandbox:
            program = "f()\ndef g():\n    return f()\ng()\nparallel(lambda: f(),\n         lambda: g())\n"
            await sandbox.run(Job(program, {"f": ()}), call)

    asyncio.run(go())
    assert sorted(lines) == [1, 3, 3, 5]


def test_asyncio_works_inside_a_program() -> None:
    program = """
import asyncio
async def main():
    loop = asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(None, lambda n=n: f(n=n)) for n in range(3)))
answer = asyncio.run(main())
"""
    assert in_sandbox(program, {"f": lambda a: a["n"]}).value == [0, 1, 2]


# -- the host's side -------------------------------------------------------------------------------------------------


def _without(monkeypatch: pytest.MonkeyPatch, missing: dict[str, str]) -> list[str]:
    """Have these tiers fail to come up, each for its reason; returns a list of the tiers that are then tried."""
    real, tried = process.start_zygote, []

    def start(settings: dict[str, Any]) -> Zygote:
        tried.append(settings["tier"])
        if settings["tier"] in missing:
            raise SandboxUnavailable(missing[settings["tier"]])
        return real(settings)

    monkeypatch.setattr(process, "start_zygote", start)
    return tried


async def _one_run(require: str) -> tuple[Outcome, dict[str, str]]:
    async with ProcessSandbox(require=require) as sandbox:
        return await sandbox.run(Job("answer = 1", {}), _no_tools), sandbox.reasons


def test_the_strongest_tier_there_is_is_used_and_the_reasons_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = _without(monkeypatch, {"N": "no namespaces", "L": "no Landlock"})
    outcome, reasons = asyncio.run(_one_run("F"))
    assert (outcome.value, outcome.isolation, tried) == (1, "F", ["N", "L", "F"])
    assert reasons == {"N": "no namespaces", "L": "no Landlock"}


@pytest.mark.parametrize(
    ("require", "missing", "tried"),
    [
        ("N", {"N": "no namespaces"}, ["N"]),
        ("L", {"N": "no namespaces", "L": "no Landlock"}, ["N", "L"]),
        ("F", {"N": "no namespaces", "L": "no Landlock", "F": "no seccomp"}, ["N", "L", "F"]),
    ],
)
def test_nothing_weaker_than_required_is_ever_used(
    require: str, missing: dict[str, str], tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _without(monkeypatch, missing)
    with pytest.raises(SandboxUnavailable, match="cannot isolate a program as required") as caught:
        asyncio.run(_one_run(require))
    assert seen == tried
    assert all(why in str(caught.value) for why in missing.values())
    assert "Nothing was run" in str(caught.value)


def test_a_machine_without_any_tier_is_refused_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default accepts N and L; F, which is there, has to be asked for."""
    _without(monkeypatch, {"N": "no namespaces", "L": "no Landlock"})
    with pytest.raises(SandboxUnavailable):
        in_sandbox("answer = 1")


@pytest.mark.parametrize(
    ("file", "wall", "hole", "found"),
    [
        ("jail.py", "*_DATA", "'/etc'", "read a file of the system"),
        ("filter.py", '"read": (0, 63)', '"read": (0, 63), "socket": (41, 198)', "make a local socket"),
        ("filter.py", "_ANY_BIT, 1, 0, kernel.CLONE_THREAD", "_ANY_BIT, 1, 1, kernel.CLONE_THREAD", "start a process"),
    ],
)
def test_a_wall_with_a_hole_is_found_before_a_program_comes(
    file: str, wall: str, hole: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-test really tries the forbidden: a jail that lets it through is not used."""
    broken = tmp_path / "sandbox"
    shutil.copytree(resource_dir("sandbox"), broken, ignore=shutil.ignore_patterns("__pycache__"))
    source = (broken / file).read_text()
    assert wall in source
    (broken / file).write_text(source.replace(wall, hole))
    monkeypatch.setattr(zygote, "resource_dir", lambda name: tmp_path / name)
    with pytest.raises(SandboxUnavailable, match=f"the walls do not hold: .*{found}"):
        asyncio.run(_one_run("L"))


def test_a_tier_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="no tier 'everything' of isolation: choose from N, L, F"):
        ProcessSandbox(require="everything")


def test_a_sandbox_that_does_not_come_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote.json, "dumps", lambda _: "{not json")
    with pytest.raises(SandboxUnavailable, match=r"did not come up: .*JSONDecodeError"):
        in_sandbox("answer = 1")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxUnavailable, match=r"cannot be started: .*No such file"):
        in_sandbox("answer = 1")


@pytest.mark.parametrize("tier", TIERS)
def test_each_tier_runs_programs_and_is_named_in_their_outcome(tier: str) -> None:
    outcome = run_once(forced(tier), "import json\nanswer = json.loads('[1]')")
    assert (outcome.value, outcome.isolation) == ([1], tier)


def test_a_run_that_is_cancelled_ends_its_program_and_its_calls() -> None:
    calls: list[str] = []

    async def go() -> None:
        begun = asyncio.Event()

        async def call(request: CallRequest) -> CallReply:
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                calls.append("stopped")
                raise
            return CallReply()

        async with ProcessSandbox() as sandbox:
            work = asyncio.create_task(sandbox.run(Job("f()", {"f": ()}), call))
            await begun.wait()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(go())
    assert calls == ["stopped"]


def test_a_run_that_is_cancelled_while_its_jail_boots_leaves_none() -> None:
    async def go() -> None:
        async with ProcessSandbox() as sandbox:
            for pause in (0, 0.005, 0.03):
                work = asyncio.create_task(sandbox.run(Job("answer = 1", {}), _no_tools))
                await asyncio.sleep(pause)
                work.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await work

    asyncio.run(go())


def test_a_failure_of_the_host_in_a_call_comes_out_and_ends_the_program() -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("a bug of the host")

    with pytest.raises(RuntimeError, match="a bug of the host"):
        in_sandbox("f()", {"f": broken})


def test_one_sandbox_serves_many_event_loops() -> None:
    """Jails belong to no loop: those that wait in one which has ended run the programs of the next."""
    sandbox = ProcessSandbox()

    async def prepared() -> None:
        await sandbox.prepare()
        await sandbox.run(Job("answer = 1", {}), _no_tools)
        await sandbox.prepare()
        await asyncio.sleep(0.3)

    async def again() -> Outcome:
        async with sandbox:
            return await sandbox.run(Job("answer = 2", {}), _no_tools)

    asyncio.run(prepared())
    assert asyncio.run(again()).value == 2


def test_programs_run_at_once_in_one_sandbox() -> None:
    async def go() -> list[Any]:
        async with ProcessSandbox() as sandbox:
            jobs = [sandbox.run(Job(f"answer = {n}", {}), _no_tools) for n in range(4)]
            return [outcome.value for outcome in await asyncio.gather(*jobs)]

    assert asyncio.run(go()) == [0, 1, 2, 3]


_HOST = """
import asyncio, sys
from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import CallReply, Job
async def call(request):
    print("running", flush=True)
    await asyncio.sleep(60)
async def go():
    async with ProcessSandbox() as sandbox:
        await sandbox.run(Job("f()\\nwhile True: pass", {"f": ()}), call)
asyncio.run(go())
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_outlives_a_host_that_is_killed(signum: signal.Signals) -> None:
    before = left_behind()
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout is not None
    with host:
        assert host.stdout.readline() == b"running\n"
        assert len(left_behind() - before) >= 2, "the parent of programs and the program"
        host.send_signal(signum)
        host.wait(10)
    # the fixture waits until no process is left; the next start removes the control groups of a host that died
    while left_behind() - before:
        time.sleep(0.01)
    assert in_sandbox("answer = 1").value == 1


def test_it_works_for_an_ordinary_user() -> None:
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    program = (
        "import asyncio, os\nfrom atc.execution.process import ProcessSandbox\nfrom atc.execution.sandbox import Job\n"
        "async def go():\n    async with ProcessSandbox() as sandbox:\n"
        "        return await sandbox.run(Job('answer = parallel([lambda: 1] * 16)', {}), print)\n"
        "outcome = asyncio.run(go())\nprint(outcome.isolation, sum(outcome.value), os.getuid())"
    )
    nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    environment = {
        "TMPDIR": "/tmp",
        "HOME": "/nonexistent",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    why = []
    for python in (sys.executable, f"/usr/bin/python{version}"):
        command = [python, "-c", program]
        try:
            ran = subprocess.run(
                command, env=environment, cwd="/", capture_output=True, text=True, timeout=30, check=False, **nobody
            )
        except OSError as error:
            why.append(f"{python}: {error.strerror}")
            continue
        if "SandboxUnavailable" in ran.stderr or not any(
            word in ran.stderr for word in ("Permission denied", "ModuleNotFoundError", "init_fs_encoding")
        ):
            assert ran.stdout in ("N 16 65534\n", "L 16 65534\n"), ran.stderr
            return
        why.append(f"{python}: {ran.stderr.strip()[-200:]}")
    pytest.skip(f"user nobody may read no interpreter with this installation: {'; '.join(why)}")
