"""System calls by ctypes alone, and the kernel's numbers for them. Both stand nowhere else.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (aarch64) of Linux.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Sequence

MACHINE = platform.machine()
_COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_held = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock across the call: a fork must
_held.syscall.argtypes = (ctypes.c_long,) * 6

CLONE_THREAD = 0x00010000
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_NEWCGROUP = 0x02000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 1, 4, 22
_PR_GET_DUMPABLE, _PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 3, 23, 24, 38
_SECCOMP_MODE_FILTER = 2
_LAST_CAPABILITY = 63
M_ARENA_MAX = -8
_MADV_COLLAPSE = 25
_MOST_HOLES = 4096  # of one size

# (x86_64, aarch64); newer calls have one number everywhere
_CLONE, _PIVOT_ROOT = (56, 220), (155, 41)
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT, _MOUNT_SETATTR = 444, 445, 446, 442
_CAPABILITY_VERSION_3 = 0x20080522
_NUMBER_OF_CLONE = _CLONE[_COLUMN or 0]
_NUMBER_IN_FILTER = struct.Struct("=I")
_NO_CAPABILITIES = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)


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


def fork(flags: int = 0) -> int:
    """As ``os.fork``, into the new namespaces that ``flags`` name, for a process of one thread that holds no lock.

    In such a process nothing has to be mended in the child: its locks are free, its one thread is the one that it had.
    What ``os.fork`` and modules would mend all the same (``os.register_at_fork``) costs each child a few dozen pages.
    Random numbers alone need it, and get it when its program comes.

    Raises:
        OSError: the kernel refuses.
    """
    pid = int(_held.syscall(_NUMBER_OF_CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0))
    if pid < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"clone: {os.strerror(error)}")
    return pid


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


Step = tuple[Callable[..., object], tuple[object, ...], str]
"""A call, its arguments, and what it is called where a negative result is an error; empty: it is none."""


def go(steps: Iterable[Step]) -> None:
    """Make calls one after the other.

    Raises:
        OSError: one failed that must not.
    """
    for function, arguments, what in steps:
        result = function(*arguments)
        if what and result is not None and result < 0:  # type: ignore[operator]
            _must(-1, what)


def death_with_parent(signum: int) -> Step:
    """Be sent a signal when the parent goes, however it goes. A change of user clears it."""
    return _prctl, (_PR_SET_PDEATHSIG, signum, 0, 0, 0), "prctl PDEATHSIG"


def dumpable(value: int) -> Step:
    return _prctl, (_PR_SET_DUMPABLE, value, 0, 0, 0), "prctl DUMPABLE"


def no_new_privileges() -> Step:
    return _prctl, (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS"


def nothing() -> Step:
    """A call as the others, without an effect."""
    return _prctl, (_PR_GET_DUMPABLE, 0, 0, 0, 0), "prctl DUMPABLE"


def no_capabilities() -> list[Step]:
    """Give up every capability that this kernel knows, for good."""
    known = [number for number in range(_LAST_CAPABILITY + 1) if _prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0]
    # where we lack the right there is nothing to drop
    drops: list[Step] = [(_prctl, (_PR_CAPBSET_DROP, number, 0, 0, 0), "") for number in known]
    return [*drops, (_libc.capset, _NO_CAPABILITIES, "capset")]


class Filter:
    """A seccomp filter, laid out once as the kernel takes it: who loads it in a fork has nothing left to build.

    Args:
        program: its instructions.
        blanks: offsets of 32-bit numbers in it that are filled in when it is loaded.
    """

    def __init__(self, program: bytes, blanks: Sequence[int]) -> None:
        self._blanks = tuple(blanks)
        self._buffer = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(self._buffer))
        self._header = ctypes.create_string_buffer(header)
        self._address = ctypes.addressof(self._header)

    def load(self, number: int) -> None:
        """Install it in this process, for good, with ``number`` in its blanks."""
        for offset in self._blanks:
            _NUMBER_IN_FILTER.pack_into(self._buffer, offset, number)
        _must(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._address, 0, 0), "prctl SECCOMP")


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


def fill_heap() -> None:
    """Take up the free memory of the C library's heap below its end (glibc's alone)."""
    if not hasattr(_libc, "mallopt") or not hasattr(_libc, "sbrk"):
        return
    malloc, sbrk = _libc["malloc"], _libc["sbrk"]
    malloc.argtypes, malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    sbrk.argtypes, sbrk.restype = (ctypes.c_long,), ctypes.c_void_p
    end = sbrk(0)
    for size in (1 << 14, *range(1 << 13, 1 << 11, -1024), *range(1 << 11, 0, -16)):
        for _ in range(_MOST_HOLES):
            if not 0 < (malloc(size) or 0) < end:
                break  # the heap has grown: there was no room left in it


def make_huge(address: int, size: int) -> bool:
    """Put memory on huge pages, now; false where the kernel cannot."""
    return bool(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_COLLAPSE) == 0)
