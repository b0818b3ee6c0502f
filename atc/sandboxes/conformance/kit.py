"""The parts of a check: programs run in the sandbox under test, demands on how they end, and what it holds here."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atc._records.outcome import Outcome
from atc.calls.clock import Clock
from atc.calls.contract import CallReply, CallRequest
from atc.sandboxes.contract import Job, Limits, Sandbox
from atc.sandboxes.process.cgroup import stat_of

Factory = Callable[[Limits], Sandbox]
"""Opens a sandbox of the driver under test that gives a program at most these limits."""
Tool = Callable[[dict[str, Any]], Any]
"""A tool of a check: arguments → its value, an awaitable of it, or a :class:`CallReply` that goes out as it is."""


class NotApplicable(Exception):
    """The check has nothing to look at in this sandbox; the message says why."""


@dataclass(frozen=True)
class Check:
    """One promise of every sandbox, in its ``name``; ``run`` raises ``AssertionError`` if it is not kept."""

    name: str
    group: str
    run: Callable[[Lab], Awaitable[None]]


@dataclass
class Group:
    """Checks that belong together, in the order in which they were written."""

    name: str
    checks: list[Check] = dataclasses.field(default_factory=list)

    def check(self, name: str) -> Callable[[Callable[[Lab], Awaitable[None]]], Callable[[Lab], Awaitable[None]]]:
        """Decorator: the function is the check of the promise ``name``."""

        def add(run: Callable[[Lab], Awaitable[None]]) -> Callable[[Lab], Awaitable[None]]:
            self.checks.append(Check(name, self.name, run))
            return run

        return add


class Lab:
    """The sandbox under test, and a way to open more of its kind.

    Attributes:
        sandbox: one that most checks share.
        driver: its name: ``process``, ``docker`` or ``service``.
        tier: the isolation that it really has.
    """

    def __init__(self, factory: Factory, sandbox: Sandbox, driver: str, tier: str) -> None:
        self._factory = factory
        self.sandbox, self.driver, self.tier = sandbox, driver, tier

    def open(self, **limits: Any) -> Sandbox:
        """Return another sandbox of the same kind; to be closed by who opens it."""
        return self._factory(dataclasses.replace(self.sandbox.limits, **limits))

    async def run(
        self,
        program: str,
        tools: Mapping[str, Tool] | None = None,
        *,
        sandbox: Sandbox | None = None,
        parameters: Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        **limits: Any,
    ) -> Outcome:
        """Run a program. Every tool takes ``parameters`` by position. ``clock``: the job's; a new one by default."""
        tools, sandbox = tools or {}, sandbox or self.sandbox

        async def call(request: CallRequest) -> CallReply:
            value = tools[request.tool](request.arguments)
            if asyncio.iscoroutine(value):
                value = await value
            return value if isinstance(value, CallReply) else CallReply(value=value)

        made = dataclasses.replace(sandbox.limits, **limits)
        job = Job(program, dict.fromkeys(tools, parameters), made, inputs or {}, clock or Clock())
        return await sandbox.run(job, call)

    async def answer(self, program: str, tools: Mapping[str, Tool] | None = None, **more: Any) -> Any:
        """Run a program that must finish, and return its answer."""
        outcome = await self.run(program, tools, **more)
        of_kind(outcome, "finished")
        return outcome.value

    async def still_works(self) -> None:
        """Demand that the next program in the same sandbox runs as if nothing had happened."""
        same(await self.answer("answer = 6 * 7"), 42, "the answer of the next program")

    def not_for(self, driver: str, why: str) -> None:
        """Leave the check out for one driver."""
        if self.driver == driver:
            raise NotApplicable(why)

    def only_for(self, driver: str, why: str) -> None:
        """Leave the check out for all drivers but one."""
        if self.driver != driver:
            raise NotApplicable(why)

    def needs_files(self) -> None:
        """Leave the check out where a program can open no file at all."""
        if self.tier == "F":
            raise NotApplicable("tier F: a program can open no file")


def demand(met: bool, sentence: str) -> None:
    """Raises AssertionError with ``sentence`` unless ``met``."""
    if not met:
        raise AssertionError(sentence)


def same(got: object, wanted: object, what: str) -> None:
    """Demand that ``got`` equals ``wanted`` and is of its type, all the way down (``1`` is not ``1.0`` or ``True``)."""
    demand(_exact(got) == _exact(wanted), f"{what} was {_short(got)}, not {_short(wanted)}")


def of_kind(outcome: Outcome, *kinds: str) -> None:
    """Demand that the program ended in one of these ways."""
    demand(outcome.kind in kinds, f"the program should have ended as {' or '.join(kinds)}; it was {describe(outcome)}")


def raised(outcome: Outcome, type_: str, words: str = "", line: int | None = None) -> None:
    """Demand that the program ended by this exception, with these words in its message, at this line."""
    of_kind(outcome, "raised")
    error = outcome.error
    demand(
        error is not None and error.type == type_, f"the exception should have been {type_}; it was {describe(outcome)}"
    )
    if error is not None:
        text = f"{error.message} {error.hint}"
        demand(words in text, f"the message should have said {words!r}; it was {describe(outcome)}")
        demand(line in (None, error.line), f"the exception should have named line {line}; it was {describe(outcome)}")


def describe(outcome: Outcome) -> str:
    """Return an outcome in a few words."""
    if outcome.error is not None:
        error = outcome.error
        return f"{outcome.kind}: {error.type} in line {error.line}: {error.message[:200]} {error.hint}".rstrip()
    return f"{outcome.kind}{f': {outcome.detail}' if outcome.detail else f' with {_short(outcome.value)}'}"


def _exact(value: object) -> object:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return type(value), value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text):,} characters)"


# -- what the sandbox under test holds of this machine: processes, descriptors and threads. Linux ----------------------

_ZYGOTE = b"zygote.py"
_DEAD = ("Z", "X")  # dead, and only not yet asked after


def sandbox_processes() -> dict[int, str]:
    """Return the sandbox processes that this process started, however deep: number → state (``R``, ``S``, …)."""
    parents: dict[int, int] = {}
    states: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            pid = int(folder.name)
            if stat := stat_of(pid):  # or it ended in between
                states[pid], parents[pid] = stat[0], int(stat[1])
    return {pid: state for pid, state in states.items() if state not in _DEAD and _is_ours(pid, parents)}


def zygotes() -> set[int]:
    """Return the parents of programs among them."""
    return {pid for pid in sandbox_processes() if stat_of(pid)[1:2] == [str(os.getpid())]}


def descriptors() -> int:
    """Return how many descriptors this process holds open."""
    return len(os.listdir("/proc/self/fd"))


def threads() -> set[threading.Thread]:
    """Return the threads of this process but those of event loops' own executors, which grow as the loop likes."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    above = pid
    while above in parents and above != os.getpid():
        above = parents[above]
    return above == os.getpid() and pid != os.getpid() and _ZYGOTE in _command(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
