"""Limits for all programs of one parent *together*: a control group of the kernel, where the host may make one. Linux.

An extra. Each program has limits of its own, which hold everywhere; where no group can be had, only this is missing,
and :meth:`Group.describe` says why. Nothing here raises for that, and nothing moves the host, or changes a group that
others are in. Both versions of control groups are used, and a machine that has some controllers in each.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

END_S = 1.0
"""Seconds that the last processes of a group get to be gone."""
SPARE_BYTES = 256 << 20
"""Bytes for the parent of the programs and those that wait, beside what one program may use."""
TASKS_EACH = 128
"""Threads for a program where all that may run do: one alone may have more, by its own limit."""
PIECE_BYTES = 4 << 20
_numbers = itertools.count(1)


@dataclass
class Group:
    """A parent of programs and all of them, held together. Empty, and false, where no group could be had.

    Attributes:
        memory_bytes: what all may use at once, swap included.
        tasks: processes and threads at the same time.
        folders: its folder for each controller that holds.
        versions: the versions of control groups that these belong to.
        missing: controllers that could not be had, and why.
    """

    memory_bytes: int
    tasks: int
    folders: dict[str, Path] = field(default_factory=dict)
    versions: set[int] = field(default_factory=set)
    missing: dict[str, str] = field(default_factory=dict)
    _owner: int = field(default_factory=os.getpid)
    _reported: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __bool__(self) -> bool:
        return bool(self.folders)

    def describe(self) -> str:
        """Return what holds, and why the rest does not, for a person."""
        limits = {
            "memory": f"{self.memory_bytes >> 20:,} MiB",
            "pids": f"{self.tasks:,} tasks",
        }
        parts = []
        if self:
            versions = " and ".join(f"v{version}" for version in sorted(self.versions))
            parts.append(f"{', '.join(limits[name] for name in WANTED if name in self.folders)} (cgroup {versions})")
        for reason in dict.fromkeys(self.missing.values()):
            names = ", ".join(name for name in WANTED if self.missing.get(name) == reason)
            parts.append(f"not {names}: {reason}")
        return "; ".join(parts)

    def out_of_memory(self) -> str:
        """Return why the kernel ended a process of this group for want of memory, once for each; else ``""``."""
        with self._lock:
            ended, full = _ended_for_memory(self.folders.get("memory"))
            if ended <= self._reported:
                return ""
            self._reported += 1
        if full:
            return f"the programs together used more memory than the {self.memory_bytes >> 20:,} MiB that they may"
        return "the machine, or the control group around the sandbox, ran out of memory"

    def close(self) -> None:
        """End whatever is still in it and remove it. May be called twice; does nothing in a fork of this process."""
        if os.getpid() != self._owner:
            return
        deadline = time.monotonic() + END_S
        for folder in set(self.folders.values()):
            while not _remove(folder) and time.monotonic() < deadline:
                _end_all(folder)
                time.sleep(0.002)


def confine(pid: int, *, memory_bytes: int, tasks: int) -> Group:
    """Put a process into a new group, with all that it starts from now on. Groups of dead hosts are removed first.

    Args:
        pid: a child of this process that has started nothing yet.
        memory_bytes: for all together, swap included.
        tasks: processes and threads together.

    Returns:
        The group, to be closed when the process has ended. It is empty where none can be had: see its ``missing``.
    """
    group = Group(memory_bytes, tasks)
    try:
        for tree in list(trees()):
            try:
                _enter(group, tree, pid)
            except (OSError, ValueError) as error:
                for controller in tree.controllers:
                    group.missing.setdefault(controller, str(error))
    except (OSError, ValueError) as error:
        group.missing = dict.fromkeys(WANTED, str(error))
    for controller in WANTED:
        if controller not in group.folders:
            group.missing.setdefault(controller, "no group with it can be seen from here")
    return group


def memory_for(one: int, programs: int) -> int:
    """Return bytes for all programs together: what they may use one by one, as far as the machine has it.

    At most three quarters of the memory of this machine, or of the control group around this process. Never less than
    one program may use.

    Args:
        one: what one program may use.
        programs: how many may run at once.
    """
    return max(min(one * programs, memory_room() * 3 // 4), one + SPARE_BYTES)


def tasks_for(programs: int) -> int:
    """Return how many processes and threads programs together may have: at most half of what the machine can have.

    Args:
        programs: how many may run at once.
    """
    machine = (read_text(Path(f"/proc/sys/kernel/{name}"), "32768") for name in ("threads-max", "pid_max"))
    return min(programs * TASKS_EACH, *(int(most) // 2 for most in machine))


def _enter(group: Group, tree: Tree, pid: int) -> None:
    """Raises OSError where it cannot be had; then nothing is left behind."""
    above = above_ours(tree)
    _sweep(above)
    available, withheld = controllers_below(tree, above)
    for name in withheld:
        group.missing[name] = f"{above} does not give it to groups below, and switching it on would change others"
    if not available:
        return
    most = read_text(tree.own / "pids.max", "max")
    if above != tree.own and most != "max":
        group.tasks = min(group.tasks, int(most))  # we are beside the host's group, not below it
    folder, limited = above / f"atc-{_namespace()}-{os.getpid()}-{_start_of(os.getpid())}-{next(_numbers)}", []
    _make(folder)
    try:
        for controller in available:
            try:
                _limit(folder, tree.version, controller, group)
                limited.append(controller)
            except OSError as error:
                group.missing[controller] = str(error)
        if not limited:
            raise OSError(f"no limit can be set below {above}")
        write(folder / "cgroup.procs", str(pid))
        if str(pid) not in read_text(folder / "cgroup.procs").split():
            raise OSError(f"the process did not stay in {folder}")
    except OSError:
        _remove(folder)
        raise
    group.folders.update(dict.fromkeys(limited, folder))
    group.versions.add(tree.version)


def _limit(folder: Path, version: int, controller: str, group: Group) -> None:
    if controller == "pids":
        write(folder / "pids.max", str(group.tasks))
    elif version == 1:
        write(folder / "memory.limit_in_bytes", str(group.memory_bytes))
        with contextlib.suppress(OSError):  # a kernel may not count swap
            write(folder / "memory.swappiness", "0")
            write(folder / "memory.memsw.limit_in_bytes", str(group.memory_bytes))
    else:
        write(folder / "memory.max", str(group.memory_bytes))
        with contextlib.suppress(OSError):
            write(folder / "memory.swap.max", "0")


def _ended_for_memory(folder: Path | None) -> tuple[int, bool]:
    """How many processes the kernel ended for want of memory, and whether the group's limit was reached."""
    if folder is None:
        return 0, False
    counts = dict(line.split() for line in read_text(folder / "memory.events").splitlines())
    if counts:
        return int(counts["oom_kill"]), int(counts["oom"]) > 0
    counts = dict(line.split() for line in read_text(folder / "memory.oom_control").splitlines())
    # its count of failures stays 0 on newer kernels; memory is taken in pieces, so the limit is not met to the byte
    limit, most = (int(read_text(folder / f"memory.{name}_in_bytes", "0")) for name in ("limit", "max_usage"))
    return int(counts.get("oom_kill", 0)), most >= limit - PIECE_BYTES


