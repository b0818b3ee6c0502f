"""ATC whose catalogue was taught before the try, by the solutions of other tasks of the same environment.

A try of the ruler learns nothing, for what one taught would help the next: so a graph of what runs taught had nothing
in it. Here it has. The tasks of an environment are parted in two halves by a hash, and a task is tried with what the
other half taught. Its own solution never is in it, and what a try does is not kept.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.agent import Agent
from atc.catalogue.catalogue import Catalogue, Memory
from atc.catalogue.graph.edges import Learnt
from atc.catalogue.graph.lessons import Lessons
from atc.catalogue.graph.store import FILE, GraphStore
from atc.errors import UsageError
from atc.models.fake import FakeModel
from atc.sandboxes.contract import Sandbox
from atc.sandboxes.drivers import open_sandbox
from atc.schemas.protocol import Protocol
from atc.settings import Settings
from atc.tools.tool import Toolset
from benchmarks.environments.base import Environment, Task
from benchmarks.read_tasks import in_part, order
from benchmarks.right_programs import REPLIES, right_program
from benchmarks.systems.atc import Atc
from benchmarks.systems.base import Answer, Job

MOST = 40
"""Solutions that teach, drawn by a hash."""


def half(environment: str, task: str) -> int:
    """Which half of its environment a task is in: 0 or 1."""
    return hashlib.sha256(f"taught/{environment}/{task}".encode()).digest()[0] % 2


def teachers(environment: Environment, of: int, most: int = MOST) -> list[Task]:
    """The tasks whose solutions teach those of one half: of the other half, stated and not sealed."""
    found = [
        task
        for task in environment.tasks()
        if half(environment.name, task.id) != of and task.stated and in_part(environment.name, task.id, "open")
    ]
    return sorted(found, key=lambda task: order(environment, task))[:most]


@dataclass(frozen=True)
class Kept:
    """A memory that stays as it is: what a try would add is left out."""

    store: GraphStore

    def learnt(self, tools: Mapping[str, Protocol], now: float | None = None) -> Learnt:
        """Return what was taught about these tools."""
        return self.store.learnt(tools, now)

    def add(self, lessons: Lessons, tools: Mapping[str, Protocol], now: float | None = None) -> None:
        """Leave out what a run taught."""


async def teach(environment: Environment, of: int, file: Path, sandbox: Sandbox, most: int = MOST) -> Memory:
    """Run the solutions that teach one half of an environment, as programs, and keep what they taught in ``file``.

    The runs have ATC's defaults: only a program that was answered teaches, as in a run of a user's.
    """
    store = GraphStore(file)
    for task in teachers(environment, of, most):
        program = (await right_program(environment, task)).source
        if not program:
            continue
        episode = environment.open(task)
        async with episode.tools.opened():
            agent = Agent(
                catalogue=Catalogue(episode.tools, store=store, settings=Settings.load(learn=True)),
                model=FakeModel([f"```python\n{program}\n```"] * REPLIES),
                sandbox=sandbox,
                approve=lambda request: True,
                warnings="allow",
                sentence=False,
                keep_runs=False,
                learn=True,
                max_tools=max(20, len(episode.tools)),
            )
            await agent.arun(task.text)
            agent.catalogue.settle()
    return Kept(store)


class Taught(Atc):
    """ATC with these settings, and with what the solutions of the other half of its environment's tasks taught."""

    def __init__(self, name: str, about: str, settings: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, about, dict(settings or {}) | {"learn": True})
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._memories: dict[tuple[str, int], Memory] = {}
        self._memory: Memory | None = None

    async def solve(self, job: Job) -> Answer:
        if job.of is None:
            raise UsageError(f"{self.name} has to know of which environment its task is: give the job its `of`")
        environment, task = job.of
        self._memory = await self._taught(environment, half(environment.name, task.id))
        return await super().solve(job)

    def made(self, job: Job, tools: Toolset, **more: Any) -> Agent:
        catalogue = Catalogue(tools, store=self._memory, settings=Settings.load(learn=True))
        return super().made(job, tools, catalogue=catalogue, **more)

    async def aclose(self) -> None:
        folder, self._folder = self._folder, None
        self._memories.clear()
        await super().aclose()
        if folder is not None:
            folder.cleanup()

    async def _taught(self, environment: Environment, of: int) -> Memory:
        """What the other half teaches; taught once for all tries."""
        if (environment.name, of) not in self._memories:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="atc-taught-", ignore_cleanup_errors=True)
            self._sandbox = self._sandbox or open_sandbox(Settings.load())
            file = Path(self._folder.name) / f"{environment.name}-{of}" / FILE
            self._memories[environment.name, of] = await teach(environment, of, file, self._sandbox)
        return self._memories[environment.name, of]
