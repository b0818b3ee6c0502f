"""Descriptors, memory and threads that are used up: the right error, nothing left open, and no program unended."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atc._host.files import resource_dir
from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import Job
from atc.sandboxes.process import zygote as zygotes
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.process.zygote import NoRoom, Zygote
from tests.support.sandbox import in_sandbox, left_behind

pytestmark = pytest.mark.usefixtures("nothing_left")

_RUNS = """
import asyncio, errno, os, resource, selectors, socket, subprocess, sys, threading, json
from atc.errors import SandboxUnavailable
from atc.sandboxes.conformance import kit
from atc.sandboxes.contract import Job
from atc.sandboxes.process.driver import ProcessSandbox

async def none(request): raise AssertionError

def opened(): return len(os.listdir("/proc/self/fd"))

async def run():
    try:
        async with ProcessSandbox(pool=1) as sandbox:
            return (await sandbox.run(Job("answer = 1", {}), none)).kind
    except SandboxUnavailable as error:
        return "unavailable"

def after():
    for thread in threading.enumerate():
        if thread.name.startswith("atc-"):
            thread.join(30)
    return opened(), len(set(kit.sandbox_processes()))

async def tried(begin, end):
    # one turn: what the run came to, and what is left of it
    loop.call_exception_handler = lambda context: unheard.append(str(context.get("exception")))
    unheard = []
    begin()
    try:
        came = await run()
    except BaseException as error:
        came = f"{type(error).__name__}: {error}"
    finally:
        fired = end()
    return [came, fired, unheard]

loop = asyncio.new_event_loop()
loop.run_until_complete(run())  # imports, the executor's thread, the certificates of the loop
"""
_INJECTED = (
    _RUNS
    + """
class Fault:
    left, fired, error = 0, "", None

def faulty(owner, name, error):
    real = getattr(owner, name)
    def call(*args, **options):
        if Fault.left and "asyncio" not in sys._getframe(1).f_code.co_filename.split(os.sep)[-2]:
            Fault.left -= 1
            if not Fault.left:
                Fault.fired = name
                raise error() if error is not OSError else OSError(Fault.error, os.strerror(Fault.error))
        return real(*args, **options)
    setattr(owner, name, call)

faulty(socket, "socketpair", OSError)
faulty(socket, "send_fds", OSError)
faulty(socket, "recv_fds", OSError)
faulty(socket.socket, "recv", OSError)
faulty(socket.socket, "setblocking", OSError)
faulty(os, "pipe2", OSError)
faulty(os, "set_blocking", OSError)
faulty(subprocess, "Popen", OSError)
faulty(asyncio.SelectorEventLoop, "add_reader", OSError)
faulty(threading.Thread, "start", lambda: RuntimeError("can't start new thread"))

async def main():
    before = after()
    for number in range(1, 100):
        def begin():
            Fault.left, Fault.fired, Fault.error = number, "", int(sys.argv[1])
        def end():
            Fault.left = 0
            return Fault.fired
        found = await tried(begin, end)
        print(json.dumps([number, *found, after() == before]), flush=True)
        if not found[1]:
            break

loop.run_until_complete(main())
"""
)
_LIMITED = (
    _RUNS
    + """
async def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    before = after()
    for room in range(24):
        def begin():
            resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1 + room, hard))
        def end():
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1024), hard))
            return ""
        found = await tried(begin, end)
        print(json.dumps([room, *found, after() == before]), flush=True)

