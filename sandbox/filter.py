"""The seccomp filter: the list of system calls that a program may make. Everything else is refused.

What an honest program may stumble over fails with an error it can read. What only an attack would ask for ends the
process. Arguments are looked at where a call is two things: a thread is allowed, a process is not; reading a file is,
writing one is not; a pair of sockets is, a socket is not.
"""

import errno
import struct

import kernel

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_EPERM, _ENOSYS, _ENOTTY, _EAGAIN = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY, errno.EAGAIN))

Instruction = tuple[int, int, int, int]
Numbers = tuple[int | None, int | None]

# name: number on x86_64, on aarch64 (None: it has no such call)
ALWAYS: dict[str, Numbers] = {
    "read": (0, 63), "write": (1, 64), "futex": (202, 98), "munmap": (11, 215), "brk": (12, 214),
    "clock_gettime": (228, 113), "madvise": (28, 233), "mremap": (25, 216), "close": (3, 57), "lseek": (8, 62),
    "fstat": (5, 80), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "getdents64": (217, 61),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132), "pause": (34, None),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getitimer": (36, 102),
    "setitimer": (38, 103), "alarm": (37, None), "getrusage": (98, 165), "getrlimit": (97, 163), "uname": (63, 160),
    "getcwd": (79, 17), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getrandom": (318, 278), "dup": (32, 23),
    "dup2": (33, None), "dup3": (292, 24), "pipe2": (293, 59), "eventfd2": (290, 19), "select": (23, None),
    "pselect6": (270, 72), "poll": (7, None), "ppoll": (271, 73), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "exit": (60, 93),
    "exit_group": (231, 94), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293),
    "restart_syscall": (219, 128),
}  # fmt: skip
LOOKING: dict[str, Numbers] = {"stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79)}
"""Asking about files: allowed where files can be opened."""
FATAL: dict[str, Numbers] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "init_module": (175, 105), "finit_module": (313, 273), "kexec_load": (246, 104),
    "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89), "setuid": (105, 146), "setgid": (106, 144),
}  # fmt: skip
PARENTS: dict[str, Numbers] = {
    "wait4": (61, 260), "sendmsg": (46, 211), "recvmsg": (47, 212), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "close_range": (436, 436), "capset": (126, 91), "setresuid": (117, 147),
}  # fmt: skip
"""What the parent of all programs needs to fork, lock and end them; no program has any of it."""
_ALSO_PARENTS = ("clone", "prctl", "prlimit64", "kill", "tgkill")  # of a program by its arguments, of the parent whole
_ANSWERED: dict[str, tuple[Numbers, int]] = {
    "clone3": ((435, 435), _ENOSYS),  # its flags lie in memory and cannot be read: callers fall back to clone
    "fork": ((57, None), _EAGAIN), "vfork": ((58, None), _EAGAIN),
}  # fmt: skip
_OPEN_TO_READ_FORBIDS = (
    0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000 | 0o10000000
)  # access, CREAT TRUNC APPEND TMPFILE PATH
_PROT_EXEC, _AF_UNIX = 4, 1
_MSG_OOB = 1
_SOCKET_OPTIONS = (3, 4, 38, 39)  # TYPE, ERROR, PROTOCOL, DOMAIN
_FCNTL = (0, 1, 2, 3, 4, 1030)  # DUPFD, GETFD, SETFD, GETFL, SETFL, DUPFD_CLOEXEC
_IOCTL = (0x5421, 0x5450, 0x5451)  # FIONBIO, FIONCLEX, FIOCLEX
_PR_SET_NAME = 15
_ITSELF = 0x7A7A7A7A  # stands for the process's own number, which is never that high


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _high(index: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + 4)


def _one_of(index: int, values: tuple[int, ...], otherwise: int = _EPERM) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(index), *tests, (_RETURN, 0, 0, otherwise), (_RETURN, 0, 0, _ALLOW)]


def _without(index: int, bits: int, otherwise: int = _EPERM) -> list[Instruction]:
    return [_argument(index), (_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, otherwise), (_RETURN, 0, 0, _ALLOW)]


