"""Where a service's programs run: a process sandbox for each tenant and each set of limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable

from atc.sandboxes.contract import FIXED, Limits
from atc.sandboxes.process.driver import ProcessSandbox

_Key = tuple[str | int, ...]

Make = Callable[[Limits], ProcessSandbox]


class Jails:
    """Sandboxes that are kept for the next program of the same kind. For one event loop.

    No two tenants share one: programs of the same parent share its memory layout and its hash seed.

    Args:
        make: makes a sandbox with these limits, of no weaker tier than the service promised.
        keep: sandboxes to keep that run nothing.
    """

    def __init__(self, make: Make, max_idle: int) -> None:
        self._make, self._max_idle = make, max_idle
        self._sandboxes: OrderedDict[_Key, ProcessSandbox] = OrderedDict()
        self._users: dict[_Key, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lent(self, tenant: str, limits: Limits) -> AsyncIterator[ProcessSandbox]:
        """A sandbox for one run. What is not used for long is closed when others take its place."""
        key = (tenant, *(getattr(limits, name) for name in FIXED))
        if key not in self._sandboxes:
            self._sandboxes[key] = self._make(limits)
        self._sandboxes.move_to_end(key)
        self._users[key] = self._users.get(key, 0) + 1
        try:
            yield self._sandboxes[key]
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
            self._let_go()

    async def aclose(self) -> None:
        """Close every sandbox and end its programs."""
        sandboxes = list(self._sandboxes.values())
        self._sandboxes.clear()
        await asyncio.gather(*self._closing, *(sandbox.aclose() for sandbox in sandboxes))

    def _let_go(self) -> None:
        idle = [key for key in self._sandboxes if key not in self._users]
        while len(idle) > self._max_idle:  # of who has most: one with many kinds of limits does not cost others theirs
            most, _ = Counter(tenant for tenant, *_ in idle).most_common(1)[0]
            key = next(key for key in idle if key[0] == most)
            idle.remove(key)
            task = asyncio.create_task(self._sandboxes.pop(key).aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
