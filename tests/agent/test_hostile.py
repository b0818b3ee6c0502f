"""Programs that mean harm, or go badly wrong: what they cannot reach, how they end, and that nothing is left."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.calls.contract import CallReply
from atc.sandboxes.contract import TIERS
from tests.support.sandbox import forced, in_sandbox, run_once

pytestmark = pytest.mark.usefixtures("nothing_left")


# -- what a program cannot reach -------------------------------------------------------------------------------------


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


ATTEMPTS = [
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
    "__import__('os').setgroups([])",
    "__import__('os').setresuid(0, 0, 0)",
    "__import__('os').mknod('device', 0o020666, 0x0103) or open('device')",
    "__import__('resource').setrlimit(7, (4096, 4096))",
]


@pytest.fixture(scope="module")
def outcomes(listening: tuple[str, int]) -> dict[str, Any]:
    """What became of each attempt, all made by one program: the exception's type, or what it got."""
    path, port = listening
    words = {"HERE": str(Path(__file__).parents[1]), "PORT": str(port), "SOCKET": path, "PID": str(os.getpid())}
    lines = ["made = {}"]
    for number, attempt in enumerate(ATTEMPTS):
        for word, value in words.items():
            attempt = attempt.replace(word, value)
        lines += [
            "try:",
            f"    made[{number}] = repr({attempt})",
            "except BaseException as error:",
            f"    made[{number}] = [type(error).__name__]",
        ]
    outcome = in_sandbox("\n".join([*lines, "answer = made"]))
    assert outcome.kind == "finished", outcome
    return {attempt: outcome.value[str(number)] for number, attempt in enumerate(ATTEMPTS)}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_world_outside_is_out_of_reach(attempt: str, outcomes: dict[str, Any]) -> None:
    refusals = (
        "PermissionError",
        "FileNotFoundError",
        "ProcessLookupError",
        "BlockingIOError",
        "OSError",
        "ValueError",
    )
    assert outcomes[attempt] in [[refusal] for refusal in refusals]


@pytest.mark.parametrize(
    "attempt", ["os.setuid(0)", "os.chroot('.')", "libc.ptrace(0, 0, 0, 0)", "libc.unshare(0x10000000)"]
)
def test_what_only_an_attack_asks_for_ends_the_program(attempt: str) -> None:
    outcome = in_sandbox(f"import ctypes, os\nlibc = ctypes.CDLL(None)\n{attempt}\nanswer = 'still here'")
    assert (outcome.kind, outcome.value) == ("killed", None)
    assert outcome.detail == "it was ended for a system call that only an attack would make"


def test_no_secret_comes_in_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    environment, arguments, here = in_sandbox(
        "import os, sys\nanswer = [dict(os.environ), sys.orig_argv, os.getcwd()]"
    ).value
    assert "hunter2" not in f"{environment}{arguments}"
    assert set(environment) <= {"LC_CTYPE"}  # the interpreter's own
    assert here == "/"


@pytest.mark.parametrize("tier", TIERS)
def test_a_program_can_write_no_file_anywhere(tier: str) -> None:
    program = """
import os, tempfile
answer = {}
for path in ("a.txt", "/a.txt", "/tmp/a.txt", "/dev/shm/a.txt", os.__file__, os.path.dirname(os.__file__) + "/new.py"):
    for mode in ("w", "a", "x", "r+"):
        try:
            open(path, mode)
        except OSError as error:
            answer[error.strerror] = path
        else:
            answer["written"] = path
for make in (tempfile.TemporaryFile, tempfile.mkdtemp, lambda: os.mkdir("d"), lambda: os.remove(os.__file__)):
    try:
        make()
    except OSError as error:
        answer[error.strerror] = "made"
    else:
        answer["written"] = "made"
"""
    outcome = run_once(forced(tier), program)
    assert outcome.kind == "finished", outcome
    assert "written" not in outcome.value
    if tier != "F":
        assert "Read-only file system" in outcome.value


@pytest.mark.parametrize("tier", TIERS)
def test_a_memory_only_file_cannot_be_made(tier: str) -> None:
    error = run_once(forced(tier), "import os\nos.memfd_create('x')").error
    assert error is not None
    assert error.type == "PermissionError"


# -- hostile and broken programs -------------------------------------------------------------------------------------

_TIME_ALONE = {"wall_s": 0.5, "cpu_s": 3600, "calls": 10**12, "channel_bytes": 10**15}
"""How much of all else a program can use in half a second is the machine's affair: nothing else may end it first."""


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("while True: pass", "limit", "it ran longer than 0.5 s"),
        ("import time\ntime.sleep(60)", "limit", "it ran longer than 0.5 s"),
        ("while True:\n    try:\n        f()\n    except BaseException: pass", "limit", "it ran longer than 0.5 s"),
        ("import os\nos._exit(0)", "killed", "exit status 0 before it reported"),
        ("import os\nos._exit(7)", "killed", "exit status 7"),
        ("import ctypes\nctypes.string_at(0)", "killed", "ended by SIGSEGV"),
        pytest.param(
            *("import os\nos.closerange(0, 64)\nwhile True: pass", "violation", "closed its channel and ran on"),
            marks=pytest.mark.slow,
        ),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass", "limit", "it ran longer"),
        ("def f(): return f()\nf()", "raised", ""),
        ("x = 'a' * (2 << 30)", "raised", ""),
        ("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()", "raised", ""),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "raised", ""),
    ],
)
def test_a_program_that_goes_wrong_is_an_outcome(program: str, kind: str, words: str) -> None:
    limits = _TIME_ALONE if kind == "limit" else {}
    outcome = in_sandbox(program, {"f": lambda _: CallReply(error="no")}, memory_bytes=256 << 20, **limits)
    assert outcome.kind == kind, outcome
    assert words in outcome.detail


@pytest.mark.slow
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
for _ in range(256):
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
    program = "import threading, time\nthreading.Thread(target=lambda: time.sleep(90)).start()\nanswer = 1"
    outcome = in_sandbox(program)
    assert outcome.value == 1
    assert outcome.seconds < 30


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
    "id that falls": """frame(b'{"op": "call", "id": 5, "tool": "f", "args": {}}') * 2""",
    "error that is none": 'frame(b\'{"op": "raised", "error": 1}\')',
}


@pytest.mark.parametrize("garbage", _GARBAGE.values(), ids=_GARBAGE)
def test_garbage_on_the_channel_is_a_violation(garbage: str) -> None:
    program = f"""
import os, time
frame = lambda body: len(body).to_bytes(4, "big") + body
os.write(3, {garbage})
if {garbage!r}.startswith("b"):
    os.close(3)
time.sleep(90)
"""
    outcome = in_sandbox(program, {"f": lambda _: 1})
    assert outcome.kind == "violation", outcome


def test_a_forged_report_is_only_a_claim_about_the_answer() -> None:
    """A program may say what it likes about its own answer; odd positions in an error are dropped, not believed."""
    program = """
import os
frame = lambda body: len(body).to_bytes(4, "big") + body
for fd in range(3, 64):
    try:
        odd = b'{"type":7,"message":null,"line":-5,"span":[1,2],"origin":["x"],"trace":[[1],2]}'
        os.write(fd, frame(b'{"op":"raised","error":' + odd + b"}"))
    except OSError:
        pass
"""
    outcome = in_sandbox(program)
    assert outcome.error is not None
    assert (outcome.error.line, outcome.error.span, outcome.error.origin, outcome.error.trace) == (0, None, None, ())
