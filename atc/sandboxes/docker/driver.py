"""The ``docker`` sandbox: the same locked processes, inside a container without network, rights or a writable file.

One hardened container runs the parent of all programs (``sandbox/zygote.py``, from the image); each program's
descriptors are passed in over a local socket, so a call costs what it costs without a container. In strict mode every
program gets a container of its own. ``docs/service.md`` says what each wall is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path
from typing import Any

from atc._host.files import resource_dir
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Limits
from atc.sandboxes.docker.engine import SHARED, ContainerOutput, Engine, Hardening
from atc.sandboxes.process.driver import JailSandbox, Pool, Start, tiers_from, why_not_here
from atc.sandboxes.process.zygote import BOOT_S, Jail, NoRoom, Zygote, zygote_settings

_INSIDE = "/opt/atc"
"""The folder of the image's ``sandbox`` and ``packages``."""
_SOCKET = "control"
_WAITING = 3
"""Jails that wait in a container. Fewer than on the host itself: a container's memory is counted, and paid for."""
_AT_ONCE = 2
"""Programs that may use up all their memory at the same time in one container."""


class DockerSandbox(JailSandbox):
    """Fresh locked processes in a hardened container of a local Docker engine.

    Args:
        limits: what a program may use at most.
        require: the least tier (of :data:`atc.sandboxes.contract.TIERS`) that is accepted inside the container: ``L``,
            or ``F``. Namespaces within a container (``N``) would need rights that the container is denied.
        strict: one container a program, hidden by a few that wait.
        image: built by ``make image``, or made from that image.
        preload: packages of the image that programs may use beside the standard library.

    Raises:
        SandboxUnavailable: there is no such tier here, or this is not Linux.
    """

    name = "docker"

    def __init__(
        self,
        limits: Limits | None = None,
        require: str = "L",
        *,
        strict: bool = False,
        image: str = "atc-sandbox",
        preload: Sequence[str] = (),
    ) -> None:
        if why := why_not_here("docker"):
            raise SandboxUnavailable(why)
        limits = limits or Limits()
        tiers = tuple(tier for tier in tiers_from(require) if tier != "N")
        if not tiers:
            raise SandboxUnavailable(
                f"the docker sandbox cannot isolate as tier {require}: its container may make no namespaces. Require L "
                "(Landlock and seccomp, inside the container's own namespaces), or use the process sandbox"
            )
        hardening = Hardening.for_programs(limits, 1 if strict else _AT_ONCE)
        self._starter = _Starter(image, limits, tuple(preload), hardening)
        self._strict = StrictPool(self._starter.start, tiers) if strict else None
        super().__init__(self._strict or Pool(self._starter.start, tiers, _WAITING), limits)

    async def aclose(self) -> None:
        await super().aclose()
        await asyncio.to_thread(self._starter.close)

    async def _take(self) -> Jail:
        if self._strict is None:
            return await super()._take()
        asked = self._strict.lend()
        try:
            return await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            if not asked.cancel() and asked.exception() is None:
                asked.result().close()  # it was just given
            raise
        except (SandboxUnavailable, OSError) as error:
            raise SandboxUnavailable(self._with_advice(str(error))) from None

    def _with_advice(self, why: str) -> str:
        return f"the docker sandbox cannot be had ({why}). Nothing was run. `atc doctor` says what is there"


