"""What a system under test is: something that is given a task, tools and a model, and answers."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, Literal

from atc._records.events import Event
from atc.models.base import Model
from atc.models.openai_compatible import OpenAICompatible
from benchmarks.tasks.gateway import Caps, Session

Ended = Literal["answered", "unsolved", "budget", "crash", "exception"]
"""``unsolved``: it gave up. ``crash``: it broke. ``exception``: ATC itself broke, or a part of the benchmark."""

ANSWER_FORM = "Give as your final answer only the value that is asked for: a number, a text or a list."
"""What systems are told that answer in words. It names nothing to leave out: a small model answered "no sentence"."""


@dataclass(frozen=True)
class Job:
    """One try, as a system sees it.

    Attributes:
        text: what a user asks.
        address: of the try at the gateway: ``/v1`` is the model, ``/tools/NAME`` the tools.
        session: the same for systems in this process: the counted tools are in its episode.
        model: the model's name at the endpoint. ``context_tokens``: what prompt and reply may take together.
        events: of the run, where the system is ATC.
    """

    text: str
    address: str
    session: Session
    model: str
    context_tokens: int
    caps: Caps
    events: list[Event] = field(default_factory=list)

    def opened_model(self) -> Model:
        """The model, for systems in this process: it goes through the gateway as everybody's does."""
        return OpenAICompatible(
            self.model,
            f"{self.address}/v1",
            timeout_s=1_800,
            stall_s=1_800,
            max_attempts=1,
            context_tokens=self.context_tokens,
            direct=True,
        )


@dataclass(frozen=True)
class Answer:
    """What a system made of a try.

    Attributes:
        value: its answer, as plain JSON values.
        error: why there is none, in words.
        program: what it wrote last, for whoever reads failures.
        programs: how many it wrote or steps it took.
        failed: of these, those that gave no answer: refused before they ran, or ended in an exception.
        faults: what was wrong with them, by kind, where a system tells.
        rules: how often each rule of ATC fired, by its id (:mod:`benchmarks.tasks.fired_rules`); ``None`` where
            nobody counted.
    """

    ended: Ended
    value: Any = None
    error: str = ""
    program: str = ""
    programs: int = 0
    failed: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] | None = None


class System(abc.ABC):
    """A way to act on a task.

    Attributes:
        name: as it is asked for and reported.
        about: one line about it.
    """

    name: str
    about: str

    @abc.abstractmethod
    async def version(self) -> str:
        """What changes when its results may: a release, or a digest of its sources.

        Raises:
            EnvironmentProblem: it is not installed; the message says how to get it.
        """

    @abc.abstractmethod
    async def solve(self, job: Job) -> Answer:
        """Try a task. It may be cancelled when its time is over, and leaves nothing behind then."""

    async def aclose(self) -> None:
        """Let go of what is kept between tries."""
        return
