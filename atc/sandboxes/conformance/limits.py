"""These checks try what a program may use, what it cannot reach, how it ends; and that nothing of it stays."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from atc.calls.clock import Clock
from atc.calls.contract import CallReply, CallRequest
from atc.calls.program_start import ProgramStart
from atc.sandboxes.conformance import kit
from atc.sandboxes.conformance.kit import Group, Lab, NotApplicable, demand, describe, of_kind, raised, same
from atc.sandboxes.contract import Job

GROUP = Group("limits")
_APART = Group("isolation")
_ENDINGS = Group("endings")
_PATIENCE_S = 30.0
"""Seconds for what is done at once: a busy machine takes that long, what never ends takes longer."""


@GROUP.check("a program that runs too long is ended at its deadline")
async def _(lab: Lab) -> None:
    for program in ("while True: pass", "import time\ntime.sleep(60)", "sum(iter(int, 1))"):
        began = time.perf_counter()
        outcome = await lab.run(program, wall_s=0.3)
        of_kind(outcome, "limit")
        demand("0.3 s" in outcome.detail, f"the limit is not named: {outcome.detail}")
        took = time.perf_counter() - began
        demand(took < 20.0, f"it took {took:.1f} s to end a program that had 0.3 s")


@GROUP.check("a tool that does not answer counts against the program's time")
async def _(lab: Lab) -> None:
    called, stopped = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> None:
        called.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    for wall_s in (0.3, 2.0, 8.0):  # a busy machine may end the program before it calls
        of_kind(await lab.run("f()", {"f": slow}, wall_s=wall_s), "limit")
        if called.is_set():
            break
    demand(stopped.is_set(), "the call went on after its program was ended")


@GROUP.check("time in which the host waits for a person does not count, and the rest does")
async def _(lab: Lab) -> None:
    clock = Clock()

    async def person(arguments: dict[str, Any]) -> str:
        with clock.paused():
            await asyncio.sleep(arguments["seconds"])
        return "yes"

    for wall_s in (0.5, 2.0, 8.0):  # a busy machine may need more to start a program at all
        program = f"answer = f(seconds={1.5 * wall_s})"
        outcome = await lab.run(program, {"f": person}, clock=clock, wall_s=wall_s)
        if outcome.kind == "finished":
            break
    same(outcome.value, "yes", f"the answer of a program whose tool waited ({describe(outcome)})")
    after = await lab.run("f(seconds=0.01)\nwhile True: pass", {"f": person}, clock=clock, wall_s=0.3)
    of_kind(after, "limit")


@GROUP.check("a program that uses up its processor time is ended")
async def _(lab: Lab) -> None:
    lab.not_for("service", "a service sets processor time for all its programs, when it starts")
    async with lab.open(cpu_s=1) as sandbox:
        program = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
        outcome = await lab.run(program, sandbox=sandbox)
    of_kind(outcome, "limit")
    demand("processor time" in outcome.detail, f"the limit is not named: {outcome.detail}")


@GROUP.check("memory that runs out is a MemoryError that the program can catch")
async def _(lab: Lab) -> None:
    program = f"try:\n    x = bytearray({lab.sandbox.limits.memory_bytes})\nexcept MemoryError:\n    answer = 'caught'"
    same(await lab.answer(program), "caught", "the answer")
    raised(await lab.run("x = []\nwhile True: x.append(bytearray(64 << 20))"), "MemoryError", line=2)


@GROUP.check("a hundred megabytes can be used")
async def _(lab: Lab) -> None:
    if lab.sandbox.limits.memory_bytes < 512 << 20:
        raise NotApplicable("programs have less than 512 MiB here")
    same(await lab.answer("answer = len(bytearray(100 << 20))"), 100 << 20, "the answer")


@_APART.check("isolation() names the tier that programs have")
async def _(lab: Lab) -> None:
    same(await lab.sandbox.isolation(), lab.tier, "the tier that the sandbox names")


@_APART.check("a program can connect nowhere")
async def _(lab: Lab) -> None:
    program = """
import socket
answer = []
for make in (lambda: socket.socket(), lambda: socket.socket(socket.AF_UNIX), lambda: socket.socket(socket.AF_INET6),
             lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), lambda: socket.getaddrinfo("localhost", 80),
             lambda: socket.create_connection(("127.0.0.1", 80), 1)):
    try:
        answer.append(repr(make()))
    except OSError:
        continue
