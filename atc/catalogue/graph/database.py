"""The file of the graph store: an SQLite database that several processes read and write at once.

Made for its owner's eyes alone. A file that is damaged, or of another version, is renamed and begun anew. What goes
wrong is one exception, :class:`StoreProblem`, which says what to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from atc._host.files import lock, make_private
from atc.errors import EnvironmentProblem
from atc.schemas.observed import is_observed
from atc.schemas.protocol import Protocol

VERSION = 2
"""Of the tables."""
APPLICATION = 0x41544347
"""In the header of every such file: "ATCG"."""
BUSY_S = 3.0
"""How long one waits while another process writes."""
IMPATIENT_S = 60.0
"""After one waited so in vain, how long nobody waits: what many runs would teach does not add up to a long wait."""
WAL_PAGES = 250
"""Pages of 4 KiB that are written ahead before they are moved into the file."""
KEPT_ASIDE = 3
"""Files that were set aside and are kept, the latest ones."""
_TABLES = {
    "tool": "id INTEGER PRIMARY KEY, service TEXT, name TEXT, digest TEXT, last REAL, UNIQUE (service, name, digest)",
    "edge": "id INTEGER PRIMARY KEY, kind TEXT, a INTEGER, b INTEGER, path TEXT, parameter TEXT, last REAL, "
    "UNIQUE (b, kind, a, path, parameter)",
    "uses": "edge INTEGER, day INTEGER, ok REAL, failed REAL, PRIMARY KEY (edge, day)",
    "shape": "tool INTEGER PRIMARY KEY, outline TEXT",
    "run": "number INTEGER PRIMARY KEY, id TEXT UNIQUE, answered INTEGER, failed_to INTEGER",
    "correction": "kind TEXT, a_service TEXT, a_name TEXT, path TEXT, b_service TEXT, b_name TEXT, parameter TEXT, "
    "there INTEGER, PRIMARY KEY (kind, b_service, b_name, a_service, a_name, path, parameter)",
    "prediction": "b INTEGER, a INTEGER, path TEXT, parameter TEXT, weight REAL, PRIMARY KEY (b, a, path, parameter)",
}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
"""Results of SQLite that mean that the file is not what was written; the last one, that a table is not there."""
_OF_PARENTS: list[sqlite3.Connection] = []
"""Connections that a fork copied: they stay open, unused."""
T = TypeVar("T")


class StoreProblem(EnvironmentProblem):
    """The store cannot be read or written now."""


class Database:
    """One file. Nothing is opened before it is needed, and nothing is made before something is written.

    Args:
        path: of the file; its folder is made.

    Attributes:
        notice: what the user should read about the file; empty where all is well.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.notice = path, ""
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int, int] | None = None
        """The process, device and inode that the connection belongs to."""
        self._turn = threading.RLock()
        self._impatient_until = 0.0

    def read(self, work: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """What ``work`` returns of the file as it is at one moment; ``nothing`` where there is no file.

        Raises:
            StoreProblem: it cannot be read.
        """
        return self._run(work, "BEGIN") if self.path.exists() else nothing

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What ``work`` returns, which is written whole or not at all.

        Raises:
            StoreProblem: it cannot be written.
        """
        return self._run(work, "BEGIN IMMEDIATE")

    def compact(self) -> None:
        """Take what was deleted out of the file.

        Raises:
            StoreProblem: it cannot be written.
        """
        with self._turn:
            try:
                connection = self._open()
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                raise self._problem(error) from None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._turn:
            connection, opened = self._connection, self._opened
            self._connection = self._opened = None
            if connection is None:
                return
            if opened is not None and opened[0] != os.getpid():
                _OF_PARENTS.append(connection)  # to close it here would take it from the process that opened it
                return
            with suppress(sqlite3.Error):
                connection.close()

    def __del__(self) -> None:
        self.close()

    # -- one piece of work ---------------------------------------------------------------------------------------------

    def _run(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._turn:
            for last_try in (False, True):
                try:
                    return self._transaction(work, begin)
                except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                    damaged = _shows_damage(error)
                    if last_try or not damaged:
                        raise self._problem(error) from None
                    self._set_aside()
        raise AssertionError("unreachable")

    def _transaction(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        connection = self._open()
        try:
            connection.execute(f"PRAGMA busy_timeout={int(1000 * self._patience())}")
            connection.execute(begin)
        except sqlite3.OperationalError as error:
            if _is_busy(error) and self._patience():
                self._impatient_until = time.monotonic() + IMPATIENT_S
            raise
        if begin != "BEGIN":  # to read may be possible all the while
            self._impatient_until = 0.0
        try:
            made = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return made

    def _patience(self) -> float:
        """Seconds to wait for another process."""
        return 0.0 if time.monotonic() < self._impatient_until else BUSY_S

    def _problem(self, error: BaseException) -> StoreProblem:
        what = getattr(error, "strerror", None) or str(error)
        return StoreProblem(
            f"what runs teach cannot be kept in {self.path}: {what}; see that there is room, and that you may write"
        )

    # -- opening -------------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        """The connection of this process to the file that is there now."""
        if self._connection is not None and self._opened == self._place():
            return self._connection
        self.close()
        self._make()
        connection = self._connected()
        try:
            if not _is_ours(connection):
                connection.close()
                self._set_aside()
                self._make()
                connection = self._connected()
            _begin(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._opened = connection, self._place()
        return connection

    def _place(self) -> tuple[int, int, int] | None:
        try:
            about = os.stat(self.path)
        except OSError:
            return None
        return os.getpid(), about.st_dev, about.st_ino

    def _make(self) -> None:
        """Raises OSError where it cannot be made readable by its owner alone, or is another user's."""
        make_private(self.path.parent)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        about = os.stat(self.path)
        if about.st_uid != os.getuid():
            raise PermissionError(1, "the file is another user's")
        if about.st_mode & 0o077:
            os.chmod(self.path, 0o600)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")
        return connection

    def _set_aside(self) -> None:
        """Rename a file that is not sound, with what belongs to it. Of several processes that see it, one does."""
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW  # to open a pipe so waits for nobody
        with open(os.open(self.path.with_name(f"{self.path.name}.lock"), flags, 0o600), "r+b", buffering=0) as guard:
            until = time.monotonic() + BUSY_S
            while True:
                try:
                    lock(guard)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)
            if not self.path.exists() or self._is_sound():
                return
            aside = self.path.with_name(f"{self.path.name}.set-aside-{time.time_ns()}")
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.rename(f"{self.path}{ending}", f"{aside}{ending}")
            times = {file.name.split("-")[2] for file in self.path.parent.glob(f"{self.path.name}.set-aside-*")}
            for old in sorted(times)[:-KEPT_ASIDE]:
                for ending in ("", "-wal", "-shm"):
                    self.path.with_name(f"{self.path.name}.set-aside-{old}{ending}").unlink(missing_ok=True)
        self.notice = (
            f"{self.path} was damaged, or of another version: it is kept as {aside.name}, and learning begins anew"
        )

    def _is_sound(self) -> bool:
        try:
            with closing(self._connected()) as connection:
                names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                whole = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
                for table in names & _TABLES.keys():  # its texts can be read
                    deque(connection.execute(f"SELECT * FROM {table}"), maxlen=0)
                return _is_ours(connection) and whole and (not names or names >= _TABLES.keys())
        except (sqlite3.Error, UnicodeDecodeError) as error:
            return not _shows_damage(error)


