"""Folders that only their owner can read, and whether a folder is somebody's own, all the way up.

What is found in a folder was written by whoever could write there. A folder is the user's own where the user or root
owns it and all above it, and nobody else can write to any of them: neither the world nor a group with other members. A
folder in which each may remove only what is theirs (``/tmp``) does no harm above one's own.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


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
    """Why others may have written what is at a path; empty where it is the user's own.

    Args:
        path: of a file or folder.
    """
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
    """Whether somebody else than the owner can write there; a group of the owner alone is nobody else."""
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_of_one(status)))


def _why(path: Path, status: os.stat_result) -> str:
    if status.st_uid not in (os.getuid(), 0):
        return f"another user owns {path}"
    if stat.S_ISLNK(status.st_mode):  # who may change it is said by its folder
        return ""
    harmless = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    return f"others can write to {path}" if others_can_write(status) and not harmless else ""


def _chain(path: Path) -> list[Path]:
    """A path and all folders above it, as it is named and as it really is."""
    named = Path(os.path.abspath(path))
    real = Path(os.path.realpath(path))
    return list(dict.fromkeys([*reversed(named.parents), named, *reversed(real.parents), real]))


def _is_of_one(status: os.stat_result) -> bool:
    """Whether a group is the private one of the owner: of the same name, with no other member."""
    import grp  # only Unix has them
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}
