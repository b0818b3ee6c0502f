"""The processor time of the service itself, by tenant: what it spends on each, and nobody more than leaves room.

One event loop serves all. A tenant whose programs call, print or are answered without end takes its time, whatever the
jails are held to. So each step of the loop on behalf of a tenant is counted, and who has had its share is read later.
What is reported is processor time. What is shared is the loop's time by the clock: on a machine that others keep busy a
step lasts long and uses little.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from atc.calls.clock import HostTime

STRANGERS = "(strangers)"
"""The account of the time until a token is shown. No tenant's name has parentheses."""
LEFT = 0.5
"""The share of the loop's time that one tenant may use while others use little: mostly they find it free."""
BURST_S = 0.01
"""Seconds that a tenant may use at once before it is held to its share."""
SMOOTH_S = 0.5
"""Seconds over which it is measured who uses how much."""
ACTIVE = 0.005
"""The least share of the loop's time: no share is kept for a tenant that uses less."""
LOOK_S = 0.05
"""Seconds for which it is remembered who is active."""
SETTLE_S = 0.001
"""Seconds that are used before it is looked at again who has how much."""
MOST_WAIT_S = 1.0
"""A tenant is looked at again after so long, whatever it owes."""

_PAYER: ContextVar[Visit | None] = ContextVar("payer", default=None)


class Account(HostTime):
    """Counts what one tenant has used. It may go on while it owes nothing.

    Args:
        accounts: of all tenants.

    Attributes:
        waited_s: seconds for which its channels were held back, one after the other.
    """

    def __init__(self, accounts: Accounts) -> None:
        super().__init__()
        self._accounts = accounts
        self._level, self._at = BURST_S, time.monotonic()
        self._use = Use(self._at)
        self._new_s = 0.0
        self.waited_s = 0.0

    def charge(self, seconds: float, cpu_s: float) -> None:
        """Charge it with so many seconds of the loop, and of the processor."""
        self.used_s += cpu_s
        self._new_s += seconds
        if self._new_s > SETTLE_S:
            self._settle()

    def use(self, now: float) -> float:
        """Return its share of the loop's time lately, from 0 to about 1."""
        return self._use.lately(now)

    def wait_s(self) -> float:
        """Return the seconds to wait before more is done for it; 0 while it may go on."""
        if self._level >= self._new_s:  # more may have come since, which changes nothing
            return 0.0
        rate = self._settle()
        if self._level >= 0:
            return 0.0
        wait = min(-self._level / rate, MOST_WAIT_S)
        self.waited_s += wait
        return wait

    async def turn(self, most_s: float = math.inf) -> bool:
        """Wait until it may go on; false if that is not so within ``most_s`` seconds."""
        while (wait := self.wait_s()) > 0:
            if most_s <= 0:
                return False
            await asyncio.sleep(min(wait, most_s))
            most_s -= wait
        return True

    def _settle(self) -> float:
        now = time.monotonic()
        self._use.add(self._new_s, now)
        self._accounts.all_use.add(self._new_s, now)
        rate = self._accounts.rate(self, now)
        self._level = min(self._level + rate * (now - self._at), BURST_S) - self._new_s
        self._at, self._new_s = now, 0.0
        return rate


class Use:
    """Averages how much of the time was used lately, and forgets."""

    def __init__(self, now: float) -> None:
        self._use, self._at = 0.0, now

    def add(self, seconds: float, now: float) -> None:
        self._use = self.lately(now) + seconds / SMOOTH_S
        self._at = now

    def lately(self, now: float) -> float:
        return self._use * math.exp((self._at - now) / SMOOTH_S)


