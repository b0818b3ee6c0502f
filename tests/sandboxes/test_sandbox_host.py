"""The process sandbox from its host: which tier holds, what a host may do at once, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from atc._host.files import resource_dir
from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import TIERS, Job, Limits
from atc.sandboxes.process import driver as process
from atc.sandboxes.process import zygote
from atc.sandboxes.process.driver import Pool, ProcessSandbox
from atc.sandboxes.process.zygote import Zygote
from tests.support.sandbox import forced, in_sandbox, left_behind, run_once

pytestmark = pytest.mark.usefixtures("nothing_left")


async def _no_tools(request: CallRequest) -> CallReply:
    raise AssertionError("no program of this test calls a tool")


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
        ("jail.py", '(settings["threads"],) * 2', "(9_999,) * 2", "start more threads than it may"),
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
                work = asyncio.create_task(sandbox.run(Job("while True: pass", {}), _no_tools))
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
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.contract import CallReply, Job
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
        host.wait(60)
    # the fixture waits until no process is left; the next start removes the control groups of a host that died
    while left_behind() - before:
        time.sleep(0.01)
    assert in_sandbox("answer = 1").value == 1


def test_root_without_its_rights_has_a_tier_only_if_its_threads_are_counted() -> None:
    """The kernel counts no threads of root, with or without its rights; it counts those of a user who is called root
    in a namespace of their own."""
    named_root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    command = [*named_root, "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    if shutil.which("setpriv") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("setpriv or unshare is missing, or user namespaces are refused")
    program = (
        "import asyncio, os\nfrom atc.errors import SandboxUnavailable\nassert os.geteuid() == 0\n"
        "from atc.sandboxes.process.driver import ProcessSandbox\nfrom atc.sandboxes.contract import Job\n"
        "async def go():\n    async with ProcessSandbox() as sandbox:\n"
        "        return await sandbox.run(Job('answer = parallel([lambda: 1] * 16)', {}), print)\n"
        "try:\n    print('tier', asyncio.run(go()).isolation)\nexcept SandboxUnavailable as error:\n    print(error)"
    )
    ran = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    expected = "tier L" if named_root else "L: the walls do not hold: start more threads than it may"
    assert expected in ran.stdout, ran.stdout + ran.stderr


def test_it_works_for_an_ordinary_user() -> None:
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    program = (
        "import asyncio, os\n"
        "from atc.sandboxes.process.driver import ProcessSandbox\nfrom atc.sandboxes.contract import Job\n"
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

        def ran(text: str, python: str = python) -> subprocess.CompletedProcess[str]:
            command = [python, "-c", text]
            return subprocess.run(
                command, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False, **nobody
            )

        try:
            readable = ran("import pydantic, httpx")
        except OSError as error:
            why.append(f"{python}: {error.strerror}")
            continue
        if readable.returncode == 0:
            done = ran(program)
            assert done.stdout in ("N 16 65534\n", "L 16 65534\n"), done.stderr
            return
        why.append(f"{python}: {readable.stderr.strip()[-200:]}")
    pytest.skip(f"user nobody may read no interpreter with this installation: {'; '.join(why)}")


def test_a_run_may_be_given_smaller_messages_than_its_sandbox() -> None:
    async def go() -> Outcome:
        async with ProcessSandbox() as sandbox:
            return await sandbox.run(Job("answer = 'x' * 5000", {}, Limits(frame_bytes=1000)), _no_tools)

    error = asyncio.run(go()).error
    assert error is not None
    assert (error.type, "the limit is 1,000" in error.message) == ("ValueError", True)


def test_a_closed_sandbox_says_that_it_was_closed() -> None:
    async def go() -> None:
        sandbox = ProcessSandbox()
        await sandbox.aclose()
        with pytest.raises(SandboxUnavailable, match="was closed: open another one"):
            await sandbox.run(Job("answer = 1", {}), _no_tools)

    asyncio.run(go())


_WITHOUT_DESCRIPTORS = """
import asyncio, os, resource, threading
from atc.errors import SandboxUnavailable
from atc.sandboxes.process.driver import ProcessSandbox
from atc.sandboxes.contract import Job
from atc.sandboxes.process.zygote import Zygote

async def none(request): raise AssertionError
def left(count): resource.setrlimit(resource.RLIMIT_NOFILE, (count, 4096))
def opened(): return len(os.listdir("/proc/self/fd"))
tell = Zygote._send

def told_without(self, message, fds=()):
    tell(self, message, fds)
    if message["op"] == "spawn":  # what comes back brings a descriptor
        left(3)

async def main():
    async with ProcessSandbox(pool=0) as sandbox:
        async def run():
            ended = await sandbox.run(Job("answer = sum(range(100_000))", {}), none)
            return ended.kind, ended.value, ended.cpu_s > 0
        print(await run())
        before, zygote = opened(), sandbox._pool._current
        Zygote._send = told_without
        print(await run())
        Zygote._send = tell
        try:
            print(await run())
        except SandboxUnavailable as error:
            print("Too many open files" in str(error), "ulimit -n" in str(error))
        left(4096)
        print(await run(), opened() == before, sandbox._pool._current is zygote, zygote.dead, zygote._reader.is_alive())
        left(3)
        try:
            await ProcessSandbox(pool=0).prepare()
        except SandboxUnavailable as error:
            print("Too many open files" in str(error))
        left(4096)

left(4096)
asyncio.run(main())
"""


def test_a_moment_without_descriptors_is_survived() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DESCRIPTORS], capture_output=True, text=True, timeout=120, check=False
    )
    answered = "('finished', 4999950000, True)"
    assert ran.stdout.splitlines() == [answered, answered, "True True", f"{answered} True True False True", "True"], (
        ran.stderr
    )
    assert "Traceback" not in ran.stderr


class _Parent:
    """A zygote that makes no programs, and says when it is closed."""

    dead, running, spawned, born, tier = False, 0, 0, math.inf, "N"

    def __init__(self) -> None:
        self.closed = threading.Event()

    def spawn(self) -> Any:
        raise SandboxUnavailable("no program is made here")

    def close(self) -> None:
        self.closed.set()


def test_a_sandbox_that_its_own_booting_thread_finds_as_garbage_is_closed() -> None:
    held: list[process.JailSandbox] = []
    parent = _Parent()

    def start(tier: str) -> Any:
        held.clear()
        gc.collect()
        return parent

    pool = Pool(start, ("N",), 1)
    held.append(process.JailSandbox(pool, Limits()))
    pool.boot()
    assert parent.closed.wait(30)
