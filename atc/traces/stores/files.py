"""The run store: one folder a run, with its trace (``trace.jsonl``), its journal (``journal.jsonl``), and the
tracebacks of the user's own functions (``traceback-CALL.txt``)."""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from atc.errors import EnvironmentProblem, TraceError, UsageError
from atc.private_folders import close_file, make_private, others_can_write, why_strange
from atc.result import Effect
from atc.traces.events import Event
from atc.traces.reading import read_event

RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
TRASH = ".deleted-"
"""Before the name of a run that is being deleted."""
MAX_TRACEBACK = 200_000
"""Characters of a traceback that are kept."""
_log = logging.getLogger(__name__)


def new_run_id() -> str:
    """Return the name of a new run; names sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


class TraceWriter:
    """Appends events to a file, one line each, as they happen. Without a path they go nowhere.

    A trace only reports. If it cannot be written any more, that is logged and the run goes on. What a run must not
    lose is in its journal.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._ended = path is None

    def write(self, event: Event) -> None:
        """Append an event. Never raises: a trace that cannot be written ends."""
        if not self._ended:
            self.write_line(event.line())

    def write_line(self, text: str) -> None:
        """Append an event as :meth:`Event.line` writes it. Never raises: a trace that cannot be written ends."""
        if self.path is None or self._ended:
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
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    close_file(file.fileno())
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        file.truncate(whole)
    return file


def _close(folder: Path, *, only_runs: bool) -> None:
    """Let nobody else look into a folder of runs; one that has other things in it is the user's to open and close.

    Raises:
        OSError: the folder of a run is a link, or another user's.
    """
    if not hasattr(os, "getuid"):
        return
    status = folder.lstat()
    if not only_runs and (stat.S_ISLNK(status.st_mode) or status.st_uid not in (os.getuid(), 0)):
        what = "it is a link" if stat.S_ISLNK(status.st_mode) else "it is another user's"
        raise OSError(errno.EPERM, what, str(folder))
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or not status.st_mode & 0o077:
        return
    if not only_runs or all(map(_is_of_runs, os.listdir(folder))):
        os.chmod(folder, 0o700)
    elif others_can_write(status):
        _log.warning("others can write to %s, where runs are kept: `chmod go-w` it, or name another folder", folder)


def _is_of_runs(name: str) -> bool:
    return RUN_ID.fullmatch(name.removeprefix(TRASH)) is not None


