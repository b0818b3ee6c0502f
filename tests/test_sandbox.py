"""The process sandbox: what a program gets, what it cannot reach, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support_sandbox import in_sandbox, left_behind

from atc.errors import SandboxUnavailable
from atc.execution import process
from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import LAYERS, CallReply, CallRequest, Job, Limits, Outcome


pytestmark = pytest.mark.usefixtures("nothing_left")


async def _no_tools(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6 * 7", 42),
        ("{'a': [1, 2.5, None, True], 'b': 'ü 😀'}", {"a": [1, 2.5, None, True], "b": "ü 😀"}),
        ("(1, 2)", [1, 2]),
        ("{3, 1, 2}", [1, 2, 3]),
        ("{1: 'one'}", {"1": "one"}),
        ("range(3)", [0, 1, 2]),
        ("__import__('datetime').date(2024, 5, 1)", "2024-05-01"),
        ("__import__('decimal').Decimal('1.5')", 1.5),
        ("__import__('uuid').UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
        ("'half \\ud83d'", "half ?"),
        ("2**1000", 2**1000),
    ],
)
def test_an_answer_comes_back_as_json_values(expression: str, value: Any) -> None:
    outcome = in_sandbox(f"answer = {expression}")
    assert (outcome.kind, outcome.answered, outcome.value) == ("finished", True, value)
    assert outcome.isolation == LAYERS


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
        ("answer = 'x' * 5_000_000", "ValueError", "the limit is 4,194,304: give less"),
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


# -- errors ------------------------------------------------------------------------------------------------------------


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


# -- calls -------------------------------------------------------------------------------------------------------------


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


# -- what a program cannot reach -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listening() -> Iterator[tuple[str, int]]:
    """A socket of this machine, by path and by port."""
    path = f"/tmp/atc-test-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as local, socket.create_server(("127.0.0.1", 0)) as remote:
        local.bind(path)
        local.listen()
        os.chmod(path, 0o777)
        yield path, remote.getsockname()[1]
        os.unlink(path)


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd').read()",
        "open('/proc/self/environ').read()",
        "open('/root/.bashrc').read() if __import__('os').getuid() == 0 else open('/home')",
        "__import__('os').listdir('/')",
        "__import__('os').listdir('/tmp')",
        "__import__('os').listdir('HERE')",
        "open('HERE/conftest.py').read()",
        "open('/tmp/written', 'w')",
        "open('/dev/shm/written', 'w')",
        "__import__('os').symlink('/etc/passwd', 'link') or open('link').read()",
        "__import__('os').link('/etc/passwd', 'hard') or open('hard').read()",
        "__import__('socket').create_connection(('127.0.0.1', PORT), 1)",
        "__import__('socket').socket(__import__('socket').AF_UNIX).connect('SOCKET')",
        "__import__('socket').socket(__import__('socket').AF_UNIX, __import__('socket').SOCK_DGRAM).sendto(b'x', 'SOCKET')",
        "__import__('socket').socketpair(type=2)[0].sendto(b'x', 'SOCKET')",
        "__import__('socket').socketpair(type=2)[0].connect('SOCKET')",
        "__import__('socket').socketpair(type=2)[0].sendmsg([b'x'], [], 0, 'SOCKET')",
        "__import__('socket').socket(16, 3)",
        "__import__('os').fork()",
        "__import__('os').execv('/bin/true', ['true'])",
        "__import__('os').posix_spawn('/bin/true', ['true'], {})",
        "__import__('subprocess').run(['/bin/true'])",
        "__import__('os').kill(PID, 9)",
        "__import__('os').kill(__import__('os').getppid() or PID, 9)",
        "__import__('os').killpg(PID, 9)",
        "__import__('os').setuid(1) or __import__('os').setuid(0) or open('/etc/shadow')",
        "__import__('os').chroot('.')",
        "__import__('os').mknod('device', 0o020666, 0x0103) or open('device')",
        "__import__('resource').setrlimit(7, (4096, 4096))",
    ],
)
def test_the_world_outside_is_out_of_reach(attempt: str, listening: tuple[str, int]) -> None:
    path, port = listening
    for word, value in (
        ("HERE", str(Path(__file__).parent)),
        ("PORT", str(port)),
        ("SOCKET", path),
        ("PID", str(os.getpid())),
    ):
        attempt = attempt.replace(word, value)
    outcome = in_sandbox(f"answer = repr({attempt})")
    assert outcome.kind == "raised", outcome
    assert outcome.error is not None
    assert outcome.error.type in ("PermissionError", "ProcessLookupError", "OSError", "ValueError"), outcome.error


def test_a_memory_only_file_cannot_be_executed() -> None:
    program = "import os\nfd = os.memfd_create('x')\nos.write(fd, b'#!/bin/true')\nos.execve(fd, ['x'], {})"
    error = in_sandbox(program).error
    assert error is not None
    assert error.type == "PermissionError"


def test_no_secret_comes_in_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    outcome = in_sandbox(
        "import os, sys\nanswer = [dict(os.environ), sys.argv[3:], os.getcwd().startswith('/'), os.listdir('.')]"
    )
    environment, arguments, in_a_folder, files = outcome.value
    assert "hunter2" not in str(outcome.value)
    assert set(environment) <= {"LC_CTYPE"}  # the interpreter's own
    assert (in_a_folder, files) == (True, [])
    assert all("hunter2" not in argument for argument in arguments)


def test_a_program_may_write_files_where_it_stands_up_to_a_limit() -> None:
    program = """
