"""The run store in a folder: one folder a run, with its trace (``trace.jsonl``), its journal (``journal.jsonl``),
notes, and the tracebacks of the user's own functions (``traceback-CALL.txt``)."""

from __future__ import annotations

import builtins
import contextlib
import errno
import heapq
import json
import logging
import os
import shutil
import stat
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from atc._host.files import close_file, locked, make_private, open_plain, others_can_write, why_strange
from atc.calls.journal import Journal
from atc.errors import EnvironmentProblem, UsageError
from atc.traces.stores.base import RUN_ID, RecentJournal, RunStore, StoredRun, shortened

TRASH = ".deleted-"
"""Before the name of a run that is being deleted."""
MAX_NOTE = 10_000
"""Bytes of a note that are read."""
_FIX = "set another folder with ATC_RUNS_DIR, or keep no runs with ATC_KEEP_RUNS=false"
_log = logging.getLogger(__name__)


class FileTrace:
    """Appends events to a file (:class:`atc.traces.stores.base.TraceWriter`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._ended = False

    def write_line(self, text: str) -> None:
        """Append an event as :meth:`Event.line` writes it. Never raises: a trace that cannot be written ends."""
        if self._ended:
            return
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            self._file = self._file or _open(self.path)
            if self._file.write(line) != len(line):
                raise OSError(0, "the disk took a part of an event only")
        except OSError as error:
            _log.warning("the trace %s ends here: %s", self.path, error.strerror)
            self.close()

    def close(self) -> None:
        """End the trace; later events are dropped."""
        self._ended = True
        if self._file is not None:
            self._file.close()
            self._file = None


def _open(path: Path) -> BinaryIO:
    """Open a trace for more events. A line that a crash cut short is removed: what follows would be unreadable."""
    file = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, "r+b", buffering=0)
    close_file(file.fileno())
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        file.truncate(whole)
    return file


def _close(folder: Path, *, only_runs: bool) -> None:
    """Raises OSError: it is a link, or another user's. One with other things in it is the user's to close."""
    if not hasattr(os, "getuid"):
        return
    status = folder.lstat()
    if not only_runs and (stat.S_ISLNK(status.st_mode) or status.st_uid not in (os.getuid(), 0)):
        what = "it is a link" if stat.S_ISLNK(status.st_mode) else "it is another user's"
        raise OSError(errno.EPERM, what, str(folder))
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or not status.st_mode & 0o077:
        return
    if not only_runs or all(RUN_ID.fullmatch(name.removeprefix(TRASH)) for name in os.listdir(folder)):
        os.chmod(folder, 0o700)
    elif others_can_write(status):
        _log.warning("others can write to %s, where runs are kept: `chmod go-w` it, or name another folder", folder)


@dataclass(frozen=True)
class FileRun(StoredRun):
    """A run on disk."""

    run_id: str
    folder: Path

    @property
    def trace(self) -> Path:
        """The file of its events."""
        return self.folder / "trace.jsonl"

    @property
    def journal(self) -> Path:
        """The file of its journal."""
        return self.folder / "journal.jsonl"

    @property
    def where(self) -> str:
        return str(self.trace)

    @property
    def exists(self) -> bool:
        return self.trace.is_file()

    @property
    def has_journal(self) -> bool:
        return self.journal.exists()

    def make(self) -> None:
        """Make its folder, and so all that lacks above it. One that others can look into is closed to them.

        Raises:
            EnvironmentProblem: it cannot be made, or is another user's.
        """
        try:
            make_private(self.folder)
            _close(self.folder.parent, only_runs=True)
            _close(self.folder, only_runs=False)
        except OSError as error:
            raise EnvironmentProblem(f"the run cannot be kept in {self.folder}: {error.strerror}; {_FIX}") from None

    def why_strange(self) -> str:
        """Why others may have written it; empty where the user alone could (:mod:`atc._host.files`)."""
        return next(filter(None, map(why_strange, (self.trace, self.journal))), "")

    def lines(self) -> Iterator[bytes]:
        with open_plain(self.trace) as file:
            yield from file

    def lines_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        with open_plain(self.trace) as file:
            file.seek(position)  # in bytes
            for line in file:
                position += len(line)
                yield position, line

    def open_trace(self) -> FileTrace:
        return FileTrace(self.trace)

    def open_journal(self) -> Journal:
        return Journal(self.journal)

    def is_held(self) -> bool:
        return bool(locked([self.journal]))

    def keep_traceback(self, number: int, text: str) -> str | None:
        path = self.traceback_place(number)
        try:
            _write(Path(path), shortened(text))
        except OSError as error:
            _log.warning("the traceback of call %d cannot be kept in %s: %s", number, path, error.strerror)
            return None
        return path

    def traceback_place(self, number: int) -> str:
        return str(self.folder / f"traceback-{number}.txt")

    def keep_note(self, name: str, note: Mapping[str, Any]) -> None:
        try:
            _write(self.folder / f"{name}.json", json.dumps(note))
        except OSError as error:
            raise EnvironmentProblem(f"the run cannot be kept in {self.folder}: {error.strerror}") from None

    def note(self, name: str) -> dict[str, Any] | None:
        try:
            with open_plain(self.folder / f"{name}.json") as file:
                note = json.loads(file.read(MAX_NOTE))
        except (OSError, ValueError, RecursionError):
            return None
        return note if isinstance(note, dict) else None

    def version(self) -> Hashable:
        try:
            status = self.trace.stat()
        except OSError:
            return None
        return _version(status) if stat.S_ISREG(status.st_mode) else None

    def peeked(self) -> Iterator[bytes]:
        with open_plain(self.journal) as file:
            yield from file

    def journal_version(self) -> Hashable:
        try:
            return _version(self.journal.stat())
        except OSError:
            return None

    def delete(self, *, in_doubt: bool = False) -> None:
        if self.folder.is_symlink():
            raise UsageError(f"run {self.run_id} is kept: {self.folder} is a link to another folder")
        super().delete(in_doubt=in_doubt)

    def remove(self) -> None:
        """Delete the folder, gone at once."""
        trash = self.folder.with_name(TRASH + self.run_id)
        try:
            os.replace(self.folder, trash)
            shutil.rmtree(trash)
        except OSError as error:
            raise EnvironmentProblem(f"{self.folder} cannot be deleted: {error.strerror or error}") from None


def _version(status: os.stat_result) -> Hashable:
    return status.st_size, status.st_mtime_ns


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also where it has been there."""
    with open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text.encode("utf-8", "replace"))


