"""The ``process`` sandbox: a fresh, locked CPython process for every program, in a millisecond or two. Linux.

Here a program is executed: r = Execute(C) of ATC §3.2, where the paper has a code interpreter. The parent of all
programs (``sandbox/zygote.py``) loads Python once; a few locked children of it always wait. Calls travel over a private
socket pair; stdout and stderr are the program's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from weakref import WeakKeyDictionary

from atc._records.outcome import Outcome
from atc.calls.contract import CallHandler
from atc.errors import FrameError, SandboxUnavailable
from atc.sandboxes.channel.frames import Printed, SocketChannel
from atc.sandboxes.channel.session import Session
from atc.sandboxes.contract import TIERS, Job, Limits, Sandbox, least
from atc.sandboxes.process.cgroup import Group, confine, memory_for, tasks_for
from atc.sandboxes.process.zygote import Exit, Jail, NoRoom, Zygote, start_zygote, zygote_settings

END_S = 5.0
"""Seconds that a killed program gets to be gone."""
MAX_RUNNING = 64
"""Programs at the same time; more wait for their turn, which their wall clock does not count."""
RAN_ON = "it closed its channel and ran on"


class JailSandbox(Sandbox):
    """The drivers whose jails are forked by a zygote and driven over descriptors."""

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self.limits = limits
        self._pool = pool
        self._closed = False
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        weakref.finalize(self, close_elsewhere, pool)

    async def prepare(self) -> None:
        await self._booted()

    async def isolation(self) -> str:
        """Return the tier that holds here.

        Raises:
            SandboxUnavailable: no tier that is accepted holds.
        """
        await self._booted()
        return self._pool.tier

    @property
    def reasons(self) -> dict[str, str]:
        """Return why stronger tiers than the one in use could not be had."""
        return dict(self._pool.reasons)

    async def run(self, job: Job, call: CallHandler) -> Outcome:
        if self._closed:
            raise SandboxUnavailable("this sandbox was closed: open another one")
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_RUNNING)):
            return await self._run(job, call)

    async def _run(self, job: Job, call: CallHandler) -> Outcome:
        jail = await self._take()
        try:
            return await self._serve(jail, job, call)
        finally:
            jail.kill()
            jail.close()
            self._pool.refill()

    async def aclose(self) -> None:
        self._closed = True
        try:
            closed = asyncio.get_running_loop().run_in_executor(None, self._pool.close)
        except RuntimeError:  # no thread can be started
            self._pool.close()
        else:
            await asyncio.shield(closed)  # it ends also where nobody waits for it any more

    async def _take(self) -> Jail:
        try:
            return self._pool.take()
        except SandboxUnavailable:
            await self._booted()
            return self._pool.take()

    async def _booted(self) -> None:
        try:
            await asyncio.wrap_future(await asyncio.to_thread(self._pool.boot))  # it starts a thread
        except (SandboxUnavailable, OSError) as error:
            raise SandboxUnavailable(self._with_advice(str(error))) from None

    def _with_advice(self, why: str) -> str:
        return (
            f"this machine cannot isolate a program as required ({why}). Nothing was run. `atc doctor` says what "
            "would help"
        )

    async def _serve(self, jail: Jail, job: Job, call: CallHandler) -> Outcome:
        began = time.perf_counter()
        limits = least(job.limits, self.limits)
        with _as_unavailable():
            channel = SocketChannel(jail.channel, limits.frame_bytes)
        session, printed = Session(channel, limits, call, job.host_time), Printed()
        try:
            try:
                async with job.clock.timeout(limits.wall_s) as deadline:
                    await session.begin(job)
                    with _as_unavailable():
                        printed.read(jail.stdout, jail.stderr, limits.output_bytes, session.share)  # while it starts
                    end = await session.serve()
            except TimeoutError:
                if not deadline.expired():
                    raise
                end = Outcome("limit", detail=f"it ran longer than {limits.wall_s:g} s")
            except FrameError as error:
                end = Outcome("violation", detail=str(error))
            seconds = time.perf_counter() - began
            if end.kind == "killed":
                exit_info = await self._ended(jail)
            else:
                printed.stop()
                exit_info = await self._end(jail)
        finally:
            channel.close()
            stdout, stderr = printed.close()
        if end.kind == "killed":
            if not exit_info.started:
                raise NoRoom(f"a program's process cannot be started: {exit_info.why}. Nothing was run")
            end = _why_it_ended(exit_info, self.limits, jail.zygote.group)
        return dataclasses.replace(
            end,
            stdout=stdout,
            stderr=stderr,
            seconds=seconds,
            cpu_s=exit_info.cpu_s,
            memory_bytes=exit_info.memory_bytes,
            isolation=jail.zygote.tier,
            host_s=session.share.used_s(),
        )

    async def _ended(self, jail: Jail) -> Exit:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                return await asyncio.wrap_future(jail.exit)
        await self._end(jail)
        return Exit(why=RAN_ON)

    async def _end(self, jail: Jail) -> Exit:
        jail.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                return await asyncio.wrap_future(jail.exit)
        return Exit(why="it could not be ended")


class ProcessSandbox(JailSandbox):
    """Fresh processes, locked by namespaces, Landlock, a seccomp filter and rlimits.

    Args:
        limits: what a program may use at most.
        require: the least tier (of :data:`atc.sandboxes.contract.TIERS`) that is accepted. The strongest that this
            machine really has is used; below ``require`` nothing runs.
        preload: packages that programs may use beside the standard library (``numpy``), loaded before the walls close.
        packages: folders to load them from; by default where this Python has its own.
        memory_together: bytes that all programs at once may use, where the host may make a control group; by default
            as much as they may one by one, up to three quarters of what there is.

    Raises:
        SandboxUnavailable: there is no such tier, or this is not Linux.
    """

    name = "process"

    def __init__(
        self,
        limits: Limits | None = None,
        require: str = "L",
        *,
        preload: Sequence[str] = (),
        packages: Sequence[str] | None = None,
        pool: int | None = None,
        memory_together: int | None = None,
    ) -> None:
        if why := why_not_here("process"):
            raise SandboxUnavailable(why)
        limits = limits or Limits()
        folders = _site_packages() if packages is None and preload else list(packages or ())

        def start(tier: str) -> Zygote:
            zygote = start_zygote(zygote_settings(tier, limits, preload, folders))
            if zygote.process is not None:
                try:
                    memory = memory_together or memory_for(limits.memory_bytes, MAX_RUNNING)
                    zygote.group = confine(zygote.process.pid, memory_bytes=memory, tasks=tasks_for(MAX_RUNNING))
                except BaseException:
                    zygote.close()
                    raise
            return zygote

        super().__init__(Pool(start, tiers_from(require), pool_size() if pool is None else pool), limits)

    @property
    def together(self) -> Group | None:
        """Return the limits of all programs together, once one ran; ``describe()`` says what is unlimited, and why."""
        return self._pool.group


@contextlib.contextmanager
def _as_unavailable() -> Iterator[None]:
    """Raise ``NoRoom`` for what only fails where descriptors or memory are used up. Nothing was run then."""
    try:
        yield
    except OSError as error:
        raise NoRoom(f"a program's descriptors cannot be read: {error.strerror}. Nothing was run") from None


def _site_packages() -> list[str]:
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def _why_it_ended(exit_info: Exit, limits: Limits, group: Group | None) -> Outcome:
    status = exit_info.status
    if status is None:
        return Outcome("violation" if exit_info.why == RAN_ON else "killed", detail=exit_info.why)
    used_up = Outcome("limit", detail=f"it used more than {limits.cpu_s} s of processor time")
    if status == -signal.SIGXCPU or (status == -signal.SIGKILL and exit_info.cpu_s >= 0.8 * limits.cpu_s):
        return used_up
    if status == -signal.SIGSYS:
        return Outcome("killed", detail="it was ended for a system call that only an attack would make")
    if status == -signal.SIGKILL and group is not None and (why := group.out_of_memory()):
        return Outcome("killed", detail=f"it was ended because {why}")
    # the kernel counts the limit in ticks of a clock; on a busy machine they run far ahead of the time that it reports
    if status == -signal.SIGKILL and exit_info.cpu_s >= 0.5 * limits.cpu_s:
        return used_up
    if status < 0:
        hint = " (did the machine run out of memory?)" if -status == signal.SIGKILL else ""
        return Outcome("killed", detail=f"it was ended by {signal.Signals(-status).name}{hint}")
    return Outcome("killed", detail=f"it left with exit status {status} before it reported an answer")


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
        """The reasons why tiers were passed over."""

    @property
    def tier(self) -> str:
        """Return the tier of the zygote in use; empty before the first."""
        return self._current.tier if self._current is not None else ""

    @property
    def group(self) -> Group | None:
        """Return the control group of the zygote in use, if it has one."""
        return self._current.group if self._current is not None else None

    def boot(self) -> Future[None]:
        """Start a zygote; done at once if one is up. Its failure is ``SandboxUnavailable``."""
        with self._lock:
            if self._current is not None and not self._current.dead:
                return _done()
            return self._begin_boot()

    def take(self) -> Jail:
        """Return a jail of one's own.

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
        """Return the boot under way, or one begun now. The lock is held."""
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
        """Return the first tier that holds, by trying; never one that was not asked for."""
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
    """Return the tiers that are accepted where ``require`` is the least.

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


_NAMES = {"darwin": "macOS", "win32": "Windows"}


def why_not_here(driver: str) -> str:
    """Return why a driver that locks programs on this very machine cannot do so; empty on Linux.

    Args:
        driver: ``process`` or ``docker``.
    """
    if sys.platform == "linux":
        return ""
    here = _NAMES.get(sys.platform, sys.platform)
    if driver == "docker":
        problem = f"the docker sandbox passes descriptors into its containers, which cannot be done on {here}"
    else:
        problem = f"the process sandbox locks programs by Landlock and seccomp, which Linux alone has: this is {here}"
    return f"{problem}. Nothing was run. {how_to_go_on()}"


def how_to_go_on() -> str:
    """Return what somebody on this system can do to run programs."""
    if sys.platform == "win32":
        return "Use ATC in WSL 2 (`wsl --install`): it is Linux"
    return (
        "Run the sandbox as a service in a Linux container, or on a Linux machine (`docker run -p 127.0.0.1:8700:8700 "
        "-e ATC_SERVE_TOKEN atc-sandbox`), and give its address: `--sandbox http://127.0.0.1:8700`, with "
        "ATC_SANDBOX_TOKEN set to the same token"
    )
