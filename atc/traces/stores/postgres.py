"""The run store in a PostgreSQL database, for many machines: rows of its schema ``atc`` (docs/runs.md).

A run that one machine began goes on at another, and nothing is done twice across both
(:mod:`atc.traces.stores.postgres_records`).
"""

from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from atc.calls.journal import Journal
from atc.errors import EnvironmentProblem, UsageError
from atc.traces.stores import postgres_session
from atc.traces.stores.base import RUN_ID, RecentJournal, RunStore, StoredRun, shortened
from atc.traces.stores.postgres_records import READ, Leases, PostgresRecords, PostgresTrace, trace_lines
from atc.traces.stores.postgres_session import Address, Session

_OTHERS = """
WITH writers AS MATERIALIZED (
    SELECT oid FROM pg_roles
    WHERE NOT rolsuper AND has_schema_privilege(oid, 'atc', 'USAGE') AND EXISTS (
        SELECT 1 FROM unnest(ARRAY['atc.runs', 'atc.records', 'atc.events', 'atc.notes']) AS name
        WHERE has_any_column_privilege(oid, name, 'INSERT, UPDATE') OR has_table_privilege(oid, name, 'TRIGGER'))
)
SELECT string_agg(rolname, ', ' ORDER BY rolname) FROM (
    SELECT rolname FROM pg_roles AS who
    WHERE rolcanlogin AND NOT rolsuper AND rolname <> current_user
        AND EXISTS (SELECT 1 FROM writers WHERE pg_has_role(who.oid, writers.oid, 'MEMBER'))
    LIMIT 5
) AS others
"""
_RECENT = """
SELECT run_id, epoch, records FROM atc.runs
WHERE records > 0 AND written > clock_timestamp() - make_interval(secs => %s) ORDER BY run_id DESC LIMIT %s
"""
_TRACEBACK = """
INSERT INTO atc.tracebacks (run_id, call, traceback) VALUES (%s, %s, %s)
ON CONFLICT (run_id, call) DO UPDATE SET traceback = excluded.traceback
"""
_NOTE = """
INSERT INTO atc.notes (run_id, name, note) VALUES (%s, %s, %s)
ON CONFLICT (run_id, name) DO UPDATE SET note = excluded.note
"""
_VERSIONS = """
SELECT run_id, epoch, events FROM atc.runs WHERE events > 0 ORDER BY run_id COLLATE "C" DESC
"""
_HELD = "SELECT run_id FROM atc.runs WHERE run_id = ANY(%s) AND lease_until > clock_timestamp()"
_NOTES = "SELECT run_id, note FROM atc.notes WHERE name = %s AND run_id = ANY(%s)"
_log = logging.getLogger(__name__)


class PostgresRun(StoredRun):
    """A run in a database.

    Attributes:
        store: that it is in.
    """

    def __init__(self, store: PostgresStore, run_id: str) -> None:
        self.store, self.run_id = store, run_id

    @property
    def where(self) -> str:
        return f"{self.store.where} (run {self.run_id})"

    @property
    def exists(self) -> bool:
        return self._state()[1] > 0

    @property
    def has_journal(self) -> bool:
        return self._state()[0] > 0

    def _state(self) -> tuple[int, int]:
        found = self.store.quick.rows("SELECT epoch, events FROM atc.runs WHERE run_id = %s", (self.run_id,))
        return (found[0][0], found[0][1]) if found else (0, 0)

    def make(self) -> None:
        self.store.sure.rows("INSERT INTO atc.runs (run_id) VALUES (%s) ON CONFLICT DO NOTHING", (self.run_id,))

    def why_strange(self) -> str:
        """Why others may have written it: a role that may log in, and is neither this one nor a superuser, can, or may
        become one that can."""
        others = self.store.quick.rows(_OTHERS)[0][0]
        return f"{others} can write to {self.store.where}" if others else ""

    def lines(self) -> Iterator[bytes]:
        return (line for _, line in self.lines_from(0))

    def lines_from(self, position: int) -> Iterator[tuple[int, bytes]]:
        """``position``: the number of a line; those after it are read."""
        return trace_lines(self.store.quick, self.run_id, position)

    def open_trace(self) -> PostgresTrace:
        return PostgresTrace(self.store.quick, self.run_id, self.store.leases.epoch(self.run_id))

    def open_journal(self) -> Journal:
        """Its journal: the run is taken over, if nobody holds it or its lease has lapsed."""
        return Journal(PostgresRecords(self.store.sure, self.store.leases, self.run_id))

    def is_held(self) -> bool:
        return bool(self.store.held([self.run_id]))

    def peeked(self) -> Iterator[bytes]:
        last = 0
        while some := self.store.quick.rows(READ, (self.run_id, last)):
            for number, _, record in some:
                yield record.encode() + b"\n"
                last = number

    def journal_version(self) -> Hashable:
        found = self.store.quick.rows("SELECT epoch, records FROM atc.runs WHERE run_id = %s", (self.run_id,))
        return tuple(found[0]) if found else None

    def keep_traceback(self, number: int, text: str) -> str | None:
        kept = shortened(text).encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        try:
            self.store.quick.rows(_TRACEBACK, (self.run_id, number, kept))
        except EnvironmentProblem as error:
            _log.warning("the traceback of call %d cannot be kept: %s", number, error)
            return None
        return self.traceback_place(number)

    def traceback_place(self, number: int) -> str:
        return f"{self.store.where}, table atc.tracebacks: run {self.run_id}, call {number}"

    def keep_note(self, name: str, note: Mapping[str, Any]) -> None:
        self.store.sure.rows(_NOTE, (self.run_id, name, json.dumps(note)))

    def note(self, name: str) -> dict[str, Any] | None:
        statement = "SELECT note FROM atc.notes WHERE run_id = %s AND name = %s"
        found = self.store.quick.rows(statement, (self.run_id, name))
        return _note(found[0][0]) if found else None

    def version(self) -> Hashable:
        epoch, events = self._state()
        return (epoch, events) if events else None

    def remove(self) -> None:
        """Delete its rows."""
        epoch = self.store.leases.epoch(self.run_id) or 0
        statement = "DELETE FROM atc.runs WHERE run_id = %s AND epoch = %s RETURNING 1"
        if not self.store.sure.rows(statement, (self.run_id, epoch)) and self.exists:
            raise UsageError(f"run {self.run_id} is kept: another process works on it")


