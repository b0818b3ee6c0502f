"""The tables of a store in PostgreSQL: made at first use, by one process at a time; newer ones are refused."""

from __future__ import annotations

from typing import LiteralString

import psycopg

from atc.errors import EnvironmentProblem
from atc.traces.stores.postgres_session import Row, Session

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
        fix = "GRANT them to the user (docs/stores.md)"
        raise EnvironmentProblem(f"{where} refuses its user what runs need: {lacking}", fix=fix)


def _make(connection: psycopg.Connection[Row]) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if connection.execute(_MADE).fetchone() is not None:  # from the table: names may be cached from before
            return  # another process was quicker
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO atc.about VALUES (%s)", (VERSION,))
