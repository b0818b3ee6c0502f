"""System calls by ctypes alone, and the kernel's numbers for them. Both stand nowhere else.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (aarch64) of Linux.
"""

import ctypes
import os
import platform
import struct
import sys

MACHINE = platform.machine()
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_held = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock across the call: a fork must

CLONE_THREAD = 0x00010000
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_NEWCGROUP = 0x02000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_SECCOMP_MODE_FILTER = 2
_LAST_CAPABILITY = 63
M_ARENA_MAX = -8

# (x86_64, aarch64); newer calls have one number everywhere
_CLONE, _PIVOT_ROOT, _CAPSET = (56, 220), (155, 41), (126, 91)
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT, _MOUNT_SETATTR = 444, 445, 446, 442
_CAPABILITY_VERSION_3 = 0x20080522


def supported() -> bool:
    """Whether this platform has what a jail is made of."""
    return sys.platform == "linux" and _COLUMN is not None


def _number(pair: tuple[int, int]) -> int:
    assert _COLUMN is not None
    return pair[_COLUMN]


def _must(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _call(number: int, what: str, *arguments: object) -> int:
    return _must(_libc.syscall(ctypes.c_long(number), *arguments), what)


def _prctl(option: int, value: int, what: str) -> None:
    _must(_libc.prctl(option, value, 0, 0, 0), what)


def fork(flags: int = 0) -> int:
    """As ``os.fork``, into the new namespaces that ``flags`` name.

    Raises:
        OSError: the kernel refuses.
    """
    if not flags:
        return os.fork()
    _held.PyOS_BeforeFork()
    pid = _held.syscall(ctypes.c_long(_number(_CLONE)), ctypes.c_long(flags | 17), *[ctypes.c_long(0)] * 4)  # SIGCHLD
    if pid == 0:
        _held.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    _held.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone: {os.strerror(error)}")
    return int(pid)


def unshare(flags: int) -> None:
    _must(_libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _must(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def make_readonly(path: str) -> None:
    """Take writing, devices, set-uid and execution from a mount and all below it."""
    attributes = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | _MOUNT_ATTR_NOEXEC
    packed = struct.pack("QQQQ", attributes, 0, 0, 0)
    _call(_MOUNT_SETATTR, "mount_setattr", _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, packed, ctypes.c_size_t(32))


def pivot_root(new: str, old: str) -> None:
    _call(_number(_PIVOT_ROOT), "pivot_root", os.fsencode(new), os.fsencode(old))


def unmount(path: str) -> None:
    _must(_libc.umount2(os.fsencode(path), MNT_DETACH), f"umount {path}")


def die_with_parent(signum: int) -> None:
    """Be sent a signal when the parent goes, however it goes. A change of user clears it."""
    _prctl(_PR_SET_PDEATHSIG, signum, "prctl PDEATHSIG")


def set_dumpable(value: int) -> None:
    _prctl(_PR_SET_DUMPABLE, value, "prctl DUMPABLE")


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "prctl NO_NEW_PRIVS")


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    for capability in range(_LAST_CAPABILITY + 1):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # this kernel lacks it, or we lack the right: then there is nothing to drop
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _call(_number(_CAPSET), "capset", header, bytes(24))


def load_filter(program: bytes) -> None:
    """Install a seccomp filter, for good."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer)))
    _must(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0), "prctl SECCOMP")


def landlock_abi() -> int:
    """The version of Landlock, 0 without."""
    return max(0, int(_libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), 1)))


def landlock_ruleset(attributes: bytes) -> int:
    return _call(_LANDLOCK_CREATE, "landlock_create_ruleset", attributes, ctypes.c_size_t(len(attributes)), 0)


def landlock_allow(ruleset: int, access: int, fd: int) -> None:
    _call(_LANDLOCK_ADD, "landlock_add_rule", ruleset, 1, struct.pack("=Qi", access, fd), 0)


def landlock_restrict(ruleset: int) -> None:
    _call(_LANDLOCK_RESTRICT, "landlock_restrict_self", ruleset, 0)


def spare_memory() -> None:
    """Have threads share two arenas: the limit counts what is reserved, not what is used."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_ARENA_MAX, 2)
