"""The limits for all programs together, asked of the kernel of this machine."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from atc._records.outcome import Outcome
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import Job
from atc.sandboxes.process import cgroup
from atc.sandboxes.process.cgroup import Group, confine
from atc.sandboxes.process.driver import ProcessSandbox
from tests.support.cgroup import MIB, Kernel


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes long to end a process."""
    monkeypatch.setattr(cgroup, "END_S", 30.0)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


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
        assert not can_be_made(needs), f"a group for {needs} can be made here: {parent.group.describe()}"
        pytest.skip(f"no such control group can be made here: {parent.group.describe()}")
    return parent


def can_be_made(controller: str) -> bool:
    """Whether this process may make a group below its own in version 1, told without what is under test."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = [path for _, names, path in groups if controller in names.split(",")]
    if not own:
        return False
    above = Path("/sys/fs/cgroup", controller, own[0].lstrip("/"))
    whole = above / "memory.use_hierarchy"
    if whole.exists() and whole.read_text().strip() == "0":
        return False  # what is below it would not be counted with it
    folder = above / f"probe-{os.getpid()}"
    try:
        folder.mkdir()
        folder.rmdir()
    except OSError:
        return False
    return True


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
    assert parent.process.wait(30) == -signal.SIGKILL
    assert all(_ended(child) for child in children)
    parent.group.close()


_HOST = """
import subprocess, sys
from atc.sandboxes.process.cgroup import confine
child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
group = confine(child.pid, memory_bytes=1 << 29, tasks=100)
print(*group.folders.values(), sep="\\t", flush=True)
sys.stdin.read()
"""


def test_the_groups_of_a_host_that_was_killed_are_removed_by_the_next_start(parents: list[Parent]) -> None:
    started(parents, "memory")
    host = subprocess.Popen([sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with host:
        assert host.stdout is not None
        folders = [Path(folder) for folder in host.stdout.readline().rstrip("\n").split("\t")]
        started(parents, "memory")
        assert all(folder.is_dir() for folder in folders), "it lives: no start of another touches its groups"
        host.kill()
    deadline = time.monotonic() + 60
    while any(cgroup.read_text(folder / "cgroup.procs") for folder in folders) and time.monotonic() < deadline:
        time.sleep(0.01)  # its child sees the end of its input
    # Any sandbox of this machine that starts from here on may remove them: another test's, too.
    started(parents, "memory")
    assert not any(folder.exists() for folder in folders)


_DELEGATED_HOST = """
import os, subprocess, sys
from pathlib import Path
from atc.sandboxes.process.cgroup import confine
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
            [sys.executable, "-c", _DELEGATED_HOST, str(host), str(uid)],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=60,
        )
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
    stat = cgroup.read_text(Path(f"/proc/{pid}/stat"))
    return not stat or stat.rpartition(")")[2].split()[0] in "ZX"
