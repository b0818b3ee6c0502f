"""The parent of all programs (the zygote), host side: started, driven, and never left behind. Linux.

One thread reads the messages of a zygote; everything else may be used from any thread and any event loop.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from atc._host.files import resource_dir
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import FIXED, Limits
from atc.sandboxes.process.cgroup import Group

NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS)
"""The kernel's errors where descriptors, memory or processes are used up: for now, and not by a tier's fault."""
BOOT_S = 30.0
"""Seconds that a zygote gets to load Python and to enter its walls."""
_MESSAGE = 65536
_log = logging.getLogger(__name__)
_SHORT, _ENDED = struct.Struct("=cQ"), struct.Struct("=cQidQ")
"""The messages about every program: ``spawn``, ``kill`` and ``spawned`` by number; a number, status, seconds, bytes."""
_GONE = -2


class NoRoom(SandboxUnavailable):
    """Descriptors, memory or processes are used up. No tier is to blame: a weaker one is not tried for that."""


@dataclass(frozen=True)
class Exit:
    """Describes how a process ended: its status (negative: a signal), processor seconds, peak resident bytes.

    ``status`` is ``None`` if nobody can know it (see ``why``): its parent ended first, or it was never ``started``.
    """

    status: int | None = None
    cpu_s: float = 0.0
    memory_bytes: int = 0
    why: str = ""
    started: bool = True


@dataclass
class Jail:
    """A locked process that waits for one program. :meth:`close` when its end is known."""

    number: int
    zygote: Zygote
    channel: socket.socket
    stdout: int
    stderr: int
    exit: Future[Exit] = field(default_factory=Future)
    pidfd: int = -1

    def __post_init__(self) -> None:
        self.exit.set_running_or_notify_cancel()  # whoever waits may give up; the end is recorded all the same

    def kill(self) -> None:
        """End it; its :attr:`exit` follows."""
        self.zygote.kill(self)

    def close(self) -> None:
        """Close our ends of its descriptors. It does not end the process."""
        self.zygote.let_go(self)
        self.channel.close()
        for fd in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(fd)


class Zygote:
    """A running parent of programs, driven over a socket.

    Args:
        control: the connected socket (messages kept whole).
        process: the process to wait for in the end, where it is our child.
        on_close: called once it is closed, where something else must go too; may be called again.
    """

    def __init__(
        self,
        control: socket.socket,
        process: subprocess.Popen[bytes] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._control, self.process, self._on_close = control, process, on_close
        self._lock = threading.Lock()
        self._jails: dict[int, Jail] = {}
        self.spawned = 0
        self.born = time.monotonic()
        self.dead = False
        self.tier = ""
        self.ready: dict[str, Any] = {}
        self.group: Group | None = None  # that holds it and its programs, where there is one; goes when it goes
        self._reader = threading.Thread(target=self._listen, name="atc-zygote", daemon=True)
        _OPEN.add(self)

    def begin(self) -> None:
        """Wait until it has entered its walls and tried them.

        Raises:
            SandboxUnavailable: they cannot be had, or do not hold; the message says which. Nothing of it is left.
        """
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        try:
            self._control.settimeout(BOOT_S)
            data = self._control.recv(_MESSAGE)
            self._control.settimeout(None)
        except OSError as error:  # it took too long, or ended
            if error.errno in NO_ROOM:
                raise NoRoom(f"its answer cannot be read: {error.strerror}") from None
            data = b""
        if not data:
            raise SandboxUnavailable(f"it did not come up{_last_words(self.process)}")
        message = json.loads(data)
        if message["op"] != "ready":
            raise SandboxUnavailable(str(message.get("why")))
        self.tier, self.ready = message["tier"], message
        try:
            self._reader.start()
        except RuntimeError as error:
            raise NoRoom(f"no thread can be started for it: {error}") from None

    def spawn(self) -> Jail:
        """Fork a jail. It locks itself while its first frame may already be on its way.

        Raises:
            SandboxUnavailable: the zygote is gone, or this process has no descriptors left.
        """
        ours, theirs, stdout, stderr, *passed = _ends()
        with self._lock:
            self.spawned += 1
            jail = Jail(self.spawned, self, ours, stdout, stderr)
            self._jails[jail.number] = jail
        try:
            self._send({"op": "spawn", "id": jail.number}, [*passed, theirs.fileno()])
        except OSError as error:
            self._jails.pop(jail.number, None)
            jail.close()
            if error.errno in NO_ROOM:
                raise NoRoom(f"a program's process cannot be asked for: {error.strerror}") from None
            self.dead = True
            raise SandboxUnavailable("the parent of the sandbox's programs is gone") from None
        finally:
            theirs.close()
            for fd in passed:
                os.close(fd)
        return jail

    def kill(self, jail: Jail) -> None:
        """End a jail's process. One that has ended is left alone."""
        with self._lock:
            if jail.number not in self._jails:
                return
            if jail.pidfd >= 0:
                try:
                    signal.pidfd_send_signal(jail.pidfd, signal.SIGKILL)
                except ProcessLookupError:
                    return  # it is over, and its end is about to be reported
                except OSError:
                    pass  # of another user, or (EINVAL) outside our process namespace, in a container: its parent may
                else:
                    return
        try:
            self._send({"op": "kill", "id": jail.number})
        except OSError:
            self._hang_up()  # it ends all its programs then: rather that than one that runs on

    def let_go(self, jail: Jail) -> None:
        """Close what is held of a jail here."""
        with self._lock:
            if jail.pidfd >= 0:
                os.close(jail.pidfd)
            jail.pidfd = _GONE

    @property
    def running(self) -> int:
        """Jails that have not ended, waiting ones among them."""
        return len(self._jails)

    def close(self) -> None:
        """End it and all its programs. May be called twice, from any thread."""
        self._hang_up()
        if self.process is not None:
            try:
                self.process.wait(1.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(1.0)
        self._control.close()
        if self.group is not None:
            self.group.close()
        self._settle()
        if self._on_close is not None:
            self._on_close()

    def _hang_up(self) -> None:
        self.dead = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)

    def _send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        socket.send_fds(self._control, [_SHORT.pack(message["op"][:1].encode(), message["id"])], fds)

    def _listen(self) -> None:
        try:
            while self._receive():
                pass
        except Exception as error:
            _log.warning("the parent of the sandbox's programs is replaced: %s: %s", type(error).__name__, error)
        finally:  # however it ends: whoever waits for a jail must get an exit, and no program lives on unheard
            self._hang_up()
            self._settle()

    def _receive(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _MESSAGE, 1)
        except OSError:
            return False
        if not data:
            return False
        message = _decoded(data)
        if message["op"] == "spawned":
            self._spawned(message["id"], fds)
        elif message["op"] == "ended":
            jail = self._jails.pop(message["id"], None)
            if jail is not None:
                jail.exit.set_result(
                    Exit(
                        message["status"],
                        message.get("cpu_s", 0.0),
                        message.get("memory_bytes", 0),
                        message.get("why", ""),
                        started=message["status"] is not None,
                    )
                )
        return True

    def _spawned(self, number: int, fds: list[int]) -> None:
        """Keep what a jail can be ended by. The kernel drops it while this process has no descriptors left."""
        with self._lock:
            jail = self._jails.get(number)
            if jail is not None and jail.pidfd != _GONE and fds:
                jail.pidfd = fds.pop()
        for fd in fds:
            os.close(fd)

    def _settle(self) -> None:
        """Give every jail that is left an exit: nobody will report how it ended."""
        with self._lock:
            left = list(self._jails.values())
            self._jails.clear()
        for jail in left:
            jail.exit.set_result(Exit(why="the parent of the sandbox's programs was ended"))

    def forget(self) -> None:
        """Close the socket in a fork of this process, without ending anything."""
        self._control.close()


