"""The ``docker`` sandbox: the same locked processes, inside a container without network, rights or a writable file.

One hardened container runs the parent of all programs (``sandbox/zygote.py``, from the image); each program's
descriptors are passed in over a local socket, so a call costs what it costs without a container. In strict mode every
program gets a container of its own. ``docs/docker.md`` says what each wall is for.
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
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from atc.errors import SandboxUnavailable
from atc.resources import resource_dir
from atc.sandboxes.contract import Limits
from atc.sandboxes.docker.engine import ContainerOutput, Engine
from atc.sandboxes.docker.hardening import SHARED, Hardening
from atc.sandboxes.docker.strict import StrictPool
from atc.sandboxes.elsewhere import why_not_here
from atc.sandboxes.process.driver import JailSandbox
from atc.sandboxes.process.pool import Pool, tiers_from
from atc.sandboxes.process.zygote import BOOT_S, Jail, NoRoom, Zygote, zygote_settings

_INSIDE = "/opt/atc"
"""Where the image keeps its ``sandbox`` and its ``packages``."""
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
    """Starts containers, over one connection to the engine that is made when it is first needed."""

    def __init__(self, image: str, limits: Limits, preload: tuple[str, ...], hardening: Hardening) -> None:
        self._image, self._limits, self._preload, self._hardening = image, limits, preload, hardening
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def start(self, tier: str) -> Zygote:
        """A container with the parent of programs in it, which has seen that every wall stands.

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
                "builds it anew"
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
    """A folder to meet in, and to be removed once that is done: the container keeps what it has mounted.

    Any user may write into it, as the container's is not ours and an engine may number users in its own way. Only we
    get there: the folder around it is closed to everybody else, and the container holds no other user.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
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
    """Connect to the socket that the container makes, when it has.

    Raises:
        SandboxUnavailable: it ended before, makes no socket, or there are no descriptors left.
    """
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
