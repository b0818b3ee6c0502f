"""The limits for all programs together: where they can be had they hold, and where not a run is as before.

The first half plays the kernel in a folder, to have every kind of machine; the second asks the kernel of this one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from atc.execution import cgroup, cgroup_tree
from atc.execution.cgroup import Group, confine, memory_for, tasks_for
from atc.execution.process import ProcessSandbox
from atc.execution.sandbox import CallReply, CallRequest, Job, Outcome

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
        monkeypatch.setattr(cgroup_tree, "_MEMBER", self.member)
        monkeypatch.setattr(cgroup_tree, "_MOUNTS", self.mounts)
        monkeypatch.setattr(cgroup, "_make", self.make)
        monkeypatch.setattr(cgroup, "_remove", self.remove)
        monkeypatch.setattr(cgroup, "write", self.write)
        monkeypatch.setattr(cgroup_tree, "write", self.write)

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


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


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


# -- where limits are set --------------------------------------------------------------------------------------------


def test_version_1_limits_memory_and_tasks_below_the_hosts_own_groups(kernel: Kernel) -> None:
    memory, pids = kernel.tree(1, "memory", "/system/host"), kernel.tree(1, "pids")
    kernel.tree(1, "cpu cpuacct", "/user")
    group = confined()
    held = {name: files(folder) for name, folder in group.folders.items()}
    assert {name: folder.parent for name, folder in group.folders.items()} == {
        "memory": memory,
        "pids": pids,
    }
    assert held["memory"]["memory.limit_in_bytes"] == held["memory"]["memory.memsw.limit_in_bytes"] == str(512 * MIB)
    assert held["pids"]["pids.max"] == "100"
    assert all(of["cgroup.procs"] == "4242" for of in held.values())
    assert group.describe() == "512 MiB, 100 tasks (cgroup v1)"
    empty(group)
    group.close()
    assert ours(memory) + ours(pids) == []


def test_version_2_has_one_group_below_the_root_of_all(kernel: Kernel) -> None:
    root = kernel.tree(2, "cpu memory pids")
    (root / "cgroup.subtree_control").write_text("cpu memory pids")
    group = confined()
    (folder,) = set(group.folders.values())
    said = files(folder)
    assert (folder.parent, said["cgroup.procs"]) == (root, "4242")
    assert (said["memory.max"], said["memory.swap.max"], said["pids.max"]) == (str(512 * MIB), "0", "100")
    empty(group)
    group.close()
    assert ours(root) == []


def test_controllers_are_taken_from_whichever_version_has_them(kernel: Kernel) -> None:
    pids, unified = kernel.tree(1, "pids"), kernel.tree(2, "memory hugetlb")
    (unified / "cgroup.subtree_control").write_text("memory")
    group = confined()
    assert {name: folder.parent for name, folder in group.folders.items()} == {"pids": pids, "memory": unified}
    assert group.describe() == "512 MiB, 100 tasks (cgroup v1 and v2)"


def test_in_a_container_the_group_is_found_below_what_is_mounted(kernel: Kernel) -> None:
    memory = kernel.tree(1, "memory", own="/docker/abc/init", root="/docker/abc")
    assert confined().folders["memory"].parent == memory


def test_a_mount_point_with_a_space_is_found(kernel: Kernel) -> None:
    memory = kernel.tree(1, "memory", top="with space")
    kernel.mounts.write_text(kernel.mounts.read_text().replace("with space", r"with\040space"))
    assert confined().folders["memory"].parent == memory


# -- version 2: processes and groups with limits cannot be in one group ----------------------------------------------


@pytest.fixture
def beside(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host in a group of its own, below one that was left to its user; the folder of the latter."""
    above = kernel.tree(2, "cpu memory pids", "/user/app/host").parent
    (above / "cgroup.subtree_control").write_text("cpu memory pids")
    if os.geteuid() == 0:
        os.chown(above, 1000, 1000)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return above


def test_in_a_delegated_group_ours_is_beside_the_hosts(beside: Path) -> None:
    group = confined()
    assert {folder.parent for folder in group.folders.values()} == {beside}
    assert (beside / "host" / "cgroup.procs").read_text().split() == ["1", str(os.getpid())], "the host stays"


