"""Reads a trace on from where it was read to, while this process or another one writes it."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from atc.errors import TraceError
from atc.traces.reading import read_event
from atc.traces.stores.base import StoredRun

AT_ONCE_BYTES = 2_000_000
"""Bytes of a trace that one reading takes, and at least one line: nobody waits for 100 MB."""

_ENDS = re.compile(rb'"kind": ?"run_(started|ended)"')
"""In the beginning of a line as :meth:`atc.traces.events.Event.line` writes it."""

Line = tuple[int, dict[str, Any] | TraceError]
"""The number of a line, from 1, and its event; or what is wrong with it."""


class Follower:
    """Follows one trace. Its methods read from disk or a database: call them in a thread.

    Args:
        stored: the run.
        after: number of the last line that is known already.

    Attributes:
        number: of the last whole line that was read.
        more: whether something may be unread.
        status: of the run, as far as it was read; ``cut off`` while it goes on.
        source: where its tools are, as its first task has it.
    """

    def __init__(self, stored: StoredRun, after: int = 0) -> None:
        self.stored, self.number, self.more = stored, 0, True
        self.status = "cut off"
        self.source: Any = None
        self._skip_to, self._where = after, stored.where
        self._position = 0
        self._version: Hashable = None

    def read(self, most_bytes: int = AT_ONCE_BYTES) -> list[Line]:
        """The next lines; none where nothing was written since.

        Raises:
            FileNotFoundError: the run has gone.
            OSError: it cannot be read.
            UsageError: a newer version of ATC wrote it.
        """
        version = self.stored.version()  # before it is read: what is written meanwhile is another version
        if version is None:
            raise FileNotFoundError(f"run {self.stored.run_id} has gone")
        if version == self._version and not self.more:
            return []
        found: list[Line] = []
        taken = 0
        self.more = False
        for position, line in self.stored.lines_from(self._position):
            if not line.endswith(b"\n"):
                break  # it is being written, or a crash cut it short
            self._position = position
            self.number += 1
            if self.number <= self._skip_to and not _ENDS.search(line, 0, 64):
                continue
            if not line.strip(b"\0\n"):
                continue  # some file systems leave zeros where a crash kept the rest from being written
            event = self._event(line)
            if self.number <= self._skip_to:
                continue
            found.append((self.number, event))
            taken += len(line)
            if taken >= most_bytes:
                self.more = True
                break
        self._version = version
        return found

    def _event(self, line: bytes) -> dict[str, Any] | TraceError:
        try:
            event = read_event(self._where, self.number, line)
        except TraceError as error:
            return error
        if event["kind"] == "run_started":
            self.source = event["data"].get("source") if self.source is None else self.source
            self.status = "cut off"
        elif event["kind"] == "run_ended":
            self.status = str(event["data"].get("status", "cut off"))
        return event


def line_of(stored: StoredRun, number: int) -> dict[str, Any]:
    """The event of one line.

    Raises:
        LookupError: the trace has no such line.
        TraceError: it is damaged.
        OSError, UsageError: as :meth:`Follower.read`.
    """
    if number < 1:
        raise LookupError(f"lines are counted from 1, and {number} is none")
    for found, (_, line) in enumerate(stored.lines_from(0), start=1):
        if found == number:
            return read_event(stored.where, number, line)
    raise LookupError(f"the trace of run {stored.run_id} has no line {number}")
