"""The index of a store's runs: their summaries, so that a list of 10,000 runs does not read 10,000 traces.

A summary is kept beside its run, as a note that says of which version of the trace it is; where it lacks or differs,
the trace is read. It goes when the run does. In a process that stays, the rows are also kept in memory, and the trace
of a run in progress is read on from where it was read to.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError

from atc.errors import AtcError, TraceError, UsageError
from atc.traces.reading import FAILS, damaged, read_event
from atc.traces.stores.base import RunStore, StoredRun
from atc.traces.summary import CUT_OFF, RUNNING, RunSummary, summary_of

AT_ONCE_BYTES = 2_000_000
"""Bytes of a trace that one reading takes, and at least one line: nobody waits for 100 MB."""

_ENDS = re.compile(rb'"kind": ?"run_(started|ended)"')
"""In the beginning of a line as :meth:`atc._records.events.Event.line` writes it."""

Line = tuple[int, dict[str, Any] | TraceError]
"""The number of a line, from 1, and its event; or what is wrong with it."""

NOTE = "summary"
"""The name of the note beside a run."""
FORM = 5
"""Of the note: another one is not read."""
MOST_NOTE = 9_000
"""Bytes of a note: a summary that takes more is not kept."""
AT_ONCE = 200
"""Runs whose notes are asked for at once."""
_ROW = TypeAdapter(RunSummary)


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


@dataclass
class _Known:
    """What is known of a run.

    Attributes:
        version: of the trace that the row is of.
        row: its summary.
        follower: reads a trace on that still grew when it was last read.
    """

    version: Hashable
    row: RunSummary
    follower: Follower | None = None


class RunIndex:
    """The summaries of a store's runs. Its methods may be called by any thread; :meth:`refresh` by one at a time.

    Args:
        store: where the runs are.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._held = frozenset[str]()  # of the runs without an end, those that a process worked on at the last look
        self._order: list[str] = []
        self._refreshing = threading.Lock()
        self.unread = 0

    def latest(self, limit: int | None = None) -> list[RunSummary]:
        """The summaries of the latest runs, the latest first.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """
        for _ in self.refresh(limit):
            pass
        return self.rows()[:limit]

    def rows(self) -> list[RunSummary]:
        """The summaries that are known now, the latest first. Nothing is read."""
        known = self._known
        return [self._now(found.row) for run_id in self._order if (found := known.get(run_id)) is not None]

    def row(self, run_id: str) -> RunSummary | None:
        """The summary of a run, if it is known. Nothing is read."""
        found = self._known.get(run_id)
        return self._now(found.row) if found is not None else None

    def _now(self, row: RunSummary) -> RunSummary:
        if row.status == "waiting" and row.until is not None and row.until < time.time():
            return replace(row, status="denied", waits=False)
        if row.status != CUT_OFF:
            return row
        held = row.run_id in self._held
        return replace(row, status=RUNNING if held else CUT_OFF, waits=row.waits and held)

    def refresh(self, limit: int | None = None, ended: Callable[[], bool] = lambda: False) -> Iterator[list[str]]:
        """Look what has changed in the store, the latest runs first.

        Args:
            limit: of runs that are looked at; all by default.
            ended: asked now and then whether to leave the rest.

        Yields:
            The ids of runs that are new, have changed or have gone, in parts.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """
        with self._refreshing:
            versions = self._store.versions()
            self._order = list(versions)
            gone = [run_id for run_id in self._known if run_id not in versions]
            for run_id in gone:
                del self._known[run_id]
            if gone:
                yield gone
            stale = [run_id for run_id in islice(versions, limit) if self._is_stale(run_id, versions[run_id])]
            self.unread = len(stale)
            try:
                for first in range(0, len(stale), AT_ONCE):
                    part = stale[first : first + AT_ONCE]
                    new = [run_id for run_id in part if run_id not in self._known]
                    notes = self._store.notes(NOTE, new) if new else {}
                    yield from self._read(part, notes, versions, ended)
                    if ended():
                        return
            finally:
                self.unread = 0
            if changed := self._look(islice(versions, limit)):
                yield changed

    def _look(self, run_ids: Iterable[str]) -> list[str]:
        without_end = [each for each in run_ids if each in self._known and self._known[each].row.status == CUT_OFF]
        before, self._held = self._held, frozenset(self._store.held(without_end))
        return [run_id for run_id in without_end if (run_id in self._held) != (run_id in before)]

    def _is_stale(self, run_id: str, version: Hashable) -> bool:
        found = self._known.get(run_id)
        return found is None or found.version != version

    def _read(
        self, part: Iterable[str], notes: dict[str, Any], versions: dict[str, Hashable], ended: Callable[[], bool]
    ) -> Iterator[list[str]]:
        changed: list[str] = []
        for run_id in part:
            version = versions[run_id]
            row = _from_note(run_id, version, notes.get(run_id))
            if row is not None:
                self._known[run_id] = _Known(version, row)
            elif not self._from_trace(run_id, version):
                self.unread -= 1
                continue  # it went meanwhile
            self.unread -= 1
            changed.append(run_id)
            if row is None:  # a trace may be long: whoever waits hears of it now
                yield changed
                changed = []
            if ended():
                break
        if changed:
            yield changed

    def _from_trace(self, run_id: str, version: Hashable) -> bool:
        stored, known = self._store.run(run_id), self._known.get(run_id)
        try:
            if known is None:
                self._known[run_id] = fresh = _Known(version, summary_of(stored))
            else:
                fresh = self._read_on(stored, version, known)
        except OSError:
            return False
        except UsageError as error:  # a newer version of ATC wrote it
            self._known[run_id] = _Known(version, RunSummary(run_id, status="unreadable", damage=str(error)))
            return True
        if fresh.row.status == CUT_OFF and run_id not in self._held and stored.is_held():
            self._held |= {run_id}
        if known is None or fresh.row.status != CUT_OFF:
            _keep(stored, version, fresh.row)
        return True

    def _read_on(self, stored: StoredRun, version: Hashable, known: _Known) -> _Known:
        if known.follower is None:
            known = _Known(version, RunSummary(stored.run_id), Follower(stored))
        assert known.follower is not None
        row, follower = known.row, known.follower
        follower.more = True
        while follower.more:
            for number, event in follower.read():
                try:
                    if isinstance(event, TraceError):
                        raise event
                    row.add(event["kind"], event["data"], event["at"])
                except (TraceError, *FAILS) as error:
                    told = error if isinstance(error, TraceError) else damaged(stored.where, number, error)
                    row.status, row.damage = "damaged", row.damage or str(told)
        if row.damage is not None:
            row.status = "damaged"
        fresh = self._known[stored.run_id] = _Known(version, row, follower)
        return fresh


def _from_note(run_id: str, version: Hashable, note: dict[str, Any] | None) -> RunSummary | None:
    if note is None or note.get("v") != FORM or note.get("of") != repr(version):
        return None
    try:
        row = _ROW.validate_python(note.get("row"), strict=False)
    except (ValidationError, RecursionError):
        return None
    row.run_id = run_id
    return row


def _keep(stored: StoredRun, version: Hashable, row: RunSummary) -> None:
    note = {"v": FORM, "of": repr(version), "row": row.record()}
    if len(json.dumps(note)) > MOST_NOTE:
        return
    try:
        stored.keep_note(NOTE, note)
    except (AtcError, OSError):
        return  # a run of another user's, or a disk that is full: the trace is read again next time