class Accounts:
    """The accounts of a service's tenants. For one event loop.

    Args:
        tenants: their names.
    """

    def __init__(self, tenants: Iterable[str]) -> None:
        now = time.monotonic()
        self.all_use = Use(now)
        self._strangers = Account(self)
        self._of = {name: Account(self) for name in tenants}
        self._active: set[Account] = set()
        self._looked = 0.0

    def of(self, tenant: str) -> Account:
        """Return its account."""
        return self._of[tenant]

    def items(self) -> Iterable[tuple[str, Account]]:
        """Return all, by name; what nobody showed a token for, too."""
        return [*self._of.items(), (STRANGERS, self._strangers)]

    def visit(self) -> Visit:
        """Count on behalf of somebody who has not shown who he is."""
        return Visit(self._strangers)

    def rate(self, account: Account, now: float) -> float:
        """Return the share of the loop's time that it may use now: what the others leave, and an equal share at least.

        Strangers are held back for tenants, and no tenant for them.
        """
        if now - self._looked > LOOK_S:
            self._looked = now
            self._active = {each for each in self._of.values() if each.use(now) > ACTIVE}
        others = len(self._active - {account})
        if not others:
            return 1.0
        return max(1 / (others + 1), LEFT - (self.all_use.lately(now) - account.use(now)))


class Visit:
    """One connection's: what is done for it is paid by whom it turns out to belong to.

    Args:
        strangers: who pays where it belongs to nobody.
    """

    def __init__(self, strangers: Account) -> None:
        self._strangers = strangers
        self._spent_s = self._cpu_s = 0.0
        self._counting = False
        self.account: Account | None = None

    def charge(self, seconds: float, cpu_s: float) -> None:
        """Count so many seconds of the loop, and of the processor, that were spent on it."""
        if self.account is not None:
            self.account.charge(seconds, cpu_s)
        else:
            self._spent_s += seconds
            self._cpu_s += cpu_s

    def belongs_to(self, account: Account) -> None:
        """Charge all that was spent to the account whose token was shown."""
        self.account = account
        account.charge(self._spent_s, self._cpu_s)
        self._spent_s = self._cpu_s = 0.0

    def settle(self) -> None:
        """Charge what belongs to nobody to strangers: a request is answered, or the connection over."""
        if self.account is None:
            self._strangers.charge(self._spent_s, self._cpu_s)
            self._spent_s = self._cpu_s = 0.0

    def run(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call it, and count what that takes."""
        if self._counting:  # within another
            callback(*arguments)
            return
        self._counting = True
        began, cpu_s = time.monotonic(), time.thread_time()
        try:
            callback(*arguments)
        finally:
            self._counting = False
            self.charge(time.monotonic() - began, time.thread_time() - cpu_s)

    def first(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call it as :meth:`run` does, and count all that it begins on the loop, too."""
        token = _PAYER.set(self)
        try:
            self.run(callback, *arguments)
        finally:
            _PAYER.reset(token)

    def wait_s(self) -> float:
        """Return the seconds to wait before more is done for it."""
        return (self.account or self._strangers).wait_s()


def visit_of_this() -> Visit | None:
    """On whose behalf this is done."""
    return _PAYER.get()


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts each step of what a visit began on it, and reads later for a tenant that has had its share."""

    def __init__(self) -> None:
        super().__init__()
        self._parked: dict[int, asyncio.TimerHandle] = {}

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        visit = _PAYER.get() if context is None else context.get(_PAYER)
        if visit is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(visit.run, callback, *args, context=context)

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self._unpark(fd)
        visit = _PAYER.get()
        if visit is None:
            super().add_reader(fd, callback, *args)
        else:
            super().add_reader(fd, self._read, visit, fd, callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return self._unpark(fd) or super().remove_reader(fd)

    def _read(self, visit: Visit, fd: Any, callback: Any, arguments: tuple[Any, ...]) -> None:
        if wait := visit.wait_s():
            super().remove_reader(fd)
            self._parked[_number(fd)] = self.call_later(wait, self.add_reader, fd, callback, *arguments)
        else:
            visit.run(callback, *arguments)

    def _unpark(self, fd: Any) -> bool:
        timer = self._parked.pop(_number(fd), None)
        if timer is not None:
            timer.cancel()
        return timer is not None


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())