def _null(*indices: int) -> list[Instruction]:
    made: list[Instruction] = []
    for index in indices:
        for load in (_argument(index), _high(index)):
            made += [load, (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM)]
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _by_argument(opens: bool) -> dict[str, tuple[Numbers, list[Instruction]]]:
    rules: dict[str, tuple[Numbers, list[Instruction]]] = {
        "recvfrom": ((45, 207), _without(3, _MSG_OOB)),
        "sendto": (
            (44, 206),
            [_argument(3), (_ANY_BIT, 0, 1, _MSG_OOB), (_RETURN, 0, 0, _EPERM), *_null(4)],
        ),  # to the other end
        "getsockopt": ((55, 209), _one_of(2, _SOCKET_OPTIONS)),
        "mmap": ((9, 222), _without(2, _PROT_EXEC)),
        "mprotect": ((10, 226), _without(2, _PROT_EXEC)),
        "clone": (
            (56, 220),
            [_argument(0), (_ANY_BIT, 1, 0, kernel.CLONE_THREAD), (_RETURN, 0, 0, _EAGAIN), (_RETURN, 0, 0, _ALLOW)],
        ),
        "fcntl": ((72, 25), _one_of(1, _FCNTL)),
        "ioctl": ((16, 29), _one_of(1, _IOCTL, _ENOTTY)),
        "prctl": ((157, 167), _one_of(0, (_PR_SET_NAME,))),
        "prlimit64": ((302, 261), _null(0, 2)),  # its own, and only to read
        "socketpair": ((53, 199), _one_of(0, (_AF_UNIX,))),
        "kill": ((62, 129), _one_of(0, (_ITSELF,))),
        "tgkill": ((234, 131), _one_of(0, (_ITSELF,))),
    }
    if opens:
        rules["openat"] = ((257, 56), _without(2, _OPEN_TO_READ_FORBIDS, _ERRNO | errno.EROFS))
    return rules


def compile_filters(machine: str, *, opens: bool) -> tuple[bytes, bytes]:
    """The list in two filters, which a program has both: a call is allowed if each of them allows it.

    The first is loaded once, by the parent of all programs, and inherited. It is the whole list, but leaves to the
    parent what it needs itself (:data:`PARENTS`). The second is loaded by each program, so it is short: it holds just
    those calls to the list, and lets all others pass. :func:`blanks` says where the program's number belongs in it.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        opens: whether a program may open files to read.
    """
    rules = _rules(list(ARCHITECTURES).index(machine), opens)
    held = {column: rules.get(column, [(_RETURN, 0, 0, _EPERM)]) for column in _of_parent(machine)}
    allowed: list[Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    return (
        _assembled(machine, {**rules, **dict.fromkeys(held, allowed)}, _EPERM),
        _assembled(machine, held, _ALLOW),
    )


def _of_parent(machine: str) -> list[int]:
    column = list(ARCHITECTURES).index(machine)
    by_argument = {name: numbers for name, (numbers, _) in _by_argument(opens=True).items() if name in _ALSO_PARENTS}
    return [number for numbers in {**PARENTS, **by_argument}.values() if (number := numbers[column]) is not None]


def _rules(column: int, opens: bool) -> dict[int, list[Instruction]]:
    whole = [(numbers, _ALLOW) for numbers in {**ALWAYS, **(LOOKING if opens else {})}.values()]
    whole += [*_ANSWERED.values(), *((numbers, _KILL) for numbers in FATAL.values())]
    rules = [(numbers, [(_RETURN, 0, 0, result)]) for numbers, result in whole] + list(_by_argument(opens).values())
    return {number: body for numbers, body in rules if (number := numbers[column]) is not None}


def _assembled(machine: str, rules: dict[int, list[Instruction]], otherwise: int) -> bytes:
    made: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, ARCHITECTURES[machine]), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL),
    ]  # fmt: skip
    made += _search(sorted(rules.items()), otherwise)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in made)


def _search(rules: list[tuple[int, list[Instruction]]], otherwise: int) -> list[Instruction]:
    """Find the rule of a call by halves: the kernel walks the filter for every number when it is loaded."""
    if len(rules) > 4:
        half = len(rules) // 2
        below = _search(rules[:half], otherwise)
        return [(_AT_LEAST, len(below), 0, rules[half][0]), *below, *_search(rules[half:], otherwise)]
    made: list[Instruction] = []
    for number, body in rules:
        made += [(_EQUAL, 0, len(body), number), *body]
    return [*made, (_RETURN, 0, 0, otherwise)]


def blanks(compiled: bytes) -> list[int]:
    """Where in a compiled filter the number stands that its process calls itself: it may signal nobody else."""
    return [at for at in range(4, len(compiled), 8) if compiled[at : at + 4] == struct.pack("=I", _ITSELF)]
