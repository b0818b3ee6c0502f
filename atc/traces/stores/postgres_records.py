"""The records of a journal and the lines of a trace in a database, and the leases by which one process appends to them.

A run's row has an *epoch* and a *lease*. Who opens the journal takes the run over, if nobody holds it or its lease has
lapsed, and raises the epoch. The statement that appends a record locks the row, and appends nothing unless the row
still has the writer's epoch, an open lease, and exactly the records that the writer has written and read. So a process
that was stopped and goes on can write nothing, whatever it believes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from atc.calls.journal_file import WHAT_NOW
from atc.errors import EnvironmentProblem, JournalError, RunInUse
from atc.traces.stores.postgres_session import RESTART_S, Address, Session

_TAKE = """
UPDATE atc.runs SET epoch = epoch + 1, holder = %s, lease_until = clock_timestamp() + make_interval(secs => %s)
WHERE run_id = %s AND (lease_until IS NULL OR lease_until <= clock_timestamp())
RETURNING epoch, records
"""
_HOLDER = """
SELECT holder, greatest(0, extract(epoch FROM lease_until - clock_timestamp()))::float FROM atc.runs WHERE run_id = %s
"""
_APPEND = """
WITH held AS (
    UPDATE atc.runs SET records = records + 1, written = clock_timestamp(),
        lease_until = greatest(lease_until, clock_timestamp() + make_interval(secs => %(lease_s)s))
    WHERE run_id = %(run_id)s AND epoch = %(epoch)s AND records = %(known)s AND lease_until > clock_timestamp()
    RETURNING 1
)
INSERT INTO atc.records (run_id, number, epoch, record)
SELECT %(run_id)s, %(known)s + 1, %(epoch)s, %(record)s::text FROM held
"""
_APPEND_SURE = _APPEND + "RETURNING number"
_APPEND_SOON = _APPEND + "RETURNING set_config('synchronous_commit', 'off', true)"
READ = """
SELECT number, epoch, record FROM (
    SELECT *, sum(octet_length(record)) OVER (ORDER BY number) - octet_length(record) AS before FROM (
        SELECT number, epoch, record FROM atc.records WHERE run_id = %s AND number > %s ORDER BY number LIMIT 1000
    ) AS upcoming
) AS part WHERE before < 4000000 ORDER BY number
"""
_RELEASE = "UPDATE atc.runs SET lease_until = NULL, holder = NULL WHERE run_id = %s AND epoch = %s"
_RENEW = """
UPDATE atc.runs SET lease_until = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::text[], %s::bigint[]) AS mine (run_id, epoch)
WHERE runs.run_id = mine.run_id AND runs.epoch = mine.epoch AND lease_until > clock_timestamp()
RETURNING runs.run_id
"""
_MARKS = """
SELECT system_identifier || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8),
    current_setting('fsync')::bool AND current_setting('full_page_writes')::bool
