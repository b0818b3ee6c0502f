"""The parent of all programs: it loads Python once, enters the walls once, and forks a locked child for each program.

Started by the host as ``python -P -s -S zygote.py SETTINGS_JSON`` with nothing in its environment but a hash seed. It
runs no program itself and holds nothing that a program must not see: a child begins as a copy of it.

The host speaks to it over one socket that keeps messages whole: ``spawn`` (with three descriptors: the program's
channel, its stdout, its stderr), ``kill``, each a letter and a number; back come ``ready`` or ``failed``, ``spawned``,
``ended``. When that socket closes, however the host ended, every program ends with it.
"""

import ctypes  # noqa: F401 - before the library may be loaded no more
import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import memory
import preload

memory.map_libraries()
preload.standard_library()
memory.fill_holes()  # what each program uses lies close together: it is made from here on

import filter
import frames
import inside
import jail
import kernel
import run
import selftest
import start

ARRIVE = [1, 2, 3]
"""Where the kernel puts the descriptors of a program that is to be forked: this process keeps these numbers free. They
are its output, its errors and its channel."""
OWN = 4  # the first that this process uses itself
MAX_DESCRIPTORS = 1024

# What is said for every program has a form of its own: JSON costs this process pages, which it copies after each fork
_SHORT, _ENDED = struct.Struct("=cQ"), struct.Struct("=cQidQ")
_DESCRIPTOR = struct.Struct("i")
_ROOM_FOR_DESCRIPTORS = socket.CMSG_SPACE(8 * _DESCRIPTOR.size)


