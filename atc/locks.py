"""Locks on files: one process at a time. Released by closing the file, and by the end of the process."""

from __future__ import annotations

from typing import IO, Any

from atc.errors import EnvironmentProblem


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


def _fcntl() -> Any:
    """Imported here, so that ATC can be imported where it is not."""
    try:
        import fcntl
    except ImportError:
        raise EnvironmentProblem(
            "this operating system has no flock, which ATC locks its files with: use Linux or macOS; on Windows, WSL 2"
        ) from None
    return fcntl