def _end_all(folder: Path) -> None:
    """End what is in it. Version 1 has no way but one by one, where a number may soon be that of another process."""
    with contextlib.suppress(OSError):
        write(folder / "cgroup.kill", "1")
        return
    for pid in map(int, read_text(folder / "cgroup.procs").split()):
        if pid != 0:  # which is one of a process namespace that we do not see
            _end_one(folder, pid)


def _end_one(folder: Path, pid: int) -> None:
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if (
                str(pid) in read_text(folder / "cgroup.procs").split()
            ):  # so it is the one that we hold, or that has ended
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def _sweep(above: Path) -> None:
    """Remove the groups of hosts that died. One with processes stays: they are about to end by themselves."""
    for folder in above.iterdir():
        name = NAME.fullmatch(folder.name)
        # the numbers of another process namespace mean nothing here
        if name and int(name["namespace"]) == _namespace() and _start_of(int(name["pid"])) != int(name["start"]):
            _remove(folder)


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _start_of(pid: int) -> int:
    """Return the ticks from the machine's start to the process's; 0 without a process. With the pid it is unique."""
    return int((stat_of(pid) or ["0"] * 20)[19])


def stat_of(pid: int) -> list[str]:
    """Return what the kernel tells of a process (``/proc/PID/stat``), from its state on; nothing without a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _make(folder: Path) -> None:
    folder.mkdir()


def _remove(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


WANTED = ("memory", "pids")
NAME = re.compile(r"atc-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<start>\d+)-\d+")
"""The name of a group of ours: process namespace, number and start of the host that made it, and its number there."""

_MEMBER, _MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Tree:
    """One tree of groups.

    Attributes:
        version: of control groups, 1 or 2.
        controllers: those of :data:`WANTED` that it has, or may have: in version 2 each group decides.
        own: the group that this process is in; ``top`` is where the tree begins for us.
    """

    version: int
    controllers: tuple[str, ...]
    own: Path
    top: Path


def trees() -> Iterator[Tree]:
    """Yield the trees with a wanted controller. On a hybrid machine no controller is in both versions.

    Raises:
        OSError, ValueError: the kernel's files cannot be read or understood.
    """
    mounts = list(_mounts())
    lines = [line.split(":", 2) for line in _MEMBER.read_text().splitlines()]
    in_1 = {name for _, names, _ in lines for name in names.split(",")}
    for number, names, path in lines:
        version = 2 if number == "0" else 1
        of_it = names.split(",") if version == 1 else set(WANTED) - in_1
        controllers = tuple(name for name in WANTED if name in of_it)
        for of_version, options, root, top in mounts:
            below = os.path.relpath(path, root)
            if of_version != version or ".." in f"{path}/{below}".split("/"):
                continue  # our group is not to be seen through this mount
            if version == 1 and not set(names.split(",")) <= options:
                continue
            own = top / below
            if controllers and str(os.getpid()) in read_text(own / "cgroup.procs").split():
                yield Tree(version, controllers, own, top)
                break


def above_ours(tree: Tree) -> Path:
    """Return the group to make ours in, without moving the host and without leaving a limit that was set for it.

    Version 2 forbids processes in a group that has groups with limits below it, the root of all excepted. So ours can
    be made in the host's own group only in the root, and else beside it, where that was left to us.

    Raises:
        OSError: there is none; the message says why.
    """
    if tree.version == 1:
        if tree.own != tree.top and read_text(tree.own / "memory.use_hierarchy") == "0":
            raise OSError("the group that the host is in does not count those below it")
        return tree.own
    if not (tree.own / "cgroup.type").exists():  # all but the root have a type
        return tree.own
    above = tree.own.parent
    if tree.own == tree.top or not _delegated(above, tree.top):
        beyond = "cannot be seen" if tree.own == tree.top else "is not delegated to this user"
        raise OSError(
            f"the host's group holds the host, so none with limits can be below it; the one above it {beyond}"
        )
    for name in ("memory.max", "memory.high", "cpu.max"):
        if not read_text(tree.own / name, "max").startswith("max"):
            raise OSError(f"the host's group has a {name} of its own, which a group beside it would be free of")
    return above


def controllers_below(tree: Tree, above: Path) -> tuple[list[str], list[str]]:
    """Return the controllers that groups below ``above`` have, and those that it withholds from them.

    A withheld controller is switched on only if nobody else is there.

    Raises:
        OSError: the kernel's files cannot be read.
    """
    if tree.version == 1:
        return list(tree.controllers), []
    switch = above / "cgroup.subtree_control"
    others = any(each.is_dir() and each != tree.own and not NAME.fullmatch(each.name) for each in above.iterdir())
    inside = above != tree.own and (above / "cgroup.procs").read_text().strip()
    existing = [name for name in tree.controllers if name in read_text(above / "cgroup.controllers").split()]
    if not others and not inside:
        for name in set(existing) - set(read_text(switch).split()):
            with contextlib.suppress(OSError):
                write(switch, f"+{name}")
    available = [name for name in existing if name in switch.read_text().split()]
    return available, [name for name in existing if name not in available]


def memory_room() -> int:
    """Return the bytes of memory of this machine, or of the smallest group with a limit around this process."""
    bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        for tree in trees():
            for folder in (tree.own, *tree.own.parents) if "memory" in tree.controllers else ():
                limit = read_text(folder / ("memory.limit_in_bytes" if tree.version == 1 else "memory.max"))
                bytes_ = min(bytes_, int(limit)) if limit.isdigit() else bytes_
                if folder == tree.top:
                    break
    return bytes_


def read_text(path: Path, otherwise: str = "") -> str:
    """Return the text of a file, or ``otherwise`` if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return otherwise


def write(path: Path, text: str) -> None:
    """Write to a file of the kernel, which is there already.

    Raises:
        OSError: the kernel refuses the text.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(fd)


def _mounts() -> Iterator[tuple[int, set[str], str, Path]]:
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = (_unescaped(part) for part in before.split(" ")[3:5])
            yield 2 if kind == "cgroup2" else 1, set(options.split(",")), root, Path(point)


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _delegated(folder: Path, top: Path) -> bool:
    """Return whether whoever manages the groups has left this one to us: it is our own, or systemd has marked it so."""
    if os.geteuid() != 0 and folder.stat().st_uid == os.geteuid():
        return True
    for each in (folder, *folder.parents):
        for mark in ("user.delegate", "trusted.delegate"):
            with contextlib.suppress(OSError):
                if os.getxattr(each, mark) == b"1":
                    return True
        if each == top:
            break
    return False
