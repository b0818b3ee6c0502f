"""What this kernel has for each tier of isolation, told without the code that is under test.

A test of a tier is skipped only where the kernel lacks what the tier is made of. Where the kernel has it and the
sandbox still says that there is no such tier, the sandbox is broken, and the test fails.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

_LANDLOCK_CREATE_RULESET, _VERSION = 444, 1
_MACHINES = ("x86_64", "aarch64")
_NOBODY = 65534
_NAMESPACES = ("--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--cgroup", "--pid", "--fork")


@cache
def lacking(tier: str) -> str:
    """What a tier needs and this kernel does not give; empty where it gives all."""
    return {"N": _namespaces, "L": _landlock, "F": _seccomp}[tier]()


def without(tier: str, why: object) -> NoReturn:
    """Skip a test whose tier cannot be had; fail it where the kernel has what the tier needs.

    Args:
        tier: of :data:`atc.sandboxes.contract.TIERS`.
        why: what the sandbox said.
    """
    if missing := lacking(tier):
        pytest.skip(f"tier {tier} cannot be had here: {missing}")
    pytest.fail(f"this kernel has what tier {tier} needs, and there is no such tier: {why}", pytrace=False)


def _namespaces() -> str:
    """Namespaces of all kinds, and a mount in them: some systems give the first and refuse the second. They are asked
    for without the rights of root, and Landlock stands behind them."""
    unshare = shutil.which("unshare")
    if missing := _landlock():
        return missing
    if unshare is None:
        return "`unshare` is not installed, so nobody can tell whether there are namespaces"
    nobody = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    tried = subprocess.run(
        [unshare, *_NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **nobody,  # type: ignore[call-overload]
    )
    return tried.stderr.strip() or "namespaces are refused" if tried.returncode else ""


def _landlock() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), _VERSION)
    return "" if abi >= 1 and not _seccomp() else "there is no Landlock"


def _seccomp() -> str:
    if platform.machine() not in _MACHINES:
        return f"its processor is none of {', '.join(_MACHINES)}"
    return "" if "\nSeccomp:" in Path("/proc/self/status").read_text() else "there are no filters of system calls"