def _shows_damage(error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)  # Python's own errors have none: of a text that is none
    return isinstance(error, sqlite3.Error) and (code is None or code & 0xFF in _DAMAGED)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_BUSY


def _is_ours(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (APPLICATION, VERSION):
        return True
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    return (application, version, tables) == (0, 0, 0)


def _begin(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file; another process may be doing so."""
    until = time.monotonic() + BUSY_S
    while connection.execute("PRAGMA user_version").fetchone() == (0,):
        try:
            _make_tables(connection)
        except sqlite3.OperationalError as error:  # the switch to WAL does not wait by itself
            if not _is_busy(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        connection.execute("CREATE INDEX IF NOT EXISTS edge_a ON edge (a)")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


# ----------------------------------------------------------------------------------------------------------------------
# What a tool is known by beyond one toolset: its service, its name there, and a digest of its schemas.


MAX_NAME = 200
"""Characters of a name that is kept as it is."""
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose members have names of their own choice."""
_WORDS = frozenset(
    "description title examples example default $comment deprecated $id $schema externalDocs xml".split()
)
"""Keywords that say nothing about which values fit."""


class Identity(NamedTuple):
    """A tool, wherever it is used.

    Attributes:
        service: a digest of where the tool comes from, which may be a path or an address of the user's.
        name: at its source, so that a new name in a toolset changes nothing.
        digest: of the schemas of its parameters and its response, without their words.
    """

    service: str
    name: str
    digest: str


def place_of(protocol: Protocol) -> tuple[str, str]:
    """The service and the name of a tool: what stays when its schemas change."""
    return _service(protocol.source.kind, protocol.source.location), name_of(protocol)


def name_of(protocol: Protocol) -> str:
    """The name of a tool at its source; of a very long one a digest."""
    name = protocol.source.operation or protocol.name
    return name if len(name) <= MAX_NAME else _digest(name)


def identity_of(protocol: Protocol) -> Identity:
    """The identity of a tool. A response that was only observed is not part of it."""
    returns = None if is_observed(protocol.returns) else protocol.returns
    try:
        schemas = json.dumps([_bare(protocol.parameters), _bare(returns)], sort_keys=True, default=str)
    except RecursionError:
        schemas = "too deep"
    return Identity(*place_of(protocol), _digest(schemas))


@lru_cache(maxsize=4096)
def _service(kind: str, location: str) -> str:
    return _digest(f"{kind} {location}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _bare(schema: Any, *, named: bool = False) -> Any:
    """A schema without words and marks. ``named``: its members have names of their own choice."""
    if isinstance(schema, Mapping):
        return {
            key: _bare(value, named=not named and key in _MAPS)
            for key, value in schema.items()
            if named or not (key in _WORDS or key.startswith("x-"))
        }
    return [_bare(item) for item in schema] if isinstance(schema, list) else schema
