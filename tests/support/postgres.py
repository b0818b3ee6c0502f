"""A PostgreSQL server of a test's own: in a temporary folder, on a Unix socket, with an ordinary user's rights."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

PATIENCE_S = 60.0
_USER = "nobody"
_NEW = ("--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")
_SETTINGS = """
listen_addresses = ''
unix_socket_permissions = 0777
max_connections = 60
shared_buffers = 16MB
logging_collector = off
autovacuum_naptime = 5min
restart_after_crash = on
"""


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; ``None`` where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: -float(each.parent.name))
    found += [Path(folder) for folder in os.get_exec_path()]
    usable = [each for each in found if all((each / name).exists() for name in ("initdb", "postgres", "pg_isready"))]
    return usable[0] if usable else None


WHY_NOT = (
    ""
    if binaries() is not None
    else "PostgreSQL is not installed: `apt-get install postgresql` (its programs are enough)"
)


class Server:
    """A server that runs until :meth:`close`; it ends with the thread that started it, too.

    Attributes:
        folder: of its data, its socket and its log.
        process: of the server, while it runs.
    """

    def __init__(self) -> None:
        programs = binaries()
        if programs is None:
            raise RuntimeError(WHY_NOT)
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="atc-pg-"))
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        if os.getuid() == 0:
            os.chown(self.folder, pwd.getpwnam(_USER).pw_uid, -1)
        made = subprocess.run(
            [*_as_user(), self._programs / "initdb", "-D", self.data, "-U", "owner", *_NEW],
            capture_output=True,
            text=True,
            cwd="/",
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stderr or made.stdout}")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{_SETTINGS}unix_socket_directories = '{self.folder}'\n")

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / "data"

    def address(self, *, user: str = "owner", database: str = "postgres", password: str = "") -> str:
        """The address of a database of it."""
        who = f"{user}:{quote(password, safe='')}" if password else user
        return f"postgresql://{who}@/{database}?host={quote(str(self.folder), safe='')}"

    def emptied(self) -> str:
        """The address of its database, without what was kept there."""
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS atc CASCADE")
        return self.address()

    def start(self) -> None:
        """Start it, and wait until it takes connections; after a kill it reads back its log before."""
        until = time.monotonic() + PATIENCE_S
        while True:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*_as_user(), self._programs / "postgres", "-D", str(self.data)], stdout=log, stderr=log, cwd="/"
                )
            while self.process.poll() is None:
                ready = subprocess.run(
                    [self._programs / "pg_isready", "-q", "-h", self.folder, "-U", "owner", "-d", "postgres"]
                )
                if ready.returncode == 0:
                    return
                if time.monotonic() > until:
                    raise RuntimeError(f"the server does not start: {self.log()}")
                time.sleep(0.02)
            if time.monotonic() > until:  # after a kill its processes may hold the folder for a moment
                raise RuntimeError(f"the server ended: {self.log()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it as a crash would, and wait for its end."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
                self.process.send_signal(how)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def log(self) -> str:
        """The end of what it said."""
        with contextlib.suppress(OSError):
            return (self.folder / "log").read_text()[-2000:]
        return ""

    def close(self) -> None:
        """End it and remove its folder."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _as_user() -> list[str | Path]:
    """What stands before a command that shall have an ordinary user's rights, and end with the thread that began it."""
    dying = ["setpriv", "--pdeathsig", "QUIT"]
    return [*dying, f"--reuid={_USER}", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else [*dying]
