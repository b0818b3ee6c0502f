"""The tools that a server lists: read over a conversation, and kept on disk so that nobody waits for the server."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from atc._host.files import make_private, open_plain, write_whole
from atc.errors import ToolImportError
from atc.schemas.protocol import Protocol
from atc.tools.mcp.connection import Connection
from atc.tools.mcp.failures import MORE, Unreachable, reason_of
from atc.tools.mcp.spec import ServerSpec
from atc.tools.mcp.streams import MAX_NOTES, MAX_TOOLS

MAX_PAGES = 500
"""Pages of one server's list."""


class ListUnread(ToolImportError):
    """A server's list cannot be read.

    Args:
        server: as messages call it.
        reason: why, to stand after that.
    """

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"the MCP server {server} {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Listed:
    """A list as it came."""

    tools: list[Any]
    notes: tuple[str, ...] = ()


async def all_listed(specs: Sequence[ServerSpec], timeout_s: float, max_bytes: int) -> list[Listed]:
    """The lists of all servers, read at once.

    Raises:
        ListUnread: one of the lists cannot be read.
    """
    tasks = [asyncio.create_task(listed(spec, timeout_s, max_bytes)) for spec in specs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def listed(spec: ServerSpec, timeout_s: float, max_bytes: int) -> Listed:
    """All tools of one server, over a conversation of its own.

    Args:
        timeout_s: seconds until it must be ready, and again until its list must be read.
        max_bytes: bytes of one answer, and of the whole list.

    Raises:
        ListUnread: the list cannot be read.
    """
    connection = Connection(spec, max_bytes=max_bytes, start_timeout_s=timeout_s)
    try:
        return await listed_over(connection, timeout_s)
    finally:
        await connection.close()


async def listed_over(connection: Connection, timeout_s: float) -> Listed:
    """All tools of one server, over a conversation that somebody else ends.

    Raises:
        ListUnread: the list cannot be read.
    """
    spec = connection.spec
    try:
        await connection.ready()
        async with asyncio.timeout(timeout_s):
            return await _pages(connection)
    except Unreachable as error:
        raise ListUnread(spec.location, str(error)) from None
    except TimeoutError:
        summary = connection.log.summary(spec)
        raise ListUnread(spec.location, f"did not list its tools within {timeout_s:g} s{summary}") from None
    except (ToolImportError, asyncio.CancelledError):
        raise
    except Exception as error:  # whatever the SDK raises about what a stranger sent
        await connection.settled()
        reason = reason_of(error, connection.exchange, spec) + connection.log.summary(spec)
        raise ListUnread(spec.location, f"gave no usable list of tools: it {reason}") from None


async def _pages(connection: Connection) -> Listed:
    where = connection.spec.location
    found: dict[str, Any] = {}
    notes: list[str] = []
    connection.looked.notes.clear()
    cursor, seen, size, most = None, set[str](), 0, connection.max_bytes
    for _ in range(MAX_PAGES):
        page = await connection.page(cursor)
        for tool in page.tools:
            first = found.setdefault(tool.name, tool)
            if first is not tool and first != tool and len(notes) < MAX_NOTES:
                notes.append(f"two tools are named {tool.name[:80]!r}: the first of them stays")
        size += len(page.model_dump_json())
        if len(found) > MAX_TOOLS:
            raise ListUnread(where, f"lists more than {MAX_TOOLS:,} tools: let it offer fewer")
        if size > most:
            raise ListUnread(where, f"has a list of tools of more than {most:,} bytes: {MORE}")
        cursor = page.next_cursor
        if cursor in seen:
            notes.append(f"its list goes in a circle: page {cursor[:80]!r} comes twice, and what came before is taken")
        if cursor is None or cursor in seen:
            return Listed(list(found.values()), tuple(dict.fromkeys([*connection.looked.notes, *notes]))[:MAX_NOTES])
        seen.add(cursor)
    raise ListUnread(where, f"has more than {MAX_PAGES} pages of tools: let it put more on one")


# -- lists that are kept -----------------------------------------------------------------------------------------------

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
        once: the names at the server of all tools that it has, or ever had; they decide what its tools are called.
        tools: documents of the tools it has, under names that do not yet tell them from those of other servers.
    """

    model_config = ConfigDict(frozen=True)

    listed_at: float
    once: tuple[str, ...] = ()
    tools: tuple[Protocol, ...] = ()

    @classmethod
    def of(cls, tools: Sequence[Protocol], before: KeptList | None) -> KeptList:
        """A list that was read now; ``before``: the one that was kept until now."""
        now = [tool.source.operation for tool in tools]
        once = dict.fromkeys([*now, *(before.once if before is not None else ())])
        return cls(listed_at=time.time(), once=tuple(once)[:MAX_ONCE], tools=tuple(tools))

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
    """The kept lists of a folder, which is made with the first. Only its owner reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str, server: str) -> KeptList | None:
        """The kept list of a server; ``None`` where there is none. A damaged one is dropped, with a line."""
        path = self._path(key)
        try:
            with open_plain(path) as file:
                head, _, body = file.read(MAX_FILE_BYTES).partition(b"\n")
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


# -- in a thread with an event loop of its own: what a stranger sends is parsed there, while calls go on here ----------

T = TypeVar("T")


async def off_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work elsewhere, and wait for it. Cancelled, it cancels the work and waits for its end."""
    here = asyncio.get_running_loop()
    done: asyncio.Future[T] = here.create_future()
    inner: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    begun = threading.Event()

    def settle(value: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)  # type: ignore[arg-type]
        elif isinstance(error, asyncio.CancelledError):
            done.cancel()
        else:
            done.set_exception(error)

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        inner.append((asyncio.get_running_loop(), task))
        begun.set()
        return await work()

    def inside() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = asyncio.run(main())
        except BaseException as raised:  # handed to the one who waits
            error = raised
        begun.set()
        here.call_soon_threadsafe(settle, value, error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(inside,), name="atc-mcp-list", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if not done.done():
            await asyncio.to_thread(begun.wait)
            for loop, task in inner:
                with suppress(RuntimeError):  # it has ended by now
                    loop.call_soon_threadsafe(task.cancel)
            await asyncio.wait({done})
            if not done.cancelled():
                done.exception()  # seen: nobody waits for it any more
        raise
