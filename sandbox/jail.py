"""The walls: what the parent of all programs enters once, and what each program's process adds for itself.

Whatever cannot be had raises ``OSError``: a jail is whole or it is not there.
"""

import contextlib
import errno
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import kernel

NOBODY = 65534
MAX_THREADS = 256
_STACK, _FIRST_STEPS = 1 << 20, 1 << 18  # bytes of a thread
_IN_NAME_ONLY = (errno.EPERM, errno.EINVAL)
"""What root hears that has no right to change users, or is in a namespace that has no other user. Whether the threads
of such a root are counted, the trial of the walls shows."""
_ROOT = "/tmp"  # a place to build the new root on: it exists everywhere, and is hidden for us alone
_DATA = ("/usr/share/zoneinfo", "/etc/localtime")
_HIDDEN = ("site-packages", "dist-packages")

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3


def readable_paths(packages: list[str]) -> list[str]:
    """What programs may read: the standard library, time zone data, and folders of packages by setting."""
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    return [path for path in dict.fromkeys([*library, *_DATA, *packages]) if os.path.exists(path)]


# Once, before programs come -----------------------------------------------------------------------------------------


def enter_namespaces(readable: list[str]) -> None:
    """Enter new namespaces, and a root that holds nothing but ``readable``, none of it writable.

    The process namespace is made anew for each program.
    """
    walls = (
        kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
    )
    own = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the new root has no /proc
    if os.geteuid() == 0:  # the library may lie where nobody but root gets: build first, then give that up
        kernel.unshare(walls)
        socket.sethostname("sandbox")
        _new_root(readable)
        become_nobody()
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER)
        _map_user(own, uid, gid)
    else:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER | walls)
        _map_user(own, uid, gid)
        socket.sethostname("sandbox")
        _new_root(readable)
    os.close(own)


