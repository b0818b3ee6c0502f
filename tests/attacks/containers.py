"""Containers as the range of attacks: what there is to be had lies inside, and root looks at it from outside."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atc.sandboxes.docker.driver import _WAITING as WAITING
from atc.sandboxes.docker.driver import WAITING as STRICT_WAITING
from atc.sandboxes.docker.driver import DockerSandbox
from atc.sandboxes.docker.engine import Hardening
from atc.sandboxes.process.zygote import Zygote
from tests.attacks.ranges import LIMITS, Range
from tests.attacks.world import World, at_rest, descriptors_of, left_running, settled
from tests.support.docker import containers, needs_image
from tests.support.service import soon

_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def engine() -> Iterator[None]:
    """For tests that need containers, and root's eye on them."""
    needs_image()
    if os.geteuid() != 0:
        pytest.skip("what a container holds is seen from outside by root alone")
    yield
    assert containers() == [], "a container was left"


class ContainerWorld(World):
    """Planted inside a container: its folder where its user may write, its sockets in its network.

    Args:
        pid: the container's first process, as the host numbers it.
        token: a secret that stands in the environment which the container was started with.
    """

    def __init__(self, pid: int, token: str) -> None:
        self.pid = pid
        self._tmp = os.open(f"/proc/{pid}/root/tmp", os.O_PATH | os.O_DIRECTORY)  # it is there when the process is gone
        super().__init__(Path(f"/proc/self/fd/{self._tmp}"), Path("/tmp"), token)
        self.host = 1

    def names(self) -> dict[str, Any]:
        return {**super().names(), "REPOSITORY": "/opt/atc"}

    def close(self) -> None:
        super().close()
        os.close(self._tmp)

    def _listen(self) -> None:
        in_network_of(self.pid, super()._listen)

    def _places(self) -> list[Path]:
        root = Path(f"/proc/{self.pid}/root")
        inside = ("", "dev", "dev/shm", "dev/mqueue", "run", "run/atc", "var/tmp", "opt/atc", "opt/atc/sandbox", "work")
        return [*super()._places(), Path(f"/proc/self/fd/{self._tmp}"), *(root / place for place in inside)]


def in_network_of(pid: int, work: Callable[[], None]) -> None:
    """Do something in the network of another process: a socket stays in the one where it was made."""
    told: list[BaseException] = []

    def go() -> None:
        try:
            with open(f"/proc/{pid}/ns/net") as network:
                if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            work()
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=go)  # it ends there, and nothing of this process has moved
    thread.start()
    thread.join()
    if told:
        raise told[0]


class _Containers(Range):
    """What both ways of using containers share."""

    sandbox: DockerSandbox
    world: ContainerWorld

    def __init__(self, *, strict: bool) -> None:
        import docker

        super().__init__()
        self._client = docker.from_env()
        self._patch = pytest.MonkeyPatch()
        self._token = f"environment-{os.urandom(12).hex()}"
        given = {"PLANTED_TOKEN": self._token}
        real = Hardening.create_options
        self._patch.setattr(Hardening, "create_options", lambda walls: {**real(walls), "environment": given})
        self.sandbox = DockerSandbox(LIMITS, strict=strict)

    def plant(self, zygote: Zygote) -> str:
        """A world in the container of a parent of programs; the container's number."""
        assert zygote._on_close is not None
        container = str(zygote._on_close.args[0])  # type: ignore[attr-defined]
        state = self._client.api.inspect_container(container)["State"]
        self.world = ContainerWorld(int(state["Pid"]), self._token)
        return container

    def close(self) -> None:
        super().close()
        self._patch.undo()
        self._client.close()


class DockerRange(_Containers):
    """The ``docker`` driver: one container for all programs."""

    def __init__(self) -> None:
        super().__init__(strict=False)
        self.begin()
        zygote = self.sandbox._pool._current
        assert zygote is not None
        self._zygote, self.container = zygote, self.plant(zygote)
        self.warm_up()
        self._descriptors = at_rest(self.world.pid, WAITING)
        self._changes = self._changed()  # where things are mounted

    def _changed(self) -> list[str]:
        return sorted(change["Path"] for change in self._client.api.diff(self.container) or ())

    def close(self) -> None:
        one, changes = containers(), self._changed()
        super().close()
        assert one == [self.container], "there is another container"
        assert changes == self._changes, "something was written into the container"

    def bare(self, program: str) -> str:
        """Run a program in the container without a jail around it: what it says."""
        made = self._client.api.exec_create(self.container, ["python", "-I", "-S", "-c", program])
        return str(self._client.api.exec_start(made["Id"]).decode("utf-8", "replace"))

    def disturbed(self) -> list[str]:
        found = [] if self.sandbox._pool._current is self._zygote else ["another parent of programs"]
        return found + left_running(self.world.pid, WAITING) + settled(self.world.pid, self._descriptors)


class StrictRange(_Containers):
    """The ``docker:strict`` driver: a container for each program, with a world of its own."""

    spare = 10  # connections to the engine are kept for the next container; at the end all must be gone

    def __init__(self) -> None:
        self._descriptors = descriptors_of(os.getpid())
        self._space = -1
        super().__init__(strict=True)
        self.begin()
        self.prepare()

    def prepare(self) -> None:
        """Wait for the container that the next program will run in, and plant a world there."""
        pool = self.sandbox._strict
        assert pool is not None
        assert soon(lambda: len(pool._waiting) == STRICT_WAITING and not pool._starting, 60)
        self._forget()
        self._container = self.plant(pool._waiting[0].zygote)
        self._space = os.open(f"/proc/{self.world.pid}/ns/pid", os.O_RDONLY)  # held, so that no other gets its number

    def disturbed(self) -> list[str]:
        """The container is gone, and whatever was in it."""
        found = [] if soon(lambda: self._container not in containers()) else ["its container is still there"]
        soon(lambda: not _in_space(self._space))
        return found + [f"process {pid} of its container" for pid in _in_space(self._space)]

    def _forget(self) -> None:
        if self._space >= 0:
            self.world.close()
            os.close(self._space)
            self._space = -1

    def close(self) -> None:
        os.close(self._space)
        super().close()
        assert settled(os.getpid(), self._descriptors) == []


def _in_space(space: int) -> list[int]:
    """The processes of a process namespace."""
    wanted, found = os.fstat(space).st_ino, []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}/ns/pid").st_ino == wanted:
                found.append(int(name))
    return found
