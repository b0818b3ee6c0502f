"""The runs that a service has granted: who may have how many, and the token that opens each one's channel."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from atc.serve.request_guard import Refusal
from atc.serve.tokens import digest_of

RETRY_AFTER_S = 1
LEAST_UNUSED = 4
"""Grants that a tenant may have unused in any case."""


@dataclass
class Run:
    """A run that was granted. ``task`` is what serves it, once its caller has connected."""

    id: str
    tenant: str
    digest: bytes
    expiry: asyncio.TimerHandle
    task: asyncio.Task[None] | None = None
    connected: bool = False


class Runs:
    """The runs of one service. For one event loop.

    Args:
        most: runs at the same time.
        most_per_tenant: of these, one tenant's. ``None``: a tenant is granted one more while it has fewer than are
            free. So one that is greedy has half of all, two have a third each, and another always finds room.
        connect_s: seconds in which a run's caller must connect.
        dropped: is called with each run whose caller never did.
    """

    def __init__(
        self, most: int, most_per_tenant: int | None, connect_s: float, dropped: Callable[[Run], None]
    ) -> None:
        self._most, self._most_per_tenant, self._connect_s = most, most_per_tenant, connect_s
        self._dropped = dropped
        self._runs: dict[str, Run] = {}
        self._by_tenant: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def connected(self) -> int:
        """Return how many runs have a connected caller."""
        return sum(run.connected for run in self._runs.values())

    def grant(self, tenant: str) -> tuple[Run, str]:
        """Return a new run and the token of its channel.

        Raises:
            Refusal: the service is full, or ends.
        """
        if self.draining:
            raise Refusal(503, "draining", "this replica is ending: ask again, another takes over", retry_after=1)
        if len(self._runs) >= self._most:
            text = f"{self._most} runs are going on, which is all this service does at once: ask again"
            raise Refusal(429, "full", text, retry_after=RETRY_AFTER_S)
        has, most = self._by_tenant[tenant], self._most_of_one
        if has >= most:
            text = f"this tenant has {has} runs already, and the others need room: wait for one to end"
            raise Refusal(429, "tenant_full", text, retry_after=RETRY_AFTER_S)
        if self._unused[tenant] >= max(LEAST_UNUSED, self._most_unused):
            text = f"this tenant has {self._unused[tenant]} grants that it does not use: connect to them first"
            raise Refusal(429, "unused", text, retry_after=RETRY_AFTER_S)
        number, token = secrets.token_hex(16), secrets.token_urlsafe(32)
        expiry = asyncio.get_running_loop().call_later(self._connect_s, self._expire, number)
        run = self._runs[number] = Run(number, tenant, digest_of(token), expiry)
        self._by_tenant[tenant] += 1
        self._unused[tenant] += 1
        self._idle.clear()
        return run, token

    def connect(self, number: str, token: str) -> Run:
        """Return the run that a channel is for. A token opens one channel, once.

        Raises:
            Refusal: there is no such run, the token is not its, or it was used.
        """
        run = self._runs.get(number)
        if run is None:
            text = f"there is no such run here: it has ended, was not connected to within {self._connect_s:g} s, or"
            raise Refusal(404, "unknown_run", f"{text} is another replica's")
        if not hmac.compare_digest(run.digest, digest_of(token)):
            raise Refusal(401, "channel_token", "the channel token is not this run's")
        if run.connected:
            raise Refusal(409, "channel_used", "the channel token was used already: ask for a new run")
        run.connected = True
        self._used(run.tenant)
        run.task = asyncio.current_task()
        run.expiry.cancel()
        return run

    def end(self, run: Run) -> None:
        """Forget a run; its token opens nothing any more."""
        if self._runs.pop(run.id, None) is None:
            return
        run.expiry.cancel()
        if not run.connected:
            self._used(run.tenant)
        self._by_tenant[run.tenant] -= 1
        if not self._by_tenant[run.tenant]:
            del self._by_tenant[run.tenant]
        if not self._runs:
            self._idle.set()

    async def drain(self, seconds: float) -> int:
        """Grant no more; let runs end within ``seconds``, then end the rest. Return how many those were."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            left = list(self._runs.values())
            for run in left:
                if run.task is not None:
                    run.task.cancel()
                else:
                    self.end(run)
            await asyncio.gather(*(run.task for run in left if run.task is not None), return_exceptions=True)
            return len(left)
        return 0

    @property
    def _most_of_one(self) -> int:
        free = self._most - len(self._runs)
        return free if self._most_per_tenant is None else self._most_per_tenant

    @property
    def _most_unused(self) -> int:
        """Return how many grants a tenant may leave unused: half of its own, where others wait; else all."""
        if self._most_per_tenant is None:
            return self._most // 4
        return self._most if self._most_per_tenant >= self._most else self._most_per_tenant // 2

    def _used(self, tenant: str) -> None:
        self._unused[tenant] -= 1
        if not self._unused[tenant]:
            del self._unused[tenant]

    def _expire(self, number: str) -> None:
        run = self._runs.get(number)
        if run is not None and not run.connected:
            self.end(run)
            self._dropped(run)
