"""Lock this process before a program runs in it: Linux namespaces, Landlock and resource limits, by ctypes alone.

Each layer is applied and then *tried*: ``locked()`` reports the layers that really refuse the forbidden thing.
The host decides whether that is enough; nothing here lowers a demand in silence. System calls: see filter.py.

Known limit: Landlock keeps a program from reading, writing and listing, not from asking whether a path exists.
"""

import ctypes
import os
import platform
import resource
import signal
import socket
import struct
import sys
import sysconfig
import threading

_libc = ctypes.CDLL(None, use_errno=True)

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 2, 4, 8, 0x4000, 0x40000, 2
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_M_ARENA_MAX = -8
_MAX_FILES = 4096
_UNREADABLE = ("/", "/etc", "/proc")

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR, _FS_TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FS_REMOVE_FILE, _FS_REMOVE_DIR, _FS_MAKE_DIR, _FS_MAKE_REG = 1 << 5, 1 << 4, 1 << 7, 1 << 8


def signal_when_parent_ends(signum: signal.Signals) -> None:
    """Be sent a signal when the parent goes, however it goes."""
    _libc.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)


def dump_no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def new_namespaces(scratch: str, scratch_bytes: int) -> bool:
    """Enter fresh user, pid, network, mount, IPC and UTS namespaces (the pid one holds from the next fork on).

    Where mounting is allowed, the scratch folder becomes a file system of its own, in memory, of ``scratch_bytes``:
    nothing that a program writes there reaches the disk or outlives the namespace.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEWUSER | _NEWPID | _NEWNET | _NEWNS | _NEWIPC | _NEWUTS) != 0:
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    options = f"size={scratch_bytes},nr_inodes={_MAX_FILES},mode=0700".encode()
    if _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0:
        _libc.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)
    return True


def unmount(scratch: str) -> None:
    """Let go of the scratch folder's file system, if it has one."""
    _libc.umount2(os.fsencode(scratch), _MNT_DETACH)


def spare_memory() -> None:
    """Have threads take little address space: the limit counts what is reserved, not what is used."""
    threading.stack_size(2 << 20)
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, 2)


def limit_resources(limits: dict[str, int], *, namespaces: bool) -> None:
    """Apply rlimits; ``limits`` holds cpu_s, memory_bytes, file_bytes, open_files and processes."""
    pairs = [
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
    ]
    if namespaces:  # outside a namespace of its own all the user's processes count
        pairs.append((resource.RLIMIT_NPROC, limits["processes"]))
    for which, value in pairs:
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # a soft CPU limit one second below the hard one lets SIGXCPU name the reason before SIGKILL
        resource.setrlimit(which, (value, value + 1 if which == resource.RLIMIT_CPU else value))


def confine_files(writable: str) -> bool:
    """Landlock: read the standard library, write below ``writable``, execute nothing, open no TCP connection."""
    abi = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if abi < 1 or _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    every = (1 << 13) - 1
    every |= (1 << 13 if abi >= 2 else 0) | (_FS_TRUNCATE if abi >= 3 else 0) | (1 << 15 if abi >= 5 else 0)
    attributes = struct.pack("QQQ", every, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _libc.syscall(_LANDLOCK_CREATE, attributes, size, 0)
    if ruleset < 0:
        return False
    read = _FS_READ_FILE | _FS_READ_DIR
    write = (
        read | _FS_WRITE_FILE | _FS_REMOVE_FILE | _FS_REMOVE_DIR | _FS_MAKE_DIR | _FS_MAKE_REG | (every & _FS_TRUNCATE)
    )
    try:
        rules = [(path, read) for path in readable_paths()] + [(writable, write)]
        return all(_allow(ruleset, path, access) for path, access in rules) and (
            _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
        )
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> bool:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True  # nothing there: nothing to allow
    try:
        rule = struct.pack("=Qi", access if os.path.isdir(path) else access & ~_FS_READ_DIR, fd)
        return bool(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0) == 0)
    finally:
        os.close(fd)


def readable_paths() -> list[str]:
    """What a program may read: the standard library, the libraries its C parts link to, and time zone data."""
    stdlib, platstdlib = sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")
    system = ["/lib", "/lib64", "/usr/lib", "/usr/share/zoneinfo", "/etc/localtime", "/dev/null", "/dev/urandom"]
    return [*dict.fromkeys([stdlib, platstdlib, os.path.join(sys.base_prefix, "lib"), *system])]


def locked(scratch: str) -> list[str]:
    """Try what must be refused; return the layers that hold: ``network``, ``files``, ``processes``."""
    layers = []
    if _refused(_connect) and _refused(lambda: socket.socket(socket.AF_UNIX).close()):
        layers.append("network")  # of other machines and of this one
    if all(_refused(lambda path=path: os.listdir(path)) for path in _UNREADABLE) and _refused(_write_outside):
        layers.append("files")
    if os.getpid() == 1 and _refused(_fork):  # it can name no outer process, and leaves none behind
        layers.append("processes")
    os.listdir(scratch)
    return layers


def _connect() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.1", 9))  # a documentation address: a datagram connect sends nothing


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _write_outside() -> None:
    os.close(os.open("/tmp", os.O_TMPFILE | os.O_WRONLY, 0o600))


def _refused(attempt) -> bool:  # type: ignore[no-untyped-def]
    try:
        attempt()
    except OSError:
        return True
    return False


def supported() -> bool:
    """Whether this platform has the layers at all."""
    return sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