class FileStore(RunStore):
    """The runs under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def where(self) -> str:
        return str(self.folder)

    def run(self, run_id: str) -> FileRun:
        return FileRun(run_id, self.folder / run_id)

    def versions(self) -> dict[str, Hashable]:
        found: dict[str, Hashable] = {}
        try:
            names = [name for name in os.listdir(self.folder) if RUN_ID.fullmatch(name)]
        except (FileNotFoundError, NotADirectoryError):
            return found
        folder = os.path.abspath(self.folder)
        for name in sorted(names, reverse=True):
            with contextlib.suppress(OSError):
                status = os.stat(f"{folder}/{name}/trace.jsonl")
                if stat.S_ISREG(status.st_mode):
                    found[name] = _version(status)
        return found

    def held(self, run_ids: Iterable[str]) -> set[str]:
        journals = {self.run(run_id).journal: run_id for run_id in run_ids}
        return {journals[path] for path in locked(journals)} if journals else set()

    def everything(self) -> builtins.list[StoredRun]:
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in self.folder.iterdir() if RUN_ID.fullmatch(entry.name)]
        return [FileRun(name, self.folder / name) for name in sorted(names, reverse=True)]

    def recent(self, most: int, seconds: float) -> builtins.list[RecentJournal]:
        if not self.folder.is_dir():
            return []
        names = [entry.name for entry in os.scandir(self.folder) if RUN_ID.fullmatch(entry.name)]
        oldest, found = time.time() - seconds, builtins.list[RecentJournal]()
        for run in (self.run(name) for name in heapq.nlargest(most, names)):
            try:
                status = run.journal.stat()
            except OSError:
                continue  # it was just pruned, or has none
            if status.st_size and status.st_mtime >= oldest:
                found.append((run, _version(status)))
        return found

    def check(self) -> None:
        """Make sure that its folder may be written, or the nearest above it that is there: a run makes what lacks."""
        there = next((each for each in (self.folder, *self.folder.parents) if os.path.lexists(each)), self.folder)
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise EnvironmentProblem(f"runs cannot be kept in {self.folder}: {there} cannot be written", fix=_FIX)

    def close(self) -> None:
        """Nothing is open."""

    def sweep(self) -> None:
        for left in self.folder.glob(f"{TRASH}*"):
            shutil.rmtree(left, ignore_errors=True)
