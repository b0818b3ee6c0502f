"""A Docker engine on this machine: containers are hardened, made, watched and removed here, and errors say what to do.

The options that a container is started with, and what must hold inside it afterwards, come from the same figures.
``sandbox/inside.py`` verifies each; one that does not hold is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from atc._host.extras import install_command
from atc._host.files import resource_dir
from atc.errors import SandboxUnavailable
from atc.sandboxes.contract import Limits
from atc.sandboxes.process.cgroup import stat_of

SHARED = "/run/atc"
"""The folder, in the container, that it shares with the host: it has a socket, for the moment of meeting."""
NOBODY = (65534, 65534)
_OWN = 128 << 20
"""Bytes for what is no program: the parent of all, and the kernel's pages for them."""


@dataclass(frozen=True)
class Hardening:
    """Bounds what a container may use: bytes, counts, processors. Says who it is: user and group, never the caller."""

    memory_bytes: int
    pids: int
    cpus: float
    tmp_bytes: int = 16 << 20
    files: int = 1024
    user: tuple[int, int] = NOBODY

    @classmethod
    def for_programs(cls, limits: Limits, programs: int) -> Hardening:
        """Make it for so many programs, which may each use up their memory at the same time."""
        mebibytes = (limits.memory_bytes * programs + _OWN + (1 << 20) - 1) >> 20
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(memory_bytes=mebibytes << 20, pids=2048, cpus=float(min(cpus, programs)))

    def create_options(self) -> dict[str, Any]:
        """Return the arguments that create the container: each is an option of ``docker run``."""
        from docker.types import Ulimit

        return {
            "network_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true", f"seccomp={seccomp_profile()}"],
            "pids_limit": self.pids,
            "mem_limit": self.memory_bytes,
            "memswap_limit": self.memory_bytes,  # of both together: no swap
            "nano_cpus": int(self.cpus * 1e9),
            "user": "{}:{}".format(*self.user),
            "tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,size={self.tmp_bytes}"},
            "ipc_mode": "none",
            "ulimits": [
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="nofile", soft=self.files, hard=self.files),
            ],
            "cgroupns": "private",
        }

    def to_verify(self) -> dict[str, Any]:
        """Return what must hold inside (``verify`` in the settings of the programs' parent)."""
        return {
            "memory_bytes": self.memory_bytes,
            "pids": self.pids,
            "cpus": self.cpus,
            "tmp_bytes": self.tmp_bytes,
            "files": self.files,
            "user": list(self.user),
            "shared": SHARED,
        }


@cache
def seccomp_profile() -> str:
    """Return the engine's form of our own filter for the whole container (``deploy/seccomp.json``)."""
    return json.dumps(json.loads((resource_dir("deploy") / "seccomp.json").read_text("utf-8")))


OLDEST_API = (1, 41)
"""Docker 20.10: the first that keeps control groups apart and takes ``pids`` limits as they are meant."""
LABEL = "io.atc.sandbox"
_ANSWER_S = 60
_START = "start Docker, or set DOCKER_HOST to the address of its socket (group `docker` has the right to use it)"


