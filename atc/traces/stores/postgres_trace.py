"""The trace of a run in a database: a row a line."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from atc.errors import EnvironmentProblem
from atc.traces.events import Event
from atc.traces.stores.postgres_session import Session

MAX_WAITING = 20_000_000
"""Characters that wait for a database which is down, before the trace ends."""
AGAIN_S = 2.0
_BEGIN = "SELECT epoch, events FROM atc.runs WHERE run_id = %s"
_APPEND = """
WITH held AS (
    UPDATE atc.runs SET events = events + %s WHERE run_id = %s AND epoch = %s AND events = %s RETURNING 1
)
INSERT INTO atc.events (run_id, number, line)
SELECT %s, %s + place, line FROM held, unnest(%s::text[]) WITH ORDINALITY AS given (line, place)
RETURNING 1
"""
_READ = """
SELECT number, line FROM (
    SELECT *, sum(octet_length(line)) OVER (ORDER BY number) - octet_length(line) AS before FROM (
        SELECT number, line FROM atc.events WHERE run_id = %s AND number > %s ORDER BY number LIMIT 1000
    ) AS upcoming
) AS part WHERE before < 4000000 ORDER BY number
"""
_log = logging.getLogger(__name__)


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

    def write(self, event: Event) -> None:
        """Append an event. Never raises: a trace that cannot be written ends."""
        if not self._ended:
            self.write_line(event.line())

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
            if len(self._session.rows(_APPEND, (*run, self._run_id, self._written, lines))) != self._sent:
                self._end("another process has taken the run over")
                return
            self._written, self._sent, self._waiting = self._written + self._sent, 0, []
        except EnvironmentProblem as error:
            _log.warning("the trace of run %s waits: %s", self._run_id, error)
            self._not_before = time.monotonic() + AGAIN_S

    def _look(self) -> None:
        """Look how many lines are there, of which the last may be those that were sent when the connection was lost."""
        found = self._session.rows(_BEGIN, (self._run_id,))
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


def lines(session: Session, run_id: str) -> Iterator[bytes]:
    """Yield the lines of a trace, each with its end.

    Raises:
        FileNotFoundError: there is none.
        EnvironmentProblem: it cannot be read.
    """
    return (line for _, line in lines_from(session, run_id, 0))


def lines_from(session: Session, run_id: str, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a trace after one of that number, each with its own number and its end.

    Raises:
        FileNotFoundError, EnvironmentProblem: as :func:`lines`.
    """
    last = position
    while some := session.rows(_READ, (run_id, last)):
        for last, line in some:
            yield last, line.encode() + b"\n"
    if last == position and (not position or not session.rows(_BEGIN, (run_id,))):
        raise FileNotFoundError(2, "there is no such trace", f"{session.address.shown}, run {run_id}")
