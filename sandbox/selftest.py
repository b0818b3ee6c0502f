"""Tries the forbidden from inside a jail: what must be refused is refused, or the jail is not used."""

import _thread
import os
import resource
import socket
from collections.abc import Callable

import kernel


def open_doors(tier: str) -> list[str]:
    """Return what this process can do and must not, in words; empty in a jail that holds."""
    attempts: dict[str, Callable[[], object]] = {
        "read a file of the system": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "look at processes": lambda: os.listdir("/proc"),
        "write a file": lambda: os.open("/tmp/atc-selftest", os.O_CREAT | os.O_WRONLY, 0o600),
        "make a network socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "make a local socket": lambda: socket.socket(socket.AF_UNIX),
        "start a process": _fork,
        "run a program": lambda: os.execv("/bin/true", ["true"]),
        "signal another process": lambda: os.kill(2 if tier == "N" else os.getppid(), 0),
        "change its user": lambda: os.setgroups([]),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)),
    }
    if tier == "N":
        attempts["see the machine's files"] = lambda: os.stat("/etc/passwd")
    else:
        attempts["list the root folder"] = lambda: os.listdir("/")
        parent = f"/proc/{os.getppid()}/fd/2"  # a pipe: no rule on files keeps anybody from it
        attempts["open its parent's descriptors"] = lambda: os.open(parent, os.O_RDONLY | os.O_NONBLOCK)
    found = [what for what, attempt in attempts.items() if not _refused(attempt)]
    return found + (["see other processes"] if tier == "N" and os.getpid() != 1 else [])


def uncounted_threads() -> list[str]:
    """Return what is wrong if this process may have no more thread and starts one: nobody counts them."""
    try:
        _thread.start_new_thread(os.getpid, ())
    except RuntimeError:
        return []
    return ["start more threads than it may (root without its rights is not counted: use another user)"]


def _fork() -> None:
    if kernel.fork() == 0:
        os._exit(0)


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError):  # setrlimit raises ValueError
        return True
    return False
