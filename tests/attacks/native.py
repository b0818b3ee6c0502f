# ruff: noqa: E501 - programs stand as they are
"""Native code: system calls made by hand, and memory that is not Python's."""

from __future__ import annotations

from typing import Any

from tests.attacks.record import LIBC, Attack

# name: the call, harmless if the walls let it through
_FATAL = {
    "ptrace": "101, 16, HOST, 0, 0", "process_vm_readv": "310, HOST, 0, 0, 0, 0, 0", "process_vm_writev": "311, HOST, 0, 0, 0, 0, 0",
    "kcmp": "312, HOST, HOST, 0, 0, 0", "pidfd_getfd": "438, 3, 0, 0", "unshare": "272, 0x10000000", "setns": "308, 3, 0",
    "mount": "165, 0, 0, 0, 0, 0", "umount2": "166, 0, 0", "pivot_root": "155, 0, 0", "chroot": "161, 0", "open_tree": "428, -100, 0, 0",
    "move_mount": "429, -1, 0, -1, 0, 0", "fsopen": "430, 0, 0", "fsmount": "432, -1, 0, 0", "mount_setattr": "442, -1, 0, 0, 0, 0",
    "open_by_handle_at": "304, -1, 0, 0", "bpf": "321, 99, 0, 0", "perf_event_open": "298, 0, 0, 0, -1, 0", "userfaultfd": "323, -1",
    "io_uring_setup": "425, 0, 0", "io_uring_enter": "426, -1, 0, 0, 0, 0, 0", "io_uring_register": "427, -1, 0, 0, 0",
    "add_key": "248, 0, 0, 0, 0, 0", "request_key": "249, 0, 0, 0, 0", "keyctl": "250, 99, 0, 0, 0, 0", "init_module": "175, 0, 0, 0",
    "finit_module": "313, -1, 0, 0", "kexec_load": "246, 0, 99999, 0, 0", "reboot": "169, 0, 0, 0, 0", "swapon": "167, 0, 0",
    "acct": "163, -1", "setuid": "105, 0", "setgid": "106, 0",
}  # fmt: skip
_DENIED = {
    "run a program": ["59, 0, 0, 0", "322, -1, 0, 0, 0, 0x1000"],
    "be another user": ["113, 0, 0", "114, 0, 0", "117, 0, 0, 0", "119, 0, 0, 0", "116, 0, 0", "122, 0", "123, 0"],
    "gain capabilities": ["126, 0, 0", "157, 47, 2, 0, 0, 0", "157, 8, 1, 0, 0, 0", "157, 28, 0, 0, 0, 0"],
    "another filter or none": ["317, 1, 0, 0", "317, 3, 0, 0", "157, 22, 1, 0, 0, 0", "444, 0, 0, 1", "446, -1, 0"],
    "odd personalities": ["135, 0x0400000", "135, 0xffffffff", "154, 1, 0, 0", "158, 0x1002, 0", "172, 3", "173, 0, 1, 1"],
    "write files": ["18, 1, 0, 0, 0", "76, 0, 0", "77, 1, 0", "83, 0, 0", "84, 0", "87, 0", "82, 0, 0", "316, -100, 0, -100, 0, 0",
                    "86, 0, 0", "88, 0, 0", "90, 0, 0", "92, 0, 0, 0", "133, 0, 0, 0", "280, -100, 0, 0, 0", "285, 1, 0, 0, 1"],
    "open by other calls": ["2, 0, 0, 0", "85, 0, 0", "437, -100, 0, 0, 24", "319, 0, 0", "447, 0", "303, -100, 0, 0, 0, 0"],
    "open by the path alone": ["257, -100, b'/', 0o10000000, 0", "257, -100, b'/tmp/x', 0o101, 0o600", "257, -100, b'/', 0o20200002, 0"],
    "watch files and keys": ["253", "294, 0", "254, -1, 0, 0", "300, 0, 0", "301, -1, 0, 0, 0, 0", "73, 1, 2"],
    "System V and message queues": ["29, 0, 4096, 0o1600", "64, 0, 1, 0o1600", "68, 0, 0o1600", "30, 0, 0, 0", "240, 0, 0, 0, 0", "31, 0, 0, 0"],
    "asynchronous input and output": ["206, 1, 0", "209, 0, 0, 0", "275, 1, 0, 3, 0, 10, 0", "276, 1, 3, 10, 0", "278, 1, 0, 0, 0", "40, 1, 3, 0, 10"],
    "send more than bytes": ["46, 3, 0, 0", "47, 3, 0, 0x40", "307, 3, 0, 0, 0", "299, 3, 0, 0, 0x40, 0", "54, 3, 1, 15, 0, 0"],
    "sockets": ["41, 2, 1, 0", "41, 1, 1, 0", "41, 16, 3, 0", "41, 38, 5, 0", "42, 3, 0, 0", "49, 3, 0, 0", "50, 3, 1", "43, 3, 0, 0", "288, 3, 0, 0, 0"],
    "memory of others": ["440, -1, 0, 0, 0, 0", "448, -1, 0", "279, HOST, 0, 0, 0, 0, 0", "256, HOST, 0, 0, 0", "310 + 2**32, HOST, 0, 0, 0, 0, 0" if False else "434, HOST, 0"],
    "memory that runs": ["9, 0, 4096, 7, 0x22, -1, 0", "9, 0, 4096, 4, 0x22, -1, 0", "329, 0, 4096, 7, 0", "216, 0, 4096, 0, 0, 0"],
    "locked and huge memory": ["149, 0, 4096", "151, 3", "325, 0, 4096, 0", "237, 0, 4096, 0, 0, 0, 0", "450, 0, 0, 0, 0"],
    "the clock and the name": ["227, 0, 0", "164, 0, 0", "305, 0, 0", "159, 0", "170, 0, 0", "171, 0, 0", "222, 0, 0, 0", "283, 0, 0"],
    "the machine": ["103, 3, 0, 0", "139, 0, 0, 0", "179, 0, 0, 0, 0", "153", "168, 0", "176, 0, 0", "320, -1, -1, 0, 0, 0", "212, 0, 0, 0"],
    "terminals": ["16, 1, 0x5412, b'x'", "16, 1, 0x540e, 0", "16, 1, 0x541c, 0", "16, 3, 0x8901, b'xxxx'", "16, 1, 0x5401, 0", "16, 2**32 + 1, 0x5413, 0"],
    "descriptors to signal and to grow": ["72, 1, 8, 1", "72, 1, 10, 9", "72, 1, 1031, 1048576", "72, 1, 1024, 1", "72, 1, 1026, 1", "72, 1, 1033, 1", "72, 1, 7, 0"],
    "timers that signal": ["222, 0, 0, 0", "283, 1, 0", "282, -1, 0, 8", "289, -1, 0, 8, 0", "128 + 0x1000, 0"],
    "scheduling": ["141, 0, 0, -20", "142, 0, 0", "144, 0, 1, 0", "203, 0, 0, 0", "314, 0, 0, 0", "251, 1, 0, 0", "238, 0, 0, 0"],
    "processes": ["57", "58", "435, 0, 88", "56, 17, 0, 0, 0, 0", "56, 0x10000000 | 17, 0, 0, 0, 0", "56, 0x7c020011, 0, 0, 0, 0", "61, -1, 0, 1, 0",
                  "247, 0, 0, 0, 5, 0", "112", "109, 0, 0", "121, 0", "124, 0"],
}  # fmt: skip


