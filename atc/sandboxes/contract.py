"""The contract of a sandbox driver: one program in, one outcome out, every tool call through one coroutine."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from atc._records.outcome import Outcome
from atc.calls.clock import Clock, HostTime
from atc.calls.contract import CallHandler, CallReply, CallRequest
from atc.calls.program_start import ProgramStart
from atc.errors import UsageError
from atc.sandboxes.inputs import check_names

TIERS = ("N", "L", "F")
"""The ways to isolate a program, strongest first (``sandbox/THREATS.md``).

``N``: namespaces, an empty read-only root, Landlock and seccomp. ``L``: Landlock and seccomp. ``F``: seccomp alone, and
no file can be opened at all. All three take away every connection, every file but the standard library, and every other
process; nothing less is ever used.
"""


@dataclass(frozen=True)
class Limits:
    """Bounds what one program may use: seconds, bytes and counts. It is always one process.

    Attributes:
        wall_s: from the moment the program is handed over, tools' time included. Time in which the job's clock
            stands still does not count.
        cpu_s: processor time.
        host_s: processor time that the host spends on the program's behalf: on its frames, the steps of its calls and
            their replies. What the user's own functions take is not in it.
        memory_bytes: address space; threads' stacks are in it.
        output_bytes: kept of stdout and of stderr, each; more is read and dropped.
        frame_bytes: one message on the channel: a call's arguments, or the answer; and one input.
        channel_bytes: all such messages together; and all inputs.
        open_files: descriptors.
        calls: tool calls in all; ``calls_in_flight`` at the same time, more wait unread.
    """

    wall_s: float = 120.0
    cpu_s: int = 30
    memory_bytes: int = 1 << 30
    output_bytes: int = 1 << 20
    frame_bytes: int = 2 << 20
    channel_bytes: int = 64 << 20
    open_files: int = 64
    calls: int = 10_000
    calls_in_flight: int = 64
    host_s: float = 60.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**53:
                raise UsageError(f"the limit {item.name} must be a number above 0, not {value!r}")


@functools.lru_cache(maxsize=64)  # each of its values is checked when it is made
def least(asked: Limits, most: Limits) -> Limits:
    """Return the limits that were asked for, held to others."""
    return Limits(**{item.name: min(getattr(asked, item.name), getattr(most, item.name)) for item in fields(Limits)})


FIXED = ("cpu_s", "memory_bytes", "open_files")
"""Limits that are set when a jail is made, before it is known for which program."""


@dataclass(frozen=True)
class Job:
    """A program and what it is given.

    Attributes:
        program: its source.
        tools: for every tool the names of its parameters, in the order of positional use.
        limits: what it may use.
        inputs: JSON values and bytes that stand in the program's scope under these names when it starts
            (:mod:`atc.sandboxes.inputs` says which names and sizes).
        clock: stands still while the host waits for a person or a model; the program's wall time with it.
        host_time: the account of whom the program belongs to, a run: what the host does for it is added there.
        start: the clock and the seed of the program; ``None``: the machine's.
        hoisted: how many statements at the end of the program run first: they define the kept programs that it calls
            (:mod:`atc.programs.linking`). Each definition of a function there is called as a tool is: what it does not
            take is a ``TypeError`` that names it, and what it returns becomes JSON values and bytes.
        dry_run: calls may be planned and not made (:attr:`CallReply.planned`): the program ends where it needs the
            value of one.

    Raises:
        UsageError: an input cannot have its name.
    """

    program: str
    tools: Mapping[str, Sequence[str]]
    limits: Limits = Limits()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock, repr=False, compare=False)
    dry_run: bool = False
    host_time: HostTime = field(default_factory=HostTime, repr=False, compare=False)
    start: ProgramStart | None = None
    hoisted: int = 0

    def __post_init__(self) -> None:
        check_names(self.inputs, self.tools)


class Sandbox(abc.ABC):
    """A driver. Use it as an async context manager; one instance may run many programs, also at once.

    Attributes:
        name: ``process``, ``docker`` or ``service``.
        limits: what a program may use at most; memory, processor time and descriptors are fixed when a jail is made.
    """

    name: str
    limits: Limits

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Start what :meth:`run` needs. May be called any number of times; costs nothing when already done.

        Raises:
            SandboxUnavailable: the isolation that was asked for cannot be had.
        """

    @abc.abstractmethod
    async def run(self, job: Job, call: CallHandler) -> Outcome:
        """Run one program in a fresh jail and return how it ended. A program's failure is an outcome, not an exception.

        Cancelling it ends the program before the cancellation is passed on.

        While ``job.clock`` stands still, the program's wall time does too.

        Raises:
            UsageError: an input of the job has no JSON form, or is too large. Nothing was run.
            SandboxUnavailable: the isolation that was asked for cannot be had, or the driver's other end went away
                before the program was handed over.
        """

    async def isolation(self) -> str:
        """Return the tier that holds for programs here, of :data:`TIERS`.

        By default it is read from the outcome of an empty program.

        Raises:
            SandboxUnavailable: the isolation that was asked for cannot be had.
        """
        return (await self.run(Job("", {}, self.limits), _no_tools)).isolation

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything this driver started. Safe to call twice."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


async def _no_tools(request: CallRequest) -> CallReply:
    return CallReply(error=f"there is no tool {request.tool}")