class PostgresStore(RunStore):
    """The runs in a database.

    Args:
        address: as libpq takes it, ``postgresql://…``.
        lease_s: seconds after which another process may go on with a run whose own does not answer any more.

    Attributes:
        leases: of the runs that this process holds.

    Raises:
        SettingsError: it is no address. Nothing is connected yet.
    """

    def __init__(self, address: str, *, lease_s: float = 30.0) -> None:
        self._address = Address(address)
        self._sure, self._quick = Session(self._address, durable=True), Session(self._address, durable=False)
        self.leases = Leases(self._address, lease_s)
        self._checked = False

    @property
    def where(self) -> str:
        return self._address.shown

    @property
    def sure(self) -> Session:
        """The connection whose statements are durable."""
        self._check_once()
        return self._sure

    @property
    def quick(self) -> Session:
        """The connection for traces, and for reading."""
        self._check_once()
        return self._quick

    def run(self, run_id: str) -> PostgresRun:
        return PostgresRun(self, run_id)

    def versions(self) -> dict[str, Hashable]:
        found = self.quick.rows(_VERSIONS)
        return {run_id: (epoch, events) for run_id, epoch, events in found if RUN_ID.fullmatch(run_id)}

    def notes(self, name: str, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        found = ((run_id, _note(text)) for run_id, text in self.quick.rows(_NOTES, (name, [*run_ids])))
        return {run_id: note for run_id, note in found if note is not None}

    def held(self, run_ids: Iterable[str]) -> set[str]:
        """One query, or none. That a process was killed is known when its lease has lapsed."""
        asked = [*run_ids]
        return {run_id for (run_id,) in self.quick.rows(_HELD, (asked,))} if asked else set()

    def everything(self) -> builtins.list[StoredRun]:
        found = self.quick.rows('SELECT run_id FROM atc.runs ORDER BY run_id COLLATE "C" DESC')
        return [PostgresRun(self, run_id) for (run_id,) in found]

    def recent(self, most: int, seconds: float) -> builtins.list[RecentJournal]:
        found = self.quick.rows(_RECENT, (seconds, most))
        return [
            (PostgresRun(self, run_id), (epoch, records))
            for run_id, epoch, records in found
            if RUN_ID.fullmatch(run_id)
        ]

    def check(self) -> None:
        """Make sure that the server answers, the tables are there (they are made at first use) and may be written."""
        postgres_session.check(self._sure)
        self._checked = True

    def _check_once(self) -> None:
        if not self._checked:
            self.check()

    def sweep(self) -> None:
        """Nothing is left behind: a run is deleted in one transaction."""

    def close(self) -> None:
        self._sure.close()
        self._quick.close()
        self.leases.close()


def _note(text: str) -> dict[str, Any] | None:
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) else None
