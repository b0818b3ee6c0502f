"""A real sandbox service as the range of attacks: a process of its own, whose secrets and peace count too."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from atc.sandboxes.contract import Limits
from atc.sandboxes.remote.client import ServiceSandbox
from tests.attacks.ranges import LIMITS, Range
from tests.attacks.world import Host, World, at_rest, busy_s, children, left_running, settled, stood_still
from tests.support.service import OTHER, TOKEN, soon

ONE, TWO = "one", "two"
"""The tenants."""


class Served:
    """``atc sandbox serve`` on loopback, with the limits of the attacks. :meth:`close` it."""

    def __init__(self, limits: Limits = LIMITS, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="atc-served-")
        folder = Path(self._folder.name)
        (folder / "tenants").write_text(f"{ONE} {TOKEN}\n{TWO} {OTHER}\n")
        said = folder / "said"
        environment = {
            **os.environ,
            "ATC_WALL_S": str(limits.wall_s),
            "ATC_CPU_S": str(limits.cpu_s),
            "ATC_MEMORY_MB": str(limits.memory_bytes >> 20),
        }
        command = [
            sys.executable,
            "-m",
            "atc",
            "sandbox",
            "serve",
            "--port",
            "0",
            "--tenants",
            str(folder / "tenants"),
            *options,
        ]
        with said.open("wb") as words:
            self.process = subprocess.Popen(command, stderr=words, stdout=words, env=environment)
        assert soon(lambda: said.read_text().endswith("\n"), 120), "the service did not start"
        self.port = int(said.read_text().splitlines()[0].rpartition(":")[2])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def sandbox(self, token: str = TOKEN, limits: Limits = LIMITS) -> ServiceSandbox:
        return ServiceSandbox(self.url, token, limits, "F")

    def parents(self) -> list[int]:
        """The parents of programs: its only children."""
        return children(self.pid)

    def close(self) -> None:
        """End it; it must end, and leave nothing."""
        parents = self.parents()
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self._folder.cleanup()
        assert soon(lambda: not [pid for pid in parents if Path(f"/proc/{pid}").exists()]), "programs outlived it"


class ServiceRange(Range):
    """The ``service`` driver, and the service behind it: both are hosts that nothing may happen to."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()  # its secrets are in what the service inherits
        self._served = Served()
        self.world.host, self.world.memory = self._served.pid, _environment_of(self._served.pid)
        self.sandbox = self._served.sandbox()
        self.begin()
        (self._parent,) = self._served.parents()
        self._waiting = most_children(self._parent)
        self._descriptors = at_rest(self._parent, self._waiting)

    def hosts(self) -> list[Host]:
        return [Host(), Host(self._served.pid)]

    def beats(self, gaps: list[float]) -> list[Coroutine[Any, Any, None]]:
        """The service must answer others, too, whatever one program does."""

        async def ask() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._served.port)
            try:
                while True:
                    began, busy = time.perf_counter(), busy_s(self._served.pid)
                    try:
                        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        await reader.readuntil(b"ok\n")
                    finally:
                        gaps.append(stood_still(time.perf_counter() - began, busy_s(self._served.pid) - busy))
                    await asyncio.sleep(0.02)
            finally:
                writer.close()

        return [*super().beats(gaps), ask()]

    def disturbed(self) -> list[str]:
        found = [] if self._served.parents() == [self._parent] else ["another parent of programs"]
        return found + left_running(self._parent, self._waiting) + settled(self._parent, self._descriptors)

    def close(self) -> None:
        super().close()
        self._served.close()


def most_children(pid: int) -> int:
    """How many programs a parent keeps waiting."""
    return max(len(children(pid)) for _ in range(20) if not time.sleep(0.01))


def _environment_of(pid: int) -> int:
    """The address of the secret in the environment of a process."""
    at = Path(f"/proc/{pid}/environ").read_bytes().index(b"PLANTED_TOKEN=") + len(b"PLANTED_TOKEN=")
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[47]) + at


@contextlib.contextmanager
def served(limits: Limits = LIMITS, *options: str) -> Iterator[Served]:
    made = Served(limits, *options)
    try:
        yield made
    finally:
        made.close()
