"""A connection to the database of a store: bounded in every wait, opened again when it was lost, quiet on passwords."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, LiteralString, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from atc._host.database_address import SCHEMES, secrets_of, shown
from atc.errors import EnvironmentProblem, SettingsError

CONNECT_S, STATEMENT_S, LOCK_S, LIMIT_S = 5, 10, 5, 15.0
"""Seconds at most: for each address that the server's name stands for, for a statement at the server and for its wait
for a lock, and for any answer of the server, also where it hangs."""
AGAIN_S = 2.0
"""Seconds after a connection that failed in which no other one is tried, unless somebody waits for it."""
RESTART_S = 8.0
"""Seconds that an append waits for a server that was started anew: nothing has been sent to it yet."""
_FIX = "start the server, or put the address right (ATC_STORE; the password may stand in PGPASSWORD or ~/.pgpass)"
_SET = """
SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false), set_config('search_path', 'pg_catalog', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('synchronous_commit', CASE WHEN NOT %s THEN 'off'
        WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
"""
_T = TypeVar("_T")
Row = tuple[Any, ...]


class _Connection(psycopg.Connection[Row]):
    """A connection whose every wait has an end, also where the server's machine answers and the server does not."""

    def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:
        try:
            return super().wait(_bounded(gen, time.monotonic() + LIMIT_S), *args, **kwargs)
        except _Late:
            self.pgconn.finish()
            raise


class _Late(psycopg.OperationalError):
    """The server did not answer in time."""


def _bounded(steps: PQGen[_T], until: float) -> PQGen[_T]:
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise _Late(f"the server has not answered for {LIMIT_S:g} seconds")
            wanted = steps.send(ready)
    except StopIteration as end:
        value: _T = end.value
        return value


class Address:
    """The address of a database, taken apart.

    Args:
        text: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE``, as libpq takes it.

    Attributes:
        shown: it for people to read, without a password.

    Raises:
        SettingsError: it is none.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = urlsplit(text)
            torn = parts.netloc.count("@") > 1 or "@" in parts.path or parts.fragment
            self.options: dict[str, Any] = conninfo_to_dict(text)
            if parts.scheme not in SCHEMES or torn:
                raise ValueError
        except (ValueError, psycopg.Error):  # its text may hold a part of the password
            what = "no address of a database; give postgresql://USER@HOST/DATABASE"
            raise SettingsError(
                f"store: {what}, and write @ / ? # and : of a password as %40 %2F %3F %23 %3A"
            ) from None
        self.shown = shown(text)
        self._secrets = sorted(secrets_of(text), key=len, reverse=True)

    def words(self, error: BaseException) -> str:
        """The server's or the driver's words for an error: one line, without a password."""
        text = " ".join(str(error).split())
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:300] or type(error).__name__


class Session:
    """A connection that one thread uses at a time.

    Args:
        address: of the database.
        durable: what is written is on the server's disk before a statement returns; else a moment later, though never
            later than what is written durably after it.
    """

    def __init__(self, address: Address, *, durable: bool) -> None:
        self.address, self._durable = address, durable
        self._lock = threading.RLock()
        self._connection: _Connection | None = None
        self._pid = 0
        self._failed = float("-inf")

    def rows(self, statement: LiteralString, values: Sequence[Any] = ()) -> list[Row]:
        """Do one statement, in a transaction of its own, and return its rows.

        Args:
            statement: with ``%s`` where values stand.
            values: in order.

        Raises:
            EnvironmentProblem: it cannot be done. If the connection was lost meanwhile, nobody knows whether it was.
        """

        def done(connection: psycopg.Connection[Row]) -> list[Row]:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description is not None else []

        return self.do(done)

    def do(self, work: Callable[[psycopg.Connection[Row]], _T], *, patience_s: float = 0.0) -> _T:
        """Work with the connection.

        Args:
            work: sends each statement once at most.
            patience_s: seconds that a server which is down is waited for.

        Raises:
            EnvironmentProblem: as :meth:`rows`.
        """
        with self._lock, self._told("cannot be used"):
            connection = self._connected(patience_s)
            try:
                return work(connection)
            except BaseException as error:
                if not isinstance(error, psycopg.Error) or connection.closed or connection.broken:
                    self._drop()  # an interrupt in the middle: what the server did is not known
                raise

    def close(self) -> None:
        """Close the connection. The next statement opens another one."""
        with self._lock:
            self._drop()

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            fix = _fix(error)
            raise EnvironmentProblem(
                f"the store {self.address.shown} {what}: {self.address.words(error)}", fix=fix
            ) from None

    def _connected(self, patience_s: float) -> psycopg.Connection[Row]:
        if self._connection is not None and self._pid == os.getpid() and _is_alive(self._connection):
            return self._connection
        self._drop()
        until = time.monotonic() + patience_s
        if not patience_s and time.monotonic() - self._failed < AGAIN_S:
            raise psycopg.OperationalError("it could not be reached a moment ago")
        while True:
            try:
                self._connection, self._pid = self._connect(), os.getpid()
                self._failed = float("-inf")
                return self._connection
            except psycopg.OperationalError:
                self._failed = time.monotonic()
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _connect(self) -> _Connection:
        given = self.address.options
        defaults: dict[str, Any] = {
            "application_name": "atc",
            "connect_timeout": CONNECT_S,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": int(LIMIT_S * 1000),
        }
        options: dict[str, Any] = defaults | given | {"client_encoding": "UTF8"}
        connection = _Connection.connect(**options, autocommit=True)
        try:
            times = (f"{STATEMENT_S}s", f"{LOCK_S}s", f"{STATEMENT_S}s")
            connection.execute(_SET, (*times, self._durable))
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pid == os.getpid():  # of a parent process it is still in use there
            connection.close()


def _is_alive(connection: psycopg.Connection[Row]) -> bool:
    if connection.closed or connection.broken:
        return False
    try:
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        if poll.poll(0):
            connection.pgconn.consume_input()
        return not connection.broken
    except (psycopg.Error, OSError, ValueError):
        return False


def _fix(error: psycopg.Error) -> str:
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return "GRANT the user the rights on the schema atc"
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return "its tables are gone: begin again, or put them back"
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return "name the server that takes writes"
    if (error.sqlstate or "").startswith("53"):  # insufficient resources
        return "make room at the server: its disk, its memory or its connections are used up"
    if isinstance(error, psycopg.errors.QueryCanceled):
        return ""
    return _FIX if isinstance(error, psycopg.OperationalError) else ""


VERSION = 1
"""Of the tables. A change that an older ATC cannot work with raises it."""
_LOCK = 0x415443  # "ATC"
_TABLES: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS atc",
    "CREATE TABLE atc.about (version integer NOT NULL)",
    """
    CREATE TABLE atc.runs (
        run_id text PRIMARY KEY,
        made timestamptz NOT NULL DEFAULT clock_timestamp(),
        epoch bigint NOT NULL DEFAULT 0,
        holder text,
        lease_until timestamptz,
        records bigint NOT NULL DEFAULT 0,
        written timestamptz,
        events bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE atc.records (
        run_id text NOT NULL REFERENCES atc.runs ON DELETE CASCADE,
        number bigint NOT NULL,
        epoch bigint NOT NULL,
        record text NOT NULL,
        PRIMARY KEY (run_id, number)
    )
    """,
    """
    CREATE TABLE atc.events (
        run_id text NOT NULL REFERENCES atc.runs ON DELETE CASCADE,
        number bigint NOT NULL,
        line text NOT NULL,
        PRIMARY KEY (run_id, number)
    )
    """,
    """
    CREATE TABLE atc.notes (
        run_id text NOT NULL REFERENCES atc.runs ON DELETE CASCADE,
        name text NOT NULL,
        note text NOT NULL,
        PRIMARY KEY (run_id, name)
    )
    """,
    """
    CREATE TABLE atc.tracebacks (
        run_id text NOT NULL REFERENCES atc.runs ON DELETE CASCADE,
        call bigint NOT NULL,
        traceback text NOT NULL,
        PRIMARY KEY (run_id, call)
    )
    """,
)
_STATE = """
SELECT to_regclass('atc.about') IS NOT NULL, current_setting('transaction_read_only')::bool, pg_is_in_recovery(),
    current_setting('server_encoding'), current_setting('server_version_num')::int
"""
_MADE = "SELECT 1 FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'atc' AND relname = 'about'"
_RIGHTS = """
SELECT string_agg(name || ': ' || wanted, ', ')
FROM unnest(ARRAY['about', 'runs', 'records', 'events', 'notes', 'tracebacks']) AS name,
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
WHERE (name <> 'about' OR wanted = 'SELECT') AND (name <> 'records' OR wanted <> 'UPDATE')
    AND (name <> 'events' OR wanted <> 'UPDATE') AND NOT has_table_privilege('atc.' || name, wanted)
"""
LEAST_SERVER = 120000


def check(session: Session) -> None:
    """Make sure that runs can be kept: the tables are there, of this version, and may be written.

    Raises:
        EnvironmentProblem: they cannot.
    """
    there, read_only, standby, encoding, version = session.rows(_STATE)[0]
    where = f"the store {session.address.shown}"
    if version < LEAST_SERVER:
        raise EnvironmentProblem(f"{where} is on PostgreSQL {version // 10_000}", fix="use version 12 or later")
    if standby or read_only:
        what = "is a standby server" if standby else "is read-only"
        raise EnvironmentProblem(f"{where} {what}", fix="name the server that takes writes")
    if encoding != "UTF8":
        raise EnvironmentProblem(f"{where} is encoded as {encoding}", fix="CREATE DATABASE … ENCODING 'UTF8'")
    if not there:
        session.do(_make)
    found = [version for (version,) in session.rows("SELECT version FROM atc.about")]
    if len(found) != 1:
        raise EnvironmentProblem(f"{where} has a schema atc that is not ATC's", fix="use another database")
    if found[0] > VERSION:
        raise EnvironmentProblem(f"{where} was made by a newer version of ATC", fix="update ATC, or use another one")
    lacking = session.rows(_RIGHTS)[0][0]
    if lacking:
        fix = "GRANT them to the user"
        raise EnvironmentProblem(f"{where} refuses its user what runs need: {lacking}", fix=fix)


def _make(connection: psycopg.Connection[Row]) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if connection.execute(_MADE).fetchone() is not None:  # from the table: names may be cached from before
            return  # another process was quicker
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO atc.about VALUES (%s)", (VERSION,))