import os
open("a.txt", "w").write("hello")
written = 0
try:
    for number in range(100):
        with open(f"f{number}", "wb") as file:
            written += file.write(b"x" * 500_000)
except OSError as error:
    answer = [open("a.txt").read(), written, error.strerror]
"""
    text, written, why = in_sandbox(program, file_bytes=4 << 20).value
    assert (text, why) == ("hello", "No space left on device")
    assert written < 5_000_000


# -- hostile and broken programs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("while True: pass", "limit", "it ran longer than 0.5 s"),
        ("import time\ntime.sleep(60)", "limit", "it ran longer than 0.5 s"),
        ("while True:\n    try:\n        f()\n    except BaseException: pass", "limit", "it ran longer than 0.5 s"),
        ("import os\nos._exit(0)", "killed", "exit status 0 before it reported"),
        ("import os\nos._exit(7)", "killed", "exit status 7"),
        ("import ctypes\nctypes.string_at(0)", "killed", "ended by SIGSEGV"),
        ("import os\nos.closerange(0, 64)\nwhile True: pass", "violation", "closed its channel and ran on"),
        ("import os, signal\nos.kill(1, signal.SIGSTOP)\nwhile True: pass", "limit", "it ran longer"),
        ("def f(): return f()\nf()", "raised", ""),
        ("x = 'a' * (2 << 30)", "raised", ""),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "raised", ""),
    ],
)
def test_a_program_that_goes_wrong_is_an_outcome(program: str, kind: str, words: str) -> None:
    outcome = in_sandbox(
        program, {"f": lambda _: CallReply(error="no")}, wall_s=0.5 if kind == "limit" else 10, memory_bytes=256 << 20
    )
    assert outcome.kind == kind, outcome
    assert words in outcome.detail


def test_a_program_that_spins_is_stopped_by_its_processor_limit() -> None:
    outcome = in_sandbox("while True:\n    try:\n        while True: pass\n    except BaseException: pass", cpu_s=1)
    assert (outcome.kind, outcome.detail) == ("limit", "it used more than 1 s of processor time")


def test_memory_that_runs_out_is_a_memory_error() -> None:
    error = in_sandbox("x = bytearray(2 << 30)", memory_bytes=512 << 20).error
    assert error is not None
    assert error.type == "MemoryError"


def test_what_a_program_prints_is_kept_up_to_a_limit_and_never_read_as_protocol() -> None:
    program = """
import sys
print("out", flush=True)
sys.stderr.write("err")
frame = b'{"op":"done","answered":true,"value":"forged"}'
sys.stdout.buffer.write(len(frame).to_bytes(4, "big") + frame)
block = b"x" * (1 << 20)
for _ in range(200):
    sys.stdout.buffer.write(block)
answer = "real"
"""
    outcome = in_sandbox(program, output_bytes=10_000)
    assert outcome.value == "real"
    assert outcome.stdout.startswith("out\n")
    assert outcome.stderr == "err"
    assert len(outcome.stdout) < 10_100
    assert outcome.stdout.endswith("bytes more were dropped]\n")


def test_threads_that_still_run_do_not_outlive_the_answer() -> None:
    program = "import threading, time\nthreading.Thread(target=lambda: time.sleep(60)).start()\nanswer = 1"
    outcome = in_sandbox(program)
    assert outcome.value == 1
    assert outcome.seconds < 5


def test_a_program_cannot_escape_its_end() -> None:
    """It leaves its process group, clears its parent-death signal, ignores signals, closes its output, and goes on."""
    program = """
import ctypes, os, signal, threading
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
os.close(1), os.close(2)
try:
    os.kill(0, signal.SIGKILL)
except OSError:
    pass
while True: pass
"""
    assert in_sandbox(program, wall_s=0.5).kind in ("limit", "killed")


_GARBAGE = {
    "random bytes": "b'\\x00\\x01\\x02'",
    "oversized": "(1 << 31).to_bytes(4, 'big') + b'x' * 100",
    "not json": "frame(b'{')",
    "not an object": "frame(b'[1]')",
    "deep": "frame(b'[' * 100_000 + b']' * 100_000)",
    "nan": 'frame(b\'{"op": "done", "answered": true, "value": NaN}\')',
    "same key twice": 'frame(b\'{"op": "done", "op": "done"}\')',
    "unknown": 'frame(b\'{"op": "please"}\')',
    "no id": 'frame(b\'{"op": "call", "tool": "f", "args": {}}\')',
    "id that falls": 'frame(b\'{"op": "call", "id": 5, "tool": "f", "args": {}}\') + frame(b\'{"op": "call", "id": 5, "tool": "f", "args": {}}\')',
    "error that is none": 'frame(b\'{"op": "raised", "error": 1}\')',
}


@pytest.mark.parametrize("garbage", _GARBAGE.values(), ids=_GARBAGE)
def test_garbage_on_the_channel_is_a_violation(garbage: str) -> None:
    program = f"""