"""
    if lab.tier == "F":
        program = program.replace('lambda: socket.getaddrinfo("localhost", 80),', "")  # it would load a codec
    same(await lab.answer(program), [], "the sockets that could be made")


@_APART.check("a program's environment and arguments are empty")
async def _(lab: Lab) -> None:
    program = "import os, sys\nanswer = [sorted(set(os.environ) - {'LC_CTYPE'}), sys.argv[2:]]"
    environment, arguments = await lab.answer(program)
    same(environment, [], "the environment")
    demand(not any("token" in text.lower() for text in arguments), "an argument holds a token")


@_APART.check("nothing of one program is there for the next")
async def _(lab: Lab) -> None:
    leave = """
import builtins, json, math, os
builtins.left = json.left = math.pi = os.environ["LEFT"] = "here"
answer = 1
"""
    look = """
import builtins, json, math, os
answer = [hasattr(builtins, "left"), hasattr(json, "left"), math.pi, os.environ.get("LEFT")]
"""
    for _ in range(2):
        same(await lab.answer(leave), 1, "the answer")
        same(await lab.answer(look), [False, False, 3.141592653589793, None], "what the next program found")


@_APART.check("random numbers differ between programs")
async def _(lab: Lab) -> None:
    program = """
import os, random, secrets, uuid
answer = [random.random(), str(uuid.uuid4()), secrets.token_hex(), os.urandom(8).hex()]
"""
    drawn = [await lab.answer(program) for _ in range(5)]
    for column in zip(*drawn, strict=True):
        demand(len(set(column)) == len(column), f"several programs drew the same: {column}")


@_APART.check("a program that runs again from the same start reads the same clock and draws the same numbers")
async def _(lab: Lab) -> None:
    program = """
