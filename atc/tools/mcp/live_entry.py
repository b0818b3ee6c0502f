"""One server of several, as it comes and goes: its list, whether it is down and why, and when it is listed again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from atc.errors import ToolImportError
from atc.result import Effect
from atc.tools.mcp.connection import Connection, McpServer
from atc.tools.mcp.failures import Unreachable
from atc.tools.mcp.kept_lists import KeptList, KeptLists, server_key
from atc.tools.mcp.listing import Listed, ListUnread, listed, listed_over
from atc.tools.mcp.live_server import Hooks, LiveServer
from atc.tools.mcp.logins import Logins
from atc.tools.mcp.off_loop import off_loop
from atc.tools.mcp.protocols import protocol_of
from atc.tools.mcp.spec import ServerSpec
from atc.tools.mcp.transport import McpTransport
from atc.tools.names import tool_name
from atc.tools.protocol import Protocol
from atc.tools.tool import Tool

MAX_LINE = 300
"""Characters of the line that says why a server is down."""

MAX_DOCUMENT = 400_000
"""Characters of the document of one tool."""

MINUTE_S = 60.0
_LOOKS_S = 2.0
_TURN_S = 5.0
_LOG = logging.getLogger(__name__)


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
        spec: the server.
        limits: of calls, starts and time.
        lists: where its list is kept.
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
        hooks = Hooks(self._started, self._unreachable, self._list_changed)
        self.server = LiveServer(
            spec,
            hooks,
            timeout_s=limits.timeout_s,
            start_timeout_s=limits.start_timeout_s,
            max_bytes=limits.max_bytes,
        )
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
        self.server.page_bytes = kept.page_bytes
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
                tool = Tool(named, McpTransport(original, protocol.effect is Effect.READ, self.server))
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
            self._go_down(str(error), error.cause)

    def _list_changed(self) -> None:
        self._changes.append(time.monotonic())
        self._wanted.set()

    def _go_down(self, reason: str, cause: str | None) -> None:
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
                self._go_down("has a list of tools that could not be read", None)

    async def _pause(self) -> None:
        """Wait until the list may be read: a changed one is quiet, a failed server had its rest or was logged in at."""
        if not self.why:
            await asyncio.sleep(self._quiet_s())
            return
        before = self._login_stamp()
        while (wait_s := self.server.backoff.wait_s) > 0 and self._login_stamp() == before:  # noqa: ASYNC110 - a file
            await asyncio.sleep(min(wait_s, _LOOKS_S))

    def _login_stamp(self) -> int:
        return self._logins.stamp(self.spec.url) if self.spec.url else 0

    def _quiet_s(self) -> float:
        """Seconds to wait before a list is read: the more, the more often it has changed in the last minute."""
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
                self._go_down(error.reason, error.cause)
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
        """Raise ListUnread where there is no list to be had."""
        running = over or (self.server.running() if not self.why else None)
        if running is not None:
            try:
                found = await listed_over(running, self._limits.start_timeout_s)
                return await asyncio.to_thread(self._made_of, found)
            except ListUnread:
                if not running.over:
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
        server = McpServer(
            self.spec,
            timeout_s=limits.timeout_s,
            start_timeout_s=limits.start_timeout_s,
            max_bytes=limits.max_bytes,
        )
        return self._made_of(await listed(server, limits.start_timeout_s))

    def _made_of(self, found: Listed) -> KeptList:
        """Documents of the tools of a list, and the list kept. What cannot be a tool costs a line."""
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
        kept = KeptList.of(made, found.page_bytes, self._kept)
        if self._lists is not None:
            self._lists.write(self._key, kept)
        return kept

    def _protocol(self, tool: Any) -> Protocol:
        about: dict[str, str] = {"title": self.label, "server": self.spec.identity}
        made = protocol_of(tool, tool_name(tool.name), self.spec.location, trust_hints=True, **about)
        return made.model_copy(update={"description": self.spec.secrets.text(made.description)})
