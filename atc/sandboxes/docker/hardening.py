"""How a container is hardened: the options that it is started with, and what must hold inside it afterwards.

Both come from the same figures. ``sandbox/inside.py`` verifies each; one that does not hold is an error.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

from atc.resources import resource_dir
from atc.sandboxes.contract import Limits

SHARED = "/run/atc"
"""Where the container finds the folder that it shares with the host: a socket, for the moment of meeting."""
NOBODY = (65534, 65534)
_OWN = 128 << 20
"""Bytes for what is no program: the parent of all, and the kernel's pages for them."""


@dataclass(frozen=True)
class Hardening:
    """What one container may use: bytes, counts, processors. And who it is: user and group, never the caller."""

    memory_bytes: int
    pids: int
    cpus: float
    tmp_bytes: int = 16 << 20
    files: int = 1024
    user: tuple[int, int] = NOBODY

    @classmethod
    def for_programs(cls, limits: Limits, programs: int) -> Hardening:
        """For so many programs that may each use up their memory at the same time."""
        mebibytes = (limits.memory_bytes * programs + _OWN + (1 << 20) - 1) >> 20
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(memory_bytes=mebibytes << 20, pids=2048, cpus=float(min(cpus, programs)))

    def create_options(self) -> dict[str, Any]:
        """The arguments that create the container: each is an option of ``docker run``."""
        from docker.types import Ulimit

        return {
            "network_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true", f"seccomp={seccomp_profile()}"],
            "pids_limit": self.pids,
            "mem_limit": self.memory_bytes,
            "memswap_limit": self.memory_bytes,  # of both together: no swap
            "nano_cpus": int(self.cpus * 1e9),
            "user": "{}:{}".format(*self.user),
            "tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,size={self.tmp_bytes}"},
            "ipc_mode": "none",
            "ulimits": [
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="nofile", soft=self.files, hard=self.files),
            ],
            "cgroupns": "private",
        }

    def to_verify(self) -> dict[str, Any]:
        """What must hold inside (``verify`` in the settings of the programs' parent)."""
        return {
            "memory_bytes": self.memory_bytes,
            "pids": self.pids,
            "cpus": self.cpus,
            "tmp_bytes": self.tmp_bytes,
            "files": self.files,
            "user": list(self.user),
            "shared": SHARED,
        }


@cache
def seccomp_profile() -> str:
    """The engine's form of our own filter for the whole container (``deploy/seccomp.json``)."""
    return json.dumps(json.loads((resource_dir("deploy") / "seccomp.json").read_text("utf-8")))
