"""The resources of this machine for a model: cores, instructions and memory, within the limits of its control group."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_log = logging.getLogger(__name__)

ROOT = Path("/")
NEEDED = frozenset({"avx2", "fma", "f16c"})
"""Instructions that the runtime's wheels for x86-64 use without asking."""
ALL_THREADS = 4
"""On so few processors each gets a thread; on more, each core, for two threads of one core share its arithmetic."""
COMPUTE_BYTES = 150_000_000
"""For what is computed, whatever the model."""
REPACKED = 0.7
"""The share of a model's file that is laid out anew in memory, beside the file itself."""
TOKEN_BYTES = 28_672
"""Of attention's keys and values, for a model file of a gigabyte; more in proportion for larger ones."""
LEAST_CONTEXT = 6_144
"""Tokens that prompt and reply of the embedded model need, at least."""


@dataclass(frozen=True)
class Machine:
    """Processors and memory of a machine.

    Attributes:
        processors: that this process may use.
        cores: that they belong to.
        quota: processors that the control group allows, on average; ``None``: all.
        memory: bytes that can still be had; ``None`` where that is not known.
    """

    processors: int
    cores: int
    quota: float | None
    memory: int | None

    @property
    def threads(self) -> int:
        """Threads that a model should compute with."""
        best = self.processors if self.processors <= ALL_THREADS else self.cores
        return max(1, best if self.quota is None else min(best, round(self.quota)))

    def why_threads(self) -> str:
        """The reason for :attr:`threads`, in words."""
        if self.quota is not None and round(self.quota) <= self.threads:
            return f"the control group allows {self.quota:g} processors"
        if self.threads < self.processors:
            return f"{self.processors} processors on {self.cores} cores: one a core"
        return f"{self.processors} processors"


def this_machine(root: Path = ROOT) -> Machine:
    """Look at the machine. ``root`` is where its ``/proc`` and ``/sys`` are."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    siblings = {_text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed}
    cores = len(allowed) if "" in siblings else len(siblings)
    groups = _groups(root)
    quotas = [quota for group in groups if (quota := _quota(group)) is not None]
    rooms = [room for group in groups if (room := _room(group)) is not None]
    if (available := _available(root)) is not None:
        rooms.append(available)
    return Machine(len(allowed), cores, min(quotas, default=None), min(rooms, default=None))


@dataclass(frozen=True)
class Sizes:
    """Slots and context of a model, and the memory for them.

    Attributes:
        slots: replies at the same time.
        context_tokens: for each of them.
        bytes: of memory, about.
        why: what made it less than was wanted; empty where nothing did.
    """

    slots: int
    context_tokens: int
    bytes: int
    why: str = ""


def described(machine: Machine, sizes: Sizes) -> str:
    """Threads and context of the embedded model here, with the reason, in one line."""
    line = f"{machine.threads} threads ({machine.why_threads()}), {sizes.context_tokens:,} tokens of context"
    if sizes.why:
        line += f" ({sizes.why})"
    elif machine.memory is not None:
        line += f" (about {sizes.bytes / 1e9:.1f} of {machine.memory / 1e9:.1f} GB of free memory)"
    return line


def needed_bytes(file_bytes: int, slots: int, context_tokens: int) -> int:
    """Memory that a model's server takes, beside the pages of its file, which the system can drop; about."""
    token = TOKEN_BYTES * max(1.0, file_bytes / 1e9)
    return int(file_bytes * REPACKED + token * slots * context_tokens + COMPUTE_BYTES)


@cache  # once for a process: what is free changes as soon as the model is loaded
def fitting_sizes(file_bytes: int, slots: int, context_tokens: int, fixed: bool = False) -> Sizes:
    """As many slots and tokens as there is memory for: first fewer slots, then half the context, once or twice.

    Args:
        fixed: the context is as the user set it.
    """
    sizes = fit_sizes(this_machine().memory, file_bytes, slots, context_tokens, fixed=fixed)
    if sizes.why:
        _log.warning(
            "the embedded model has %d slots of %d tokens in place of %d of %d: %s",
            *(sizes.slots, sizes.context_tokens, slots, context_tokens, sizes.why),
        )
    return sizes


def fit_sizes(memory: int | None, file_bytes: int, slots: int, context_tokens: int, *, fixed: bool = False) -> Sizes:
    """As :func:`fitting_sizes`, in so much memory."""
    count, tokens = slots, context_tokens
    while memory is not None and (need := needed_bytes(file_bytes, count, tokens)) > memory:
        if count > 1:
            count -= 1
        elif tokens > LEAST_CONTEXT and not fixed:
            tokens = max(LEAST_CONTEXT, tokens // 2)
        else:
            break
    need = needed_bytes(file_bytes, count, tokens)
    why = ""
    if memory is not None and (count, tokens) != (slots, context_tokens):
        why = f"{memory / 1e9:.1f} GB of memory are free"
    return Sizes(count, tokens, need, why)


def missing_library(names: tuple[str, ...] = ("libgomp.so.1", "libstdc++.so.6")) -> str:
    """The first shared library of the system that the runtime's wheel needs and that is missing; or nothing."""
    for name in names if sys.platform == "linux" else ():
        try:
            ctypes.CDLL(name)
        except OSError:
            return name
    return ""


@cache
def missing_instructions(root: Path = ROOT) -> tuple[str, ...]:
    """Instructions of :data:`NEEDED` that the processor does not have."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ()
    for line in _text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return tuple(sorted(NEEDED - set(value.split())))
    return ()


def _groups(root: Path) -> list[Path]:
    found: list[Path] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path, *_ = [*line.split(":", 2), "", ""]
        for controller in controllers.split(",") if controllers else [""]:
            if controller not in ("", "cpu", "memory"):
                continue
            top = root / "sys/fs/cgroup" / controller
            group = top / path.strip("/")
            found += [each for each in (group, *group.parents) if each.is_relative_to(top)]
    return found


def _quota(group: Path) -> float | None:
    words = _text(group / "cpu.max").split() or [
        _text(group / "cpu.cfs_quota_us"),
        _text(group / "cpu.cfs_period_us"),
    ]
    with suppress(ValueError, ZeroDivisionError, IndexError):
        quota = int(words[0]) / int(words[1])
        return quota if quota > 0 else None
    return None


def _room(group: Path) -> int | None:
    for limit, used, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        with suppress(ValueError):
            most, taken = int(_text(group / limit)), int(_text(group / used))
            if most < 1 << 60:  # version 1 writes a huge number for no limit
                words = dict(line.split() for line in _text(group / "memory.stat").splitlines() if line.count(" ") == 1)
                dropped = sum(int(words.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
                return max(0, most - taken + dropped)  # pages of files go as soon as the room is needed
    return None


def _available(root: Path) -> int | None:
    found = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        with suppress(ValueError, IndexError):
            found[name] = int(value.split()[0]) * 1024
    return found["MemAvailable"] + found.get("SwapFree", 0) if "MemAvailable" in found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
