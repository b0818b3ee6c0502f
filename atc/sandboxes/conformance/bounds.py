"""What a program may use, what it cannot reach, and what it cannot leave to the next."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from atc.calls.clock import Clock
from atc.sandboxes.conformance.kit import Group, Lab, NotApplicable, demand, describe, of_kind, raised, same

GROUP = Group("limits")
_APART = Group("isolation")


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


@GROUP.check("threads without end are refused, not fatal")
async def _(lab: Lab) -> None:
    program = """
import threading
stop = threading.Event()
threads = []
try:
    while len(threads) < 20_000:
        threads.append(threading.Thread(target=stop.wait))
        threads[-1].start()
except (RuntimeError, MemoryError) as error:
    stop.set()
    answer = "refused"
"""
    same(await lab.answer(program), "refused", "the answer")


@GROUP.check("descriptors without end are refused, not fatal")
async def _(lab: Lab) -> None:
    program = "import os\ntry:\n    while True: os.pipe()\nexcept OSError as e:\n    answer = e.strerror"
    same(await lab.answer(program), "Too many open files", "the answer")


@_APART.check("isolation() names the tier that programs have")
async def _(lab: Lab) -> None:
    same(await lab.sandbox.isolation(), lab.tier, "the tier that the sandbox names")


@_APART.check("a program can write no file")
async def _(lab: Lab) -> None:
    program = """
answer = []
for path in ("x", "/x", "/tmp/x", "/dev/shm/x", "/var/tmp/x"):
    try:
        open(path, "w")
    except OSError:
        continue
    answer.append(path)
"""
    same(await lab.answer(program), [], "the files that could be written")


@_APART.check("a program can read no file of the machine, its own process's among them")
async def _(lab: Lab) -> None:
    program = """
answer = []
for path in ("/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/1/cmdline", "/root/.bashrc", "/etc/shadow"):
    try:
        open(path).read()
    except OSError:
        continue
    answer.append(path)
"""
    same(await lab.answer(program), [], "the files that could be read")


@_APART.check("a program can start no process")
async def _(lab: Lab) -> None:
    program = """
import os, subprocess
answer = []
for what in (os.fork, lambda: os.execv("/bin/true", ["true"]), lambda: subprocess.run(["/bin/true"])):
    try:
        what()
    except OSError:
        continue
    answer.append("started")
"""
    same(await lab.answer(program), [], "the processes that could be started")


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


@_APART.check("a program's descriptors are its output and its channel")
async def _(lab: Lab) -> None:
    program = """
import os
answer = []
for fd in range(256):
    try:
        os.get_inheritable(fd)
    except OSError:
        continue
    answer.append(fd)
"""
    same(await lab.answer(program), [1, 2, 3], "the open descriptors")


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


CHECKS = [*GROUP.checks, *_APART.checks]
