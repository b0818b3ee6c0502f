"""The file of a journal: JSON lines that are only appended, one process at a time, read back after a crash.

Every record begins with its number, and then says what it is: ``call`` (``begin``, ``sent``, ``value``, ``failed``),
``stage``, ``ban``, ``pending``, ``decision``, ``reads_again``, ``start``, ``reply``, ``plan``, ``apply``, ``settled``,
``undo``, ``run_key`` or ``reads_after``. A reader that does not know a record refuses the whole file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from atc._host.files import close_file, lock, open_plain, unlock
from atc.errors import JournalError, RunInUse

WHAT_NOW = (
    "calls that were made may be missing from it, and would be made again. See what was done (`atc runs show`, and at "
    "the service itself), then start the task anew"
)
_KINDS = "call stage ban pending decision reads_again reads_after plan apply start reply settled undo run_key"
_HEADS = tuple(f'{{"{kind}": '.encode() for kind in _KINDS.split())  # how every record begins
_RECORD = re.compile(
    rb'\{"(?:call": \d+, "(?:begin|sent|value|failed)|stage": \d+, "commits|ban": "(?:[^"\\]|\\.)*+", "by'
    rb'|pending": \d+, "tool|decision": \d+, "yes|reads_again": \d+, "after'
    rb'|start": "[0-9a-f]*+", "at|reply": \d+, "passed'
    rb'|plan": "[0-9a-f]*+", "calls|apply": \d+, "by|settled": \d+, "done|undo": \d+, "run|run_key|reads_after)": '
)
_UNFINISHED = [
    (re.compile(pattern, re.ASCII), completion)
    for pattern, completion in (
        ("", ""),
        (r'"(?:[^"\\\x00-\x1f]|\\.)*\\?', '""'),
        (r"-|t(ru?)?|f(a(ls?)?)?|n(ul?)?", "null"),
        (r"\.", ".0"),
        (r"e[+-]?", "e0"),
        (r"u[0-9a-f]{0,4}", 'u0041"'),
    )
]
"""Tokens that are cut short, and one that could stand in their place."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class JournalFile:
    """An open journal, locked for this process.

    Args:
        path: the file. It is made, readable by its owner alone, if it is not there.

    Raises:
        JournalError: it cannot be opened, or another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.marks = boot_id()  # until the next start of the machine, what was not synced can be read
        self._file: BinaryIO | None = None
        try:
            self._open()
        except OSError as error:
            self.close()
            raise JournalError(f"cannot use the journal {path}: {error.strerror}") from None
        except JournalError:
            self.close()
            raise

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all records back (:meth:`Records.read`). One that a crash cut short at the very end is dropped."""
        try:
            self._read(apply)
        except OSError as error:
            self.close()
            raise JournalError(f"cannot use the journal {self.path}: {error.strerror}") from None
        except JournalError:
            self.close()
            raise

    def append(self, record: str, *, sync: bool, mark: bool = False) -> None:
        """Append a record, in one write (:meth:`Records.append`). A mark is readable for as long as the machine is not
        started anew, as all that is written is. Where it cannot be written the file is closed: nothing may follow half
        a line.
        """
        if self._file is None:
            raise JournalError(f"the journal {self.path} is closed")
        line = record.encode() + b"\n"
        try:
            if self._file.write(line) != len(line):
                raise OSError(0, "the disk took a part of it only")
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            raise JournalError(f"cannot write the journal {self.path}: {error.strerror}") from None

    def close(self) -> None:
        """Let go of the file. What is appended later fails."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                unlock(self._file)  # a process that another thread is just starting holds it too
            self._file.close()
            self._file = None

    def _open(self) -> None:
        new = not self.path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._file = open_plain(self.path, flags, "r+b", buffering=0)
        close_file(self._file.fileno())
        try:
            lock(self._file)
        except BlockingIOError:
            raise RunInUse(f"the journal {self.path} is in use: another process works on this run") from None
        if new:
            _sync_folder(self.path.parent)

    def _read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        if self._file is None:
            raise JournalError(f"the journal {self.path} is closed")
        content = self._file.read()
        *lines, last = content.split(b"\n")
        ended = last.rstrip(b"\0")  # some file systems leave zeros where a crash kept the rest from being written
        torn = _is_torn(ended)
        if not torn:
            lines.append(ended)
        for line_number, line in enumerate(lines, start=1):
            try:
                apply(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                why = f"{type(error).__name__}: {error}"[:200]  # it may hold all of the line
                raise JournalError(
                    f"{self.path}, line {line_number} is not a journal record ({why}): {WHAT_NOW}"
                ) from None
        if last:  # and only now that all of it is understood: what is refused stays as it is
            self._file.truncate(len(content) - len(last) + (0 if torn else len(ended)))
            if not torn and self._file.write(b"\n") != 1:
                raise OSError(errno.EIO, "the last line cannot be ended")


def boot_id() -> str:
    """Return what names this start of the machine, equal in all its containers; empty where that is not known.

    What a process wrote before it died can be read until the machine itself goes down, also if it was never synced.
    """
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _is_torn(last: bytes) -> bool:
    if not last.startswith(_HEADS):
        return any(head.startswith(last) for head in _HEADS)
    if _RECORD.search(last, 1):
        return False  # a second record, after one that was cut short in front of a value
    try:
        text = last.decode("ascii")
        json.loads(text)
    except json.JSONDecodeError as error:
        completions = [token for unfinished, token in _UNFINISHED if unfinished.fullmatch(text, error.pos)]
        return any(_lacks_only_its_end(text[: error.pos] + token) for token in completions)
    except (ValueError, RecursionError):
        return False
    return False


def _lacks_only_its_end(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos == len(text)
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
