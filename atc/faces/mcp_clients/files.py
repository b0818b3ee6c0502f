"""A client's file: read within bounds, and written in one piece if nobody has changed it meanwhile."""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from atc.errors import EnvironmentProblem, UsageError
from atc.faces.mcp_clients.documents import KINDS
from atc.faces.mcp_clients.problems import ConfigProblem
from atc.faces.mcp_clients.records import Client, Machine, Place
from atc.files import lock, write_whole

_BYTES_A_CHARACTER = 4


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
        target = _behind_links(path)
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
        limit = KINDS[client.form].limit
        if status.st_size > limit * _BYTES_A_CHARACTER:
            raise ConfigProblem(f"it has {status.st_size:,} bytes, and ATC edits none so long")
        content = target.read_bytes()
        mark = content.startswith(codecs.BOM_UTF8)
        try:
            text = content[len(codecs.BOM_UTF8) if mark else 0 :].decode("utf-8")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ConfigProblem("it is no UTF-8 text", line=line, column=1) from None
        return cls(path, target, content, text, mark, status)

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
            EnvironmentProblem: it was changed since it was read, or another program has it locked.
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
        changed = EnvironmentProblem(f"{self.path} was changed by another program just now", fix="try again")
        if _behind_links(self.path) != self.target:
            raise changed
        try:
            with self.target.open("rb") as file:
                with suppress(OSError):  # a file system without locks
                    try:
                        lock(file)
                    except BlockingIOError:
                        locked = f"{self.path} is locked by another program"
                        raise EnvironmentProblem(locked, fix="close it, then try again") from None
                now = file.read(len(self.content or b"") + 1)
        except FileNotFoundError:
            if self.content is None:
                return
            raise changed from None
        if now != self.content:
            raise changed


def _behind_links(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
