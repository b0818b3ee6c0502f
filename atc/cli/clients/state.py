"""What is on disk: a client's file, and what ATC remembers of it: what was there before, the servers behind it, copies.

All that is remembered may hold credentials: folders of mode 0700, files of 0600.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from atc._host.files import lock, make_private, write_whole
from atc.cli.clients.clients import Client, Machine, Place, place_of
from atc.cli.clients.documents import LIMITS, ConfigProblem
from atc.errors import EnvironmentProblem, UsageError

MOST_COPIES = 20
_COPY = re.compile(r"\.[0-9]{8}T[0-9]{6}[0-9]{6}Z\.bak\Z")


class Record(BaseModel):
    """What was done to one file.

    Attributes:
        path: the file, as the client names it.
        name: the name of ATC's entry.
        before: its text before ATC was there; ``None`` if there was no file.
        after: a digest of the text that ATC wrote: while the file has it, undoing writes ``before``. Empty: somebody
            else wrote the file between two installations.
        taken: the entries that were taken out, as they were: of servers behind ATC, and what ATC's entry replaced.
        behind: those of them that moved, as ATC runs them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[2] = 2
    client: str
    path: str
    name: str
    before: str | None
    after: str
    taken: dict[str, Any] = {}
    behind: dict[str, Any] = {}