import os, time
frame = lambda body: len(body).to_bytes(4, "big") + body
channel = next(fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{{fd}}") or not _closed(fd))
os.write(channel, {garbage})
if {garbage!r}.startswith("b"):
    os.close(channel)
time.sleep(60)
"""
    program = (
        "import os\ndef _closed(fd):\n    try:\n        os.fstat(fd)\n    except OSError:\n        return True\n"
        + program
    )
    outcome = in_sandbox(program, {"f": lambda _: 1}, wall_s=3)
    assert outcome.kind == "violation", outcome


def test_a_forged_report_is_only_a_claim_about_the_answer() -> None:
    """A program may say what it likes about its own answer; odd positions in an error are dropped, not believed."""
    program = """
import os
frame = lambda body: len(body).to_bytes(4, "big") + body
for fd in range(3, 64):
    try:
        os.write(fd, frame(b'{"op":"raised","error":{"type":7,"message":null,"line":-5,"span":[1,2],"origin":["x"],"trace":[[1],2]}}'))
    except OSError:
        pass
"""
    outcome = in_sandbox(program)
    assert outcome.error is not None
    assert (outcome.error.line, outcome.error.span, outcome.error.origin, outcome.error.trace) == (0, None, None, ())


# -- the host's side -----------------------------------------------------------------------------------------------------


def test_layers_that_cannot_be_had_run_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lock is left out in turn: what depended on it is not promised, and a demand for it is refused."""
    real = process._limits_for_child
    lost = {"namespaces": "processes", "landlock": "files", "seccomp": "network and processes"}
    for lock, layers in lost.items():
        monkeypatch.setattr(
            process,
            "_limits_for_child",
            lambda limits, lock=lock: real(limits).replace(f'"{lock}": true', f'"{lock}": false'),
        )

        async def go(require: tuple[str, ...]) -> Outcome:
            async with ProcessSandbox(require=require) as sandbox:
                return await sandbox.run(Job("answer = 1", {}), _no_tools)

        with pytest.raises(SandboxUnavailable, match=f"cannot isolate {layers} for a program"):
            asyncio.run(go(LAYERS))
        held = asyncio.run(go(()))
        assert held.value == 1
        assert set(held.isolation) == set(LAYERS) - set(layers.split(" and "))


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SandboxUnavailable, match="choose from network, files, processes"):
        ProcessSandbox(require=["everything"])


def test_a_sandbox_that_does_not_come_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_limits_for_child", lambda limits: "{not json")
    with pytest.raises(SandboxUnavailable, match="(?s)ended while it locked itself: .*JSONDecodeError"):
        in_sandbox("answer = 1")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxUnavailable, match="cannot be started: .*No such file"):
        in_sandbox("answer = 1")


def test_a_run_that_is_cancelled_ends_its_program_and_its_calls() -> None:
    calls: list[str] = []

    async def go() -> None:
        async def call(request: CallRequest) -> CallReply:
            calls.append("begun")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                calls.append("stopped")
                raise
            return CallReply()

        async with ProcessSandbox() as sandbox:
            work = asyncio.create_task(sandbox.run(Job("f()", {"f": ()}), call))
            while not calls:
                await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work

    asyncio.run(go())
    assert calls == ["begun", "stopped"]


def test_a_run_that_is_cancelled_while_its_child_boots_leaves_none() -> None:
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
    """A child that waits in a loop which has ended is let go, and a fresh one runs the next program."""
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
def test_nothing_outlives_a_host_that_is_killed(signum: signal.Signals, tmp_path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert host.stdout is not None
    with host:
        assert host.stdout.readline() == b"running\n"
        assert len(left_behind(tmp_path / "temporary")) == 3
        host.send_signal(signum)
        host.wait(10)
    # the fixture waits until no process and no folder is left


def test_it_works_for_an_ordinary_user() -> None:
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    program = (
        "import asyncio\nfrom atc.execution.process import ProcessSandbox\nfrom atc.execution.sandbox import Job\n"
        "async def go():\n    async with ProcessSandbox() as sandbox:\n"
        "        return await sandbox.run(Job('answer = parallel([lambda: 1] * 16)', {}), print)\n"
        "outcome = asyncio.run(go())\nprint(outcome.isolation, sum(outcome.value))"
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
            assert ran.stdout == "('network', 'files', 'processes') 16\n", ran.stderr
            return
        why.append(f"{python}: {ran.stderr.strip()[-200:]}")
    pytest.skip(f"user nobody may read no interpreter with this installation: {'; '.join(why)}")
