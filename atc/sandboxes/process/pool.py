"""Jails that wait: zygotes by tier, and a few locked processes ahead of the programs to come."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import TIERS
from atc.sandboxes.process.cgroup import Group
from atc.sandboxes.process.zygote import Jail, NoRoom, Zygote

RECYCLE_PROGRAMS = 1000
RECYCLE_S = 600.0
"""A zygote's children share its addresses and its hash seed: after so many, or so long, another takes its place."""

Start = Callable[[str], Zygote]
"""Starts a zygote of a tier; raises ``SandboxUnavailable``."""


class Pool:
    """One zygote at a time, and ``size`` jails of it that wait. For any thread.

    Args:
        start: starts a zygote of a tier.
        tiers: those that may be used, strongest first; the first that holds is.
        size: jails to keep waiting.
    """

    def __init__(self, start: Start, tiers: tuple[str, ...], size: int) -> None:
        self._start, self._tiers, self._size = start, tiers, size
        self._lock = threading.Lock()
        self._current: Zygote | None = None
        self._retired: list[Zygote] = []
        self._waiting: deque[Jail] = deque()
        self._booting: Future[None] | None = None
        self._closed = False
        self.reasons: dict[str, str] = {}
        """Why a tier was passed over."""

    @property
    def tier(self) -> str:
        """The tier of the zygote in use; empty before the first."""
        return self._current.tier if self._current is not None else ""

    @property
    def group(self) -> Group | None:
        """The control group of the zygote in use, if it has one."""
        return self._current.group if self._current is not None else None

    def boot(self) -> Future[None]:
        """Start a zygote; done at once if one is up. Its failure is ``SandboxUnavailable``."""
        with self._lock:
            if self._current is not None and not self._current.dead:
                return _done()
            return self._begin_boot()

    def take(self) -> Jail:
        """A jail of one's own.

        Raises:
            SandboxUnavailable: the zygote is gone: :meth:`boot` first.
        """
        with self._lock:
            while self._waiting:
                jail = self._waiting.popleft()
                if (
                    not jail.exit.done() and not jail.zygote.dead
                ):  # the ends of a dead one's children may not be reported yet
                    return jail
                jail.close()
            current = self._current
        if current is None or current.dead:
            raise SandboxUnavailable("the parent of the sandbox's programs is gone")
        return current.spawn()

    def refill(self) -> None:
        """Make the pool full again, by a new zygote if this one has done its share. After a run, not before it."""
        with self._lock:
            current, missing = self._current, self._size - len(self._waiting)
            if self._closed or current is None or current.dead:
                return
            old = current.spawned >= RECYCLE_PROGRAMS or time.monotonic() - current.born > RECYCLE_S
            if old:
                self._begin_boot()
        for _ in range(missing):
            try:
                jail = current.spawn()
            except SandboxUnavailable:
                return
            with self._lock:
                self._waiting.append(jail)
        self._end_retired()

    def close(self) -> None:
        """End every zygote and all their programs."""
        with self._lock:
            self._closed = True
            zygotes = [*self._retired, *([self._current] if self._current else [])]
            waiting, self._waiting, self._retired, self._current = list(self._waiting), deque(), [], None
            booting = self._booting
        for zygote in zygotes:
            zygote.close()
        for jail in waiting:
            jail.close()
        if booting is not None and not booting.done():
            booting.exception()  # it ends what it has started, as we are closed

    # -- a new zygote ------------------------------------------------------------------------------------------------

    def _begin_boot(self) -> Future[None]:
        """The boot under way, or one begun now. The lock is held."""
        if self._booting is None or self._booting.done():
            self._booting = Future()
            self._booting.set_running_or_notify_cancel()  # one who waits may give up, the others wait on
            thread = threading.Thread(target=self._boot, args=(self._booting,), name="atc-sandbox", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._booting.set_exception(NoRoom(f"no thread can be started: {error}"))
        return self._booting

    def _boot(self, booted: Future[None]) -> None:
        try:
            zygote = self._strongest()
        except BaseException as error:
            booted.set_exception(error)
            return
        with self._lock:
            closed, old = self._closed, self._current
            if not closed:
                self._current = zygote
                if old is not None:
                    self._retired.append(old)
                left = list(self._waiting)
                self._waiting.clear()
        if closed:
            zygote.close()
            booted.set_exception(SandboxUnavailable("the sandbox was closed"))
            return
        for jail in left:
            jail.kill()
            jail.close()
        booted.set_result(None)
        self.refill()

    def _strongest(self) -> Zygote:
        """The first tier that holds, by trying; never one that was not asked for."""
        for tier in self._tiers:
            try:
                return self._start(tier)
            except NoRoom:
                raise  # no fault of the tier
            except SandboxUnavailable as error:
                self.reasons[tier] = str(error)
        raise SandboxUnavailable("; ".join(f"{tier}: {why}" for tier, why in self.reasons.items()))

    def _end_retired(self) -> None:
        with self._lock:
            over = [zygote for zygote in self._retired if not zygote.running]
            self._retired = [zygote for zygote in self._retired if zygote.running]
        for zygote in over:
            zygote.close()


def close_elsewhere(pool: Pool) -> None:
    """Close a pool that nobody has any more, in a thread of its own; at the interpreter's end, here.

    Garbage is collected in any thread: also in the one that boots this pool, which :meth:`Pool.close` waits for, or in
    one that holds its lock.
    """
    if threading.main_thread().is_alive():
        with contextlib.suppress(RuntimeError):  # no thread can be started any more
            threading.Thread(target=pool.close, name="atc-sandbox-end").start()
            return
    pool.close()


def tiers_from(require: str) -> tuple[str, ...]:
    """The tiers that are accepted where ``require`` is the least.

    Raises:
        SandboxUnavailable: there is no such tier.
    """
    if require not in TIERS:
        raise SandboxUnavailable(f"there is no tier {require!r} of isolation: choose from {', '.join(TIERS)}")
    return TIERS[: TIERS.index(require) + 1]


def pool_size() -> int:
    """Jails to keep waiting: three for each processor that this process may use, eight at most."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, 3 * count)


def _done() -> Future[None]:
    made: Future[None] = Future()
    made.set_result(None)
    return made
