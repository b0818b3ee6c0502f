"""What the sandbox under test holds of this machine: processes, descriptors and threads. Linux."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from atc.sandboxes.process.cgroup import stat_of

_ZYGOTE = b"zygote.py"
_DEAD = ("Z", "X")  # dead, and only not yet asked after


def sandbox_processes() -> dict[int, str]:
    """The sandbox processes that this process started, however deep: number → state (``R`` runs, ``S`` waits)."""
    parents: dict[int, int] = {}
    states: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            pid = int(folder.name)
            if stat := stat_of(pid):  # or it ended in between
                states[pid], parents[pid] = stat[0], int(stat[1])
    return {pid: state for pid, state in states.items() if state not in _DEAD and _is_ours(pid, parents)}


def zygotes() -> set[int]:
    """The parents of programs among them."""
    return {pid for pid in sandbox_processes() if stat_of(pid)[1:2] == [str(os.getpid())]}


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
