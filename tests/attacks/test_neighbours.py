# ruff: noqa: E501 - programs stand as they are
"""Two programs at once in one sandbox: neither sees, slows to a stop, or takes anything from the other."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from atc.errors import SandboxUnavailable
from atc.execution.pool import Pool
from atc.execution.process import JailSandbox
from atc.execution.sandbox import CallReply, CallRequest, Job, Limits, Outcome
from atc.execution.zygote import start_zygote, zygote_settings

LIMITS = Limits(wall_s=5.0, cpu_s=3, memory_bytes=256 << 20)
WORD = "belongs-to-the-victim"
_VICTIM = f"""
import os, threading, time
for number in range(60):
    print("{WORD}", flush=True)
    os.write(2, b"{WORD}")
    time.sleep(0.01)
answer = [lookup(n=1), threading.active_count()]
"""
_THIEVES = {
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
    "prints without end": "while True: print('x' * 60000)",
    "spins": "while True: pass",
}  # fmt: skip


def _both(tier: str, thief: str) -> tuple[Outcome, Outcome]:
    async def call(request: CallRequest) -> CallReply:
        return CallReply(value=request.arguments)

    async def go() -> tuple[Outcome, Outcome]:
        async with JailSandbox(
            Pool(lambda tier: start_zygote(zygote_settings(tier, LIMITS)), (tier,), 2), LIMITS
        ) as sandbox:
            await sandbox.isolation()
            victim = asyncio.create_task(sandbox.run(Job(_VICTIM, {"lookup": ["n"]}), call))
            await asyncio.sleep(0.05)
            other = await sandbox.run(Job(thief, {"lookup": ["n"]}, Limits(wall_s=0.6)), call)
            return await victim, other

    try:
        return asyncio.run(go())
    except SandboxUnavailable as error:
        pytest.skip(f"this machine has no tier {tier}: {error}")


_READS, *_REST = _THIEVES
_PAIRS = [pytest.param(tier, _THIEVES[_READS], id=f"{_READS}-{tier}") for tier in "NL"] + [
    pytest.param(tier, _THIEVES[name], id=f"{name}-{tier}", marks=pytest.mark.slow)
    for tier, name in [("F", _READS), *itertools.product("NLF", _REST)]
]


@pytest.mark.parametrize(("tier", "thief"), _PAIRS)
def test_a_program_gets_nothing_of_its_neighbour(tier: str, thief: str) -> None:
    victim, other = _both(tier, thief)
    assert (victim.kind, victim.value) == ("finished", [{"n": 1}, 1])
    assert victim.stdout.count(WORD) == victim.stderr.count(WORD) == 60
    assert other.kind in ("finished", "limit")
    assert WORD not in repr(other)
    assert other.value in (None, [0, ""])
