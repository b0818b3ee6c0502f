"""The parent of all programs: it loads Python once, enters the walls once, and forks a locked child for each program.

Started by the host as ``python -I -S zygote.py SETTINGS_JSON`` with nothing in its environment. It runs no program
itself and holds nothing that a program must not see: a child begins as a copy of it.

The host speaks to it over one socket that keeps messages whole: ``spawn`` (with three descriptors: the program's
channel, its stdout, its stderr), ``kill``; back come ``ready`` or ``failed``, ``spawned``, ``ended``. When that socket
closes, however the host ended, every program ends with it.
"""

import contextlib
import ctypes  # noqa: F401 - before the library may be loaded no more
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import filter
import inside
import jail
import kernel
import run
import selftest

MAX_MESSAGE = 65536
CHANNEL = 3


class Zygote:
    """Forks children and tells the host how each ended."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control, self._settings, self._tier = control, settings, settings["tier"]
        # of its own for each program; a user namespace, too, so that its threads are counted alone
        self._namespaces = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID if self._tier == "N" else 0
        self._children: dict[int, int] = {}  # process → number that the host gave it
        self._woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._alive, self._life = os.pipe2(os.O_CLOEXEC)  # a child sees the end of it when this process is gone

    def prepare(self) -> None:
        """Load what programs use, enter the walls, and try them.

        Raises:
            OSError: this tier cannot be had here, or it does not hold.
        """
        if not kernel.supported():
            raise OSError(f"{sys.platform} on {kernel.MACHINE} has no such jail")
        self._filter = filter.compile_filter(kernel.MACHINE, opens=self._tier != "F")
        sys.path += self._settings["packages"]
        run.preload(self._settings["preload"])
        jail.spare_memory()
        readable = jail.readable_paths(self._settings["packages"])
        self._settings["threads"] = jail.room_for_threads(bool(self._namespaces))
        if self._tier == "N":
            jail.enter_namespaces(readable)
        elif self._tier == "F" or all(map(jail.reachable_by_anybody, readable)):
            jail.become_nobody()
        if self._tier in ("N", "L"):
            jail.confine_files(readable)
        kernel.set_dumpable(0)  # children of the same user see our descriptors in /proc otherwise, and are as we are
        gc.collect()
        gc.freeze()  # a child that collects garbage must not touch, and so copy, what it shares with us
        self._try_the_walls()

    def serve(self) -> None:
        """Do what the host asks, until it is gone."""
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._control.fileno() in ready:
                body, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 8)
                if not body:
                    return
                self._obey(json.loads(body), fds)

    def end(self) -> NoReturn:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _obey(self, message: dict[str, Any], fds: list[int]) -> None:
        if message["op"] == "spawn":
            try:
                self._spawn(message["id"], fds)
            except OSError as error:
                self.tell({"op": "ended", "id": message["id"], "status": None, "why": str(error)})
            for fd in fds:
                os.close(fd)
        elif message["op"] == "kill":
            for pid, number in self._children.items():
                if number == message["id"]:
                    os.kill(pid, signal.SIGKILL)  # nobody else reaps it: the number is still its own

    def _spawn(self, number: int, fds: list[int]) -> None:
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            self._become_child(fds)
        self._children[pid] = number
        self.tell({"op": "spawned", "id": number, "pid": pid})

    def _become_child(self, fds: list[int]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel = _take_descriptors(fds, self._alive)
            jail.lock(self._settings, self._filter)
            if select.select([CHANNEL + 1], [], [], 0)[0]:
                os._exit(0)  # our parent went before we could be told
            os.close(CHANNEL + 1)
            run.warm_up()
            run.serve(channel, self._settings["frame_bytes"])
        except BaseException:
            traceback.print_exc()
        os._exit(70)

    def _reap(self) -> None:
        while self._children:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._children.pop(pid, None)
            cpu = used.ru_utime + used.ru_stime
            told = {"status": os.waitstatus_to_exitcode(status), "cpu_s": cpu, "memory_bytes": used.ru_maxrss << 10}
            self.tell({"op": "ended", "id": number, **told})

    def tell(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode())
        except OSError:
            self.end()  # the host is gone

    def _try_the_walls(self) -> None:
        """A child locked as programs will be tries to get out, and tells what it could do."""
        reader, writer = os.pipe()
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            told = "it could not lock itself"
            try:
                signal.set_wakeup_fd(-1)
                jail.lock(self._settings, self._filter)
                told = ", ".join(selftest.open_doors(self._tier))
            except OSError as error:
                told = str(error)
            finally:
                os.write(writer, f"={told}".encode())
                os._exit(0)
        os.close(writer)
        told = os.read(reader, 4096).decode()
        os.close(reader)
        os.waitpid(pid, 0)
        if told != "=":
            raise OSError(f"the walls do not hold: {told[1:] or 'a program that tried them was ended'}")


def _take_descriptors(fds: list[int], alive: int) -> socket.socket:
    """Leave 1 and 2 (output), 3 (the channel) and 4 (the parent's life, for a moment), and nothing else."""
    channel, stdout, stderr, life = (fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in (*fds, alive))
    for given, number in ((stdout, 1), (stderr, 2), (channel, CHANNEL), (life, CHANNEL + 1)):
        os.dup2(given, number)
    os.close(0)
    os.closerange(CHANNEL + 2, 1024)  # this process never has more
    sys.stdin = None
    return socket.socket(fileno=CHANNEL)


def _connected(settings: dict[str, Any]) -> socket.socket:
    """The socket to the host: inherited, or of the one host that dials a path (a container)."""
    if "listen" not in settings:
        return socket.socket(fileno=settings["control"])
    inside.forget_environment()
    return inside.meet_host(settings["listen"])


def main() -> None:
    settings = json.loads(sys.argv[1])
    zygote = Zygote(_connected(settings), settings)
    try:
        seen = inside.verify(settings["verify"]) if "verify" in settings else {}
        zygote.prepare()
    except OSError as error:
        zygote.tell({"op": "failed", "why": str(error)})
        os._exit(0)
    zygote.tell({"op": "ready", "tier": settings["tier"], "pid": os.getpid(), **seen})
    zygote.serve()
    zygote.end()


main()
