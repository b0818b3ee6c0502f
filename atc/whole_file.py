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
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _resemble(descriptor: int, like: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
