"""Files of the host: locks on them, files that are written whole, and folders that only their owner can read.

And where the data lies that ships with ATC: ``prompts/``, ``protocols/`` and the untrusted ``sandbox/``. In a checkout
they stand beside the package; in a wheel they lie inside it. They are never importable packages.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from atc.errors import EnvironmentProblem

_PACKAGE = Path(__file__).resolve().parents[1]
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
    """As the kernel's tables name it: `stat` has another one on btrfs and overlays. Raises OSError."""
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


# ----------------------------------------------------------------------------------------------------------------------
# Files that are written whole or not at all.


@contextlib.contextmanager
def replaced(path: Path, mode: int = 0o600, *, like: os.stat_result | None = None) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of another at the end. A crash leaves the old one or the new one, whole.

    Args:
        path: in a folder that is there.
        mode: of the file, less what the umask takes; by default its owner alone reads it.
        like: a file whose mode and owner it gets instead.

    Raises:
        OSError: it cannot be written; nothing is left beside it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if like is not None:
                _resemble(descriptor, like)
            yield file
            file.flush()
            os.fsync(descriptor)  # else a power cut may leave the new name with nothing in it
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def write_whole(path: Path, text: str, mode: int = 0o600, *, like: os.stat_result | None = None) -> None:
    """Put a text in a file, in place of what was there, as UTF-8 (:func:`replaced`).

    Raises:
        OSError: it cannot be written; nothing is left beside it.
    """
    with replaced(path, mode, like=like) as file:
        file.write(text.encode())


def open_plain(path: Path, flags: int = os.O_RDONLY, mode: str = "rb", buffering: int = -1) -> BinaryIO:
    """Open a regular file; one that is made is its owner's alone.

    Raises:
        OSError: it cannot be opened, or is none: a pipe would be waited for, and a device read, without end.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0), 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    return cast(BinaryIO, os.fdopen(descriptor, mode, buffering))


def read_own(path: Path, most: int) -> bytes:
    """Read a file that only its owner may have written, who is the user or root.

    Args:
        path: a regular file.
        most: bytes that it may have.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: it has more bytes, or others can write it.
    """
    with open_plain(path) as file:
        about = os.fstat(file.fileno())
        if about.st_uid not in (os.getuid(), 0) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError("others can write it: look at what it says, and `chmod go-w` it")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def _resemble(descriptor: int, like: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


# ----------------------------------------------------------------------------------------------------------------------
# Folders that only their owner can read, and whether a folder is somebody's own, all the way up.
#
# What is found in a folder was written by whoever could write there. A folder is the user's own where the user or root
# owns it and all above it, and nobody else can write to any of them: neither the world nor a group with other members.
# A folder in which each may remove only what is theirs (``/tmp``) does no harm above one's own.


def make_private(folder: Path) -> None:
    """Make a folder and all that lacks above it, each for its owner alone, whatever the umask is.

    Raises:
        OSError: it cannot be made, or something else has its name.
    """
    missing = []
    level = Path(os.path.abspath(folder))
    while not os.path.lexists(level):
        missing.append(level)
        level = level.parent
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:  # another process was quicker
            continue
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(folder))


def close_file(descriptor: int) -> None:
    """Let nobody but its owner read an open file, where that is this user."""
    if not hasattr(os, "getuid"):
        return
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)


def why_strange(path: Path) -> str:
    """Return why others may have written what is at a path; empty where it is the user's own."""
    if not hasattr(os, "getuid"):
        return f"whose {path} is cannot be told on this system"
    try:
        for each in _chain(path):
            if why := _why(each, os.lstat(each)):
                return why
    except FileNotFoundError:
        return ""  # nobody wrote it
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    return ""


def others_can_write(status: os.stat_result) -> bool:
    """Return whether somebody else than the owner can write there; a group of the owner alone is nobody else."""
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_of_one(status)))


def others_can_read(status: os.stat_result) -> bool:
    """Return whether somebody else than the owner can read there; a group of the owner alone is nobody else."""
    return bool(status.st_mode & stat.S_IROTH or (status.st_mode & stat.S_IRGRP and not _is_of_one(status)))


def _why(path: Path, status: os.stat_result) -> str:
    if status.st_uid not in (os.getuid(), 0):
        return f"another user owns {path}"
    if stat.S_ISLNK(status.st_mode):  # who may change it is said by its folder
        return ""
    harmless = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return f"others can write to {path}" if others_can_write(status) and not harmless else ""


def _chain(path: Path) -> list[Path]:
    named = Path(os.path.abspath(path))
    real = Path(os.path.realpath(path))
    return list(dict.fromkeys([*reversed(named.parents), named, *reversed(real.parents), real]))


def _is_of_one(status: os.stat_result) -> bool:
    import grp  # only Unix has them
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


@cache
def resource_dir(name: str) -> Path:
    """Return the folder ``name`` (``prompts``, ``protocols`` or ``sandbox``).

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for base in (_PACKAGE, _PACKAGE.parent):
        path = base / name
        if path.is_dir() and not (path / "__init__.py").exists():
            return path
    where = f"looked in {_PACKAGE} and beside it"
    raise FileNotFoundError(f"atc is installed without its {name}/ folder ({where}): reinstall it")
