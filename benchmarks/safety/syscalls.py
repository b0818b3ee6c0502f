"""The native audit: which system calls still answer inside a jail, tier by tier.

``python -m benchmarks.safety.syscalls [--json] [--tier N ...]``: for each number of a system call a program makes that
one call, by hand and with arguments that do nothing, and tells what came back. What the filter lets through *answers*
(with a result, or with the kernel's own complaint about the arguments). What it does not is *refused* (an error that
says so), or *ends the program*. Nothing is read from the filter but the names: this is what the kernel really does.
"""

from __future__ import annotations

import asyncio
import errno
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from atc._host.files import resource_dir
from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.cli.console import guarded
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import TIERS, Job, Limits
from atc.sandboxes.process.driver import JailSandbox, Pool
from atc.sandboxes.process.zygote import start_zygote, zygote_settings
from benchmarks.common import AsJson, listed, print_json, show

NUMBERS = range(471)
AT_ONCE = 2
LIMITS = Limits(wall_s=5.0, cpu_s=2, memory_bytes=256 << 20)

NOT_TRIED = ("exit", "exit_group", "pause", "rt_sigreturn")
"""They answer: they end the program, or wait for ever."""
ARGUMENTS = {
    "openat": "-100, b'/nowhere', 0, 0",
    "mmap": "0, 4096, 1, 0x22, -1, 0",
    "clone": "0x10000, 0, 0, 0, 0",
    "fcntl": "1, 1, 0",
    "ioctl": "1, 0x5421, zeros",
    "prctl": "15, b'audit', 0, 0, 0",
    "socketpair": "1, 1, 0, zeros",
    "kill": "os.getpid(), 0",
    "tgkill": "os.getpid(), os.getpid(), 0",
    "select": "0, 0, 0, 0, zeros",
    "pselect6": "0, 0, 0, 0, zeros, 0",
    "ppoll": "0, 0, zeros, 0, 0",
}
"""Where six zeros would be refused for their own sake, or would wait."""
IN_PART = tuple(
    """
    openat mmap mprotect clone fcntl ioctl prctl socketpair kill tgkill sendto prlimit64
    """.split()
)
"""Those that the filter judges by their arguments too."""
UNFILTERED = {335: "uretprobe", 336: "uprobe"}
"""Newer kernels let these two past every filter: without a probe of the kernel's own they end the program, or fail."""

_PROGRAM = """
import ctypes, os
zeros = ctypes.create_string_buffer(64)
made = [ctypes.c_long(a) if type(a) is int else a for a in ({arguments},)]
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(ctypes.c_long({number}), *made)
answer = [result, ctypes.get_errno()]
"""
_REFUSED = {errno.EPERM, errno.ENOSYS}
_FORKS = ("fork", "vfork")  # refused as if there were no room for a process


@dataclass
class Audit:
    """One tier's table: the names (or numbers) of the calls by what became of them."""

    tier: str
    answers: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    why: str = ""


def names() -> dict[int, str]:
    """Number → name on this machine, of every call that the filter names."""
    column = 2 if platform.machine() == "x86_64" else 3
    text = (resource_dir("sandbox") / "filter.py").read_text(encoding="utf-8")
    found = re.finditer(r'"(\w+)"(?:\]\s*=|:)\s*\(*\s*\((None|\d+), (None|\d+)\)', text)
    unfiltered = UNFILTERED if column == 2 else {}
    return {int(match[column]): match[1] for match in found if match[column] != "None"} | unfiltered


async def audit(tier: str, numbers: Sequence[int] = NUMBERS) -> Audit:
    """Try every call in a tier. ``why`` tells where the machine has no such tier."""
    made, known, slots = Audit(tier), names(), asyncio.Semaphore(AT_ONCE)
    sandbox = JailSandbox(Pool(lambda tier: start_zygote(zygote_settings(tier, LIMITS)), (tier,), AT_ONCE), LIMITS)

    async def one(number: int) -> Outcome | None:
        name = known.get(number, "")
        if name in NOT_TRIED:
            return None
        program = _PROGRAM.format(number=number, arguments=ARGUMENTS.get(name, "0, 0, 0, 0, 0, 0"))
        async with slots:
            return await sandbox.run(Job(program, {}), _no_tools)

    async with sandbox:
        try:
            await sandbox.isolation()
        except SandboxUnavailable as error:
            made.why = str(error)
            return made
        outcomes = await asyncio.gather(*map(one, numbers))
    for number, outcome in zip(numbers, outcomes, strict=True):
        if outcome is not None:
            name = known.get(number, f"number {number}")
            getattr(made, classified(name, outcome)).append(name)
    return made


def classified(name: str, outcome: Outcome) -> str:
    """What became of a call: ``answers``, ``refused``, ``killed``, or ``unclear``."""
    if outcome.kind == "finished" and outcome.answered:
        result, error = outcome.value
        refused = _REFUSED | ({errno.EAGAIN} if name in _FORKS else set())
        return "refused" if result == -1 and error in refused else "answers"
    ended = "only an attack" in outcome.detail or name in UNFILTERED.values()
    return "killed" if outcome.kind == "killed" and ended else "unclear"


async def _no_tools(request: CallRequest) -> CallReply:
    raise AssertionError(f"no program of the audit calls a tool, and {request.tool} was called")


def _print(found: list[Audit]) -> None:
    rows = [
        (made.tier, made.why)
        if made.why
        else (made.tier, len(made.answers), len(NOT_TRIED), len(made.refused), len(made.killed), len(made.unclear))
        for made in found
    ]
    show(
        f"System calls 0 to {NUMBERS[-1]} inside a jail ({platform.machine()}, Linux {platform.release()})",
        ("tier", "answer", "answer, not tried", "refused", "end the program", "unclear"),
        rows,
    )
    for made in found:
        print(f"\n{made.tier} answers: {', '.join(_marked(name) for name in sorted(made.answers))}")
        print(f"{made.tier} ends the program: {', '.join(sorted(made.killed))}")
        if made.unclear:
            print(f"{made.tier} unclear: {', '.join(made.unclear)}")
    print(f"\n* by its arguments only. Not tried, as they end the program or wait for ever: {', '.join(NOT_TRIED)}")


def _marked(name: str) -> str:
    return f"{name}*" if name in IN_PART else name


@guarded
def main(
    tier: Annotated[str, typer.Option(help="Of tiers, with commas between.")] = ",".join(TIERS), as_json: AsJson = False
) -> None:
    """Print the audit; exit with 1 where a call did something that is neither."""
    found = [asyncio.run(audit(each)) for each in listed(tier, TIERS, "tier")]
    if as_json:
        tiers = [vars(made) for made in found]
        print_json({"not_tried": NOT_TRIED, "by_arguments": IN_PART, "tiers": tiers})
    else:
        _print(found)
    raise typer.Exit(1 if any(made.unclear for made in found) else 0)


if __name__ == "__main__":
    typer.run(main)
