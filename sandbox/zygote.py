"""The parent of all programs: it loads Python once, enters the walls once, and forks a locked child for each program.

Started by the host as ``python -I -S zygote.py SETTINGS_JSON`` with nothing in its environment. It runs no program
itself and holds nothing that a program must not see: a child begins as a copy of it.

The host speaks to it over one socket that keeps messages whole: ``spawn`` (with three descriptors: the program's
channel, its stdout, its stderr), ``kill``; back come ``ready`` or ``failed``, ``spawned``, ``ended``. When that socket
closes, however the host ended, every program ends with it.
"""

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
from collections.abc import Sequence
from typing import Any, NoReturn

# This process has one thread and holds no lock when it forks: what modules would mend in a child is whole, and the
# mending alone would copy half a megabyte of pages into each. Only random numbers need it, and get it (run.rehearse).
os.register_at_fork = lambda **_: None

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
    """Forks children and reports to the host how each ended."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control, self._settings, self._tier = control, settings, settings["tier"]
        # of its own for each program; a user namespace, too, so that its threads are counted alone
        self._namespaces = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID if self._tier == "N" else 0
        self._children: dict[int, tuple[int, int]] = {}  # its pidfd → the number that the host gave it, its process
        self._ready = select.poll()
        self._ready.register(control, select.POLLIN)
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
        self._limits = jail.limits_within(self._settings)
        if self._tier == "N":
            jail.enter_namespaces(readable)
        elif self._tier == "F" or all(map(jail.reachable_by_anybody, readable)):
            jail.become_nobody()
        if self._tier in ("N", "L"):
            jail.confine_files(readable)
        for _ in range(20):
            run.rehearse()  # the interpreter rewrites code that is run often: here once, and not in every child
        kernel.set_dumpable(0)  # children of the same user see our descriptors in /proc otherwise, and are as we are
        gc.collect()
        gc.freeze()  # a child that collects garbage must not touch, and so copy, what it shares with us
        self._try_the_walls()

    def serve(self) -> None:
        """Do what the host asks, until it is gone."""
        while True:
            for fd, _ in self._ready.poll():
                if fd in self._children:
                    self._reap(fd)
                    continue
                body, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 8)
                if not body:
                    return
                self._obey(json.loads(body), fds)

    def end(self) -> NoReturn:
        for pidfd in self._children:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os._exit(0)

    def _obey(self, message: dict[str, Any], fds: list[int]) -> None:
        if message["op"] == "spawn":
            try:
                self._spawn(message["id"], fds)
            except OSError as error:
                self.send({"op": "ended", "id": message["id"], "status": None, "why": str(error)})
            for fd in fds:
                os.close(fd)
        elif message["op"] == "kill":
            for pidfd, (number, _) in self._children.items():
                if number == message["id"]:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _spawn(self, number: int, fds: list[int]) -> None:
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            self._become_child(fds)
        pidfd = os.pidfd_open(pid)  # nobody else reaps it: the number is still its own
        self._children[pidfd] = number, pid
        self._ready.register(pidfd, select.POLLIN)
        self.send({"op": "spawned", "id": number}, [pidfd])

    def _become_child(self, fds: list[int]) -> NoReturn:
        try:
            channel = _take_descriptors(fds, self._alive)
            jail.lock(self._limits, self._filter)
            if select.select([CHANNEL + 1], [], [], 0)[0]:
                os._exit(0)  # our parent went before the descriptors came
            os.close(CHANNEL + 1)
            run.serve(channel)
        except BaseException:
            traceback.print_exc()
        os._exit(70)

    def _reap(self, pidfd: int) -> None:
        number, pid = self._children.pop(pidfd)
        self._ready.unregister(pidfd)
        os.close(pidfd)
        _, status, used = os.wait4(pid, 0)
        cpu = used.ru_utime + used.ru_stime
        usage = {"cpu_s": cpu, "memory_bytes": used.ru_maxrss << 10}
        self.send({"op": "ended", "id": number, "status": os.waitstatus_to_exitcode(status), **usage})

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], fds)
        except OSError:
            self.end()  # the host is gone

    def _try_the_walls(self) -> None:
        """Fork a child that is locked as programs will be and tries to get out; it reports what it could do.

        Raises:
            OSError: a wall does not hold.
        """
        reader, writer = os.pipe()
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            report = "it could not lock itself"
            try:
                jail.lock(self._limits, self._filter)
                report = ", ".join(selftest.open_doors(self._tier))
            except OSError as error:
                report = str(error)
            finally:
                os.write(writer, f"={report}".encode())
                os._exit(0)
        os.close(writer)
        report = os.read(reader, 4096).decode()
        os.close(reader)
        os.waitpid(pid, 0)
        if report != "=":
            raise OSError(f"the walls do not hold: {report[1:] or 'a program that tried them was ended'}")


def _take_descriptors(fds: list[int], alive: int) -> socket.socket:
    """Leave 1 and 2 (output), 3 (the channel) and 4 (the parent's life, for a moment), and nothing else."""
    channel, stdout, stderr, life = (fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in (*fds, alive))
    for descriptor, number in ((stdout, 1), (stderr, 2), (channel, CHANNEL), (life, CHANNEL + 1)):
        os.dup2(descriptor, number)
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
        zygote.send({"op": "failed", "why": str(error)})
        os._exit(0)
    zygote.send({"op": "ready", "tier": settings["tier"], "pid": os.getpid(), **seen})
    zygote.serve()
    zygote.end()


main()
