"""The limits for all programs together, on every kind of machine: the kernel is played in a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from atc.sandboxes.process import cgroup
from atc.sandboxes.process.cgroup import memory_for, tasks_for
from tests.support.cgroup import MIB, Kernel, confined, empty, files, ours


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


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
