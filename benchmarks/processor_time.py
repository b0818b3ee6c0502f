"""Processor time of a process and of all that it started, by ``/proc``. Linux."""

from __future__ import annotations

import contextlib
import os

_TICKS = os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found


def own_s(pid: int) -> tuple[float, float]:
    """Seconds of a process itself, and of the children that it has waited for; zero when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()[11:15]
    except OSError:
        return 0.0, 0.0
    user, system, of_children, of_children_system = (int(field) / _TICKS for field in fields)
    return user + system, of_children + of_children_system


def family_s(pid: int) -> float:
    """Seconds of a process, of its living descendants, and of all that any of them has waited for.

    Work that the kernel does in processes of its own (taking down a namespace) is not in it.
    """
    return sum(own_s(pid)) + sum(family_s(child) for child in children(pid))