def test_nothing_is_made_beside_the_host_in_a_group_of_somebody_else(kernel: Kernel) -> None:
    above = kernel.tree(2, "cpu memory pids", "/system/host").parent
    (above / "cgroup.subtree_control").write_text("cpu memory pids")
    if os.geteuid() != 0:
        pytest.skip("only root can be in a group above which is not its own, in this test")
    group = confined()
    assert not group
    assert "is not delegated to this user" in group.describe()
    assert ours(above) == []


def test_nothing_can_be_made_where_the_host_sees_only_its_own_group(kernel: Kernel) -> None:
    top = kernel.tree(2, "cpu memory pids")
    (top / "cgroup.type").write_text("domain")
    assert "the one above it cannot be seen" in confined().describe()


@pytest.mark.parametrize(("name", "limit"), [("memory.max", "1073741824"), ("cpu.max", "50000 100000")])
def test_a_limit_that_was_set_for_the_host_is_not_left(beside: Path, name: str, limit: str) -> None:
    (beside / "host" / name).write_text(limit)
    group = confined()
    assert not group
    assert f"the host's group has a {name} of its own" in group.describe()


def test_beside_the_host_its_own_limit_of_tasks_is_kept(beside: Path) -> None:
    (beside / "host" / "pids.max").write_text("30\n")
    assert (confined().folders["pids"] / "pids.max").read_text() == "30"


def test_controllers_are_switched_on_where_nobody_else_is(beside: Path) -> None:
    (beside / "cgroup.subtree_control").write_text("memory")
    assert set(confined().folders) == {"memory", "pids"}
    assert set((beside / "cgroup.subtree_control").read_text().split()) == {"memory", "pids"}


def test_controllers_are_not_switched_on_for_others(kernel: Kernel, beside: Path) -> None:
    (beside / "cgroup.subtree_control").write_text("memory")
    kernel.make(beside / "browser")
    group = confined()
    assert set(group.folders) == {"memory"}
    assert f"not pids: {beside} does not give it to groups below" in group.describe()
    assert (beside / "cgroup.subtree_control").read_text() == "memory"


def test_controllers_are_not_switched_on_where_processes_are(beside: Path) -> None:
    (beside / "cgroup.subtree_control").write_text("")
    (beside / "cgroup.procs").write_text("77\n")
    assert not confined()
    assert (beside / "cgroup.subtree_control").read_text() == ""


# -- where it cannot be had, a run goes on ---------------------------------------------------------------------------


def test_a_read_only_tree_is_no_failure_and_is_named(kernel: Kernel) -> None:
    kernel.tree(1, "memory")
    kernel.tree(1, "pids")
    kernel.refuses["mkdir"] = errno.EROFS
    group = confined()
    assert not group
    assert group.describe() == "not memory, pids: [Errno 30] Read-only file system"
    assert group.out_of_memory() == ""
    group.close()


def test_one_limit_that_is_refused_does_not_cost_the_others(kernel: Kernel) -> None:
    root = kernel.tree(2, "cpu memory pids")
    (root / "cgroup.subtree_control").write_text("cpu memory pids")
    kernel.refuses["pids.max"] = errno.EINVAL
    group = confined()
    assert set(group.folders) == {"memory"}
    assert "not pids: [Errno 22]" in group.describe()


def test_a_kernel_that_does_not_count_swap_limits_memory(kernel: Kernel) -> None:
    kernel.tree(1, "memory")
    kernel.refuses["memory.memsw.limit_in_bytes"] = errno.EOPNOTSUPP
    said = files(confined().folders["memory"])
    assert (said["memory.limit_in_bytes"], said["memory.swappiness"]) == (str(512 * MIB), "0")


@pytest.mark.parametrize("refused", ["cgroup.procs", "memory.limit_in_bytes"])
def test_what_cannot_be_used_is_not_left(kernel: Kernel, refused: str) -> None:
    memory = kernel.tree(1, "memory")
    kernel.refuses[refused] = errno.ESRCH
    assert not confined()
    assert ours(memory) == []


@pytest.mark.parametrize("member", ["", "nonsense\n", "4:memory:/../elsewhere\n", "4:memory:/not/there\n"])
def test_a_kernel_that_tells_nothing_useful_is_no_failure(kernel: Kernel, member: str) -> None:
    memory = kernel.tree(1, "memory")
    kernel.member.write_text(member)
    group = confined()
    assert set(group.missing) == {"memory", "pids"}
    assert ours(memory) == []


