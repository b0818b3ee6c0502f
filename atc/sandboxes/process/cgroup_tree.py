"""Where a host may make control groups: the kernel's trees of them, as this process sees them. Linux.

Version 2 forbids processes in a group that has groups with limits below it, the root of all excepted. The host is in
its own group, and is not moved; so ours can be made there only in the root, and else beside it, where that was left to
us.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WANTED = ("memory", "pids")
NAME = re.compile(r"atc-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<start>\d+)-\d+")
"""Of our groups: the process namespace, number and start of the host that made it, and which of its groups it is."""

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
    """The group to make ours in, without moving the host and without leaving a limit that was set for it.

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
    """Version, options, the group that is mounted, and where, of each mount of control groups."""
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, point = (_unescaped(part) for part in before.split(" ")[3:5])
            yield 2 if kind == "cgroup2" else 1, set(options.split(",")), root, Path(point)


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _delegated(folder: Path, top: Path) -> bool:
    """Whether whoever manages the groups has left this one to us: it is our own, or systemd has marked it so."""
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