class Zygote:
    """Forks children and reports to the host how each ended."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control, self._settings, self._tier = control, settings, settings["tier"]
        # of its own for each program; a user namespace, too, so that its threads are counted alone
        self._namespaces = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID if self._tier == "N" else 0
        self._children: dict[int, tuple[int, int]] = {}  # its pidfd → the number that the host gave it, its process
        self._ready = select.poll()
        self._ready.register(control, select.POLLIN)
        self._alive, self._life = map(_moved, os.pipe2(0))  # a child sees the end of it when this process is gone
        self._ends = frames.Frames(_socket_at(ARRIVE[-1]))  # of each child: what it is arrives before the fork

    def prepare(self) -> None:
        """Load what programs use, enter the walls, and try them.

        Raises:
            OSError: this tier cannot be had here, or it does not hold.
        """
        if not kernel.supported():
            raise OSError(f"{sys.platform} on {kernel.MACHINE} has no such jail")
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MAX_DESCRIPTORS), most))  # whatever its host's was
        own, last = filter.compile_filters(kernel.MACHINE, opens=self._tier != "F")
        sys.stdin = None
        sys.path += self._settings["packages"]
        preload.packages(self._settings["preload"])
        start.install()
        jail.spare_memory()
        memory.fill_holes()
        maps = open("/proc/self/maps", "rb", buffering=0)  # noqa: SIM115 - while there is a /proc
        readable = jail.readable_paths(self._settings["packages"])
        self._settings["threads"] = jail.room_for_threads(bool(self._namespaces))
        loaded_last = kernel.Filter(last, filter.blanks(last))
        self._lock = jail.Lock(jail.limits_within(self._settings), loaded_last)
        self._lock_without_threads = jail.Lock(jail.limits_within(self._settings | {"threads": 0}), loaded_last)
        if self._tier == "N":
            jail.enter_namespaces(readable)
        elif self._tier == "F" or all(map(jail.reachable_by_anybody, readable)):
            jail.become_nobody()
        if self._tier in ("N", "L"):
            jail.confine_files(readable)
        for _ in range(20):
            self._lock.rehearse()
            run.rehearse()  # the interpreter rewrites code that is run often: here once, and not in every child
        kernel.go(
            [kernel.dumpable(0)]
        )  # children of the same user see our descriptors in /proc otherwise, and are as we are
        gc.collect()
        gc.freeze()  # a child that collects garbage must not touch, and so copy, what it shares with us
        memory.make_huge(maps)
        maps.close()
        kernel.go([kernel.no_new_privileges()])
        kernel.Filter(own, ()).load(0)
        self._try_the_walls()

    def serve(self) -> None:
        """Do what the host asks, until it is gone."""
        os.closerange(ARRIVE[0], OWN)
        while True:
            for fd, _ in self._ready.poll():
                if fd in self._children:
                    self._reap(fd)
                    continue
                body, ancillary, _, _ = self._control.recvmsg(_SHORT.size, _ROOM_FOR_DESCRIPTORS)
                if not body:
                    return
                op, number = _SHORT.unpack(body)
                if op == b"s":
                    self._answer(number, [fd for _, _, sent in ancillary for (fd,) in _DESCRIPTOR.iter_unpack(sent)])
                elif op == b"k":
                    self._kill(number)

    def end(self) -> NoReturn:
        for pidfd in self._children:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os._exit(0)

    def _answer(self, number: int, fds: list[int]) -> None:
        try:
            if fds != ARRIVE:  # the kernel drops those for which this process has no room
                raise OSError("its descriptors did not arrive: its parent has none left")
            self._spawn(number)
        except OSError as error:
            self.tell({"op": "ended", "id": number, "status": None, "why": str(error)})
        for fd in fds:
            os.close(fd)

    def _kill(self, number: int) -> None:
        for pidfd, (of_child, _) in self._children.items():
            if of_child == number:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _spawn(self, number: int) -> None:
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            self._become_child()
        try:
            pidfd = os.pidfd_open(pid)  # nobody else reaps it: the number is still its own
        except OSError:
            os.kill(pid, signal.SIGKILL)  # nothing would tell of its end
            os.waitpid(pid, 0)
            raise
        self._children[pidfd] = number, pid
        self._ready.register(pidfd, select.POLLIN)
        self._send(_SHORT.pack(b"s", number), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(pidfd))])

    def _become_child(self) -> NoReturn:
        """Keep what arrived (and for a moment what tells of the parent's life), lock this process, and serve."""
        try:
            os.close(0)
            os.closerange(OWN, self._alive)
            os.closerange(self._alive + 1, MAX_DESCRIPTORS)  # this process never has more
            self._lock.close()
            if select.select([self._alive], [], [], 0)[0]:
                os._exit(0)  # our parent went before the descriptors came
            os.close(self._alive)
            run.serve(self._ends)
        except BaseException:
            traceback.print_exc()
        os._exit(70)

    def _reap(self, pidfd: int) -> None:
        number, pid = self._children.pop(pidfd)
        self._ready.unregister(pidfd)
        os.close(pidfd)
        _, status, used = os.wait4(pid, 0)
        cpu_s, memory_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss << 10
        self._send(_ENDED.pack(b"e", number, os.waitstatus_to_exitcode(status), cpu_s, memory_bytes))

    def tell(self, message: dict[str, Any]) -> None:
        """Send the host what is not said for every program."""
        self._send(json.dumps(message).encode())

    def _send(self, body: bytes, ancillary: Sequence[tuple[int, int, bytes]] = ()) -> None:
        try:
            try:
                self._control.sendmsg((body,), ancillary)
            except OSError as error:
                if not ancillary or error.errno != errno.ETOOMANYREFS:
                    raise
                self._control.sendmsg((body,))  # too many on their way: the host ends it by its number
        except OSError:
            self.end()  # the host is gone

    def _try_the_walls(self) -> None:
        """Raises OSError where a wall does not hold."""
        self._try(self._lock, lambda: selftest.open_doors(self._tier))
        self._try(self._lock_without_threads, selftest.uncounted_threads)

    def _try(self, lock: jail.Lock, attempts: Callable[[], list[str]]) -> None:
        """Fork a child that is locked as programs will be; it reports what it could do."""
        reader, writer = os.pipe()
        pid = kernel.fork(self._namespaces)
        if pid == 0:
            report = "it could not lock itself"
            try:
                lock.close()
                report = ", ".join(attempts())
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


def _moved(fd: int) -> int:
    """Move a descriptor of this process out of the way of those that arrive."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, OWN)
    os.close(fd)
    return moved


def _socket_at(number: int) -> socket.socket:
    made = _moved(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach())
    os.dup2(made, number, inheritable=False)
    os.close(made)
    return socket.socket(fileno=number)


def _connected(settings: dict[str, Any]) -> socket.socket:
    """The socket to the host: inherited, or of the one host that dials a path (a container)."""
    if "listen" not in settings:
        return socket.socket(fileno=_moved(settings["control"]))
    inside.forget_environment()
    return socket.socket(fileno=_moved(inside.meet_host(settings["listen"]).detach()))


def main() -> None:
    settings = json.loads(sys.argv[1])
    zygote = Zygote(_connected(settings), settings)
    del os.environ["PYTHONHASHSEED"]  # no program needs to see it
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