def digest(text: str) -> str:
    """A digest of a file's text, or of its path."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class State:
    """The records of one configuration file. That which the client has for this user has records of short names."""

    def __init__(self, client: Client, place: Place, machine: Machine) -> None:
        self.folder, self.key = machine.state, client.id
        usual = place.scope == "user" and bool(client.user) and place.path == place_of(client, machine).path
        known = self.record() if usual else None
        if not usual or (known is not None and known.path != str(place.path)):  # or the client has another file now
            self.key += f"-{digest(str(place.path))[:10]}"

    @property
    def servers_path(self) -> Path:
        """The file with the servers behind ATC."""
        return self.folder / f"{self.key}.servers.json"

    @property
    def _record_path(self) -> Path:
        return self.folder / f"{self.key}.record.json"

    def record(self) -> Record | None:
        """What was done to the file; ``None`` if nothing was.

        Raises:
            EnvironmentProblem: the record is damaged.
        """
        try:
            return Record.model_validate_json(self._record_path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            raise EnvironmentProblem(
                f"{self._record_path} is damaged, or of another version of ATC",
                fix="put the servers back by hand from the copies beside it",
            ) from None

    def keep(self, record: Record | None) -> None:
        """Write the record, or delete it."""
        if record is None:
            self._record_path.unlink(missing_ok=True)
        else:
            write_whole(self._record_path, record.model_dump_json(indent=1))

    def servers(self) -> dict[str, Any]:
        """The servers behind ATC, as the user has them now.

        Raises:
            EnvironmentProblem: the file is damaged.
        """
        try:
            servers = json.loads(self.servers_path.read_bytes()).get("mcpServers", {})
            if isinstance(servers, dict):
                return servers
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError, RecursionError):
            pass
        raise EnvironmentProblem(f"{self.servers_path} is damaged", fix="repair its JSON, then try again")

    def keep_servers(self, servers: Mapping[str, Any]) -> None:
        """Write the servers behind ATC; without any, there is no file."""
        if servers:
            write_whole(self.servers_path, json.dumps({"mcpServers": servers}, indent=2) + "\n")
        else:
            self.servers_path.unlink(missing_ok=True)

    def copy(self, content: bytes) -> Path:
        """Keep a copy of the whole file as it is now; the oldest of many copies go."""
        folder = self.folder / "backups"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{self.key}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z.bak"
        write_whole(path, content.decode("utf-8"))
        mine = sorted(each for each in folder.iterdir() if _COPY.sub("", each.name) == self.key)
        for old in mine[:-MOST_COPIES]:
            old.unlink(missing_ok=True)
        return path


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder of all records: only one process changes them at a time.

    Raises:
        EnvironmentProblem: another one does.
    """
    make_private(folder)
    folder.chmod(0o700)
    with open(folder / ".lock", "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        try:
            lock(file)
        except BlockingIOError:
            raise EnvironmentProblem("another `atc mcp install` is at work", fix="wait for it") from None
        yield


# -- a client's file: read within bounds, and written in one piece if nobody has changed it meanwhile ------------------


@dataclass(frozen=True)
class ConfigFile:
    """A client's file as it was read.

    Attributes:
        path: as the client names it. ``target``: the file itself, behind links.
        content: its bytes; ``None`` if there is none yet.
        text: without a byte order mark. ``mark``: whether it had one.
        status: mode and owner.
    """

    path: Path
    target: Path
    content: bytes | None
    text: str
    mark: bool = False
    status: os.stat_result | None = None

    @classmethod
    def read(cls, client: Client, place: Place, machine: Machine) -> ConfigFile:
        """Read the file of a client.

        Raises:
            UsageError: it is no file that ATC edits: too large, not a file, a link that leads out of the project.
            ConfigProblem: it is no UTF-8 text.
        """
        path = place.path
        target = Path(os.path.realpath(path))
        inside = target.is_relative_to(os.path.realpath(machine.project))
        if place.scope == "project" and not place.chosen and not inside:
            raise UsageError(f"{path} is a link out of the project, to {target}: name that with --config")
        try:
            status = target.lstat()
        except FileNotFoundError:
            if path.is_symlink():
                raise UsageError(f"{path} is a link to {target}, which is not there: make that file first") from None
            return cls(path, target, None, "")
        except NotADirectoryError:
            raise UsageError(f"{path} cannot be: one of its folders is a file") from None
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is no file: name another one with --config")
        if status.st_uid != os.geteuid() and os.geteuid() != 0:
            raise UsageError(f"{path} belongs to another user, whose file it would not stay: run ATC as that user")
        if status.st_size > LIMITS[client.form]:
            raise ConfigProblem(f"it has {status.st_size:,} bytes, and ATC edits none so long")
        content = target.read_bytes()
        try:
            return cls(path, target, content, content.decode("utf-8-sig"), content.startswith(codecs.BOM_UTF8), status)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ConfigProblem(f"line {line}, column 1: it is no UTF-8 text") from None

    @property
    def notes(self) -> list[str]:
        """What is worth knowing before it is written."""
        notes = [f"{self.path} is a link: {self.target} is edited"] if self.path.is_symlink() else []
        if self.status is not None and self.status.st_nlink > 1:
            notes.append(f"{self.target} has another name (a hard link), which keeps the old content")
        return notes

    def write(self, text: str, *, private: bool = True) -> None:
        """Put a text in its place, with the mode and the owner that it had.

        Args:
            private: whether a new file is for its owner alone.

        Raises:
            EnvironmentProblem: it was changed since it was read, or is read-only.
        """
        if self.content is None:
            self.target.parent.mkdir(parents=True, exist_ok=True)
        elif not os.access(self.target, os.W_OK):
            raise EnvironmentProblem(f"{self.target} is read-only", fix=f"chmod u+w {self.target}")
        self._unchanged()
        text = ("\ufeff" if self.mark else "") + text
        write_whole(self.target, text, 0o600 if private else 0o666, like=self.status)

    def remove(self) -> None:
        """Delete the file, which ATC had made.

        Raises:
            EnvironmentProblem: as :meth:`write`.
        """
        self._unchanged()
        self.target.unlink()

    def _unchanged(self) -> None:
        there = os.path.lexists(self.target)
        now = self.target.read_bytes() if there else None
        if now != self.content or Path(os.path.realpath(self.path)) != self.target:
            raise EnvironmentProblem(f"{self.path} was changed by another program just now", fix="try again")
