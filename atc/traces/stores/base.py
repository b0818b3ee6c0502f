"""What a run store is: runs by name, each with its trace, its journal and small notes beside them.

There is one in a folder (:mod:`atc.traces.stores.files`), and one in a database (:mod:`atc.traces.stores.postgres`);
:func:`atc.traces.stores.open_store` opens the one that the settings name.
"""

from __future__ import annotations

import builtins
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from atc.calls.journal import Journal
from atc.calls.journal_records import PeekedRecords
from atc.errors import AtcError, EnvironmentProblem, JournalError, TraceError, UsageError
from atc.result import Effect

RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
MAX_TRACEBACK = 200_000
"""Characters of a traceback that are kept."""


def new_run_id() -> str:
    """Return the name of a new run; names sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def shortened(traceback: str) -> str:
    """A traceback as it is kept: of a long one a part in the middle is left out."""
    half = MAX_TRACEBACK // 2
    left_out = len(traceback) - MAX_TRACEBACK
    if left_out <= 0:
        return traceback
    return f"{traceback[:half]}\n… [{left_out:,} characters left out] …\n{traceback[-half:]}"


class RunInDoubt(UsageError):
    """A run is not deleted: only its journal says what may have happened."""


class TraceWriter(Protocol):
    """Appends the events of a run, one line each, as they happen.

    A trace only reports. If it cannot be written any more, that is logged and the run goes on. What a run must not
    lose is in its journal.
    """

    def write_line(self, text: str) -> None:
        """Append an event as :meth:`Event.line` writes it. Never raises: a trace that cannot be written ends."""

    def close(self) -> None:
        """End the trace; later events are dropped."""


class NoTrace:
    """The trace of a run that is not kept."""

    def write_line(self, text: str) -> None:
        """Drop an event."""

    def close(self) -> None:
        """Nothing is open."""


class StoredRun(ABC):
    """A run in a store, whether it is there yet or not.

    Attributes:
        run_id: its name.
    """

    run_id: str

    @property
    @abstractmethod
    def where(self) -> str:
        """Where its trace is, for people to read; without a password."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether it has a trace."""

    @property
    @abstractmethod
    def has_journal(self) -> bool:
        """Whether it has a journal."""

    @abstractmethod
    def make(self) -> None:
        """Make its place in the store, for its owner's eyes only.

        Raises:
            EnvironmentProblem: it cannot be made, or is another user's.
        """

    @abstractmethod
    def why_strange(self) -> str:
        """Why others may have written it; empty where the user alone could."""

    @abstractmethod
    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its trace, each with its end; the last may lack it, where a crash cut it short.

        Raises:
            OSError: there is no trace, or it cannot be read.
        """

    def lines_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of its trace from a position on, each with the position after it.

        Args:
            position: 0, or one that this method gave. What it counts is the store's own business.

        Raises:
            OSError: as :meth:`lines`.
        """
        return enumerate(islice(self.lines(), position, None), start=position + 1)

    @abstractmethod
    def open_trace(self) -> TraceWriter:
        """Its trace, for more events. It is opened at the first one."""

    @abstractmethod
    def open_journal(self) -> Journal:
        """Its journal, which nobody else can write until it is closed.

        Raises:
            JournalError: it cannot be read, written or understood, or another process works on the run.
        """

    @abstractmethod
    def is_held(self) -> bool:
        """Whether a process works on the run now, this one included. It may be over when this returns.

        Raises:
            EnvironmentProblem: the store does not answer.
        """

    @abstractmethod
    def keep_traceback(self, number: int, text: str) -> str | None:
        """Keep the traceback of a call's exception where only the owner can read it.

        Args:
            number: of the call.
            text: as :func:`shortened` keeps it.

        Returns:
            :meth:`traceback_place`; ``None`` if it cannot be written: the run goes on without it.
        """

    @abstractmethod
    def traceback_place(self, number: int) -> str:
        """Where the traceback of a call is, if it was kept; for people to read."""

    @abstractmethod
    def keep_note(self, name: str, note: Mapping[str, Any]) -> None:
        """Keep a small JSON object beside the run, in place of the one of that name.

        Args:
            name: letters alone.
            note: plain JSON values.

        Raises:
            EnvironmentProblem: it cannot be written.
        """

    @abstractmethod
    def note(self, name: str) -> dict[str, Any] | None:
        """The note of that name; ``None`` where there is none that can be read.

        Raises:
            EnvironmentProblem: the store does not answer.
        """

    @abstractmethod
    def version(self) -> Hashable:
        """What changes when the trace does; ``None`` where there is none."""

    @abstractmethod
    def peeked(self) -> Iterator[bytes]:
        """Yield the records of its journal as JSON lines, though another process may be writing it: the last may be
        cut short.

        Raises:
            OSError, EnvironmentProblem: it cannot be read.
        """

    def peek_journal(self) -> Journal:
        """Its journal as it stands, only to look at: it cannot be written, and nobody is kept from the run meanwhile.

        Raises:
            JournalError: it cannot be understood.
            OSError, EnvironmentProblem: it cannot be read.
        """
        return Journal(PeekedRecords(f"{self.where} (its journal)", self.peeked()))

    def journal_version(self) -> Hashable:
        """What changes when the journal does; ``None`` where that cannot be told but by reading it.

        Raises:
            EnvironmentProblem: the store does not answer.
        """
        return None

    def delete(self, *, in_doubt: bool = False) -> None:
        """Delete the run: its trace, its journal, and whatever else is kept of it.

        Args:
            in_doubt: also where a write is in doubt, of which nothing else tells.

        Raises:
            UsageError: the run is in progress or in doubt, or its journal cannot be read.
            EnvironmentProblem: it cannot be deleted.
        """
        try:
            journal = self.open_journal() if self.has_journal else None
        except JournalError as error:
            raise UsageError(f"run {self.run_id} is kept: {error}") from None
        try:
            if journal is not None and not in_doubt and (doubtful := journal.in_doubt()) is not None:
                what = f"{doubtful.tool} may or may not have happened"
                raise RunInDoubt(
                    f"run {self.run_id} is kept: {what}; settle it with `atc runs settle {self.run_id}`, or delete it "
                    f"all the same with `atc runs delete {self.run_id} --in-doubt`",
                )
            self.remove()
        finally:
            if journal is not None:
                journal.close()

    @abstractmethod
    def remove(self) -> None:
        """Remove all that is kept of it, while this process holds its journal: nobody resumes what is half deleted.

        Raises:
            UsageError: it is kept.
            EnvironmentProblem: it cannot be deleted.
        """

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
        from atc.traces.reading import read_event

        for number, line in enumerate(self.lines(), start=1):
            if not line.strip(b"\0"):
                continue  # some file systems leave zeros where a crash kept the rest from being written
            try:
                yield number, read_event(self.where, number, line)
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