def _map_user(own: int, uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        fd = os.open(name, os.O_WRONLY, dir_fd=own)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def become_nobody() -> None:
    """Give up root where we are root: programs run as *nobody*."""
    if os.geteuid() != 0:
        return
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        if error.errno not in _IN_NAME_ONLY:
            raise
        return  # nothing to give up
    kernel.go(
        [kernel.dumpable(1)]
    )  # the kernel took our own /proc entries away with it, and a namespace is set up there


def reachable_by_anybody(path: str) -> bool:
    """Whether a user with no rights of their own can get at a folder."""
    parents = [path]
    while (above := os.path.dirname(parents[-1])) != parents[-1]:
        parents.append(above)
    return all(os.stat(parent).st_mode & 0o001 for parent in parents)


def _new_root(readable: list[str]) -> None:
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    opened = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in readable]  # one may lie below the new root
    kernel.mount("tmpfs", _ROOT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, "size=1m,mode=0755")
    for path, fd in opened:
        target = _ROOT + path
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        kernel.mount(f"/proc/self/fd/{fd}", target, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(fd)
        for name in _HIDDEN:  # what is installed beside the standard library is not part of it
            if os.path.isdir(f"{target}/{name}"):
                kernel.mount("tmpfs", f"{target}/{name}", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=4k")
    old = _ROOT + "/.old"
    os.mkdir(old)
    kernel.pivot_root(_ROOT, old)
    os.chdir("/")
    kernel.unmount("/.old")
    os.rmdir("/.old")
    kernel.make_readonly("/")


def confine_files(readable: list[str]) -> None:
    """Landlock: read what is ``readable``, write nothing, execute nothing, connect nowhere, signal nobody outside.

    What is installed beside the standard library is not part of it: its folders are allowed one by one, without those.
    """
    abi = kernel.landlock_abi()
    if abi < 1:
        raise OSError("Landlock: this kernel does not have it, or it is switched off")
    files = (1 << 13) - 1 | (1 << 13 if abi >= 2 else 0) | (1 << 14 if abi >= 3 else 0) | (1 << 15 if abi >= 5 else 0)
    attributes = struct.pack("QQQ", files, 0b11, 0b11)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    ruleset = kernel.landlock_ruleset(attributes)
    for path in _without_hidden(readable):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        access = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE
        kernel.landlock_allow(ruleset, access, fd)
        os.close(fd)
    kernel.go([kernel.no_new_privileges()])
    kernel.landlock_restrict(ruleset)
    os.close(ruleset)


def _without_hidden(readable: list[str]) -> list[str]:
    made = []
    for path in readable:
        names = os.listdir(path) if os.path.isdir(path) else []
        if any(name in _HIDDEN for name in names):
            made += [f"{path}/{name}" for name in names if name not in _HIDDEN]
        else:
            made.append(path)
    return made


def room_for_threads(own_namespace: bool) -> int:
    """The limit on threads: of the program alone where users are counted anew, else of all that this user has."""
    if own_namespace:
        return MAX_THREADS
    return 4 * MAX_THREADS + 2 * _threads_of(NOBODY if os.geteuid() == 0 else os.getuid())


def _threads_of(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


# For each program ---------------------------------------------------------------------------------------------------


def limits_within(settings: dict[str, Any]) -> list[tuple[int, int, int]]:
    """What a program gets of each resource, (which, soft, hard): never more than this process has."""
    pairs = {
        resource.RLIMIT_AS: (settings["memory_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (settings["open_files"],) * 2,
        resource.RLIMIT_NPROC: (settings["threads"],) * 2,
        # SIGXCPU names the reason, SIGKILL ends it; the first process of a namespace does not die of the former
        resource.RLIMIT_CPU: (settings["cpu_s"], settings["cpu_s"] + (settings["tier"] != "N")),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    made = []
    for which, (soft, hard) in pairs.items():
        ceiling = resource.getrlimit(which)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        made.append((which, soft, hard))
    return made


class Lock:
    """What closes the last doors of a program's process. Nothing opens them again.

    It is made, and its way gone through, in the parent of all programs: what a process looks up or builds for the
    first time is written to pages that it must copy.

    Args:
        limits: of each resource, (which, soft, hard).
        last: the filter, loaded when all else is done.
    """

    def __init__(self, limits: list[tuple[int, int, int]], last: kernel.Filter) -> None:
        self._last = last
        self._steps: list[kernel.Step] = [
            (resource.setrlimit, (which, (soft, hard)), "setrlimit") for which, soft, hard in limits
        ]
        self._steps.append((_be_counted, (), ""))
        self._steps.append(kernel.dumpable(0))  # or a neighbour of the same user reads our descriptors in /proc
        self._steps += kernel.no_capabilities()
        self._steps += [kernel.no_new_privileges(), kernel.death_with_parent(signal.SIGKILL)]

    def rehearse(self) -> None:
        """Go the way of :meth:`close` and change nothing."""
        kernel.go([(resource.getrlimit, (resource.RLIMIT_CPU,), ""), *[kernel.nothing()] * len(self._steps)])

    def close(self) -> None:
        """Lock this process.

        Raises:
            OSError: a door does not close.
            ValueError: a limit is refused.
        """
        kernel.go(self._steps)
        self._last.load(os.getpid())


def _be_counted() -> None:
    """Give up the user's number that threads are not counted for; files are still read as the user we are."""
    if os.geteuid() == 0:
        try:
            os.setresuid(NOBODY, 0, 0)
        except OSError as error:
            if error.errno not in _IN_NAME_ONLY:
                raise


def spare_memory() -> None:
    """Have threads take little address space: the limit counts what is reserved, not what is used."""
    threading.stack_size(_STACK)
    kernel.spare_memory()
    sys.setrecursionlimit(1000)
    for name in ("_start_new_thread", "_start_joinable_thread"):  # from Python 3.13 on it is the second
        if hasattr(threading, name):
            setattr(threading, name, _refusing_without_room(getattr(threading, name)))


def _refusing_without_room(start: Callable[..., Any]) -> Callable[..., Any]:
    """`Thread.start` waits until the thread has begun: without end if the stack was the last that fitted."""

    def started(*args: Any, **kwargs: Any) -> Any:
        try:
            mmap.mmap(-1, _STACK + _FIRST_STEPS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except OSError:
            raise RuntimeError("can't start new thread") from None
        return start(*args, **kwargs)

    return started
