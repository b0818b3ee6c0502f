"""The contract of a sandbox driver: one program in, one outcome out, every tool call through one coroutine."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

LAYERS = ("network", "files", "processes")
"""What a sandbox can take away: connections, the file system outside its scratch folder, sight of other processes."""


@dataclass(frozen=True)
class Limits:
    """What one program may use: seconds, bytes and counts.

    ``memory_bytes`` is address space. ``file_bytes`` bounds each file, and all together where the scratch folder can be
    a file system of its own. ``frame_bytes`` bounds one message on the channel: a call's arguments, or the answer.
    """

    wall_s: float = 120.0
    cpu_s: int = 30
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20
    output_bytes: int = 1 << 20
    frame_bytes: int = 4 << 20
    open_files: int = 64
    processes: int = 64
    calls_in_flight: int = 64


@dataclass(frozen=True)
class CallRequest:
    """A call as the program asked for it. ``line`` is the program's own claim; 0 when unknown."""

    number: int
    tool: str
    arguments: dict[str, Any]
    line: int


@dataclass(frozen=True)
class CallReply:
    """What the host answers to a call: a value, or an error that the program may catch as ``ToolError``."""

    value: Any = None
    error: str | None = None
    status: int | str | None = None


@dataclass(frozen=True)
class ProgramError:
    """An exception that ended a program, as the sandbox tells it (a claim: the program could have forged it).

    Attributes:
        span: line, end line, column, end column (UTF-8 bytes, from 0) of the expression that failed.
        origin: the call number and the path in its response that the failing value came from, if known.
        trace: (function, line) of the program's frames, outermost first.
    """

    type: str
    message: str
    line: int = 0
    span: tuple[int, int, int, int] | None = None
    tool: str | None = None
    origin: tuple[int, tuple[str | int, ...]] | None = None
    trace: tuple[tuple[str, int], ...] = ()


OutcomeKind = Literal["finished", "raised", "limit", "killed", "violation"]


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        kind: ``finished`` (``value`` holds its answer if ``answered``), ``raised`` (``error`` tells), ``limit`` (it
            used up time), ``killed`` (it ended without a word), ``violation`` (it broke the channel's rules).
        detail: a sentence about a limit, a kill or a violation.
        seconds: from handing the program over to its end.
        isolation: the layers that held, of :data:`LAYERS`.
    """

    kind: OutcomeKind
    answered: bool = False
    value: Any = None
    error: ProgramError | None = None
    detail: str = ""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    isolation: tuple[str, ...] = ()


CallHandler = Callable[[CallRequest], Awaitable[CallReply]]


@dataclass(frozen=True)
class Job:
    """A program and what it is given: for every tool the names of its parameters, in the order of positional use."""

    program: str
    tools: Mapping[str, Sequence[str]]
    limits: Limits = field(default_factory=Limits)


class Sandbox(abc.ABC):
    """A driver. Use it as an async context manager; one instance may run many programs, also at once."""

    name: str

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Make the next :meth:`run` quick. May be called any number of times; costs nothing when already done.

        Raises:
            SandboxUnavailable: the isolation that was asked for cannot be had.
        """

    @abc.abstractmethod
    async def run(self, job: Job, call: CallHandler) -> Outcome:
        """Run one program in a fresh jail and return how it ended. A program's failure is an outcome, not an exception.

        Raises:
            SandboxUnavailable: the isolation that was asked for cannot be had.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything this driver started. Safe to call twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