FROM pg_control_system()
"""
_log = logging.getLogger(__name__)


class Leases:
    """The runs that this process holds. A thread of its own renews their leases, whatever the event loop does.

    Args:
        address: of the database.
        lease_s: seconds until a lease lapses that is not renewed.
    """

    def __init__(self, address: Address, lease_s: float) -> None:
        self.lease_s = lease_s
        self._session = Session(address, durable=False)
        self._held: dict[str, int] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def epoch(self, run_id: str) -> int | None:
        """The epoch in which this process holds a run; ``None`` where it does not."""
        with self._changed:
            return self._held.get(run_id)

    def hold(self, run_id: str, epoch: int) -> None:
        """Renew the lease of a run from now on."""
        with self._changed:
            self._held[run_id] = epoch
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renewed, name="atc leases", daemon=True)
                self._thread.start()

    def let_go(self, run_id: str, epoch: int) -> None:
        """Renew it no more."""
        with self._changed:
            if self._held.get(run_id) == epoch:
                del self._held[run_id]
            if not self._held:
                self._changed.notify_all()

    def _renewed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._held, self.lease_s / 4)
                held = dict(self._held)
                if not held:
                    self._thread = None
                    break
            values = (self.lease_s, list(held), list(held.values()))
            try:
                kept = {run_id for (run_id,) in self._session.rows(_RENEW, values)}
            except EnvironmentProblem as error:  # the database decides whether they have lapsed
                _log.debug("leases were not renewed: %s", error)
                continue
            for run_id in held.keys() - kept:
                _log.warning("this process does not hold run %s any more", run_id)
                self.let_go(run_id, held[run_id])
        self._session.close()

    def close(self) -> None:
        """Close the connection; it is opened again for as long as something is held."""
        if self._thread is None:
            self._session.close()


class PostgresRecords:
    """Records of one run, held by this process (:class:`atc.calls.journal_records.Records`). The run is taken over.

    Args:
        session: whose statements are durable.
        leases: of this process.
        run_id: of the run, whose row is there.

    Attributes:
        epoch: in which the run is held.

    Raises:
        JournalError: another process holds the run, or the database cannot be used.
    """

    def __init__(self, session: Session, leases: Leases, run_id: str) -> None:
        self.name = f"of run {run_id} in {session.address.shown}"
        self._session, self._leases, self._run_id = session, leases, run_id
        self._open = False
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with self._or_closed():
            taken = session.rows(_TAKE, (holder, leases.lease_s, run_id))
            if not taken:
                raise self._why_not()
            self.epoch, self._known = taken[0]
            self._open = True
            leases.hold(run_id, self.epoch)
            self.marks = _marks(session)

    @contextlib.contextmanager
    def _or_closed(self) -> Iterator[None]:
        try:
            yield
        except EnvironmentProblem as error:
            self.close()
            raise JournalError(f"cannot use the journal {self.name}: {error}") from None
        except BaseException:
            self.close()
            raise

    def _why_not(self) -> JournalError:
        found = self._session.rows(_HOLDER, (self._run_id,))
        if not found:
            return JournalError(f"there is no journal {self.name}: the run was deleted")
        holder, seconds = found[0]
        lapses = f"if that has ended, its lease lapses in {seconds or 0:.0f} s"
        return RunInUse(f"the journal {self.name} is in use: {holder or 'another process'} works on this run; {lapses}")

    def read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        """Read all records back, in order (:meth:`atc.calls.journal_records.Records.read`)."""
        with self._or_closed():
            self._read(apply)

    def _read(self, apply: Callable[[dict[str, Any]], None]) -> None:
        last = before = 0
        while some := self._session.rows(READ, (self._run_id, last)):
            for number, epoch, record in some:
                try:
                    if number != last + 1 or not before <= epoch < self.epoch:
                        raise ValueError("not the next one")
                    apply(json.loads(record))
                except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                    why = f"{type(error).__name__}: {error}"[:200]
                    raise JournalError(
                        f"the journal {self.name}, record {number} is wrong ({why}): {WHAT_NOW}"
                    ) from None
                last, before = number, epoch
        if last != self._known:
            raise JournalError(f"the journal {self.name} lacks records after {last} of {self._known}: {WHAT_NOW}")

    def append(self, record: str, *, sync: bool, mark: bool = False) -> None:
        """Append a record. A mark that a call is about to leave is as durable as what is synced.

        Raises:
            JournalError: another process has taken the run over, the lease has lapsed, or the database cannot be used.
                Nothing is appended after that, and nobody knows whether this was where the connection was lost.
        """
        if not self._open:
            raise JournalError(f"the journal {self.name} is closed")
        values = {
            "run_id": self._run_id,
            "epoch": self.epoch,
            "known": self._known,
            "record": record,
            "lease_s": self._leases.lease_s,
        }

        def appended(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
            return connection.execute(_APPEND_SURE if sync or mark else _APPEND_SOON, values).rowcount

        try:
            count = self._session.do(appended, patience_s=RESTART_S)
        except EnvironmentProblem as error:
            self._abandon()
            raise JournalError(f"cannot write the journal {self.name}: {error}") from None
        except BaseException:
            self._abandon()  # an interrupt in the middle: nobody knows whether it was written
            raise
        if not count:
            self.close()
            what = "its lease has lapsed, or another process has taken the run over"
            raise JournalError(f"cannot write the journal {self.name}: {what}; nothing more is done here")
        self._known += 1

    def close(self) -> None:
        """Let go of the run: another process may take it at once. What is appended later fails."""
        if self._open:
            self._abandon()
            with contextlib.suppress(EnvironmentProblem):  # then the lease lapses
                self._session.rows(_RELEASE, (self._run_id, self.epoch))

    def _abandon(self) -> None:
        """Append nothing more, and let the lease lapse: the database may not answer."""
        self._open = False
        self._leases.let_go(self._run_id, self.epoch)


def _marks(session: Session) -> str:
    """What a mark survives: this database, on this timeline. Empty where its server loses what it said it had kept.

    A standby that was promoted has another timeline: what the old server had committed may be missing from it.
    """
    try:
        marks, keeps = session.rows(_MARKS)[0]
    except EnvironmentProblem:
        return ""
    return f"postgresql-{marks}" if keeps else ""


MAX_WAITING = 20_000_000
"""Characters that wait for a database which is down, before the trace ends."""
AGAIN_S = 2.0
"""Seconds after a line that could not be written in which no other one is tried."""
_LINES = "SELECT epoch, events FROM atc.runs WHERE run_id = %s"
_APPEND_LINES = """
WITH held AS (
    UPDATE atc.runs SET events = events + %s WHERE run_id = %s AND epoch = %s AND events = %s RETURNING 1
)
INSERT INTO atc.events (run_id, number, line)
SELECT %s, %s + place, line FROM held, unnest(%s::text[]) WITH ORDINALITY AS given (line, place)
RETURNING 1
"""
_READ_LINES = """
SELECT number, line FROM (
    SELECT *, sum(octet_length(line)) OVER (ORDER BY number) - octet_length(line) AS before FROM (
        SELECT number, line FROM atc.events WHERE run_id = %s AND number > %s ORDER BY number LIMIT 1000
    ) AS upcoming
) AS part WHERE before < 4000000 ORDER BY number
"""


class PostgresTrace:
    """Appends events to a run (:class:`atc.traces.stores.base.TraceWriter`).

    Lines that cannot be written wait for the next one. After a loss of the connection the row of the run says whether
    they were written. A process that does not hold the run any more writes nothing.

    Args:
        session: whose statements need not be durable: what a resume needs is older than the journal's next record.
        run_id: of the run.
        epoch: in which this process holds the run; ``None``: as it is at the first line.
    """

    def __init__(self, session: Session, run_id: str, epoch: int | None) -> None:
        self._session, self._run_id, self._epoch = session, run_id, epoch
        self._written = -1  # lines that are there; -1: not looked at
        self._waiting: list[str] = []
        self._sent = 0  # of those that wait, how many may have been written
        self._not_before = 0.0
        self._ended = False

    def write_line(self, text: str) -> None:
        """Append an event as :meth:`Event.line` writes it. Never raises: a trace that cannot be written ends."""
        if self._ended:
            return
        self._waiting.append(text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}"))
        if time.monotonic() >= self._not_before:
            self._write()
        if sum(map(len, self._waiting)) > MAX_WAITING:
            self._end("too much waits for its database")

    def close(self) -> None:
        """End the trace; later events are dropped."""
        if not self._ended and self._waiting:
            self._write()
        if not self._ended and self._waiting:
            self._end("its last lines could not be written")
        self._ended = True

    def _write(self) -> None:
        try:
            if self._written < 0 or self._sent:
                self._look()
            if self._ended or not self._waiting:
                return
            self._sent = len(self._waiting)
            run = (self._sent, self._run_id, self._epoch, self._written)
            lines = self._waiting[: self._sent]
            if len(self._session.rows(_APPEND_LINES, (*run, self._run_id, self._written, lines))) != self._sent:
                self._end("another process has taken the run over")
                return
            self._written, self._sent, self._waiting = self._written + self._sent, 0, []
        except EnvironmentProblem as error:
            _log.warning("the trace of run %s waits: %s", self._run_id, error)
            self._not_before = time.monotonic() + AGAIN_S

    def _look(self) -> None:
        """Look how many lines are there, of which the last may be those that were sent when the connection was lost."""
        found = self._session.rows(_LINES, (self._run_id,))
        if not found or (self._epoch is not None and found[0][0] != self._epoch):
            self._end("the run was deleted" if not found else "another process has taken the run over")
            return
        self._epoch, there = found[0]
        if self._written >= 0 and there == self._written + self._sent:
            del self._waiting[: self._sent]
        elif self._written >= 0 and there != self._written:
            self._end("lines of it are missing")
            return
        self._written, self._sent = there, 0

    def _end(self, why: str) -> None:
        _log.warning("the trace of run %s in %s ends here: %s", self._run_id, self._session.address.shown, why)
        self._ended, self._waiting = True, []


def trace_lines(session: Session, run_id: str, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a trace after one of that number, each with its own number and its end.

    Raises:
        FileNotFoundError: there is none.
        EnvironmentProblem: it cannot be read.
    """
    last = position
    while some := session.rows(_READ_LINES, (run_id, last)):
        for last, line in some:
            yield last, line.encode() + b"\n"
    if last == position and (not position or not session.rows(_LINES, (run_id,))):
        raise FileNotFoundError(2, "there is no such trace", f"{session.address.shown}, run {run_id}")
