"""In a container: meet the host on a socket, and see from inside that each wall of the container stands.

An engine may ignore what it is asked for (an old kernel, a setting of the machine, a fault): what is not seen from
here does not count. Each finding is named by the option of ``docker run`` that it comes from.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import resource
import socket
import sys
from typing import Any

import filter
import kernel
import start

ENVIRONMENT = {"PYTHONHASHSEED": start.HASH_SEED}
ISOLATED = ("-P", "-s", "-S")
"""As ``-I -S``, but for the environment, which is ours."""
HOST_S = 30.0
"""Seconds that the host gets to connect: what started us may have died meanwhile."""
_FORBIDDEN = ("ptrace", "process_vm_readv", "kcmp", "bpf", "userfaultfd", "io_uring_setup", "keyctl", "unshare")
_WRITABLE = ("/dev", "/proc", "/sys")  # the engine's own, in the kernel or in memory
_UP = 1

Mount = tuple[str, str, set[str], set[str]]
"""Where, of what kind, options of the mount, options of what is mounted."""


def forget_environment() -> None:
    """Begin anew with the hash seed in the environment alone: an image may have set what no program should see."""
    if sys.flags.isolated:  # as the container started us
        os.execve(sys.executable, [sys.executable, *ISOLATED, *sys.argv], ENVIRONMENT)


def meet_host(path: str) -> socket.socket:
    """The connection of the one host that dials ``path``.

    Raises:
        TimeoutError: it did not come.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.settimeout(HOST_S)
        listener.bind(path)
        os.chmod(path, 0o666)  # the host may be another user; nobody else gets at the folder
        listener.listen(1)
        control, _ = listener.accept()
    with contextlib.suppress(OSError):
        os.unlink(path)  # the host may have been quicker
    return control


def digest() -> str:
    """What this side's own files hash to: the host compares it with its own copy."""
    folder = os.path.dirname(os.path.abspath(__file__))
    made = hashlib.sha256()
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".py")):
        with open(os.path.join(folder, name), "rb") as file:
            made.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return made.hexdigest()


def verify(expected: dict[str, Any]) -> dict[str, Any]:
    """Check that the container is as hard as the host asked for; return the walls that hold.

    Args:
        expected: ``memory_bytes``, ``pids``, ``cpus``, ``user`` (user and group), ``tmp_bytes``, ``files``, ``shared``
            (the folder of the host's socket).

    Raises:
        OSError: a wall is missing; the message names every one that is.
    """
    mounts, status = _mounts(), _status()
    found = {
        "--network none": _network(),
        "--read-only": _read_only(mounts, (expected["shared"], "/tmp")),
        "--cap-drop ALL": _capabilities(status),
        "--security-opt no-new-privileges": "" if status.get("NoNewPrivs") == "1" else "privileges can be gained",
        "--security-opt seccomp": _seccomp(status),
        "--pids-limit": _at_most(mounts, "pids", ("pids.max", "pids.max"), expected["pids"]),
        "--memory": _at_most(mounts, "memory", ("memory.limit_in_bytes", "memory.max"), expected["memory_bytes"]),
        "--memory-swap": _swap(mounts, expected["memory_bytes"]),
        "--cpus": _cpus(mounts, expected["cpus"]),
        "--user": _user(*expected["user"]),
        "--tmpfs /tmp": _tmp(mounts, expected["tmp_bytes"]),
        "--ipc none": ", ".join(f"{place} is there" for place, *_ in mounts if place == "/dev/shm"),
        "--ulimit core": _ulimit(resource.RLIMIT_CORE, 0),
        "--ulimit nofile": _ulimit(resource.RLIMIT_NOFILE, expected["files"]),
    }
    missing = [f"`{flag}` ({why})" for flag, why in found.items() if why]
    if missing:
        raise OSError(f"the container was started without {', '.join(missing)}")
    return {"walls": list(found), "digest": digest()}


def _mounts() -> list[Mount]:
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            own, _, rest = line.partition(" - ")
            place, options = own.split()[4:6]
            kind, _, of_all = rest.split()[:3]
            found.append((place, kind, set(options.split(",")), set(of_all.split(","))))
    return found


