"""Locks on files: one process at a time. Released by closing the file, and by the end of the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from atc.errors import EnvironmentProblem

_TABLE, _MOUNTS = Path("/proc/locks"), Path("/proc/self/mountinfo")


def lock(file: IO[Any]) -> None:
    """Lock an open file for this process alone, or fail at once.

    Raises:
        BlockingIOError: another holds it.
        OSError: the file system has no locks.
        EnvironmentProblem: the operating system has no such locks.
    """
    fcntl = _fcntl()
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: IO[Any]) -> None:
    """Release a lock before its file is closed: a process that another thread is just starting may have it open too."""
    fcntl = _fcntl()
    fcntl.flock(file, fcntl.LOCK_UN)


def locked(paths: Iterable[Path]) -> set[Path]:
    """Return those of these files that a process of this machine has locked, this one included.

    It takes no lock, so it keeps nobody from one: it reads the kernel's table of locks. That is on Linux alone, and the
    table does not list the locks of another container's processes.
    """
    devices = dict[Path, str]()
    found = set[Path]()
    table = _table()
    for path in paths if table else ():
        with contextlib.suppress(OSError):
            inode = path.stat().st_ino
            if inode not in table:
                continue  # nearly all: their folder is not looked at
            if path.parent not in devices:
                devices[path.parent] = _device(path.parent)
            if devices[path.parent] in table[inode]:
                found.add(path)
    return found


def _table() -> dict[int, set[str]]:
    """The devices, as MAJOR:MINOR, of all locked files by their inodes."""
    found: dict[int, set[str]] = {}
    try:
        lines = _TABLE.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return found
    for line in lines:
        with contextlib.suppress(ValueError):  # a line of one that waits for a lock has another form
            _, kind, _, _, _, file, *_ = line.split()
            major, minor, inode = file.split(":")
            if kind == "FLOCK":
                found.setdefault(int(inode), set()).add(f"{int(major, 16)}:{int(minor, 16)}")
    return found


def _device(folder: Path) -> str:
    """The device of a folder, as the kernel names it in its tables: `stat` has another one on btrfs and overlays.

    Raises:
        OSError: the folder or its mount is not found.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        about = dict(line.split(":", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
    finally:
        os.close(descriptor)
    mount = about.get("mnt_id", "").strip()
    for line in _MOUNTS.read_text("utf-8", "replace").splitlines():
        number, _, device, *_ = line.split()
        if number == mount:
            return device
    raise OSError(f"{folder} is on no mount that is listed")


def _fcntl() -> Any:
    """Imported here, so that ATC can be imported where it is not."""
    try:
        import fcntl
    except ImportError:
        raise EnvironmentProblem(
            "this operating system has no flock, which ATC locks its files with: use Linux or macOS; on Windows, WSL 2"
        ) from None
    return fcntl