def test_an_old_kernel_that_would_not_count_our_group_in_the_hosts_is_left_alone(kernel: Kernel) -> None:
    memory = kernel.tree(1, "memory", "/system/host")
    (memory / "memory.use_hierarchy").write_text("0\n")
    assert "does not count those below it" in confined().describe()


def test_no_group_is_made_where_the_host_is_not(kernel: Kernel) -> None:
    memory = kernel.tree(1, "memory")
    (memory / "cgroup.procs").write_text("1\n")
    assert not confined()
    assert ours(memory) == []


def test_groups_of_dead_hosts_are_removed_and_no_others(kernel: Kernel) -> None:
    memory = kernel.tree(1, "memory")
    own = confined().folders["memory"].name
    namespace, pid, start = own.split("-")[1:4]
    dead = f"atc-{namespace}-{pid}-{int(start) + 1}-1", f"atc-{namespace}-4194305-7-1"
    kept = f"atc-{int(namespace) + 1}-4194305-7-1", f"atc-{namespace}-{pid}-{int(start) + 1}-2", "atc-by-hand"
    for name in (*dead, *kept):
        kernel.make(memory / name)
    (memory / kept[1] / "cgroup.procs").write_text("99\n")  # what it holds is still ending
    new = confined().folders["memory"].name
    assert ours(memory) == sorted([*kept, own, new])


def test_a_fork_of_the_host_does_not_end_its_programs(kernel: Kernel) -> None:
    kernel.tree(1, "memory")
    group = confined()
    pid = os.fork()
    if pid == 0:
        group.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert group.folders["memory"].is_dir()
    assert (group.folders["memory"] / "cgroup.procs").read_text() == "4242"


# -- how much, and what is said when it was too much -----------------------------------------------------------------


