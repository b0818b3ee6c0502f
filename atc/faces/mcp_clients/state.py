"""What ATC remembers of a configuration that it edited: each step, the servers behind it, and copies of the file.

All of it may hold credentials: folders of mode 0700, files of 0600.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from atc.errors import EnvironmentProblem, UsageError
from atc.faces.mcp_clients.document import Edit
from atc.faces.mcp_clients.records import Client
from atc.files import lock, make_private, write_whole

MOST_COPIES = 20
_MAX_STATE = 64_000_000
_COPY = re.compile(r"\.[0-9]{8}T[0-9]{6}[0-9]{6}Z\.bak\Z")


class Step(BaseModel):
    """One edit that was made.

    Attributes:
        action: ``put`` an entry, or ``take`` one out.
        name: of the entry. ``value``: what it said. ``raw``: its text, where it stood in one piece.
        moved: the entry as ATC runs it; ``None`` if it did not move behind ATC.
        edit: the edit of the text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["put", "take"]
    name: str
    value: Any = None
    raw: str = ""
    moved: dict[str, Any] | None = None
    edit: Edit


class Record(BaseModel):
    """What was done to one file, the oldest step first.

    Attributes:
        path: the file, as the client names it.
        made_file: whether there was no such file before.
        made_keys: the keys of the mapping of servers that were not there before, from the root on.
        name: the name of ATC's entry.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    client: str
    path: str
    name: str
    made_file: bool = False
    made_keys: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


class State:
    """The records of one configuration file.

    Args:
        folder: of all records.
        path: the configuration.
        default: whether it is the one that the client has for this user, whose records have short names.
    """

    def __init__(self, folder: Path, client: Client, path: Path, *, default: bool) -> None:
        digest = "" if default else "-" + hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:10]
        self.folder, self.key = folder, f"{client.id}{digest}"

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
        content = _read(self._record_path)
        try:
            return None if content is None else Record.model_validate_json(content)
        except ValidationError:
            raise EnvironmentProblem(
                f"{self._record_path} is damaged", fix="put the servers back by hand from the copies beside it"
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
        content = _read(self.servers_path)
        try:
            found = {} if content is None else json.loads(content)
            servers = found.get("mcpServers", {}) if isinstance(found, dict) else None
        except (ValueError, RecursionError):
            servers = None
        if not isinstance(servers, dict):
            raise EnvironmentProblem(f"{self.servers_path} is damaged", fix="repair its JSON, then try again")
        return servers

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
    with open(folder / ".lock", "a", opener=_private) as file:
        try:
            lock(file)
        except BlockingIOError:
            raise EnvironmentProblem("another `atc mcp install` is at work", fix="wait for it") from None
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > _MAX_STATE:
            raise UsageError(f"{path} is larger than {_MAX_STATE:,} bytes: it is not what ATC wrote")
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
