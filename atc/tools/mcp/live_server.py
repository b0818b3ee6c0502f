"""One server of several, as it comes and goes: its list, whether it is down and why, when it is tried again."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from mcp import Client

from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.names import tool_name
from atc.schemas.protocol import Protocol
from atc.tools.mcp.connection import Connection, HeldServer, McpServer
from atc.tools.mcp.failures import Unreachable
from atc.tools.mcp.importer import protocol_of
from atc.tools.mcp.lists import KeptList, KeptLists, Listed, ListUnread, listed, listed_over, off_loop, server_key
from atc.tools.mcp.logins import Logins
from atc.tools.mcp.spec import ServerSpec
from atc.tools.mcp.transport import McpTransport
from atc.tools.tool import Tool

# -- when a server that failed may be tried again ----------------------------------------------------------------------

FIRST_S = 1.0
MOST_S = 300.0
"""Seconds before the third try, and at most."""


class Backoff:
    """Exponential, with jitter: many clients of one server do not come back at the same moment."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.5),
    ) -> None:
        self._clock, self._jitter = clock, jitter
        self.failures = 0
        self._not_before = clock()

    def failed(self) -> None:
        """It failed once more."""
        self.failures += 1
        delay = 0.0 if self.failures == 1 else min(MOST_S, FIRST_S * 2.0 ** min(self.failures - 2, 30)) * self._jitter()
        self._not_before = self._clock() + delay

    def well(self) -> None:
        """It works."""
        self.failures = 0
        self._not_before = self._clock()

    @property
    def wait_s(self) -> float:
        """Seconds until it may be tried again."""
        return max(0.0, self._not_before - self._clock())