def _decoded(data: bytes) -> dict[str, Any]:
    if data[:1] == b"s":
        return {"op": "spawned", "id": _SHORT.unpack(data)[1]}
    if data[:1] == b"e":
        _, number, status, cpu_s, memory_bytes = _ENDED.unpack(data)
        return {"op": "ended", "id": number, "status": status, "cpu_s": cpu_s, "memory_bytes": memory_bytes}
    message: dict[str, Any] = json.loads(data)
    return message


def _ends() -> tuple[socket.socket, socket.socket, int, int, int, int]:
    """Return a new jail's channel, ours and its own; our ends of its stdout and stderr; its own.

    Raises:
        SandboxUnavailable: there are no descriptors left; none is kept.
    """
    with contextlib.ExitStack() as opened:
        try:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            out = os.pipe2(os.O_CLOEXEC)
            for fd in out:
                opened.callback(os.close, fd)
            err = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise NoRoom(f"its channel cannot be opened: {error.strerror} (see `ulimit -n`)") from None
        opened.pop_all()
    return ours, theirs, out[0], err[0], out[1], err[1]


_HASH_SEED = "1"
"""As ``sandbox/start.py``, which says why, has it for a container."""
_OPEN: weakref.WeakSet[Zygote] = weakref.WeakSet()
_AT_ONCE = 8 * (os.cpu_count() or 1)
"""Zygotes that start at once: more would only take the processors from each other, and from the host's event loop."""
_STARTING = [threading.Semaphore(_AT_ONCE)]


def _forget_all() -> None:
    _STARTING[:] = [threading.Semaphore(_AT_ONCE)]  # the threads that held the other are not in this process
    for zygote in list(_OPEN):
        zygote.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def zygote_settings(
    tier: str, limits: Limits, preload: Sequence[str] = (), packages: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what a zygote gets at its start: everything that its children cannot change."""
    fixed = {name: getattr(limits, name) for name in FIXED}
    return {"tier": tier, "preload": list(preload), "packages": list(packages), **fixed}


def start_zygote(settings: dict[str, Any]) -> Zygote:
    """Start one on this machine and wait until it is ready. Blocks for a tenth of a second or so, and for its turn.

    Raises:
        SandboxUnavailable: this tier cannot be had here; the message says why. Or (:class:`NoRoom`) this process has
            no descriptors, memory or processes left: no weaker tier may be tried for that.
    """
    with _STARTING[0]:
        return _started(settings)


def _started(settings: dict[str, Any]) -> Zygote:
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise NoRoom(f"its channel cannot be opened: {error.strerror} (see `ulimit -n`)") from None
    arguments = json.dumps({**settings, "control": theirs.fileno()})
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-S", str(resource_dir("sandbox").resolve() / "zygote.py"), arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            env={"PYTHONHASHSEED": _HASH_SEED},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        if error.errno in NO_ROOM:
            raise NoRoom(f"its process cannot be started: {error.strerror}") from None
        raise SandboxUnavailable(f"its process cannot be started: {error}") from None
    finally:
        theirs.close()
    zygote = Zygote(ours, process)
    zygote.begin()
    return zygote


def _last_words(process: subprocess.Popen[bytes] | None) -> str:
    if process is None or process.stderr is None:
        return ""
    process.kill()
    lines = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""
