"""A server that stays up between runs: started at its first call, ended when idle, started again ever more slowly."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp import Client

from atc.tools.mcp.backoff import Backoff
from atc.tools.mcp.connection import Connection, HeldServer, McpServer
from atc.tools.mcp.failures import Unreachable
from atc.tools.mcp.spec import ServerSpec


@dataclass(frozen=True)
class Hooks:
    """Whom a server tells what becomes of it. None of them may wait.

    Attributes:
        started: it answers, after a start.
        unreachable: it could not be started or reached, and why.
        list_changed: it says that its list has changed.
    """

    started: Callable[[], None]
    unreachable: Callable[[Unreachable], None]
    list_changed: Callable[[], None]


class LiveServer(McpServer):
    """A server that runs and clients share.

    Args:
        spec: the server.
        hooks: what it tells.
        timeout_s: seconds that one call may take in all.
        start_timeout_s: seconds until the server must be ready.
        max_bytes: bytes of one answer.
        backoff: when it may be started again.
    """

    def __init__(
        self,
        spec: ServerSpec,
        hooks: Hooks,
        *,
        timeout_s: float,
        start_timeout_s: float,
        max_bytes: int,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(spec, timeout_s=timeout_s, start_timeout_s=start_timeout_s, max_bytes=max_bytes)
        self.backoff = backoff or Backoff()
        self.page_bytes = 0
        self._hooks = hooks
        self._calls = 0
        self._used = time.monotonic()
        self._told: Connection | None = None
        self._counted: Connection | None = None

    def connect(self, max_bytes: int | None = None) -> Connection:
        """Begin a conversation. A message may be as long as twice the list's largest page, where that is more."""
        return Connection(
            self.spec,
            max_bytes=max(max_bytes or self.max_bytes, 2 * self.page_bytes),
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
                inside = True
                if connection is not self._told:
                    self._told = connection
                    self._hooks.started()
                yield connection, client
        except Unreachable as error:
            if not inside:
                held = self._current()
                self._failed(held.connection if held is not None else None)
                self._hooks.unreachable(error)
            raise

    def answered(self) -> None:
        """The server is well."""
        self.backoff.well()

    def unreached(self, error: Unreachable) -> None:
        """A request did not get through, or was not let in: the server is down until its list can be read again."""
        self.backoff.failed()
        self._hooks.unreachable(error)

    def _ensure_startable(self, held: HeldServer) -> None:
        if self.backoff.failures > 1 and (wait_s := self.backoff.wait_s) > 0:
            failures = self.backoff.failures
            raise Unreachable(f"has failed {failures} times and is tried again in {wait_s:.0f} s", soon=False)

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