import datetime, os, random, secrets, time, uuid
answer = [datetime.datetime.now(datetime.timezone.utc).isoformat(), time.strftime("%Y"), str(datetime.date.today())]
answer += [random.random(), random.Random().random(), str(uuid.uuid4()), str(uuid.uuid1()), secrets.token_hex()]
answer += [os.urandom(8).hex(), list({"ann", "bo", "cy", "di", "ed"})]
began = time.time()
time.sleep(0.05)
f()
answer += [time.time(), time.time() - began > 90]
"""

    async def call(request: CallRequest) -> CallReply:
        return CallReply(passed_s=100.0)

    async def drawn(start: ProgramStart) -> Any:
        outcome = await lab.sandbox.run(Job(program, {"f": ()}, lab.sandbox.limits, start=start), call)
        of_kind(outcome, "finished")
        return outcome.value

    start = ProgramStart(1_000_000_000.5, "0f" * 32)
    first = await drawn(start)
    same(first[0][:21], "2001-09-09T01:46:40.5", "the time at the start")
    same([first[1], first[2][:5], first[-1]], ["2001", "2001-", True], "the year, and whether the clock moved on")
    same(await drawn(start), first, "what the program read and drew when it ran again")
    other = await drawn(dataclasses.replace(start, seed="f0" * 32))
    demand(all(a != b for a, b in zip(first[3:9], other[3:9], strict=True)), "two seeds gave the same numbers")


@_APART.check("fifty programs at once each get their own answer")
async def _(lab: Lab) -> None:
    async def one(number: int) -> None:
        outcome = await lab.run(f"print({number})\nanswer = [{number}, f()]", {"f": lambda _: number * 2})
        same(outcome.value, [number, number * 2], f"the answer of program {number}")
        same(outcome.stdout, f"{number}\n", f"what program {number} printed")

    await asyncio.gather(*(one(number) for number in range(50)))


@_APART.check("two sandboxes at once do not mix")
async def _(lab: Lab) -> None:
    async with lab.open() as first, lab.open() as second:

        async def one(number: int) -> None:
            mark = ("first", "second")[number % 2]
            got = await lab.answer("answer = f()", {"f": lambda _: mark}, sandbox=(first, second)[number % 2])
            same(got, mark, "the answer")

        await asyncio.gather(*(one(number) for number in range(10)))


@_ENDINGS.check("leaving early in peace keeps the answer")
async def _(lab: Lab) -> None:
    for leave in ("sys.exit()", "sys.exit(0)", "raise SystemExit", "exit()"):
        program = f"import sys\nexit = sys.exit\nanswer = 1\n{leave}\nanswer = 2"
        same(await lab.answer(program), 1, f"the answer of a program that left by {leave}")
    raised(await lab.run("import sys\nsys.exit('bad')"), "SystemExit", "bad", line=2)


@_ENDINGS.check("a process that ends without a word is killed, never finished")
async def _(lab: Lab) -> None:
    for status in (0, 7):
        outcome = await lab.run(f"import os\nanswer = 1\nos._exit({status})")
        of_kind(outcome, "killed")
        demand(not outcome.answered, "a program that never reported has an answer")
    await lab.still_works()


@_ENDINGS.check("a program that closes its channel is ended")
async def _(lab: Lab) -> None:
    of_kind(await lab.run("import os\nos.closerange(3, 64)\nwhile True: pass"), "violation", "killed")
    await lab.still_works()


@_ENDINGS.check("a process that crashes is killed, and the next program runs")
async def _(lab: Lab) -> None:
    outcome = await lab.run("import ctypes\nctypes.string_at(0)")
    of_kind(outcome, "killed")
    demand("SIGSEGV" in outcome.detail, f"the crash is not named: {outcome.detail}")
    await lab.still_works()


@_ENDINGS.check("a system call that only an attack makes ends the program")
async def _(lab: Lab) -> None:
    outcome = await lab.run("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nanswer = 'traced'")
    of_kind(outcome, "killed")
    await lab.still_works()


@_ENDINGS.check("garbage on the channel is a violation")
async def _(lab: Lab) -> None:
    for garbage in ("b'\\xff' * 64", "(4).to_bytes(4, 'big') + b'nope'", "(2).to_bytes(4, 'big') + b'[]'"):
        program = f"import os, time\nos.write(3, {garbage})\ntime.sleep(60)"
        of_kind(await lab.run(program), "violation")
    await lab.still_works()


@_ENDINGS.check("signals that are ignored, threads and exit hooks do not outlive the answer")
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


@_ENDINGS.check("cancelling a run ends its program and its calls at once")
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
        await _until(lambda: "R" not in kit.sandbox_processes().values(), "the program of a cancelled run still runs")
    await lab.still_works()


@_ENDINGS.check("a run that is cancelled before its program begins leaves none")
async def _(lab: Lab) -> None:
    for pause in (0, 0.001, 0.005):
        work = asyncio.create_task(lab.run("while True: pass"))
        await asyncio.sleep(pause)
        work.cancel()
        done = await asyncio.gather(work, return_exceptions=True)
        demand(isinstance(done[0], asyncio.CancelledError), f"the run ended as {done[0]!r}")
    await lab.still_works()


@_ENDINGS.check("a failure of the host inside a call comes out, and ends the program")
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


@_ENDINGS.check("a sandbox serves two event loops, one after the other")
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


@_ENDINGS.check("the parent of all programs is killed: the run tells, and the next one works")
async def _(lab: Lab) -> None:
    lab.only_for("process", "its parent process is not this machine's")
    others = kit.zygotes()
    async with lab.open() as sandbox:

        async def kill(_: Any) -> None:
            for pid in kit.zygotes() - others:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(60)

        outcome = await lab.run("f()", {"f": kill}, sandbox=sandbox)
        of_kind(outcome, "killed")
        demand(outcome.detail != "", "nothing tells why the program ended")
        same(await lab.answer("answer = 2", sandbox=sandbox), 2, "the answer of the next program")
        await _until(lambda: len(kit.zygotes() - others) <= 1, "the killed parent left processes")


@_ENDINGS.check("closing a sandbox leaves no process, no descriptor and no thread")
async def _(lab: Lab) -> None:
    processes, descriptors, threads = kit.sandbox_processes(), kit.descriptors(), kit.threads()
    async with lab.open() as sandbox:
        for _ in range(3):
            await lab.run("answer = 1", sandbox=sandbox)
        await lab.run("while True: pass", sandbox=sandbox, wall_s=0.1)
    await sandbox.aclose()  # twice is no harm
    await _until(lambda: set(kit.sandbox_processes()) <= set(processes), "processes are left")
    gc.collect()  # what only a cycle of objects still holds is no leak
    await _until(lambda: kit.descriptors() <= descriptors, "descriptors are left open")
    await _until(lambda: kit.threads() <= threads, "threads are left")


async def _until(met: Callable[[], bool], sentence: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not met():
        demand(time.monotonic() < deadline, sentence)
        await asyncio.sleep(0.02)


CHECKS = [*GROUP.checks, *_APART.checks, *_ENDINGS.checks]
