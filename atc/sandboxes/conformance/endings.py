"""How programs and sandboxes end: in peace, by force, cancelled, crashed; and that nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from atc.calls.contract import CallReply
from atc.sandboxes.conformance import host
from atc.sandboxes.conformance.kit import Group, Lab, demand, describe, of_kind, raised, same
from atc.sandboxes.contract import Job

GROUP = Group("endings")
_PATIENCE_S = 30.0
"""Seconds for what is done at once: a busy machine takes that long, what never ends takes longer."""


@GROUP.check("leaving early in peace keeps the answer")
async def _(lab: Lab) -> None:
    for leave in ("sys.exit()", "sys.exit(0)", "raise SystemExit", "exit()"):
        program = f"import sys\nexit = sys.exit\nanswer = 1\n{leave}\nanswer = 2"
        same(await lab.answer(program), 1, f"the answer of a program that left by {leave}")
    raised(await lab.run("import sys\nsys.exit('bad')"), "SystemExit", "bad", line=2)


@GROUP.check("a process that ends without a word is killed, never finished")
async def _(lab: Lab) -> None:
    for status in (0, 7):
        outcome = await lab.run(f"import os\nanswer = 1\nos._exit({status})")
        of_kind(outcome, "killed")
        demand(not outcome.answered, "a program that never reported has an answer")
    await lab.still_works()


@GROUP.check("a program that closes its channel is ended")
async def _(lab: Lab) -> None:
    of_kind(await lab.run("import os\nos.closerange(3, 64)\nwhile True: pass"), "violation", "killed")
    await lab.still_works()


@GROUP.check("a process that crashes is killed, and the next program runs")
async def _(lab: Lab) -> None:
    outcome = await lab.run("import ctypes\nctypes.string_at(0)")
    of_kind(outcome, "killed")
    demand("SIGSEGV" in outcome.detail, f"the crash is not named: {outcome.detail}")
    await lab.still_works()


@GROUP.check("a system call that only an attack makes ends the program")
async def _(lab: Lab) -> None:
    outcome = await lab.run("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nanswer = 'traced'")
    of_kind(outcome, "killed")
    await lab.still_works()


@GROUP.check("garbage on the channel is a violation")
async def _(lab: Lab) -> None:
    for garbage in ("b'\\xff' * 64", "(4).to_bytes(4, 'big') + b'nope'", "(2).to_bytes(4, 'big') + b'[]'"):
        program = f"import os, time\nos.write(3, {garbage})\ntime.sleep(60)"
        of_kind(await lab.run(program), "violation")
    await lab.still_works()


@GROUP.check("signals that are ignored, threads and exit hooks do not outlive the answer")
async def _(lab: Lab) -> None:
    program = """
import atexit, signal, threading, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
atexit.register(lambda: time.sleep(60))
threading.Thread(target=lambda: time.sleep(60)).start()
answer = 1
"""
    began = time.perf_counter()
    same(await lab.answer(program), 1, "the answer")
    demand(time.perf_counter() - began < _PATIENCE_S, "the program went on after its answer")


@GROUP.check("cancelling a run ends its program and its calls at once")
async def _(lab: Lab) -> None:
    called, stopped = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> None:
        called.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    program = "import threading\nthreading.Thread(target=f).start()\nwhile True: pass"
    work = asyncio.create_task(lab.run(program, {"f": slow}))
    await asyncio.wait_for(called.wait(), _PATIENCE_S)
    began = time.perf_counter()
    work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        demand(stopped.is_set(), "the call that was under way went on")
        took = time.perf_counter() - began
        demand(took < _PATIENCE_S, f"cancelling took {took:.1f} s")
    else:
        raise AssertionError("the run swallowed its cancellation")
    if lab.driver == "process":
        await _until(lambda: "R" not in host.sandbox_processes().values(), "the program of a cancelled run still runs")
    await lab.still_works()


@GROUP.check("a run that is cancelled before its program begins leaves none")
async def _(lab: Lab) -> None:
    for pause in (0, 0.001, 0.005):
        work = asyncio.create_task(lab.run("while True: pass"))
        await asyncio.sleep(pause)
        work.cancel()
        done = await asyncio.gather(work, return_exceptions=True)
        demand(isinstance(done[0], asyncio.CancelledError), f"the run ended as {done[0]!r}")
    await lab.still_works()


@GROUP.check("a failure of the host inside a call comes out, and ends the program")
async def _(lab: Lab) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("a bug of the host")

    program = "try:\n    f()\nexcept BaseException: pass\nwhile True: pass"
    try:
        outcome = await lab.run(program, {"f": broken})
    except RuntimeError as error:
        same(str(error), "a bug of the host", "the failure that came out")
    else:
        raise AssertionError(f"the host's failure was taken for the program's: {describe(outcome)}")
    await lab.still_works()


@GROUP.check("a sandbox serves two event loops, one after the other")
async def _(lab: Lab) -> None:
    sandbox = lab.open()

    async def nothing(_: Any) -> CallReply:
        return CallReply(value=1)

    def in_own_loop(close: bool) -> Any:
        async def go() -> Any:
            await sandbox.prepare()
            try:
                return (await sandbox.run(Job("answer = f()", {"f": ()}), nothing)).value
            finally:
                if close:
                    await sandbox.aclose()

        return asyncio.run(go())

    for last in (False, True):
        same(await asyncio.to_thread(in_own_loop, last), 1, "the answer in a loop of its own")


@GROUP.check("the parent of all programs is killed: the run tells, and the next one works")
async def _(lab: Lab) -> None:
    lab.only_for("process", "its parent process is not this machine's")
    others = host.zygotes()
    async with lab.open() as sandbox:

        async def kill(_: Any) -> None:
            for pid in host.zygotes() - others:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(60)

        outcome = await lab.run("f()", {"f": kill}, sandbox=sandbox)
        of_kind(outcome, "killed")
        demand(outcome.detail != "", "nothing tells why the program ended")
        same(await lab.answer("answer = 2", sandbox=sandbox), 2, "the answer of the next program")
        await _until(lambda: len(host.zygotes() - others) <= 1, "the killed parent left processes")


@GROUP.check("closing a sandbox leaves no process, no descriptor and no thread")
async def _(lab: Lab) -> None:
    processes, descriptors, threads = host.sandbox_processes(), host.descriptors(), host.threads()
    async with lab.open() as sandbox:
        for _ in range(3):
            await lab.run("answer = 1", sandbox=sandbox)
        await lab.run("while True: pass", sandbox=sandbox, wall_s=0.1)
    await sandbox.aclose()  # twice is no harm
    await _until(lambda: set(host.sandbox_processes()) <= set(processes), "processes are left")
    gc.collect()  # what only a cycle of objects still holds is no leak
    await _until(lambda: host.descriptors() <= descriptors, "descriptors are left open")
    await _until(lambda: host.threads() <= threads, "threads are left")


async def _until(met: Callable[[], bool], sentence: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not met():
        demand(time.monotonic() < deadline, sentence)
        await asyncio.sleep(0.02)


CHECKS = GROUP.checks