RecentJournal = tuple[StoredRun, Hashable]
"""A run, and what changes when its journal does."""


class RunStore(ABC):
    """Runs in one place."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Where it is, for people to read; without a password."""

    @abstractmethod
    def run(self, run_id: str) -> StoredRun:
        """Return the run of that id, whether it is there yet or not."""

    def list(self) -> list[StoredRun]:
        """All runs that have a trace, the latest first.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """
        return [self.run(run_id) for run_id in self.versions()]

    @abstractmethod
    def versions(self) -> dict[str, Hashable]:
        """The :meth:`StoredRun.version` of all runs that have a trace, by their ids, the latest first.

        Raises:
            OSError, EnvironmentProblem: as :meth:`list`.
        """

    def notes(self, name: str, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The notes of that name of these runs, by their ids; without those that have none that can be read."""
        found = ((run_id, self.run(run_id).note(name)) for run_id in run_ids)
        return {run_id: note for run_id, note in found if note is not None}

    def held(self, run_ids: Iterable[str]) -> set[str]:
        """Those of these runs that a process works on now (:meth:`StoredRun.is_held`).

        Raises:
            EnvironmentProblem: the store does not answer.
        """
        return {run_id for run_id in run_ids if self.run(run_id).is_held()}

    @abstractmethod
    def everything(self) -> builtins.list[StoredRun]:
        """All that is kept of any run, also where there is no trace; the latest first.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """

    @abstractmethod
    def recent(self, most: int, seconds: float) -> builtins.list[RecentJournal]:
        """The runs whose journal was written within so many seconds, of the newest ``most`` runs; the latest first.

        Raises:
            OSError, EnvironmentProblem: the store cannot be read.
        """

    @abstractmethod
    def check(self) -> None:
        """Make sure that runs can be kept here, before anything runs.

        Raises:
            EnvironmentProblem: they cannot; the message says what to do.
        """

    @abstractmethod
    def sweep(self) -> None:
        """Remove what deleting left behind where a process ended in the middle. Never raises."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections, if there are any."""

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
            raise UsageError(f"{what} named {name!r} in {self.where}: `atc runs` lists them")
        return found[0]


DELETED_AT_ONCE = 50
"""Runs that the end of a run deletes at most: nobody waits until thousands are deleted."""


@dataclass
class Pruned:
    """The result of :func:`prune`.

    Attributes:
        deleted: ids of the runs that were deleted.
        spared: old runs that were kept, each with the reason. ``in_doubt``: of these, those with a write in doubt.
    """

    deleted: list[str] = field(default_factory=list)
    spared: dict[str, str] = field(default_factory=dict)
    in_doubt: dict[str, str] = field(default_factory=dict)


def prune(store: RunStore, keep: int | None, *, days: float | None = None, at_most: int | None = None) -> Pruned:
    """Delete old runs, the oldest first. Never raises.

    Args:
        store: where they are.
        keep: how many of the newest stay; ``None``: all.
        days: what began earlier than so many days ago goes too, by the time in its name.
        at_most: so many are deleted now.
    """
    try:
        runs = [*store.versions()]
    except (OSError, EnvironmentProblem):
        return Pruned()  # a store that cannot be read: the run that goes on matters more
    before = "" if days is None else time.strftime("%Y%m%d-%H%M%S", time.localtime(time.time() - days * 86_400))
    names = (name for place, name in enumerate(runs) if (keep is not None and place >= keep) or name < before)
    old = [store.run(name) for name in names]
    waiting = [run for run in old if _waits(run)]
    pruned = delete((run for run in reversed(old) if run not in waiting), at_most=at_most)
    pruned.spared |= {run.run_id: "calls of it wait for approval (`atc runs approvals`)" for run in waiting}
    store.sweep()
    return pruned


def _waits(stored: StoredRun) -> bool:
    try:
        ended = stored.last("run_ended") or {}
        pending = ended["pending"] if ended.get("status") == "waiting" else ()
        return any(call["until"] > time.time() for call in pending)
    except (OSError, AtcError, LookupError, TypeError):
        return False


def delete(runs: Iterable[StoredRun], *, at_most: int | None = None, in_doubt: bool = False) -> Pruned:
    """Delete runs, at most so many. Never raises.

    A run in progress is never deleted, nor one with a write in doubt: its journal is all that says what may have
    happened.

    Args:
        runs: in this order.
        at_most: so many are deleted now.
        in_doubt: also those with a write in doubt.
    """
    pruned = Pruned()
    for stored in runs:
        if at_most is not None and len(pruned.deleted) >= at_most:
            break
        try:
            stored.delete(in_doubt=in_doubt)
        except (UsageError, EnvironmentProblem) as error:
            pruned.spared[stored.run_id] = str(error)
            if isinstance(error, RunInDoubt):
                pruned.in_doubt[stored.run_id] = str(error)
        else:
            pruned.deleted.append(stored.run_id)
    return pruned