def _killed(name: str, call: str, **more: Any) -> Attack:
    """One call that only an attack makes: it ends the program."""
    return Attack(name, "system calls", f"{LIBC}answer = tried(lambda: syscall({call}))", ends=("killed",),
                  check=lambda outcome, broker: "only an attack" in outcome.detail, **more)  # fmt: skip


def _denied(name: str, calls: list[str]) -> Attack:
    tries = ", ".join(f"lambda: syscall({call})" for call in calls)
    return Attack(name, "system calls", f"{LIBC}answer = tried({tries})", refused=True)


CALLS = [_killed(name, call) for name, call in _FATAL.items()] + [
    _denied(name, calls) for name, calls in _DENIED.items()
]

MEMORY = [
    Attack("the host's memory, at its very address", "memory", LIBC + """
answer = tried(lambda: ctypes.string_at(MEMORY, 200))
""", ends=("killed", "finished")),
    Attack("the host's memory, by the kernel", "memory", LIBC + """
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
mine = ctypes.create_string_buffer(200)
here, there = Part(ctypes.addressof(mine), 200), Part(MEMORY, 200)
answer = tried(lambda: syscall(310, HOST, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
answer.append(mine.raw.decode("latin-1"))
""", ends=("killed",)),
    Attack("the parent of all programs, by the kernel", "memory", LIBC + """
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
word = ctypes.create_string_buffer(b"overwritten")
here, there = Part(ctypes.addressof(word), 8), Part(id(None), 8)
syscall(311, os.getppid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
""", ends=("killed",)),
    Attack("writing over code", "memory", LIBC + """
import ctypes
at = ctypes.cast(libc.getpid, ctypes.c_void_p).value
ctypes.memset(at, 0x90, 16)
""", ends=("killed",)),
    Attack("making code writable and running it", "memory", LIBC + """
at = ctypes.cast(libc.getpid, ctypes.c_void_p).value & ~4095
answer = tried(lambda: syscall(10, at, 4096, 7), lambda: syscall(10, at, 4096, 5))
""", refused=True),
    Attack("machine code in data", "memory", LIBC + """
code = ctypes.create_string_buffer(b"\\x48\\xc7\\xc0\\x39\\x00\\x00\\x00\\x0f\\x05\\xc3")
ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(code))()
""", ends=("killed", "raised")),
    Attack("the other table of system calls", "memory", LIBC + """
syscall(0x40000000 + 59, 0, 0, 0)
""", ends=("killed",)),
    Attack("system calls from a function of the library", "memory", LIBC + """
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno())
    return result
answer = tried(lambda: checked(libc.execv(b"/bin/true", None)), lambda: checked(libc.fork()), lambda: checked(libc.socket(2, 1, 0)),
               lambda: checked(libc.open(SECRET_FILE.encode(), 0)), lambda: checked(libc.kill(HOST, 9)),
               lambda: checked(libc.open(DROP.encode() + b"/x", 0o101, 0o600)), lambda: checked(libc.daemon(1, 1)))
""", refused=True),
    Attack("a library of one's own", "memory", """
import ctypes
answer = tried(lambda: ctypes.CDLL(DROP + "/mine.so"), lambda: ctypes.CDLL("libcrypt.so.1"), lambda: ctypes.CDLL("libnss_files.so.2"))
""", refused=True),
    Attack("threads with the flags of a namespace", "memory", LIBC + """
stack = ctypes.create_string_buffer(65536)
top = ctypes.addressof(stack) + 65536 - 64
same = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000
answer = tried(*[lambda f=f: syscall(56, same | f, top, 0, 0, 0)
                 for f in (0x10000000, 0x20000000, 0x00020000, 0x40000000, 0x02000000, 0x04000000, 0x08000000)])
""", refused=True),
    Attack("a robust list, a restartable sequence, a signal frame from nowhere", "memory", LIBC + """
import threading
tried(lambda: syscall(273, 0xdead000, 24), lambda: syscall(334, 0xdead020, 32, 0, 1), lambda: syscall(218, 0xdead000),
      lambda: syscall(131, 0xdead000, 0), lambda: syscall(202, 0xdead000, 0, 0, 0, 0, 0))
threading.Thread(target=syscall, args=(60, 0)).start()
answer = tried(lambda: syscall(15)) and 1
""", ends=("killed", "finished")),
]  # fmt: skip

ATTACKS = [*CALLS, *MEMORY]
