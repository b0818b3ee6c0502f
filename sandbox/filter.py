"""A seccomp filter: the system calls that a program has no business with, and that the other locks do not reach.

Landlock and the network namespace leave two doors open: a socket of this machine (a database, ``docker.sock``) can be
dialled by its path, and a process can fork out of its group to outlive its run. Both are closed here for good, and with
them the ways to new privileges. What is refused fails with ``PermissionError``.
"""

import ctypes
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _FIFTH_ARGUMENT = 0, 4, 16, 48
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# name: number on x86_64, on aarch64 (None: it has no such call)
_REFUSED: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432), "chroot": (161, 51),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "open_by_handle_at": (304, 265),
}  # fmt: skip
_SENDTO, _CLONE, _CLONE3 = (44, 206), (56, 220), (435, 435)


def refuse_system_calls() -> bool:
    """Install the filter for this process and all that it starts. Returns whether it is in force."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES or _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in _program(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return bool(_libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0) == 0)


def _program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as (operation, jump if true, jump if false, operand); jumps count instructions from the next one."""
    column = 0 if machine == "x86_64" else 1
    made = [
        (_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _EPERM),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _EPERM),
    ]  # fmt: skip
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            made += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    made += [
        (_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ENOSYS),
    ]  # its flags cannot be read: callers fall back to clone
    made += [  # clone makes threads, and nothing else
        (_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    made += [  # a socket that is there already may be written to, but not to an address of the program's choice
        (_EQUAL, 0, 6, _SENDTO[column]),
        (_LOAD, 0, 0, _FIFTH_ARGUMENT), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _FIFTH_ARGUMENT + 4), (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    return [*made, (_RETURN, 0, 0, _ALLOW)]