class ContainerOutput:
    """Reads what a container prints, as it comes. :meth:`close` it.

    Args:
        connection: the engine's, attached to the container.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def last(self) -> str:
        """Return the last line that a container printed before it ended."""
        from docker.utils.socket import frames_iter

        text = b"".join(part for _, part in frames_iter(self._connection, tty=False))
        lines = text.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def close(self) -> None:
        """Close the connection."""
        self._connection._response.close()  # the client's own response: it closes all below it, once


class Engine:
    """A connection to the engine that ``DOCKER_HOST`` names, or to the one of this machine. For any thread.

    Raises:
        SandboxUnavailable: it cannot be used; the message says why and what to do.
    """

    def __init__(self) -> None:
        try:
            import docker
        except ImportError:
            raise SandboxUnavailable("the Python package `docker` is missing", fix=install_command("docker")) from None
        host = os.environ.get("DOCKER_HOST", "")
        if host and not host.startswith(("unix://", "/")):
            raise SandboxUnavailable(
                f"DOCKER_HOST is {host}, an engine on another machine, and programs are spoken to over a local socket",
                fix="run the image as a service there (`atc sandbox serve`) and give its address as the sandbox",
            )
        with _as_unavailable("the Docker engine"):
            self._client = docker.from_env(version="auto", timeout=_ANSWER_S)
            self._api = self._client.api
        self._removals: list[threading.Thread] = []
        try:
            self._check()
        except BaseException:
            self._client.close()
            raise

    def _check(self) -> None:
        with _as_unavailable("the Docker engine"):
            version, info = self._api.version(), self._api.info()
        api_version = tuple(int(part) for part in str(version.get("ApiVersion", "0.0")).split("."))
        if api_version < OLDEST_API:
            raise SandboxUnavailable(
                f"the Docker engine {version.get('Version')} is too old (API {version.get('ApiVersion')})",
                fix=f"update it to 20.10 or later (API {'.'.join(map(str, OLDEST_API))})",
            )
        if info.get("OSType") != "linux":
            what = f"the Docker engine runs {info.get('OSType')} containers"
            raise SandboxUnavailable(what, fix="switch it to Linux ones")
        lacks = [name for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if not info.get(name)]
        if lacks:
            raise SandboxUnavailable(
                f"the Docker engine cannot set {', '.join(lacks)}",
                fix="its control groups lack the controllers memory, pids or cpu. Boot with "
                "systemd.unified_cgroup_hierarchy=1; a rootless engine needs them delegated",
            )
        if not any(str(option).startswith("name=seccomp") for option in info.get("SecurityOptions") or ()):
            raise SandboxUnavailable(
                "the Docker engine has no seccomp", fix="use a kernel and a runc that were built with it"
            )

    @property
    def version(self) -> str:
        """Return the engine's version."""
        return str(self._api.version().get("Version"))

    def has_image(self, image: str) -> bool:
        """Return whether the engine has this image.

        Raises:
            SandboxUnavailable: the engine does not answer.
        """
        from docker.errors import ImageNotFound

        try:
            with _as_unavailable("the Docker engine"):
                self._client.images.get(image)
        except ImageNotFound:
            return False
        return True

    def create(self, image: str, command: list[str], folder: Path, target: str, options: dict[str, Any]) -> str:
        """Make a container that removes itself when it ends, and share one folder with it.

        Returns:
            The container's id.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        from docker.errors import ImageNotFound
        from docker.types import LogConfig, Mount

        try:
            with _as_unavailable(f"a container of the image {image}"):
                made = self._client.containers.create(
                    image,
                    entrypoint=command[:1],
                    command=command[1:],
                    auto_remove=True,
                    detach=True,
                    labels={LABEL: host_label()},
                    hostname="sandbox",
                    use_config_proxy=False,
                    log_config=LogConfig(type="none"),
                    healthcheck={"test": ["NONE"]},
                    working_dir="/",
                    mounts=[Mount(target, str(folder), type="bind")],
                    **options,
                )
        except ImageNotFound:
            raise SandboxUnavailable(
                f"the image {image} is missing: `make image` builds it in a checkout; or name another (sandbox_image)"
            ) from None
        return str(made.id)

    def start(self, container: str) -> ContainerOutput:
        """Start a container and return what it prints on stdout and stderr.

        Raises:
            SandboxUnavailable: it cannot be started.
        """
        with _as_unavailable("its container"):
            output = ContainerOutput(self._api.attach_socket(container, params={"stdout": 1, "stderr": 1, "stream": 1}))
            try:
                self._api.start(container)
            except BaseException:
                output.close()
                raise
        return output

    def is_running(self, container: str) -> bool:
        """Return whether a container runs; not one that is gone.

        Raises:
            SandboxUnavailable: the engine does not answer.
        """
        from docker.errors import NotFound

        with _as_unavailable("its container"):
            try:
                return bool(self._api.inspect_container(container)["State"]["Running"])
            except NotFound:
                return False

    def remove(self, container: str) -> None:
        """End a container and be sure that it is gone. One that is gone already is fine."""
        from docker.errors import APIError, NotFound

        with _as_unavailable("its container"):
            try:
                self._api.remove_container(container, force=True, v=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != 409:  # it is just removing itself
                    raise
                with contextlib.suppress(NotFound):
                    self._api.wait(container, timeout=_ANSWER_S, condition="removed")

    def remove_soon(self, container: str) -> None:
        """:meth:`remove`, without waiting here; :meth:`close` does."""

        def work() -> None:
            with contextlib.suppress(SandboxUnavailable):  # an engine that is gone has taken it along
                self.remove(container)

        thread = threading.Thread(target=work, name="atc-docker", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be started
            work()
        self._removals = [other for other in self._removals if other.is_alive()] + [thread]

    def reap(self) -> list[str]:
        """Remove the containers of hosts of this machine that have died; return their ids."""
        with _as_unavailable("the Docker engine"):
            found = self._api.containers(all=True, filters={"label": LABEL})
        dead = [each["Id"] for each in found if has_died(each["Labels"][LABEL])]
        for container in dead:
            self.remove(container)
        return dead

    def close(self) -> None:
        """Wait until all that was to be removed is gone."""
        for thread in self._removals:
            thread.join(_ANSWER_S)
        self._client.close()


@contextlib.contextmanager
def _as_unavailable(what: str) -> Iterator[None]:
    from docker.errors import APIError, DockerException, ImageNotFound, NotFound
    from requests.exceptions import RequestException

    try:
        yield
    except ImageNotFound:
        raise
    except APIError as error:
        text = str(error.explanation or error).strip()
        if isinstance(error, NotFound) and "no such container" in text.lower():
            raise SandboxUnavailable("its container ended before it could be used") from None
        raise SandboxUnavailable(f"the Docker engine refused {what}: {text[:300]}{_advice(text)}") from None
    except (DockerException, RequestException, OSError) as error:
        raise SandboxUnavailable(f"no Docker engine answers ({str(error)[:200]})", fix=_START) from None


def _advice(text: str) -> str:
    text = text.lower()
    if "no space" in text:
        return ". Free some: `docker system prune`"
    if "bind source path" in text or "mount" in text:
        return (
            ". It does not see this machine's folders (Docker Desktop, snap, another machine): set TMPDIR to a folder "
            "that it sees, or use the image as a service"
        )
    if "seccomp" in text:
        return ". Its kernel or its runc is too old for our seccomp profile: update Docker"
    return ""


# -- whose container it is -------------------------------------------------------------------------------------------


def host_label() -> str:
    """Return a label by which other processes can see whether this one lives: boot, process namespace, id, start."""
    return f"{_world()}:{os.getpid()}:{_started(os.getpid())}"


def has_died(label: str) -> bool:
    """Return whether the process of a label is surely gone. One of another machine or container never is."""
    world, _, rest = label.rpartition(":")
    world, _, number = world.rpartition(":")
    if world != _world() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is another user's: it lives
    now = _started(int(number))
    return now not in (rest, "")


def _world() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


def _started(pid: int) -> str:
    return "".join(stat_of(pid)[19:20])
