"""The kernel's control groups, played in a folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from atc.sandboxes.process import cgroup
from atc.sandboxes.process.cgroup import Group, confine

MIB = 1 << 20
_FILES = {
    (1, "memory"): ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness"),
    (1, "pids"): ("pids.max",),
    (2, "memory"): ("memory.max", "memory.swap.max", "memory.events"),
    (2, "pids"): ("pids.max",),
}


class Kernel:
    """Control groups in a folder: groups get their files, files their kernel's manners."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.refuses, self.trees = folder, dict[str, int](), list[tuple[int, str, Path]]()
        self.member, self.mounts = folder / "member", folder / "mountinfo"
        for file in (self.member, self.mounts):
            file.write_text("")
        monkeypatch.setattr(cgroup, "_MEMBER", self.member)
        monkeypatch.setattr(cgroup, "_MOUNTS", self.mounts)
        monkeypatch.setattr(cgroup, "_make", self.make)
        monkeypatch.setattr(cgroup, "_remove", self.remove)
        monkeypatch.setattr(cgroup, "write", self.write)
        monkeypatch.setattr(cgroup, "write", self.write)

    def tree(self, version: int, controllers: str, own: str = "/", root: str = "/", top: str = "") -> Path:
        """Mount a tree where this process is in the group ``own``; the folder of that."""
        point = self.folder / (top or f"{controllers or 'unified'}".replace(" ", "+"))
        names = controllers.replace(" ", ",") if version == 1 else ""
        self.trees.append((version, controllers, point))
        with self.member.open("a") as member, self.mounts.open("a") as mounts:
            member.write(f"{len(self.trees) if version == 1 else 0}:{names}:{own}\n")
            kind = "cgroup" if version == 1 else "cgroup2"
            mounts.write(
                f"31 30 0:{len(self.trees)} {root} {point} rw,nosuid - {kind} {kind} rw,{names or 'nsdelegate'}\n"
            )
        folder = point
        self.make(folder, controllers)
        for part in os.path.relpath(own, root).split("/") if own != root else ():
            folder = folder / part
            self.make(folder, controllers)
        (folder / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
        return folder

    def make(self, folder: Path, controllers: str | None = None) -> None:
        self._refuse("mkdir")
        version, all_, point = next(tree for tree in self.trees if folder.is_relative_to(tree[2]))
        folder.mkdir()
        (folder / "cgroup.procs").touch()
        if version == 2:
            above = folder.parent / "cgroup.subtree_control"
            controllers = controllers if controllers is not None else above.read_text()
            (folder / "cgroup.controllers").write_text(controllers)
            (folder / "cgroup.subtree_control").touch()
            if folder != point:
                (folder / "cgroup.type").write_text("domain\n")
        for name in (all_ if controllers is None else controllers).split():
            for file in _FILES.get((version, name), ()) if folder != point else ():
                (folder / file).write_text("max\n" if file.endswith(".max") else "")

    def remove(self, folder: Path) -> bool:
        if (folder / "cgroup.procs").read_text():
            return False
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        return True

    def write(self, file: Path, text: str) -> None:
        self._refuse(file.name)
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
        if file.name == "cgroup.subtree_control":
            text = f"{file.read_text()} {text.removeprefix('+')}".strip()
        if file.name == "cgroup.kill":
            file = file.with_name("cgroup.procs")
            text = ""
        file.write_text(text)

    def _refuse(self, what: str) -> None:
        if what in self.refuses:
            raise OSError(self.refuses[what], os.strerror(self.refuses[what]))


def confined(pid: int = 4242) -> Group:
    return confine(pid, memory_bytes=512 * MIB, tasks=100)


def ours(above: Path) -> list[str]:
    return sorted(folder.name for folder in above.iterdir() if folder.name.startswith("atc-"))


def empty(group: Group) -> None:
    """As if all processes of the group had ended."""
    for folder in group.folders.values():
        (folder / "cgroup.procs").write_text("")


def files(folder: Path) -> Mapping[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if not file.is_dir()}
