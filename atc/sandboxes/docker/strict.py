"""One container a program: a few of them always wait, each with one jail in it."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future

from atc.errors import SandboxUnavailable
from atc.sandboxes.process.pool import Pool, Start
from atc.sandboxes.process.zygote import Jail, NoRoom, Zygote

WAITING = 3
"""Containers that wait."""
_STARTS_AT_ONCE = 4


class StrictPool(Pool):
    """Jails that share nothing: no container ever sees a second program. For any thread.

    Args:
        start: starts a container with a zygote of a tier in it.
        tiers: those that may be used, strongest first.
        size: containers to keep waiting.
    """

    def __init__(self, start: Start, tiers: tuple[str, ...], size: int = WAITING) -> None:
        super().__init__(start, tiers, size)
        self._slots = threading.Semaphore(_STARTS_AT_ONCE)
        self._starting: list[threading.Thread] = []
        self._asked: deque[Future[Jail]] = deque()
        self._boots: list[Future[None]] = []
        self._lent: list[Jail] = []
        self._tier = ""

    @property
    def tier(self) -> str:
        return self._tier

    def boot(self) -> Future[None]:
        """Start a container; done at once if one waits."""
        booted: Future[None] = Future()
        booted.set_running_or_notify_cancel()
        with self._lock:
            if any(not jail.exit.done() for jail in self._waiting):
                booted.set_result(None)
                return booted
            self._boots.append(booted)
            self._start_more(1)
        return booted

    def take(self) -> Jail:
        """Refuse: in this pool a container is lent (:meth:`lend`).

        Raises:
            SandboxUnavailable: always.
        """
        raise SandboxUnavailable("a container of one's own is lent")

    def lend(self) -> Future[Jail]:
        """A jail of one's own: one that waits, else the next that is up. Its failure is ``SandboxUnavailable``."""
        asked: Future[Jail] = Future()
        with self._lock:
            while self._waiting:
                jail = self._waiting.popleft()
                self._lent.append(jail)
                if not jail.exit.done():
                    asked.set_result(jail)
                    return asked
                jail.close()
            self._asked.append(asked)
            self._start_more(len(self._asked))
        return asked

    def refill(self) -> None:
        """Remove the containers of the runs that are over, and start others in their place."""
        with self._lock:
            over = [jail for jail in self._lent if jail.channel.fileno() < 0]
            self._lent = [jail for jail in self._lent if jail.channel.fileno() >= 0]
            self._start_more(self._size - len(self._waiting) + len(self._asked))
        for jail in over:
            jail.zygote.close()

    def close(self) -> None:
        """End every container; what is just being started ends as soon as it is up."""
        with self._lock:
            self._closed = True
            starting = list(self._starting)
        self._end_all()
        for thread in starting:
            thread.join()
        self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            jails = [*self._waiting, *self._lent]
            self._waiting.clear()
            self._lent = []
        for jail in jails:
            jail.zygote.close()
            jail.close()

    # -- containers on their way; the lock is held where it says so --------------------------------------------------

    def _start_more(self, wanted: int) -> None:
        """Have so many on their way. The lock is held."""
        for _ in range(0 if self._closed else wanted - len(self._starting)):
            thread = threading.Thread(target=self._start_one, name="atc-docker", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                if not self._starting:
                    self._fail(NoRoom(f"no thread can be started: {error}"))
                return
            self._starting.append(thread)
        if self._closed:
            self._fail(SandboxUnavailable("the sandbox was closed"))

    def _start_one(self) -> None:
        zygote: Zygote | None = None
        try:
            with self._slots:
                zygote = self._strongest()
            jail = zygote.spawn()
        except BaseException as error:
            if zygote is not None:
                zygote.close()
            with self._lock:
                self._starting.remove(threading.current_thread())
                self._fail(error)
            return
        with self._lock:
            self._starting.remove(threading.current_thread())
            self._tier = zygote.tier
            if not self._closed:
                self._deliver(jail)
                return
            self._fail(SandboxUnavailable("the sandbox was closed"))
        zygote.close()
        jail.close()

    def _deliver(self, jail: Jail) -> None:
        """Give a jail to the first caller who still waits, else keep it waiting. The lock is held."""
        self._settle_boots(None)
        while self._asked:
            asked = self._asked.popleft()
            if asked.set_running_or_notify_cancel():
                self._lent.append(jail)
                asked.set_result(jail)
                return
        self._waiting.append(jail)

    def _fail(self, error: BaseException) -> None:
        """Fail everybody who waits: what stopped this container stops the next. The lock is held."""
        self._settle_boots(error)
        while self._asked:
            asked = self._asked.popleft()
            if asked.set_running_or_notify_cancel():
                asked.set_exception(error)

    def _settle_boots(self, error: BaseException | None) -> None:
        for booted in self._boots:
            booted.set_result(None) if error is None else booted.set_exception(error)
        self._boots.clear()
