"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Put a text in a file, in place of what was there. A crash leaves the old one or the new one, whole.

    Args:
        path: in a folder that is there.
        text: written as UTF-8.
        mode: of the file, less what the umask takes; by default its owner alone reads it.

    Raises:
        OSError: it cannot be written; nothing is left beside it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