# -- the server, which stays up between runs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What servers may take.

    Attributes:
        timeout_s: seconds that one call may take in all.
        start_timeout_s: seconds until a server must be ready, and again until its list must be read.
        max_bytes: bytes of one answer.
        idle_s: seconds without a call, after which a server that no run holds is ended.
        at_once: lists that are read at once.
        max_age_s: seconds after which a kept list is read anew without waiting for a call.
        quiet_s: seconds that a changed list must be quiet before it is read; more where it changes again and again.
    """

    timeout_s: float = 30.0
    start_timeout_s: float = 60.0
    max_bytes: int = 5_000_000
    idle_s: float = 600.0
    at_once: int = 4
    max_age_s: float = 86_400.0
    quiet_s: float = 0.3


@dataclass(frozen=True)
class Hooks:
    """Whom a server tells what becomes of it.

    Attributes:
        started: it answers, after a start; no call is made before this is done. It raises Unreachable where there
            shall be none.
        unreachable: it could not be started or reached, and why.
        list_changed: it says that its list has changed.
    """

    started: Callable[[], Awaitable[None]]
    unreachable: Callable[[Unreachable], None]
    list_changed: Callable[[], None]


class _Waiting(Unreachable):
    """It failed, and is not tried again yet."""


class LiveServer(McpServer):
    """A server that runs and clients share.

    Attributes:
        effects: of its tools, by their names there, as it listed them last.
    """

    def __init__(self, spec: ServerSpec, hooks: Hooks, limits: Limits) -> None:
        super().__init__(
            spec, timeout_s=limits.timeout_s, start_timeout_s=limits.start_timeout_s, max_bytes=limits.max_bytes
        )
        self.backoff = Backoff()
        self._hooks = hooks
        self._calls = 0
        self._used = time.monotonic()
        self._told: Connection | None = None
        self._telling = asyncio.Lock()
        self.effects: Mapping[str, Effect] = {}
        self._counted: Connection | None = None
        self._why = ""  # it could not be started or reached the last time

    def connect(self) -> Connection:
        """Begin a conversation, in which the server may say that its list has changed."""
        return Connection(
            self.spec,
            max_bytes=self.max_bytes,
            start_timeout_s=self._start_timeout_s,
            mode=self._mode,
            on_list_changed=self._hooks.list_changed,
        )

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[Connection, Client]]:
        """The conversation that all share, ready.

        Raises:
            Unreachable: the server cannot be used now; no call was made.
        """
        self._calls += 1
        try:
            async with self._reached() as both:
                yield both
        finally:
            self._calls -= 1
            self._used = time.monotonic()

    @asynccontextmanager
    async def _reached(self) -> AsyncIterator[tuple[Connection, Client]]:
        inside = False
        try:
            async with super().connected() as (connection, client):
                async with self._telling:
                    if connection is not self._told:
                        await self._hooks.started()
                        self._told = connection
                if connection.over:
                    raise Unreachable("ended before a call was made")
                inside = True
                yield connection, client
        except Unreachable as error:
            if not inside:
                held = self._current()
                self._failed(held.connection if held is not None else None)
                self._why = self._why if isinstance(error, _Waiting) else str(error)
                self._hooks.unreachable(error)
            raise

    def reads_still(self, name: str) -> bool:
        """Whether its last list still says so of a tool. A kept list was as old as it was, and nobody was asked."""
        return self.effects.get(name, Effect.READ) is Effect.READ

    def answered(self) -> None:
        self.backoff.well()

    def unreached(self, error: Unreachable) -> None:
        """A request did not get through, or was not let in: the server is down until its list can be read again."""
        self.backoff.failed()
        self._why = str(error)
        self._hooks.unreachable(error)

    def _ensure_startable(self, held: HeldServer) -> None:
        if self.backoff.failures > 1 and (wait_s := self.backoff.wait_s) > 0:
            failures = self.backoff.failures
            last = f" (the last time it {self._why})" if self._why else ""
            raise _Waiting(f"has failed {failures} times and is tried again in {wait_s:.0f} s{last}", soon=False)

    def _live(self, held: HeldServer) -> Connection:
        if held.connection is not None and held.connection.over:
            self._failed(held.connection)
        return super()._live(held)

    def _failed(self, connection: Connection | None) -> None:
        """A conversation has failed: it counts once, however many calls waited for it."""
        if connection is not None and connection is not self._counted:
            self._counted = connection
            self.backoff.failed()

    def running(self) -> Connection | None:
        """The conversation of this event loop, where there is one that has not ended."""
        held = self._current()
        return held.connection if held is not None and held.connection and not held.connection.over else None

    def end_idle(self, idle_s: float) -> bool:
        """End the server where nobody has used it for so long, and no run holds it. Returns whether it was ended."""
        held = self._current()
        if held is None or held.connection is None or self._users() > 1 or self._calls:
            return False
        if time.monotonic() - self._used < idle_s:
            return False
        self._end(held)
        return True


# -- its entry: the list is kept true ----------------------------------------------------------------------------------

MAX_LINE = 300
"""Characters of the line that says why a server is down."""

MAX_DOCUMENT = 400_000
"""Characters of the document of one tool."""

MINUTE_S = 60.0
_LOOKS_S = 2.0
_TURN_S = 5.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class State:
    """What is known of a server at one moment.

    Attributes:
        label: the server's name for people.
        why: it is down; empty where it is not.
        once: the names at the server of all tools that it has or ever had.
        tools: documents of the tools it offers now.
    """

    label: str
    why: str
    once: tuple[str, ...]
    tools: tuple[Protocol, ...]


class Entry:
    """One server behind the gateway. Entered, it keeps the server's list true.

    Args:
        label: the server's name for people.
        limits: of calls, starts and time.
        slots: how many lists are read at once, of all servers together.
        changed: is called when its tools, or whether it is down, may have changed.
    """

    def __init__(
        self,
        label: str,
        spec: ServerSpec,
        limits: Limits,
        lists: KeptLists | None,
        slots: asyncio.Semaphore,
        changed: Callable[[], None],
    ) -> None:
        self.label, self.spec, self.why = label, spec, ""
        self.settled = asyncio.Event()
        self._limits, self._lists, self._slots, self._tell = limits, lists, slots, changed
        self.server = LiveServer(spec, Hooks(self._started, self._unreachable, self._list_changed), limits)
        self._key = server_key(spec)
        self._kept: KeptList | None = None
        if (kept := lists.read(self._key, spec.location) if lists is not None else None) is not None:
            self._know(kept.at(spec.identity))
        self._logins = Logins.of_user()
        self._made: dict[str, tuple[Protocol, Tool]] = {}
        self._wanted = asyncio.Event()
        self._changes: deque[float] = deque(maxlen=8)
        self._listing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def state(self) -> State:
        """What is known of it now."""
        kept = self._kept
        if kept is None:
            return State(self.label, self.why, (), ())
        return State(self.label, self.why, kept.once, () if self.why else kept.tools)

    def _know(self, kept: KeptList) -> None:
        self._kept = kept
        self.server.effects = {tool.source.operation: tool.effect for tool in kept.tools}

    def tools(self, state: State, names: Mapping[str, str]) -> Iterator[Tool]:
        """The tools of a state, under names that tell them apart. One that has not changed is the same object."""
        for protocol in state.tools:
            original = protocol.source.operation
            name, before = names[original], self._made.get(original)
            if before is not None and before[1].name == name and before[0] == protocol:
                tool = before[1]
            else:
                named = protocol if protocol.name == name else protocol.model_copy(update={"name": name})
                reads, typed = protocol.effect is Effect.READ, protocol.returns is not None
                tool = Tool(named, McpTransport(original, reads, self.server, typed=typed))
            self._made[original] = (protocol, tool)
            yield tool

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        kept = self._kept
        if kept is None or time.time() - kept.listed_at > self._limits.max_age_s:
            self._wanted.set()
        if kept is not None:
            self.settled.set()
        self._task = asyncio.create_task(self._keep_true(), name=f"atc-mcp-{self.label[:40]}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.server.__aexit__(kind, error, trace)

    # -- what the server says ------------------------------------------------------------------------------------------

    async def _started(self) -> None:
        # another version of it may list other tools, or say otherwise what they do
        await self.relisted(self.server.running())
        if self.why:
            raise Unreachable("gave no usable list of tools", soon=False)

    def _unreachable(self, error: Unreachable) -> None:
        if error.soon:  # one that is waited for has said why before
            self._go_down(str(error))

    def _list_changed(self) -> None:
        self._changes.append(time.monotonic())
        self._wanted.set()

    def _go_down(self, reason: str) -> None:
        line = " ".join(f"{self.spec.location} {reason}".split())
        self.why = line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
        self._wanted.set()
        self._tell()

    # -- the list ------------------------------------------------------------------------------------------------------

    async def _keep_true(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._pause()
            try:
                await self.relisted()
            except Exception:  # a bug of ours about what a stranger sent: the others go on
                _LOG.exception("the list of tools of the MCP server %s could not be read", self.spec.location)
                self._go_down("has a list of tools that could not be read")

    async def _pause(self) -> None:
        if not self.why:
            await asyncio.sleep(self._quiet_s())
            return
        before = self._login_stamp()
        while (wait_s := self.server.backoff.wait_s) > 0 and self._login_stamp() == before:  # noqa: ASYNC110 - a file
            await asyncio.sleep(min(wait_s, _LOOKS_S))

    def _login_stamp(self) -> int:
        return self._logins.stamp(self.spec.url) if self.spec.url else 0

    def _quiet_s(self) -> float:
        now = time.monotonic()
        recent = sum(now - at < MINUTE_S for at in self._changes)
        return min(MINUTE_S, self._limits.quiet_s * 2.0 ** max(0, recent - 1)) if recent else 0.0

    async def relisted(self, over: Connection | None = None) -> None:
        """Read the list anew, and keep it; or say why that cannot be done.

        Args:
            over: the conversation that is used; else the one that goes on, or one of its own.
        """
        async with self._listing:
            try:
                kept = await self._read(over)
            except ListUnread as error:
                self.server.backoff.failed()
                self._go_down(error.reason)
            else:
                was_down, before = bool(self.why), self._kept
                if was_down:  # one that lists its tools and dies of each call is not well
                    self.server.backoff.well()
                self.why = ""
                self._know(kept)
                if was_down or before is None or before.tools != kept.tools:
                    self._tell()
            finally:
                self.settled.set()

    async def _read(self, over: Connection | None) -> KeptList:
        running = over or (self.server.running() if not self.why else None)
        if running is not None:
            try:
                found = await listed_over(running, self._limits.start_timeout_s)
                return await asyncio.to_thread(self._made_of, found)
            except ListUnread:
                if not running.over or running.log.too_large:
                    raise
                if self._kept is not None:  # it died of something else, a call perhaps: what is known stays
                    return self._kept
        async with self._slots:
            reading = asyncio.create_task(off_loop(self._from_elsewhere))
            try:  # who is silent for longer does not keep the others waiting
                await asyncio.wait({reading}, timeout=_TURN_S)
            except asyncio.CancelledError:
                reading.cancel()
                await asyncio.wait({reading})
                raise
        return await reading

    async def _from_elsewhere(self) -> KeptList:
        limits = self._limits
        return self._made_of(await listed(self.spec, limits.start_timeout_s, limits.max_bytes))

    def _made_of(self, found: Listed) -> KeptList:
        made: list[Protocol] = []
        skipped = list(found.notes)
        for tool in found.tools:
            try:
                protocol = self._protocol(tool)
                if (size := len(protocol.model_dump_json())) > MAX_DOCUMENT:
                    raise ToolImportError(f"its document has {size:,} characters; the limit is {MAX_DOCUMENT:,}")
                made.append(protocol)
            except ToolImportError as error:
                skipped.append(f"the tool {tool.name[:100]!r} is left out: {error}")
        for line in skipped[:5]:
            _LOG.warning("%s: %s", self.label, line)
        kept = KeptList.of(made, self._kept)
        if self._lists is not None:
            self._lists.write(self._key, kept)
        return kept

    def _protocol(self, tool: Any) -> Protocol:
        about: dict[str, str] = {"title": self.label, "server": self.spec.identity}
        made = protocol_of(tool, tool_name(tool.name), self.spec.location, trust_hints=True, **about)
        return made.model_copy(update={"description": self.spec.secrets.text(made.description)})