def test_the_limit_is_what_all_programs_may_use_as_far_as_the_machine_has_it(kernel: Kernel) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_for(MIB, 512) == 512 * MIB
    assert memory_for(machine // 8, 64) == machine * 3 // 4
    assert memory_for(2 * machine, 64) > 2 * machine, "one program alone never meets it"


def test_the_limit_knows_that_of_the_groups_around_the_host(kernel: Kernel) -> None:
    host = kernel.tree(1, "memory", "/system/host")
    (host / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (host.parent / "memory.limit_in_bytes").write_text(f"{1024 * MIB}\n")
    assert memory_for(100 * MIB, 64) == 768 * MIB


def test_the_limit_of_tasks_leaves_the_machine_half_of_its_own() -> None:
    assert tasks_for(2) == 2 * cgroup.TASKS_EACH
    assert tasks_for(10**9) <= int(Path("/proc/sys/kernel/pid_max").read_text()) // 2


def test_each_program_that_was_ended_for_memory_is_told_once_v1(kernel: Kernel) -> None:
    kernel.tree(1, "memory")
    group = confined()
    assert group.out_of_memory() == ""
    (group.folders["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (group.folders["memory"] / "memory.max_usage_in_bytes").write_text(f"{511 * MIB}\n")
    told = [group.out_of_memory() for _ in range(3)]
    assert told == ["the programs together used more memory than the 512 MiB that they may"] * 2 + [""]


def test_a_machine_without_memory_is_not_laid_on_the_programs_v2(kernel: Kernel) -> None:
    (kernel.tree(2, "memory") / "cgroup.subtree_control").write_text("memory")
    group = confined()
    (group.folders["memory"] / "memory.events").write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n")
    assert group.out_of_memory() == "the machine, or the control group around the sandbox, ran out of memory"
    (group.folders["memory"] / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\n")
    assert group.out_of_memory() == "the programs together used more memory than the 512 MiB that they may"


# -- this machine ----------------------------------------------------------------------------------------------------

_PARENT = """
import os, signal, sys
for line in sys.stdin:
    what, number = line.split()
    if what == "eat":  # MiB, in a process of its own
        pid = os.fork()
        if pid == 0:
            block = bytearray(int(number) << 20)
            block[::4096] = b"x" * len(block[::4096])
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    else:  # so many that stay
        made = []
        try:
            for _ in range(int(number)):
                made.append(os.fork())
                if made[-1] == 0:
                    signal.pause()
        except OSError:
            pass
        print(*made, flush=True)
"""


class Parent:
    """A parent of processes, in a real group."""

    def __init__(self, memory_bytes: int = 512 * MIB, tasks: int = 100) -> None:
        command = [sys.executable, "-I", "-S", "-c", _PARENT]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.group = confine(self.process.pid, memory_bytes=memory_bytes, tasks=tasks)

    def ask(self, what: str) -> list[int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def close(self) -> None:
        self.group.close()
        with self.process:
            self.process.kill()


@pytest.fixture
def parents() -> Iterator[list[Parent]]:
    made: list[Parent] = []
    yield made
    for parent in made:
        parent.close()


def started(parents: list[Parent], needs: str, memory_bytes: int = 512 * MIB, tasks: int = 100) -> Parent:
    parent = Parent(memory_bytes, tasks)
    parents.append(parent)
    if needs not in parent.group.folders:
        pytest.skip(f"no such control group can be made here: {parent.group.describe()}")
    return parent


@pytest.mark.parametrize("controller", ["memory", "pids"])
def test_a_parent_and_all_that_it_starts_are_in_the_group(parents: list[Parent], controller: str) -> None:
    parent = started(parents, controller)
    children = parent.ask("start 2")
    held = (parent.group.folders[controller] / "cgroup.procs").read_text().split()
    assert {int(pid) for pid in held} == {parent.process.pid, *children}
    assert str(os.getpid()) not in held


def test_the_memory_of_processes_counts_and_too_much_ends_the_one_that_takes_it(parents: list[Parent]) -> None:
    parent = started(parents, "memory", 64 * MIB)
    assert parent.ask("eat 20") == [0]
    assert parent.group.out_of_memory() == ""
    assert parent.ask("eat 100") == [-signal.SIGKILL]
    assert parent.group.out_of_memory() == "the programs together used more memory than the 64 MiB that they may"
    assert parent.group.out_of_memory() == ""
    assert parent.ask("eat 20") == [0], "the parent lives and starts others"


def test_the_limit_of_tasks_is_for_all_together(parents: list[Parent]) -> None:
    parent = started(parents, "pids", tasks=5)
    assert len(parent.ask("start 3")) == 3
    assert len(parent.ask("start 3")) == 1
    other = started(parents, "pids", tasks=5)
    assert len(other.ask("start 3")) == 3, "another parent has a group of its own"


@pytest.mark.parametrize("controller", ["memory", "pids"])
def test_closing_ends_what_is_in_the_group_and_removes_it(parents: list[Parent], controller: str) -> None:
    parent = started(parents, controller)
    children = parent.ask("start 3")
    began = time.monotonic()
    parent.group.close()
    assert time.monotonic() - began < cgroup.END_S
    assert not any(folder.exists() for folder in parent.group.folders.values())
    assert parent.process.wait(1) == -signal.SIGKILL
    assert all(_ended(child) for child in children)
    parent.group.close()


_HOST = """
import subprocess, sys
from atc.execution.cgroup import confine
child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
group = confine(child.pid, memory_bytes=1 << 29, tasks=100)
print(*group.folders.values(), sep="\\t", flush=True)
sys.stdin.read()
"""


def test_a_host_that_is_killed_leaves_empty_groups_that_the_next_start_removes(parents: list[Parent]) -> None:
    started(parents, "memory")
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with host:
        assert host.stdout is not None
        folders = [Path(folder) for folder in host.stdout.readline().rstrip("\n").split("\t")]
        started(parents, "memory")
        assert all(folder.is_dir() for folder in folders), "it lives: no start of another touches its groups"
        host.kill()
    deadline = time.monotonic() + 5
    while any(cgroup_tree.said(folder / "cgroup.procs") for folder in folders) and time.monotonic() < deadline:
        time.sleep(0.01)  # its child sees the end of its input
    assert all(folder.is_dir() for folder in folders)
    started(parents, "memory")
    assert not any(folder.exists() for folder in folders)


_DELEGATED_HOST = """
import os, subprocess, sys
from pathlib import Path
from atc.execution.cgroup import confine
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
os.setresgid(*[int(sys.argv[2])] * 3)
os.setresuid(*[int(sys.argv[2])] * 3)
with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
    group = confine(child.pid, memory_bytes=1 << 29, tasks=100)
    print(Path("/proc/self/cgroup").read_text().split(":")[-1].strip())
    print(Path(f"/proc/{child.pid}/cgroup").read_text().split(":")[-1].strip())
    print(group.describe())
    group.close()
"""


@pytest.mark.parametrize("left_to", ["root, by a mark", "an ordinary user", "nobody"])
def test_in_version_2_the_host_stays_where_it_is_and_its_programs_are_beside_it(
    parents: list[Parent], left_to: str
) -> None:
    root = Path("/sys/fs/cgroup")
    if os.geteuid() != 0 or not (root / "cgroup.controllers").exists() or (root / "cgroup.type").exists():
        pytest.skip("only root in the root of version 2 can make a group to be delegated")
    started(parents, "memory")
    above = root / f"test-{os.getpid()}"
    host, uid = above / "host", 65534 if left_to == "an ordinary user" else 0
    above.mkdir()
    try:
        host.mkdir()
        if left_to == "root, by a mark":
            os.setxattr(above, "user.delegate", b"1")
        for path in (above, above / "cgroup.procs", above / "cgroup.subtree_control"):
            os.chown(path, uid, uid)
        ran = subprocess.run(
            [sys.executable, "-c", _DELEGATED_HOST, str(host), str(uid)], capture_output=True, text=True, check=False,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}, timeout=60,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        in_, child, said = ran.stdout.splitlines()
        assert in_ == f"/{above.name}/host"
        if left_to == "nobody":
            assert child == in_
            assert said.endswith("the one above it is not delegated to this user")
        else:
            assert child.startswith(f"/{above.name}/atc-")
            assert said == "512 MiB, 100 tasks (cgroup v2)"
        assert [path for path in above.iterdir() if path.is_dir()] == [host], "closing left nothing"
    finally:
        for folder in (host, above):
            folder.rmdir()


# -- the process sandbox in it ---------------------------------------------------------------------------------------


def takes(mib: int, then: str = "") -> str:
    return f"block = bytearray({mib} << 20)\nblock[::4096] = b'x' * len(block[::4096])\n{then}\nanswer = 'done'"


def test_a_program_that_is_too_much_beside_another_is_told_so_and_the_other_goes_on(
    parents: list[Parent], nothing_left: None
) -> None:
    started(parents, "memory")
    inner: list[Outcome] = []

    async def go() -> tuple[Outcome, Outcome, Group]:
        async def beside(request: CallRequest) -> CallReply:
            inner.append(await sandbox.run(Job(takes(200), {}), beside))
            return CallReply(value=None)

        async with ProcessSandbox(memory_together=256 * MIB) as sandbox:
            outer = await sandbox.run(Job(takes(100, "beside()"), {"beside": ()}), beside)
            alone = await sandbox.run(Job(takes(200), {}), beside)
            assert sandbox.together is not None
            return outer, alone, sandbox.together

    outer, alone, group = asyncio.run(go())
    assert [outcome.kind for outcome in inner] == ["killed"]
    assert inner[0].detail == (
        "it was ended because the programs together used more memory than the 256 MiB that they may"
    )
    assert (outer.value, alone.value) == ("done", "done")
    assert not any(folder.exists() for folder in group.folders.values())


def test_without_a_group_programs_run_as_before(kernel: Kernel) -> None:
    async def go() -> tuple[Outcome, Group | None]:
        async with ProcessSandbox() as sandbox:
            return await sandbox.run(Job("answer = 1", {}), no_tools), sandbox.together

    async def no_tools(request: CallRequest) -> CallReply:
        raise AssertionError

    kernel.tree(1, "memory")
    kernel.refuses["mkdir"] = errno.EROFS
    outcome, group = asyncio.run(go())
    assert (outcome.value, bool(group)) == (1, False)
    assert group is not None
    assert "Read-only file system" in group.describe()


def _ended(pid: int) -> bool:
    stat = cgroup_tree.said(Path(f"/proc/{pid}/stat"))
    return not stat or stat.rpartition(")")[2].split()[0] in "ZX"