@dataclass(frozen=True)
class StoredRun:
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

    def make(self) -> None:
        """Make its folder, for its owner's eyes only, and so all that lacks above it. One that others can look into is
        closed to them.

        Raises:
            EnvironmentProblem: it cannot be made, or is another user's.
        """
        fix = "set another folder with ATC_RUNS_DIR, or keep no runs with ATC_KEEP_RUNS=false"
        try:
            make_private(self.folder)
            _close(self.folder.parent, only_runs=True)
            _close(self.folder, only_runs=False)
        except OSError as error:
            raise EnvironmentProblem(f"the run cannot be kept in {self.folder}: {error.strerror}; {fix}") from None

    def why_strange(self) -> str:
        """Why others may have written it; empty where the user alone could (:mod:`atc.private_folders`)."""
        return next(filter(None, map(why_strange, (self.trace, self.journal))), "")

    def keep_traceback(self, number: int, text: str) -> str | None:
        """Write the traceback of a call's exception to a file that only its owner can read.

        Args:
            number: of the call.
            text: in the middle of one over 200,000 characters a part is left out.

        Returns:
            The file's path; ``None`` if it cannot be written: the run goes on without it.
        """
        path = self.folder / f"traceback-{number}.txt"
        half = MAX_TRACEBACK // 2
        if len(text) > MAX_TRACEBACK:
            text = f"{text[:half]}\n… [{len(text) - MAX_TRACEBACK:,} characters left out] …\n{text[-half:]}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                os.fchmod(descriptor, 0o600)  # it may have been there
                file.write(text)
        except OSError as error:
            _log.warning("the traceback of call %d cannot be kept in %s: %s", number, path, error.strerror)
            return None
        return str(path)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield its events, in order; a line that is damaged, or was cut short by a crash, is left out.

        Raises:
            UsageError: a newer version of ATC wrote the trace.
        """
        return (event for _, event in self.numbered(lambda _: None))

    def check(self) -> None:
        """Read all of it.

        Raises:
            TraceError: a line is damaged; one that a crash cut short at the end is not.
            UsageError: a newer version of ATC wrote the trace.
        """
        for _ in self.numbered():
            pass

    def numbered(self, tell: Callable[[TraceError], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield its events with the numbers of their lines, from 1.

        Args:
            tell: is told of each damaged line, which is left out; without it the first one raises.

        Raises:
            TraceError, UsageError: as :meth:`events`.
        """
        with self.trace.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip(b"\0"):
                    continue  # some file systems leave zeros where a crash kept the rest from being written
                try:
                    yield number, read_event(self.trace, number, line)
                except TraceError as error:
                    if not line.endswith(b"\n"):
                        return  # a crash cut it short
                    if tell is None:
                        raise
                    tell(error)

    def latest(self) -> Iterator[dict[str, Any]]:
        """Yield the events of the last task: of a conversation those since it began, else all.

        Raises:
            UsageError: as :meth:`events`.
        """
        turn = start = 0
        for position, event in enumerate(self.events()):
            if event["kind"] == "run_started" and event["data"].get("turn", 0) != turn:
                turn, start = event["data"].get("turn", 0), position
        return islice(self.events(), start, None)

    def begun_writes(self) -> Iterator[tuple[int, bool]]:
        """Yield the numbers of calls with effects that were begun, and of those that were sent (``True``).

        Each event is written only after the journal's record.
        """
        for event in self.events():
            kind, data = event["kind"], event["data"]
            sent = kind == "call_sent"
            if sent or (kind == "call_started" and data.get("effect") != Effect.READ.value):
                number = data.get("index")
                if isinstance(number, int):
                    yield number, sent

    def programs(self) -> tuple[str, ...]:
        """Return the programs that were written, in order."""
        written = (event["data"].get("program") for event in self.latest() if event["kind"] == "program_written")
        return tuple(program for program in written if isinstance(program, str))

    def first(self, kind: str) -> dict[str, Any] | None:
        """Return the data of the first event of a kind, if there is one."""
        return next((event["data"] for event in self.latest() if event["kind"] == kind), None)

    def last(self, kind: str) -> dict[str, Any] | None:
        """Return the data of the last event of a kind, if there is one."""
        found = None
        for event in self.latest():
            if event["kind"] == kind:
                found = event["data"]
        return found


class RunStore:
    """The runs under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, run_id: str) -> StoredRun:
        """Return a run by its id, whether its folder is there yet or not."""
        return StoredRun(run_id, self.folder / run_id)

    def find(self, name: str) -> StoredRun:
        """Return the run whose id is, or begins or ends with, ``name``; ``last`` is the latest.

        Raises:
            UsageError: there is none, or more than one.
        """
        runs = self.list()
        found = (
            runs[:1] if name == "last" else [r for r in runs if r.run_id.startswith(name) or r.run_id.endswith(name)]
        )
        if len(found) != 1:
            what = "no run is" if not found else f"{len(found)} runs are"
            raise UsageError(f"{what} named {name!r} in {self.folder}: `atc runs` lists them")
        return found[0]

    def list(self) -> list[StoredRun]:
        """All runs, the latest first."""
        if not self.folder.is_dir():
            return []
        names = [
            entry.name
            for entry in self.folder.iterdir()
            if RUN_ID.fullmatch(entry.name) and (entry / "trace.jsonl").exists()
        ]
        return [StoredRun(name, self.folder / name) for name in sorted(names, reverse=True)]