def _status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def _network() -> str:
    up = []
    for name in os.listdir("/sys/class/net"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), open(f"/sys/class/net/{name}/flags") as file:
            if name != "lo" and int(file.read(), 16) & _UP:
                up.append(name)
    return f"{', '.join(sorted(up))} is up" if up else ""


def _read_only(mounts: list[Mount], allowed: tuple[str, ...]) -> str:
    if not any(place == "/" for place, *_ in mounts):
        return "the root is not seen"
    writable = [
        place
        for place, _, options, _ in mounts
        if "rw" in options
        and place not in (*allowed, *_WRITABLE)
        and not place.startswith(tuple(f"{p}/" for p in _WRITABLE))
    ]
    return f"{', '.join(writable)} can be written" if writable else ""


def _capabilities(status: dict[str, str]) -> str:
    sets = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status.get(name, "1"), 16)]
    return f"{', '.join(sets)} is not empty" if sets else ""


def _seccomp(status: dict[str, str]) -> str:
    if status.get("Seccomp") != "2":
        return "no filter"
    column = list(filter.ARCHITECTURES).index(kernel.MACHINE)
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    answered = []
    for name in _FORBIDDEN:
        number = filter.FATAL[name][column]
        assert number is not None
        ctypes.set_errno(0)
        syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)  # no call makes sense of these
        if ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            answered.append(name)
    return f"not our own profile: {', '.join(answered)} answered" if answered else ""


def _control_file(mounts: list[Mount], controller: str, names: tuple[str, str]) -> str | None:
    for name, version in zip(names, ("cgroup", "cgroup2"), strict=True):
        for place, kind, _, of_all in mounts:
            if name and kind == version and (version == "cgroup2" or controller in of_all):
                with contextlib.suppress(FileNotFoundError), open(f"{place}/{name}") as file:
                    return file.read().strip()
    return None


def _at_most(mounts: list[Mount], controller: str, names: tuple[str, str], most: int) -> str:
    value = _control_file(mounts, controller, names)
    if value is None:
        return "no control group has the limit"
    return "" if value.isdigit() and int(value) <= most else f"the limit is {value}, not {most}"


def _swap(mounts: list[Mount], memory: int) -> str:
    both = _control_file(mounts, "memory", ("memory.memsw.limit_in_bytes", ""))
    if both is not None:
        return "" if int(both) <= memory else f"memory and swap may be {both} bytes, not {memory}"
    alone = _control_file(mounts, "memory", ("", "memory.swap.max"))
    if alone is not None:
        return "" if alone == "0" else f"swap may be {alone} bytes, not 0"
    with open("/proc/swaps") as file:
        return "this kernel does not count swap, and has some" if len(file.readlines()) > 1 else ""


def _cpus(mounts: list[Mount], most: float) -> str:
    both = _control_file(mounts, "cpu", ("", "cpu.max"))
    if both:
        quota, period = both.split()
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = (_control_file(mounts, "cpu", (name, "")) or "" for name in names)
    if not quota.isdigit() or not period.isdigit():
        return "no control group sets the limit"
    cpus = int(quota) / int(period)
    return "" if cpus <= most + 0.01 else f"the limit is {cpus:g} processors, not {most:g}"


def _user(uid: int, gid: int) -> str:
    users, groups = set(os.getresuid()), set(os.getresgid()) | set(os.getgroups())
    if uid == 0 or users != {uid} or groups != {gid}:
        return f"user {sorted(users)}, groups {sorted(groups)}; not {uid}:{gid}"
    return ""


def _tmp(mounts: list[Mount], most: int) -> str:
    for place, kind, options, _ in reversed(mounts):
        if place == "/tmp":
            size = os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize
            if kind != "tmpfs" or not {"noexec", "nosuid", "nodev"} <= options:
                return f"it is {kind} with {','.join(sorted(options))}"
            return "" if size <= most else f"it holds {size} bytes, not {most}"
    return "it is not mounted"


def _ulimit(which: int, most: int) -> str:
    hard = resource.getrlimit(which)[1]
    return "" if 0 <= hard <= most else f"the limit is {hard}, not {most}"
