"""The world of a sequence: tasks in an order over one catalogue, whose tools break from the middle on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc.schemas.protocol import Protocol
from atc.tools.tool import Toolset
from benchmarks.environments import Episode, MadeCall, Task
from benchmarks.sequences.breaking import Way
from benchmarks.sequences.twins import Twin

ENVIRONMENTS: Sequence[str] = ("atlas", "api_bank", "bfcl", "complexfuncbench", "comptoolbench", "workbench")


@dataclass(frozen=True)
class Step:
    """One task of a sequence.

    Attributes:
        number: of the step, from 0.
        environment: whose task it is.
        task: what is asked.
        broken: how tools are broken at this step, by their names in the catalogue.
        third: of the sequence in which it stands: 1, 2 or 3.
        tools: the names, in the catalogue, of the tools that its own solution calls, in the order of the calls.
    """

    number: int
    environment: str
    task: Task
    broken: Mapping[str, Way]
    third: int
    tools: tuple[str, ...]


@dataclass(frozen=True)
class Opened:
    """A step that was begun: nothing is left of an earlier one.

    Attributes:
        tools: the whole catalogue; the broken ones are broken. Open it (``async with opened.tools.opened()``) before
            calls are made.
        episode: of the task's environment. Its calls have the names that the environment gives.
    """

    tools: Toolset
    episode: Episode

    @property
    def calls(self) -> Sequence[MadeCall]:
        """The calls so far of all tools, by their names in the catalogue."""
        raise NotImplementedError

    def check(self, value: Any) -> bool:
        """Tell whether the task is solved: ``value`` is the answer, as plain JSON values."""
        return self.episode.check(value)

    @property
    def unwanted_writes(self) -> int:
        """Calls with an effect that were done and that the task's own solution does not make."""
        raise NotImplementedError


class World:
    """A sequence of tasks over one catalogue of tools.

    Args:
        data: the directory with the environments' data; ``None`` for those that need none.
        seed: draws the tasks, their order, the twins and what breaks.
        tasks: how many at most.
        distractors: tools of OpenAPI documents that refuse when called, at most.
        environments: whose tasks, in :data:`ENVIRONMENTS`; by default all whose data is there.

    Attributes:
        steps: the tasks in their order.
        protocols: of the whole catalogue by name, the same at each step.
        twins: by the name of the original.
        left_out: tasks that are not in the sequence because their own solution does not solve them, by environment.
    """

    steps: Sequence[Step]
    protocols: Mapping[str, Protocol]
    twins: Mapping[str, Twin]
    left_out: Mapping[str, int]

    def __init__(
        self,
        data: Path | None,
        *,
        seed: int = 0,
        tasks: int = 120,
        distractors: int = 200,
        environments: Sequence[str] | None = None,
    ) -> None:
        raise NotImplementedError

    def open(self, step: Step) -> Opened:
        """Begin a step: all tools of the catalogue on fresh episodes, the broken ones broken."""
        raise NotImplementedError

    async def program(self, step: Step) -> str:
        """Return the right program of a step, by the names of the catalogue; it calls no twin and reads as a program
        does: what an earlier response gives is read from there."""
        raise NotImplementedError
