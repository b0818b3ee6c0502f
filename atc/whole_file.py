"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o600, *, like: os.stat_result | None = None) -> None:
    """Put a text in a file, in place of what was there. A crash leaves the old one or the new one, whole.

    Args:
        path: in a folder that is there.
        text: written as UTF-8.
        mode: of the file, less what the umask takes; by default its owner alone reads it.
        like: a file whose mode and owner it gets instead.

    Raises:
        OSError: it cannot be written; nothing is left beside it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if like is not None:
                _resemble(descriptor, like)
            file.write(text)
            file.flush()
            os.fsync(descriptor)  # else a power cut may leave the new name with nothing in it
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def read_own(path: Path, most: int) -> bytes:
    """Read a file that only its owner may have written, who is the user or root.

    Args:
        path: a regular file.
        most: bytes that it may have.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more bytes, is no file, or others can write it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not keep us waiting
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no file")
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
