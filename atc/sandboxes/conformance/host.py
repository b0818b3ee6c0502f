"""What the sandbox under test holds of this machine: processes, descriptors and threads. Linux."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_ZYGOTE = b"zygote.py"
_DEAD = ("Z", "X")  # dead, and only not yet asked after


def sandbox_processes() -> dict[int, str]:
    """The sandbox processes that this process started, however deep: number → state (``R`` runs, ``S`` waits)."""
    parents: dict[int, int] = {}
    states: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it ended in between
            parents[int(folder.name)], states[int(folder.name)] = int(parent), state
    return {pid: state for pid, state in states.items() if state not in _DEAD and _is_ours(pid, parents)}


def zygotes() -> set[int]:
    """The parents of programs among them."""
    return {pid for pid in sandbox_processes() if _parent(pid) == os.getpid()}


def descriptors() -> int:
    """How many descriptors this process holds open."""
    return len(os.listdir("/proc/self/fd"))


def threads() -> set[threading.Thread]:
    """The threads of this process but those of event loops' own executors, which grow as the loop likes."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    above = pid
    while above in parents and above != os.getpid():
        above = parents[above]
    return above == os.getpid() and pid != os.getpid() and _ZYGOTE in _command(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