loop.run_until_complete(main())
"""
)


def _turns(script: str, *arguments: str) -> list[list[Any]]:
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["EMFILE", "ENOMEM"])
def test_whatever_call_fails_nothing_stays_open(name: str) -> None:
    """The n-th call that can fail does, for every n until none is left to fail."""
    turns = _turns(_INJECTED, str(getattr(errno, name)))
    assert len(turns) > 8
    assert turns[-1][1:] == ["finished", "", [], True], "no fault was left to inject"
    for number, came, fired, unheard, clean in turns:
        assert came in ("finished", "unavailable", "killed"), (number, fired, came)
        assert clean, (number, fired, came)
        assert unheard == [], (number, fired)
    assert {"unavailable", "finished"} <= {turn[1] for turn in turns}


@pytest.mark.slow
def test_a_host_with_any_number_of_descriptors_left_says_so_and_keeps_none() -> None:
    turns = _turns(_LIMITED)
    for room, came, _, unheard, clean in turns:
        assert came in ("finished", "unavailable"), (room, came)
        assert clean, (room, came)
        assert unheard == [], room
    assert (turns[0][1], turns[-1][1]) == ("unavailable", "finished")


# -- the parent of programs --------------------------------------------------------------------------------------------


async def _none(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


def _zygote(sandbox: ProcessSandbox) -> Zygote:
    current = sandbox._pool._current
    assert current is not None
    return current


@pytest.mark.parametrize(
    ("call", "fails", "why"),
    [
        ("CMSG_SPACE(8 * _DESCRIPTOR.size)", "CMSG_LEN(_DESCRIPTOR.size)", "did not arrive"),
        ("os.pidfd_open(pid)  #", "os.pidfd_open(-1)  #", "Invalid argument"),
    ],
)
def test_a_program_whose_descriptors_its_parent_cannot_hold_is_ended_alone(
    call: str, fails: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel drops what does not fit: no child is left then that nobody could end."""
    broken = tmp_path / "sandbox"
    shutil.copytree(resource_dir("sandbox"), broken, ignore=shutil.ignore_patterns("__pycache__"))
    source = (broken / "zygote.py").read_text()
    assert source.count(call) == 1
    (broken / "zygote.py").write_text(source.replace(call, fails))
    monkeypatch.setattr(zygotes, "resource_dir", lambda name: tmp_path / name)

    async def go() -> None:
        async with ProcessSandbox(pool=0) as sandbox:
            await sandbox.prepare()
            parent, processes = _zygote(sandbox), left_behind()
            for _ in range(3):
                with pytest.raises(NoRoom, match=f"cannot be started: .*{why}.* Nothing was run"):
                    await sandbox.run(Job("answer = 1", {}), _none)
            assert left_behind() == processes
            assert (_zygote(sandbox), parent.dead, parent.running) == (parent, False, 0)

    asyncio.run(go())


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EPERM])
def test_a_process_that_this_host_cannot_signal_is_ended_by_its_parent(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container: EINVAL where our process namespace does not hold it, EPERM where it is another user's."""

    def refused(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(zygotes.signal, "pidfd_send_signal", refused)
    ended = in_sandbox("while True: pass", wall_s=0.1)
    assert (ended.kind, ended.cpu_s > 0) == ("limit", True)


def _broken(*_: Any) -> None:
    raise ValueError("a message that cannot be understood")


def test_a_parent_whose_listener_ended_is_replaced_and_its_programs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> tuple[Outcome, Outcome, bool, bool]:
        async with ProcessSandbox(pool=0) as sandbox:
            await sandbox.prepare()
            first, called = _zygote(sandbox), asyncio.Event()

            async def call(request: CallRequest) -> CallReply:
                called.set()
                return CallReply(value=1)

            running = asyncio.create_task(sandbox.run(Job("f()\nwhile True: pass", {"f": ()}), call))
            await called.wait()
            monkeypatch.setattr(Zygote, "_spawned", _broken)
            await sandbox.run(Job("while True: pass", {}), _none)
            monkeypatch.undo()
            ended = await running
            after = await sandbox.run(Job("answer = 2", {}), _none)
            return ended, after, first.dead, _zygote(sandbox) is first

    ended, after, dead, same = asyncio.run(go())
    assert (ended.kind, after.value, dead, same) == ("killed", 2, True, False)
