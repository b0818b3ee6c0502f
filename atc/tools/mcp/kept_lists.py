"""Lists of tools that are kept on disk, so that nobody waits for a server to hear what it offers."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from atc.files import make_private, write_whole
from atc.tools.mcp.spec import ServerSpec
from atc.tools.protocol import Protocol

FOLDER = "mcp-lists"
"""Of the lists, in the folder of the catalogue."""

MAX_FILE_BYTES = 60_000_000
"""Bytes of one kept list: documents that stand alone are longer than what the server sent."""

MAX_FILES = 500
"""Lists that are kept; those that were written the longest ago go first."""

MAX_ONCE = 10_000
"""Names that are remembered of tools which a server once had."""

_FORM = 1
_LOG = logging.getLogger(__name__)


class KeptList(BaseModel):
    """What a server listed.

    Attributes:
        listed_at: when, in seconds since 1970.
        page_bytes: of the largest page of the list as it came.
        once: the names at the server of all tools that it has, or ever had; they decide what its tools are called.
        tools: documents of the tools it has, under names that do not yet tell them from those of other servers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    listed_at: float
    page_bytes: int = 0
    once: tuple[str, ...] = ()
    tools: tuple[Protocol, ...] = ()

    @classmethod
    def of(cls, tools: Sequence[Protocol], page_bytes: int, before: KeptList | None) -> KeptList:
        """A list that was read now; ``before``: the one that was kept until now."""
        now = [tool.source.operation for tool in tools]
        once = dict.fromkeys([*now, *(before.once if before is not None else ())])
        return cls(listed_at=time.time(), page_bytes=page_bytes, once=tuple(once)[:MAX_ONCE], tools=tuple(tools))

    def at(self, server: str) -> KeptList:
        """The list with what the server is known by (:attr:`Source.server`), which an older list does not say."""
        sources = (tool.source.model_copy(update={"server": server}) for tool in self.tools)
        tools = (t.model_copy(update={"source": s}) for t, s in zip(self.tools, sources, strict=True))
        return self.model_copy(update={"tools": tuple(tools)})


def server_key(spec: ServerSpec) -> str:
    """What tells a server from others on disk: a digest of how it is reached, without its credentials."""
    shown = {
        "name": spec.name,
        "location": spec.location,
        "command": [spec.secrets.text(word) for word in spec.command],
        "env": sorted(spec.env),
        "cwd": spec.cwd,
        "headers": sorted(spec.headers),
    }
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class KeptLists:
    """The kept lists of a folder. Only its owner reads them.

    Args:
        folder: is made with the first list.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str, server: str) -> KeptList | None:
        """The kept list of a server; ``None`` where there is none. A damaged one is dropped, with a line.

        Args:
            key: of the server (:func:`server_key`).
            server: what the line calls it.
        """
        path = self._path(key)
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ValueError("it is too large")
            head, _, body = path.read_bytes().partition(b"\n")
            if head != _head(key, body):
                raise ValueError("it is cut off, or was changed")
            return KeptList.model_validate_json(body)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, ValueError) as error:
            why = "it is no list of tools" if isinstance(error, ValidationError) else str(error)
            _LOG.warning("the kept list of tools of the MCP server %s is dropped: %s", server, why)
            with suppress(OSError):
                path.unlink()
            return None

    def write(self, key: str, kept: KeptList) -> None:
        """Keep a list. Where the disk takes none, a line says so; the list is read again the next time."""
        body = kept.model_dump_json(exclude_defaults=True).encode("utf-8", "replace")
        if len(body) > MAX_FILE_BYTES:
            return
        try:
            make_private(self._folder)
            write_whole(self._path(key), _head(key, body).decode() + "\n" + body.decode())
            self._prune()
        except OSError as error:
            _LOG.warning("lists of tools cannot be kept in %s: %s", self._folder, error.strerror or error)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _prune(self) -> None:
        files = list(self._folder.glob("*.json"))
        if len(files) <= MAX_FILES:
            return
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[:-MAX_FILES]:
            path.unlink(missing_ok=True)


def _head(key: str, body: bytes) -> bytes:
    """The first line: a damaged file, one of another form, and one under a wrong name do not have it."""
    return f"atc-mcp-list {_FORM} {key} {hashlib.sha256(body).hexdigest()}".encode()
