# ruff: noqa: E501 - programs stand as they are
"""Two programs at the same time: what one does to get at the other, and what the other must not notice."""

from __future__ import annotations

import asyncio

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import Job, Limits, Sandbox

LIMITS = Limits(wall_s=30.0, cpu_s=3, memory_bytes=256 << 20)
WORD = "belongs-to-the-victim"
VICTIM = f"""
import os, threading, time
for number in range(60):
    print("{WORD}", flush=True)
    os.write(2, b"{WORD}")
    time.sleep(0.01)
answer = [lookup(n=1), threading.active_count()]
"""
THIEVES = {
    "reads the descriptors of its neighbours": """
import os, time
held, got, me = [], [], os.getpid()
for pid in {*range(1, 40), *range(max(1, me - 80), me + 80)} - {me}:
    for number in range(8):
        try:
            held.append(os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            pass
end = time.monotonic() + 0.4
while time.monotonic() < end:
    for fd in held:
        try:
            got.append(os.read(fd, 1000).decode())
        except OSError:
            pass
answer = [len(held), "".join(got)]
""",
    "signals its neighbours": """
import ctypes, os, time
libc, me = ctypes.CDLL(None), os.getpid()
for pid in {*range(2, 40), *range(max(2, me - 80), me + 80), -1, 0} - {me}:
    libc.kill(pid, 9)
    libc.syscall(234, pid, pid, 9)
answer = [0, ""]
""",
    "takes all the threads that it can": """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
pause = ctypes.cast(libc.pause, ctypes.c_void_p).value
stack = (ctypes.c_uint64 * 4096)(*[pause] * 4096)
for number in range(1500):
    if libc.syscall(ctypes.c_long(56), ctypes.c_long(0x50f00), ctypes.c_void_p(ctypes.addressof(stack) + 8 + 16 * (number % 1000)), None, None, None) < 0:
        break
time.sleep(0.3)
answer = [0, ""]
""",
    "takes all the memory that it can": """
import time
held = []
try:
    while True:
        held.append(bytearray(1 << 20))
        held[-1][::4096] = b"x" * 256
except MemoryError:
    time.sleep(0.3)
answer = [0, ""]
""",
    "prints without end": "while True: print('x' * 60000)",
    "spins": "while True: pass",
}


async def echo(request: CallRequest) -> CallReply:
    return CallReply(value=request.arguments)


async def both(one: Sandbox, other: Sandbox, thief: str) -> tuple[Outcome, Outcome]:
    """A victim in one sandbox and a thief in another, or in the same."""
    for sandbox in (one, other):
        await sandbox.isolation()
    victim = asyncio.create_task(one.run(Job(VICTIM, {"lookup": ["n"]}), echo))
    await asyncio.sleep(0.05)
    stolen = await other.run(Job(thief, {"lookup": ["n"]}, Limits(wall_s=0.6)), echo)
    return await victim, stolen


def unharmed(victim: Outcome, thief: Outcome) -> None:
    """Neither has anything of the other."""
    assert (victim.kind, victim.value) == ("finished", [{"n": 1}, 1])
    assert victim.stdout.count(WORD) == victim.stderr.count(WORD) == 60
    assert thief.kind in ("finished", "limit")
    assert WORD not in repr(thief)
    assert thief.value in (None, [0, ""])


HOG = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
pause = ctypes.cast(libc.pause, ctypes.c_void_p).value
stack = (ctypes.c_uint64 * 4096)(*[pause] * 4096)
for number in range(3000):
    if libc.syscall(ctypes.c_long(56), ctypes.c_long(0x50f00), ctypes.c_void_p(ctypes.addressof(stack) + 8 + 16 * (number % 1000)), None, None, None) < 0:
        break
held = []
try:
    while True:
        held.append(bytearray(1 << 20))
        held[-1][::4096] = b"x" * 256
except MemoryError:
    pass
lookup(n=number)
time.sleep(60)
"""
"""Takes the threads and the memory that it gets, says so, and keeps them."""


async def beside_a_hog(sandbox: Sandbox, programs: int) -> list[Outcome]:
    """Programs at once that begin while another one holds all that it can get."""
    await sandbox.isolation()
    await asyncio.sleep(0.3)  # those that wait are there
    full = asyncio.Event()

    async def told(request: CallRequest) -> CallReply:
        full.set()
        return CallReply()

    hog = asyncio.create_task(sandbox.run(Job(HOG, {"lookup": ["n"]}), told))
    try:
        await asyncio.wait_for(full.wait(), 25)
        job = Job("import time\ntime.sleep(0.1)\nanswer = lookup(n=2)", {"lookup": ["n"]})
        return await asyncio.gather(*(sandbox.run(job, echo) for _ in range(programs)))
    finally:
        hog.cancel()
        await asyncio.gather(hog, return_exceptions=True)