class _Starter:
    def __init__(self, image: str, limits: Limits, preload: tuple[str, ...], hardening: Hardening) -> None:
        self._image, self._limits, self._preload, self._hardening = image, limits, preload, hardening
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def start(self, tier: str) -> Zygote:
        """Start a container with the parent of programs in it, which has seen that every wall stands.

        Raises:
            SandboxUnavailable: it cannot be had; nothing of it is left.
        """
        engine = self._connected()
        packages = [f"{_INSIDE}/packages"] if self._preload else []
        settings = zygote_settings(tier, self._limits, self._preload, packages)
        settings |= {"listen": f"{SHARED}/{_SOCKET}", "verify": self._hardening.to_verify()}
        zygote = _start_container(engine, self._image, settings, self._hardening.create_options())
        if zygote.ready.get("digest") != sandbox_digest():
            zygote.close()
            raise SandboxUnavailable(
                f"the image {self._image} holds another version of the sandbox than this installation: `make image` "
                "builds it again"
            )
        return zygote

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _connected(self) -> Engine:
        with self._lock:
            if self._engine is None:
                engine = Engine()
                try:
                    engine.reap()
                except BaseException:
                    engine.close()
                    raise
                self._engine = engine
            return self._engine


def _start_container(engine: Engine, image: str, settings: dict[str, Any], options: dict[str, Any]) -> Zygote:
    command = ["python", "-I", "-S", f"{_INSIDE}/sandbox/zygote.py", json.dumps(settings)]
    with _private_folder() as folder:
        container = engine.create(image, command, folder, SHARED, options)
        output: ContainerOutput | None = None
        try:
            output = engine.start(container)
            control = _dial(folder / _SOCKET, engine, container)
            zygote = Zygote(control, on_close=partial(engine.remove_soon, container))
            zygote.begin()
        except SandboxUnavailable as error:
            engine.remove(container)
            last = output.last() if output is not None else ""
            raise SandboxUnavailable(f"{error}: {last}" if last else str(error)) from None
        except BaseException:
            engine.remove(container)
            raise
        finally:
            if output is not None:
                output.close()
    return zygote


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """Any user may write into it, as the container's is not ours and an engine may number users in its own way. Only we
    get there: the folder around it is closed to everybody else, and the container holds no other user."""
    try:
        around = Path(tempfile.mkdtemp(prefix="atc-docker-"))
    except OSError as error:
        raise SandboxUnavailable(f"no temporary folder can be made ({error}): free space, or set TMPDIR") from None
    try:
        folder = around / "shared"
        folder.mkdir()
        folder.chmod(0o777)
        yield folder
    finally:
        shutil.rmtree(around, ignore_errors=True)


def _dial(path: Path, engine: Engine, container: str) -> socket.socket:
    """Raises SandboxUnavailable: it ended before, makes no socket, or there are no descriptors left."""
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            os.close(folder)
            raise
    except OSError as error:
        raise NoRoom(f"its channel cannot be opened: {error.strerror} (see `ulimit -n`)") from None
    deadline = time.monotonic() + BOOT_S
    look = time.monotonic() + 0.25
    try:
        while True:
            try:
                there = os.open(path.name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)  # no link leads out of the folder
                try:
                    if not stat.S_ISSOCK(os.fstat(there).st_mode):
                        raise SandboxUnavailable("its container made something that is no socket")
                    made.connect(f"/proc/self/fd/{there}")
                    return made
                finally:
                    os.close(there)
            except (FileNotFoundError, ConnectionRefusedError, PermissionError):
                time.sleep(0.003)  # not there, not listening, not ours yet
            if time.monotonic() > look:
                if not engine.is_running(container):
                    raise SandboxUnavailable("its container ended at once")
                look = time.monotonic() + 0.25
            if time.monotonic() > deadline:
                raise SandboxUnavailable("its container does not answer: does the engine run on this machine?")
    except OSError as error:
        made.close()
        raise NoRoom(f"its channel cannot be opened: {error.strerror}") from None
    except BaseException:
        made.close()
        raise
    finally:
        os.close(folder)


@cache
def sandbox_digest() -> str:
    """Return the hash of this installation's ``sandbox/``; ``sandbox/inside.py`` reports that of an image."""
    made = hashlib.sha256()
    for file in sorted(resource_dir("sandbox").glob("*.py")):
        made.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()


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
        """Return a jail of one's own: one that waits, else the next. Its failure is ``SandboxUnavailable``."""
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
